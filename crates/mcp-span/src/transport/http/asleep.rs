//! Tests: the machine sleeps while a stream is open.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::{Context, HttpLink, HttpSettings, Transport};
use crate::engine::{Engine, Output, policy};
use crate::message::Message;
use crate::net::Endpoint;

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize"}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#;
const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
const RESULT: &str = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18"}}"#;

/// A server with a stream that never ends, the link to it, and what it was asked.
struct Scene {
    context: Arc<Context>,
    link: HttpLink,
    engine: Engine,
    asked: mpsc::Receiver<String>,
}

/// What becomes of a stream that looks open is decided long before this.
async fn soon<T>(waiting: impl Future<Output = Option<T>>) -> T {
    timeout(Duration::from_secs(20), waiting).await.expect("in time").expect("not the end")
}

impl Scene {
    async fn new(transport: Transport) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
        let (tell, asked) = mpsc::channel(100);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(converse(BufReader::new(stream), tell.clone()));
            }
        });
        let settings = HttpSettings { transport, ..HttpSettings::new(url.parse().expect("a URL")) };
        let endpoint = Arc::new(Endpoint::new(&settings.url).expect("an endpoint"));
        let context = Arc::new(Context::new(settings, endpoint));
        let link = HttpLink::new(Arc::clone(&context));
        let engine = Engine::new(policy(), 7, Some(link.limits()), Instant::now());
        Self { context, link, engine, asked }
    }

    fn say(&mut self, text: &'static str) {
        let message = Message::parse(Bytes::from_static(text.as_bytes())).expect("a message");
        self.engine.on_client_message(message, Instant::now());
        self.execute();
    }

    fn execute(&mut self) {
        while let Some(command) = self.engine.next_command() {
            self.link.execute(command);
        }
    }

    /// What the server is asked next; what the link brings meanwhile is kept.
    async fn asked(&mut self) -> String {
        let Self { link, engine, asked, .. } = self;
        soon(async {
            loop {
                tokio::select! {
                    biased;
                    asked = asked.recv() => return asked,
                    event = link.event() => engine.on_event(event, Instant::now()),
                }
                while let Some(command) = engine.next_command() {
                    link.execute(command);
                }
            }
        })
        .await
    }

    async fn hear(&mut self) -> Output {
        loop {
            if let Some(output) = self.engine.next_output() {
                return output;
            }
            let event = soon(async { Some(self.link.event().await) }).await;
            self.engine.on_event(event, Instant::now());
            self.execute();
        }
    }
}

/// Notes what is asked, answers POSTs and keeps GETs open. The answer to an `initialize` comes on
/// the stream as well, which is where the older transport looks for it.
async fn converse(mut stream: BufReader<TcpStream>, tell: mpsc::Sender<String>) {
    loop {
        let (mut line, mut what, mut length) = (String::new(), String::new(), 0);
        while stream.read_line(&mut line).await.is_ok_and(|n| n > 2) {
            let lower = line.trim().to_ascii_lowercase();
            if what.is_empty() {
                what.push_str(line.split(' ').next().unwrap_or_default());
            } else if let Some(id) = lower.strip_prefix("last-event-id: ") {
                what = format!("{what} from {id}");
            } else if let Some(bytes) = lower.strip_prefix("content-length: ") {
                length = bytes.parse().expect("a length");
            }
            line.clear();
        }
        let mut body = vec![0; length];
        if what.is_empty() || stream.read_exact(&mut body).await.is_err() {
            return;
        }
        let body = String::from_utf8(body).expect("UTF-8");
        let reply = match (&*what, &*body) {
            ("POST", INITIALIZE) => json(RESULT),
            ("POST", CALL) => json(&RESULT.replace("\"id\":0", "\"id\":1")),
            ("POST", _) => "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n".to_owned(),
            _ => format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n\
                 event: endpoint\ndata: /mcp?s=1\n\ndata: {RESULT}\n\nid: e1\ndata: {CHANGED}\n\n"
            ),
        };
        let is_stream = !what.starts_with("POST");
        let _ = tell.send(if is_stream { what } else { body }).await;
        stream.write_all(reply.as_bytes()).await.expect("a connection");
        if is_stream {
            std::future::pending::<()>().await;
        }
    }
}

fn json(body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: s1\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
}

#[tokio::test]
async fn the_servers_own_stream_is_opened_anew_from_where_it_was() {
    let mut scene = Scene::new(Transport::Http).await;
    scene.say(INITIALIZE);
    assert_eq!(scene.asked().await, INITIALIZE);
    assert!(matches!(scene.hear().await, Output::Message(_)));
    scene.say(INITIALIZED);
    assert_eq!(scene.asked().await, INITIALIZED);
    assert_eq!(scene.asked().await, "GET");
    assert!(matches!(scene.hear().await, Output::Message(_)), "the event is read");
    scene.say(CALL);
    assert_eq!(scene.asked().await, CALL);
    assert!(matches!(scene.hear().await, Output::Message(_)), "it is answered");
    scene.context.client.pretend_sleep();
    scene.say(CALL);
    let mut asked = [scene.asked().await, scene.asked().await];
    asked.sort();
    assert_eq!(asked, ["GET from e1", CALL]);
}

#[tokio::test]
async fn an_older_stream_is_given_up_before_anything_is_said_on_it() {
    let mut scene = Scene::new(Transport::Sse).await;
    scene.say(INITIALIZE);
    assert_eq!([scene.asked().await, scene.asked().await], ["GET", INITIALIZE]);
    assert!(matches!(scene.hear().await, Output::Message(_)));
    scene.context.client.pretend_sleep();
    scene.say(CALL);
    assert_eq!(scene.asked().await, "GET");
    assert!(scene.asked().await.contains(r#""method":"initialize""#), "no call before");
}
