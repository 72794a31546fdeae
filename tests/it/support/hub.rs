//! A scripted HTTP+SSE server: mcp-hub as it is, and whatever a test makes of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::{Arc, Mutex};

use tokio_rustls::rustls::ServerConfig;

use super::{Bridge, Feed, Reply, Request, Server, result};

/// The server, and the streams that it has opened.
pub(crate) struct Hub {
    pub(crate) server: Server,
    pub(crate) streams: Arc<Streams>,
}

impl Deref for Hub {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

/// The sessions, each with its stream; the first is 1.
#[derive(Debug, Default)]
pub(crate) struct Streams(Mutex<Sessions>);

#[derive(Debug, Default)]
struct Sessions {
    count: usize,
    known: BTreeMap<usize, Feed>,
}

impl Hub {
    /// `script` has the first word about every request; on `None` the hub does what it does.
    pub(crate) async fn start(
        script: impl Fn(&Request, &Streams) -> Option<Reply> + Send + Sync + 'static,
    ) -> Self {
        let streams = Arc::new(Streams::default());
        let server = Server::start(streams.script(script)).await;
        Self { server, streams }
    }

    /// The same at an address that a test has chosen; it knows no session of its predecessor's.
    pub(crate) async fn start_at(
        address: SocketAddr,
        script: impl Fn(&Request, &Streams) -> Option<Reply> + Send + Sync + 'static,
    ) -> Self {
        // Numbers go on from here, so that the two are told apart.
        let sessions = Sessions { count: 100, known: BTreeMap::new() };
        let streams = Arc::new(Streams(Mutex::new(sessions)));
        let server = Server::start_at(address, streams.script(script)).await;
        Self { server, streams }
    }

    /// The same behind TLS, for the name `localhost`.
    pub(crate) async fn start_tls(
        config: ServerConfig,
        script: impl Fn(&Request, &Streams) -> Option<Reply> + Send + Sync + 'static,
    ) -> Self {
        let streams = Arc::new(Streams::default());
        let server = Server::start_tls(config, streams.script(script)).await;
        Self { server, streams }
    }

    /// A hub with nothing special about it.
    pub(crate) async fn plain() -> Self {
        Self::start(|_, _| None).await
    }

    /// A bridge that knows what it speaks to, and has done the handshake.
    pub(crate) async fn ready(&self, args: &[&str]) -> Bridge {
        let mut bridge = self.bridge(args);
        bridge.handshake().await;
        bridge
    }

    /// A bridge that knows what it speaks to.
    pub(crate) fn bridge(&self, args: &[&str]) -> Bridge {
        Bridge::start(&[&[&*self.server.url, "--transport", "sse"], args].concat())
    }

    /// What was POSTed in a session, in the order it came.
    pub(crate) fn told(&self, session: usize) -> Vec<String> {
        let requests = self.server.requests().into_iter();
        requests.filter(|r| session_of(r) == Some(session)).map(|r| r.what()).collect()
    }
}

impl Streams {
    fn script(
        self: &Arc<Self>,
        script: impl Fn(&Request, &Self) -> Option<Reply> + Send + Sync + 'static,
    ) -> impl Fn(&Request) -> Reply + Send + Sync + 'static {
        let streams = Arc::clone(self);
        move |r: &Request| script(r, &streams).unwrap_or_else(|| streams.usual(r))
    }

    /// What the hub does by itself.
    pub(crate) fn usual(&self, r: &Request) -> Reply {
        match (&*r.http_method, session_of(r)) {
            ("GET", _) => self.open(),
            ("POST", Some(session)) => self.take(r, session),
            _ => cannot(r),
        }
    }

    /// Opens a stream with a new session.
    pub(crate) fn open(&self) -> Reply {
        self.open_with(|session| format!("/messages?sessionId={session}"))
    }

    /// The same, with another address for it.
    pub(crate) fn open_with(&self, address: impl Fn(usize) -> String) -> Reply {
        let feed = Feed::new();
        let mut sessions = self.lock();
        sessions.count += 1;
        let session = sessions.count;
        feed.chunk(format!("event: endpoint\ndata: {}\n\n", address(session)));
        sessions.known.insert(session, feed.clone());
        Reply::sse().feed(&feed)
    }

    fn take(&self, r: &Request, session: usize) -> Reply {
        if !self.knows(session) {
            return unknown(session);
        }
        self.answer(r);
        acknowledged()
    }

    /// Answers a request on the stream of its session; nothing else gets an answer.
    pub(crate) fn answer(&self, r: &Request) {
        let session = session_of(r).expect("a message in a session");
        let json = r.json();
        if json.get("id").is_none() || json.get("method").is_none() {
            return;
        }
        let said = match &*r.what() {
            "initialize" => {
                let version = json["params"]["protocolVersion"].as_str().unwrap_or("2025-06-18");
                offer(version)
            }
            what => format!(r#"{{"did":"{what}","session":{session}}}"#),
        };
        self.of(session).event(result(r.id(), &said));
    }

    /// Says something on the newest stream.
    pub(crate) fn say(&self, data: impl AsRef<str>) {
        self.newest().event(data);
    }

    /// The stream that was opened last.
    pub(crate) fn newest(&self) -> Feed {
        let count = self.lock().count;
        self.of(count)
    }

    /// The stream of a session.
    pub(crate) fn of(&self, session: usize) -> Feed {
        self.lock().known.get(&session).expect("a session that is known").clone()
    }

    /// The session of the newest stream is known no more, whatever becomes of the stream.
    pub(crate) fn forget(&self) -> Feed {
        let mut sessions = self.lock();
        let count = sessions.count;
        sessions.known.remove(&count).expect("a session that is known")
    }

    /// No session is known any more, as after a restart; the streams stay open.
    pub(crate) fn forget_all(&self) {
        self.lock().known.clear();
    }

    pub(crate) fn knows(&self, session: usize) -> bool {
        self.lock().known.contains_key(&session)
    }

    /// How many streams were opened.
    pub(crate) fn count(&self) -> usize {
        self.lock().count
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Sessions> {
        self.0.lock().expect("no panic under the lock")
    }
}

/// What a hub says of itself.
pub(crate) fn offer(version: &str) -> String {
    format!(
        r#"{{"protocolVersion":"{version}","capabilities":{{"tools":{{"listChanged":true}}}},"serverInfo":{{"name":"hub","version":"1"}}}}"#
    )
}

/// As the hub acknowledges everything.
pub(crate) fn acknowledged() -> Reply {
    Reply::status(202, "", "Accepted")
}

/// As the hub answers for a session that it does not know.
pub(crate) fn unknown(session: usize) -> Reply {
    let body = format!(
        r#"{{"jsonrpc":"2.0","error":{{"code":-32000,"message":"Session not found: {session}"}},"id":null}}"#
    );
    Reply::status(404, "application/json; charset=utf-8", body)
}

/// As Express answers where there is nothing.
pub(crate) fn cannot(r: &Request) -> Reply {
    let body =
        format!("<!DOCTYPE html>\n<html><pre>Cannot {} {}</pre></html>\n", r.http_method, r.path);
    Reply::status(404, "text/html; charset=utf-8", body)
}

/// The session that a message was POSTed in.
pub(crate) fn session_of(r: &Request) -> Option<usize> {
    let (_, rest) = r.path.split_once("sessionId=")?;
    rest.split('&').next()?.parse().ok()
}

pub(crate) fn is_get(r: &Request) -> bool {
    r.http_method == "GET"
}

/// A hub that acknowledges calls and leaves their answers to the test.
pub(crate) async fn silent_about_calls() -> Hub {
    Hub::start(|r, _| (r.what() == "tools/call").then(acknowledged)).await
}
