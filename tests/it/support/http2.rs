//! The scripted server's HTTP/2: each request a stream, each reply played on it.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use h2::server::{Builder, SendResponse};
use h2::{RecvStream, SendStream};
use http::{HeaderName, HeaderValue, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::Request;
use super::reply::{Reply, Step};
use super::server::{Log, Script, Tls};

/// How a server speaks HTTP/2.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Http2Behavior {
    /// How many streams it takes at once.
    pub(crate) streams: u32,
    /// So many connections end with the word that nothing on them was looked at.
    pub(crate) unprocessed: usize,
}

impl Default for Http2Behavior {
    fn default() -> Self {
        Self { streams: 200, unprocessed: 0 }
    }
}

pub(super) async fn converse(stream: Tls, manner: Http2Behavior, log: &Arc<Log>, script: Script) {
    let mut builder = Builder::new();
    builder.max_concurrent_streams(manner.streams).max_send_buffer_size(100 * 1024 * 1024);
    let Ok(mut connection) = builder.handshake::<_, Bytes>(stream).await else { return };
    loop {
        tokio::select! {
            accepted = connection.accept() => {
                let Some(Ok((request, respond))) = accepted else { return };
                tokio::spawn(serve(request, respond, Arc::clone(log), Arc::clone(&script)));
            }
            () = log.goodbye.notified() => connection.graceful_shutdown(),
        }
    }
}

async fn serve(
    request: http::Request<RecvStream>,
    respond: SendResponse<Bytes>,
    log: Arc<Log>,
    script: Script,
) {
    let (head, mut stream) = request.into_parts();
    let mut body = Vec::new();
    while let Some(data) = stream.data().await {
        // A request that was broken off is none.
        let Ok(data) = data else { return };
        let _ = stream.flow_control().release_capacity(data.len());
        body.extend_from_slice(&data);
    }
    let text = |value: &HeaderValue| value.to_str().expect("a header in ASCII").to_owned();
    let request = Request {
        http_method: head.method.to_string(),
        path: head.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
        headers: head.headers.iter().map(|(n, v)| (n.to_string(), text(v))).collect(),
        body,
    };
    let what = request.what();
    let reply = script(&request);
    log.change(|seen| seen.requests.push(request));
    if play(reply, respond).await.is_none() {
        log.change(|seen| seen.abandoned.push(what));
    }
}

/// `None` if the peer has given the stream up.
async fn play(reply: Reply, mut respond: SendResponse<Bytes>) -> Option<()> {
    let is_open = |s: &Step| matches!(s, Step::Chunk(_) | Step::End | Step::Feed(_));
    let ends_by_itself = !reply.steps.iter().any(is_open);
    let mut stream = match reply.head {
        Some(head) => Some(respond.send_response(response(&head), false).ok()?),
        None => None,
    };
    let mut steps = VecDeque::from(reply.steps);
    while let Some(mut step) = steps.pop_front() {
        if let Step::Feed(feed) = &step {
            let next = tokio::select! {
                next = feed.next() => next,
                () = reset(&mut respond, &mut stream) => return None,
            };
            if !matches!(next, Step::End) {
                steps.push_front(step);
            }
            step = next;
        }
        let is_last = ends_by_itself && steps.is_empty();
        match step {
            Step::Raw(bytes) | Step::Chunk(bytes) => {
                stream.as_mut()?.send_data(Bytes::from(bytes), is_last).ok()?;
            }
            Step::End => stream.as_mut()?.send_data(Bytes::new(), true).ok()?,
            Step::Wait(gate) => tokio::select! {
                () = gate.pass() => {}
                () = reset(&mut respond, &mut stream) => return None,
            },
            Step::Pause(duration) => tokio::time::sleep(duration).await,
            Step::Stop(reason) => {
                // What was said before must be seen before.
                tokio::task::yield_now().await;
                match &mut stream {
                    Some(stream) => stream.send_reset(reason),
                    None => respond.send_reset(reason),
                }
                return Some(());
            }
            Step::Hang => {
                reset(&mut respond, &mut stream).await;
                return None;
            }
            Step::Close | Step::Reset => panic!("a stream is stopped, not closed"),
            Step::Feed(_) => panic!("a feed holds no other"),
        }
    }
    Some(())
}

async fn reset(respond: &mut SendResponse<Bytes>, stream: &mut Option<SendStream<Bytes>>) {
    let _ = std::future::poll_fn(|cx| match stream {
        Some(stream) => stream.poll_reset(cx),
        None => respond.poll_reset(cx),
    })
    .await;
}

/// The head of a reply, less what HTTP/2 says in other ways.
fn response(head: &str) -> Response<()> {
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).expect("a status");
    let mut response = Response::new(());
    *response.status_mut() = status.parse().expect("a status");
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
        if name != http::header::TRANSFER_ENCODING {
            response.headers_mut().append(name, value.parse().expect("a value"));
        }
    }
    response
}

/// Takes one request, says that it has not looked at it, and closes.
pub(super) async fn go_away(mut stream: Tls) {
    const DATA: u8 = 0;
    const SETTINGS: u8 = 4;
    const GOAWAY: u8 = 7;
    let frame = |kind: u8, payload: &[u8]| {
        let length = u8::try_from(payload.len()).expect("a short frame");
        let mut frame = vec![0, 0, length, kind, 0, 0, 0, 0, 0];
        frame.extend_from_slice(payload);
        frame
    };
    let talk = async {
        stream.write_all(&frame(SETTINGS, &[])).await?;
        let mut preface = [0; 24];
        stream.read_exact(&mut preface).await?;
        loop {
            let mut head = [0; 9];
            stream.read_exact(&mut head).await?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; usize::try_from(length).expect("a length")];
            stream.read_exact(&mut payload).await?;
            if head[3] == DATA {
                break;
            }
        }
        // The last stream that was looked at: none. The reason: none.
        stream.write_all(&frame(GOAWAY, &[0; 8])).await?;
        stream.shutdown().await
    };
    let _: std::io::Result<()> = talk.await;
}
