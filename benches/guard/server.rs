//! A server on loopback that does next to nothing, on the same thread as all the rest: whoever
//! waits for whom is the same in every run.

use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::Fault;

/// How it answers requests.
#[derive(Clone, Copy)]
pub(crate) enum Answers {
    Json,
    Events,
    /// As events, after many that tell of progress.
    Notifications,
}

/// How many notifications come before an answer, where any do.
const NOTIFICATIONS: usize = 100;

/// Starts it and says where it is.
pub(crate) async fn start(answers: Answers) -> Result<String, Fault> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let url = format!("http://{}/mcp", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, answers));
        }
    });
    Ok(url)
}

async fn serve(mut stream: TcpStream, answers: Answers) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::new();
    loop {
        while let Some((body, end)) = request(&buffer) {
            let answer = answer(&buffer[body..end], answers);
            buffer.drain(..end);
            stream.write_all(&answer).await?;
        }
        if stream.read_buf(&mut buffer).await? == 0 {
            return Ok(());
        }
    }
}

/// Where the body of a whole request begins and ends.
fn request(bytes: &[u8]) -> Option<(usize, usize)> {
    const LENGTH: &[u8] = b"content-length: ";
    let body = memmem::find(bytes, b"\r\n\r\n")? + 4;
    let length = memmem::find(&bytes[..body], LENGTH).map_or(0, |at| {
        let digits = bytes[at + LENGTH.len()..].iter().take_while(|byte| byte.is_ascii_digit());
        digits.fold(0, |number, digit| 10 * number + usize::from(digit - b'0'))
    });
    (bytes.len() >= body + length).then_some((body, body + length))
}

fn answer(message: &[u8], answers: Answers) -> Vec<u8> {
    // Neither a notification nor the goodbye has an id.
    let Some(id) = id(message) else {
        return b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".to_vec();
    };
    let (media, body) = match answers {
        Answers::Json => ("application/json", result(id)),
        Answers::Events => ("text/event-stream", event(&result(id))),
        Answers::Notifications => {
            let progress = event(&[PROGRESS, id, br#","progress":1}}"#].concat());
            ("text/event-stream", [progress.repeat(NOTIFICATIONS), event(&result(id))].concat())
        }
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {media}\r\nmcp-session-id: guard\r\ncontent-length: {length}\r\n\r\n"
    );
    [head.as_bytes(), &body].concat()
}

const PROGRESS: &[u8] =
    br#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"#;

fn id(message: &[u8]) -> Option<&[u8]> {
    let start = memmem::find(message, br#""id":"#)? + 5;
    let length = memchr::memchr(b',', &message[start..])?;
    Some(&message[start..start + length])
}

/// What it has to say to everything.
pub(crate) fn result(id: &[u8]) -> Vec<u8> {
    const RESULT: &[u8] = br#","result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"guard","version":"1"},"content":[{"type":"text","text":"hello"}]}}"#;
    [br#"{"jsonrpc":"2.0","id":"#, id, RESULT].concat()
}

/// The same as an event.
pub(crate) fn event(data: &[u8]) -> Vec<u8> {
    [b"event: message\ndata: ", data, b"\n\n"].concat()
}
