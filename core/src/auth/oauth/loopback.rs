//! Listens on this machine for the browser that comes back from a login.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tracing::debug;

use super::grant::names_resource;
use crate::error::{Error, Kind};
use crate::limits;

/// A listener that is up: the browser may be started.
#[derive(Debug)]
pub(super) struct Loopback {
    listener: TcpListener,
    port: u16,
    place: CallbackPlace,
}

/// What stands around the port in the address that the browser comes back to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbackPlace {
    /// A name of this machine.
    pub host: String,
    /// With the slash that it begins with.
    pub path: String,
}

impl Default for CallbackPlace {
    fn default() -> Self {
        Self { host: "127.0.0.1".to_owned(), path: "/callback".to_owned() }
    }
}

/// What the browser brought back. It is never shown: a code is as good as a token for a while.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Callback {
    pub(super) code: Option<String>,
    pub(super) state: Option<String>,
    pub(super) issuer: Option<String>,
    pub(super) error: Option<String>,
    pub(super) description: Option<String>,
}

impl Callback {
    /// Whether the provider has refused the parameter `resource`, by name.
    pub(super) fn rejects_resource(&self) -> bool {
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        names_resource(&text(&self.error), &text(&self.description))
    }
}

impl Loopback {
    /// Listens, on any free port or on the one that was asked for.
    pub(super) async fn open(port: Option<u16>) -> Result<Self, Error> {
        let listening = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0))).await;
        let listener = listening.map_err(|error| {
            let message = match port {
                Some(port) => format!("Port {port} of this machine, for the login, cannot be had"),
                None => "No port of this machine can be had for the login".to_owned(),
            };
            let hint = "End the program that holds it, or leave --oauth-callback-port out";
            Error::new(Kind::Login, message).because(error).hint(hint).not_delivered()
        })?;
        let port = listener.local_addr().map_or(0, |address| address.port());
        Ok(Self { listener, port, place: CallbackPlace::default() })
    }

    /// The same under another name.
    pub(super) fn known_as(self, place: &CallbackPlace) -> Self {
        Self { place: place.clone(), ..self }
    }

    /// Where the browser is sent back to.
    pub(super) fn redirect(&self) -> String {
        format!("http://{}:{}{}", self.place.host, self.port, self.place.path)
    }

    /// Waits for the browser with this state; others are turned away.
    pub(super) async fn wait(&self, state: &str) -> Callback {
        self.wait_with(state, || self.listener.accept()).await
    }

    /// The same with connections from wherever `accept` has them.
    async fn wait_with<F>(&self, state: &str, accept: impl Fn() -> F) -> Callback
    where
        F: Future<Output = io::Result<(TcpStream, SocketAddr)>>,
    {
        let (found, mut callbacks) = mpsc::channel(1);
        let (state, path) = (state.to_owned(), self.place.path.clone());
        let visitors = Arc::new(Semaphore::new(limits::LOGIN_VISITORS));
        let desk = Arc::new(Desk { state, path, port: self.port, found, visitors });
        loop {
            tokio::select! {
                Some((callback, shown)) = callbacks.recv() => {
                    // The browser gets its page before we stop listening.
                    let _ = tokio::time::timeout(limits::GOODBYE, shown).await;
                    return callback;
                }
                accepted = accept() => match accepted {
                    Ok((stream, _)) => desk.serve(stream),
                    Err(error) => {
                        // Out of descriptors, or a visitor who has left: the next one may be ours.
                        debug!("a visitor to the login was not let in: {error}");
                        tokio::time::sleep(limits::RETRY_FLOOR).await;
                    }
                },
            }
        }
    }
}

type Shown = tokio::sync::oneshot::Receiver<()>;

struct Desk {
    state: String,
    path: String,
    port: u16,
    found: mpsc::Sender<(Callback, Shown)>,
    visitors: Arc<Semaphore>,
}

impl Desk {
    /// Visitors beyond the bound are sent away: any program on this machine can knock.
    fn serve(self: &Arc<Self>, stream: TcpStream) {
        let Ok(place) = Arc::clone(&self.visitors).try_acquire_owned() else { return };
        let desk = Arc::clone(self);
        let service = service_fn(move |request| {
            let desk = Arc::clone(&desk);
            async move { Ok::<_, Infallible>(desk.receive(&request).await) }
        });
        let served = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move {
            let _ = tokio::time::timeout(limits::LOGIN_QUESTION, served).await;
            drop(place);
        });
    }

    async fn receive(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
        // A page elsewhere must not reach us under a name of its own.
        if !host.is_some_and(|host| is_ours(host, self.port)) {
            return page(StatusCode::FORBIDDEN, "This address is not for you.");
        }
        // A look ahead, by a scanner of links or the like, is not the browser itself.
        if request.method() != Method::GET {
            return page(StatusCode::METHOD_NOT_ALLOWED, "Open this address in a browser.");
        }
        if request.uri().path() != self.path {
            return page(StatusCode::NOT_FOUND, "There is nothing here.");
        }
        let callback = read(request.uri().query().unwrap_or_default());
        if callback.state.as_deref() != Some(&self.state) {
            return page(StatusCode::BAD_REQUEST, "This login was not begun here.");
        }
        let (status, text) = match (&callback.error, &callback.code) {
            (None, Some(_)) => {
                (StatusCode::OK, "You can close this page; mcp-span finishes the login.")
            }
            _ => (StatusCode::OK, "The login was refused. You can close this page."),
        };
        let (sender, shown) = tokio::sync::oneshot::channel::<()>();
        let _ = self.found.send((callback, shown)).await;
        // Dropped some time after the answer is on its way.
        tokio::spawn(async move {
            tokio::time::sleep(limits::RETRY_FLOOR).await;
            drop(sender);
        });
        page(status, text)
    }
}

fn is_ours(host: &str, port: u16) -> bool {
    let (name, given) = host.rsplit_once(':').unwrap_or((host, "80"));
    matches!(name, "127.0.0.1" | "localhost") && given == port.to_string()
}

pub(super) fn read(query: &str) -> Callback {
    let value = |wanted: &str| {
        let mut pairs = url::form_urlencoded::parse(query.as_bytes());
        pairs.find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned())
    };
    Callback {
        code: value("code"),
        state: value("state"),
        issuer: value("iss"),
        error: value("error"),
        description: value("error_description"),
    }
}

fn page(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    let body = format!(
        "<!doctype html><meta charset=utf-8><title>mcp-span</title>\
         <p style=\"font:1.2em sans-serif;margin:3em\">{text}</p>"
    );
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn get(port: u16, path: &str, host: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test]
    async fn only_the_browser_that_we_sent_is_listened_to() {
        let loopback = Loopback::open(None).await.unwrap();
        let port = loopback.port;
        assert_eq!(loopback.redirect(), format!("http://127.0.0.1:{port}/callback"));
        let waiting = tokio::spawn(async move { loopback.wait("s").await });
        let host = format!("127.0.0.1:{port}");
        assert!(get(port, "/callback?state=s&code=c", "evil.example").await.contains(" 403 "));
        assert!(get(port, "/callback?state=other&code=c", &host).await.contains(" 400 "));
        assert!(get(port, "/favicon.ico", &host).await.contains(" 404 "));
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let head = format!("HEAD /callback?state=s&code=c HTTP/1.1\r\nHost: {host}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        assert!(text.contains(" 405 "), "a look ahead takes nothing away: {text}");
        assert!(!waiting.is_finished());
        let page = get(port, "/callback?state=s&code=c%20d&iss=https%3A%2F%2Fas", &host).await;
        assert!(page.contains(" 200 ") && page.contains("finishes the login"), "{page}");
        let callback = waiting.await.unwrap();
        assert_eq!(callback.code.as_deref(), Some("c d"));
        assert_eq!(callback.issuer.as_deref(), Some("https://as"));
    }

    #[tokio::test]
    async fn a_visitor_who_cannot_be_let_in_does_not_make_us_deaf() {
        let loopback = Loopback::open(None).await.unwrap();
        let port = loopback.port;
        let waiting = tokio::spawn(async move {
            let tries = AtomicUsize::new(0);
            let accept = async || match tries.fetch_add(1, Ordering::Relaxed) {
                ..3 => Err(io::Error::other("too many open files")),
                _ => loopback.listener.accept().await,
            };
            loopback.wait_with("s", accept).await
        });
        let page = get(port, "/callback?state=s&code=c", &format!("127.0.0.1:{port}")).await;
        assert!(page.contains("finishes"), "{page}");
        let ended = tokio::time::timeout(std::time::Duration::from_secs(10), waiting).await;
        assert_eq!(ended.expect("in time").unwrap().code.as_deref(), Some("c"));
    }

    #[tokio::test]
    async fn visitors_beyond_the_bound_are_sent_away_and_the_browser_still_gets_in() {
        let loopback = Loopback::open(None).await.unwrap();
        let port = loopback.port;
        let waiting = tokio::spawn(async move { loopback.wait("s").await });
        let mut idle = Vec::new();
        for _ in 0..limits::LOGIN_VISITORS {
            idle.push(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
        }
        let mut late = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let mut byte = [0; 1];
        let closing = late.read(&mut byte);
        let closed = tokio::time::timeout(std::time::Duration::from_secs(10), closing).await;
        assert!(matches!(closed, Ok(Ok(0) | Err(_))), "{closed:?}");
        drop(idle);
        // Their places are free as soon as it is noticed that they have left.
        let path = "/callback?state=s&code=c";
        let host = format!("127.0.0.1:{port}");
        let ask = async || {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
            let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
            stream.write_all(request.as_bytes()).await?;
            let mut text = String::new();
            stream.read_to_string(&mut text).await.map(|_| text)
        };
        let entering = async {
            while !ask().await.is_ok_and(|page| page.contains("finishes the login")) {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        let entered = tokio::time::timeout(std::time::Duration::from_secs(10), entering).await;
        assert!(entered.is_ok(), "the browser was not let in");
        assert_eq!(waiting.await.unwrap().code.as_deref(), Some("c"));
    }

    #[tokio::test]
    async fn a_port_that_is_taken_is_named() {
        let first = Loopback::open(None).await.unwrap();
        let error = Loopback::open(Some(first.port)).await.unwrap_err();
        assert!(error.message.contains(&first.port.to_string()), "{error}");
    }
}
