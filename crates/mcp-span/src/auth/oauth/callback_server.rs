//! The HTTP server of one login, on this machine: sends the browser to the provider, takes it back,
//! and shows how the login ended.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::header::HOST;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};
use tracing::debug;
use url::Url;

use super::callback::Callback;
use super::callback_port::CallbackPort;
use super::pages::{self, Page};
use super::settings::Open;
use super::words::login_error;
use super::{OAuth, pkce};
use crate::error::Error;
use crate::lock::lock;
use crate::secret::shown;
use crate::{limits, os};

impl CallbackPort {
    /// Begins to answer, for a login of `oauth`.
    pub(super) fn serve(self, oauth: &OAuth) -> Result<CallbackServer, Error> {
        let (sender, arrivals) = mpsc::channel(4);
        let shared = Arc::new(CallbackState {
            server: shown(&oauth.server),
            port: self.port,
            path: self.place.path,
            open: oauth.settings.open.clone(),
            again_path: format!("/again/{}", pkce::random()?),
            result_path: format!("/done/{}", pkce::random()?),
            arrivals: sender,
            login: Mutex::default(),
            visited: Notify::new(),
        });
        let mut tasks = JoinSet::new();
        for listener in self.listeners {
            let accept = async move || listener.accept().await.map(|(stream, _)| stream);
            tasks.spawn(accept_all(Arc::clone(&shared), accept));
        }
        if let Some(paste) = oauth.settings.paste.clone() {
            let shared = Arc::clone(&shared);
            tasks.spawn(async move {
                let state = || lock(&shared.login).round.as_ref().map(|round| round.state.clone());
                paste.forward(&shared.arrivals, state).await;
            });
        }
        Ok(CallbackServer { shared, arrivals, _tasks: tasks })
    }
}

/// The server of a login; it ends when this is dropped.
pub(super) struct CallbackServer {
    shared: Arc<CallbackState>,
    /// From [`CallbackState::arrivals`].
    arrivals: mpsc::Receiver<Result<Callback, Error>>,
    _tasks: JoinSet<()>,
}

impl CallbackServer {
    /// Sends a browser to `page`, and expects it back with `state`: the one that has come back from an
    /// earlier page and waits, else one that is opened.
    pub(super) fn visit(&self, state: &str, page: &Url) {
        let round = ProviderVisit {
            state: state.to_owned(),
            page: page.clone(),
            is_taken: false,
            next: watch::Sender::default(),
        };
        let earlier = lock(&self.shared.login).round.replace(round);
        match earlier.filter(|round| round.is_taken) {
            Some(round) => drop(round.next.send_replace(Some(page.to_string()))),
            None => self.shared.open(Opener::Program),
        }
    }

    /// Where another process asks for the page to be opened once more.
    pub(super) fn again_url(&self) -> String {
        format!("http://127.0.0.1:{}{}", self.shared.port, self.shared.again_path)
    }

    /// What comes back next, from the browser or by hand; an error ends the login.
    pub(super) async fn arrival(&mut self) -> Result<Callback, Error> {
        // Never closed: `shared` holds the other end.
        let closed = || Err(login_error("The login was ended"));
        self.arrivals.recv().await.unwrap_or_else(closed)
    }

    /// Shows how the login ended, or sends the browser to `onward`, and waits until whoever is there
    /// has seen it.
    pub(super) async fn finish(self, page: Page, onward: Option<&Url>) {
        let is_awaited = {
            let mut login = lock(&self.shared.login);
            login.result = Some(page);
            let next = onward.map_or_else(|| self.shared.result_path.clone(), Url::to_string);
            login.round.as_ref().is_some_and(|round| {
                round.next.send_replace(Some(next));
                round.is_taken && onward.is_none()
            })
        };
        let seen = async {
            if is_awaited {
                self.shared.visited.notified().await;
            }
            let open = std::mem::take(&mut lock(&self.shared.login).connections);
            let has_begun = |open: &BrowserConnection| open.has_begun.load(Ordering::Relaxed);
            for connection in open.into_iter().filter(has_begun) {
                let _ = connection.task.await;
            }
        };
        if timeout(limits::LOGIN_PAGE_WAIT, seen).await.is_err() {
            debug!("nobody has fetched the last page of the login");
        }
    }
}

struct CallbackState {
    /// The server that the login is for, as it may be shown.
    server: String,
    port: u16,
    path: String,
    open: Option<Open>,
    again_path: String,
    result_path: String,
    /// To [`CallbackServer::arrival`].
    arrivals: mpsc::Sender<Result<Callback, Error>>,
    login: Mutex<LoginProgress>,
    /// Told when the last page is fetched.
    visited: Notify,
}

#[derive(Default)]
struct LoginProgress {
    round: Option<ProviderVisit>,
    links: Vec<StartLink>,
    result: Option<Page>,
    /// In the order in which they came.
    connections: VecDeque<BrowserConnection>,
}

/// One visit to the provider.
struct ProviderVisit {
    state: String,
    page: Url,
    /// The browser has come back.
    is_taken: bool,
    /// Where it goes then.
    next: watch::Sender<Option<String>>,
}

/// An address for the browser's command line, which other users of this machine can read: it leads
/// on once.
struct StartLink {
    path: String,
    is_used: bool,
    opened: Instant,
}

impl LoginProgress {
    /// Whether a browser may be opened: not after enough of them, nor within moments of the last. A
    /// person who asks for one gets it.
    fn may_open(&self, opener: Opener, now: Instant) -> bool {
        let is_recent =
            |link: &StartLink| now.saturating_duration_since(link.opened) < limits::LOGIN_REOPEN;
        let is_enough = self.links.len() >= limits::LOGIN_OPENINGS;
        opener == Opener::Person || !is_enough && !self.links.last().is_some_and(is_recent)
    }
}

/// Who wants the page to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opener {
    /// A bridge that needs the login.
    Program,
    /// A person who has asked for it.
    Person,
}

/// What a request to open the page again ends with, if a person has asked for it.
const ASKED: &str = "asked";

/// One connection, and whether its request has come.
struct BrowserConnection {
    task: JoinHandle<()>,
    has_begun: Arc<AtomicBool>,
}

async fn accept_all(
    shared: Arc<CallbackState>,
    mut accept: impl AsyncFnMut() -> std::io::Result<TcpStream>,
) {
    loop {
        match accept().await {
            Ok(stream) => shared.serve(stream),
            Err(error) => {
                // Out of descriptors, or a visitor who has left: the next one may be the browser.
                debug!("a connection to the login was not accepted: {error}");
                sleep(limits::RETRY_FLOOR).await;
            }
        }
    }
}

impl CallbackState {
    fn serve(self: &Arc<Self>, stream: TcpStream) {
        let has_begun = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(answer(Arc::clone(self), stream, Arc::clone(&has_begun)));
        let connections = &mut lock(&self.login).connections;
        connections.retain(|connection| !connection.task.is_finished());
        if connections.len() >= limits::LOGIN_VISITORS {
            // Any program of this machine can connect and say nothing: the browser must get in.
            let is_silent = |open: &BrowserConnection| !open.has_begun.load(Ordering::Relaxed);
            let oldest = connections.iter().position(is_silent).unwrap_or(0);
            if let Some(connection) = connections.remove(oldest) {
                connection.task.abort();
            }
        }
        connections.push_back(BrowserConnection { task, has_begun });
    }

    /// Opens a browser, unless that was done often enough.
    fn open(&self, opener: Opener) {
        let Some(open) = &self.open else { return };
        let Ok(random) = pkce::random() else { return };
        let path = format!("/start/{random}");
        let Ok(url) = Url::parse(&format!("http://127.0.0.1:{}{path}", self.port)) else { return };
        let (mut login, opened) = (lock(&self.login), Instant::now());
        if login.round.is_some() && login.may_open(opener, opened) {
            login.links.push(StartLink { path, is_used: false, opened });
            drop(login);
            open(&url);
        }
    }

    async fn receive(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
        // A page elsewhere must not reach us under a name of its own.
        if !host.is_some_and(|host| is_ours(host, self.port)) {
            return Page::wrong_host().response();
        }
        let (path, query) = (request.uri().path(), request.uri().query());
        let answer = match *request.method() {
            Method::POST if path == self.again_path => {
                self.open(if query == Some(ASKED) { Opener::Person } else { Opener::Program });
                Some(pages::empty(StatusCode::NO_CONTENT))
            }
            // A look ahead, by a scanner of links or the like, is not the browser itself.
            Method::GET if is_prefetch(request) => {
                Some(pages::empty(StatusCode::SERVICE_UNAVAILABLE))
            }
            Method::GET if path == self.result_path => self.result(),
            Method::GET if path == self.path => self.come_back(query.unwrap_or_default()).await,
            Method::GET => self.start(path),
            _ => Some(Page::wrong_method().response()),
        };
        answer.unwrap_or_else(|| Page::wrong_address().response())
    }

    /// Leads the first visitor of a link on to the provider; a second one ends the login. `None`: it
    /// is no such link.
    fn start(&self, path: &str) -> Option<Response<Full<Bytes>>> {
        let mut login = lock(&self.login);
        let LoginProgress { round, links, .. } = &mut *login;
        let link = links.iter_mut().find(|link| link.path == path)?;
        let is_used = std::mem::replace(&mut link.is_used, true);
        if let Some(round) = round.as_ref().filter(|_| !is_used) {
            return Some(pages::redirect(round.page.as_str()));
        }
        let error = login_error(format!(
            "The login to {} was ended: the link that was given to the browser was opened twice, \
             which another user of this machine may have done",
            self.server
        ));
        // Full: the login has other things to tell, and ends anyway.
        let _ = self.arrivals.try_send(Err(error.hint("Log in again")));
        Some(Page::used_link().response())
    }

    fn result(&self) -> Option<Response<Full<Bytes>>> {
        let page = lock(&self.login).result.clone()?;
        self.visited.notify_one();
        Some(page.response())
    }

    /// Takes what the browser brought back, and sends it on when it is known where to. `None`: it
    /// brought nothing.
    async fn come_back(&self, query: &str) -> Option<Response<Full<Bytes>>> {
        let callback = Callback::parse(query);
        callback.state.as_ref().or(callback.code.as_ref()).or(callback.error.as_ref())?;
        let next = {
            let mut login = lock(&self.login);
            let round = login.round.as_mut();
            round.filter(|round| callback.state.as_deref() == Some(&round.state)).map(|round| {
                if !std::mem::replace(&mut round.is_taken, true) {
                    // Never full: each round has one, and the login waits for it.
                    let _ = self.arrivals.try_send(Ok(callback));
                }
                round.next.subscribe()
            })
        };
        let next = async { next?.wait_for(Option::is_some).await.ok()?.clone() }.await;
        Some(next.map_or_else(|| Page::expired().response(), |next| pages::redirect(&next)))
    }
}

/// Answers one request on `stream`. Whoever says nothing is not waited for.
async fn answer(shared: Arc<CallbackState>, stream: TcpStream, has_begun: Arc<AtomicBool>) {
    // The link that the browser is started with can be read in the process list, and whoever is
    // quicker than the browser would log in as somebody else.
    let is_stranger = match (stream.peer_addr(), stream.local_addr()) {
        (Ok(peer), Ok(local)) => os::is_another_users(peer, local),
        _ => false,
    };
    let service = service_fn(|request: Request<Incoming>| {
        has_begun.store(true, Ordering::Relaxed);
        let shared = Arc::clone(&shared);
        async move {
            Ok::<_, Infallible>(match is_stranger {
                true => Page::another_user().response(),
                false => shared.receive(&request).await,
            })
        }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::LOGIN_HEAD)
        .keep_alive(false)
        .max_buf_size(limits::LOGIN_REQUEST)
        .serve_connection(TokioIo::new(stream), service);
    // A browser waits for both questions to the provider at most, and then some.
    let _ = timeout(limits::LOGIN_QUESTION * 3, serving).await;
}

fn is_prefetch(request: &Request<Incoming>) -> bool {
    ["sec-purpose", "purpose"].iter().any(|name| {
        let value = request.headers().get(*name).and_then(|value| value.to_str().ok());
        value.is_some_and(|value| value.contains("prefetch"))
    })
}

fn is_ours(host: &str, port: u16) -> bool {
    let (name, given) = host.rsplit_once(':').unwrap_or((host, "80"));
    matches!(name, "127.0.0.1" | "localhost" | "[::1]") && given == port.to_string()
}

/// Asks the process whose login has the address `again` to open its page once more.
pub(super) async fn open_again(again: &str, opener: Opener) {
    let asking = async {
        let url = Url::parse(again).ok()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, url.port()?));
        let mut stream = TcpStream::connect(address).await.ok()?;
        let (path, host) = (url.path(), address);
        let query = if opener == Opener::Person { format!("?{ASKED}") } else { String::new() };
        let request =
            format!("POST {path}{query} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n");
        tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await.ok()?;
        // The answer says nothing, but tells that it was read.
        tokio::io::AsyncReadExt::read(&mut stream, &mut [0; 64]).await.ok()
    };
    if !matches!(timeout(limits::LOGIN_HEAD, asking).await, Ok(Some(1..))) {
        debug!("the other process did not open its page again");
    }
}

#[cfg(test)]
mod tests;
