//! A link to a server over HTTP: Streamable HTTP, where each message is a POST and its answer JSON
//! or an event stream, or the older transport with two endpoints (`legacy_sse`).

use std::collections::VecDeque;
use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::SET_COOKIE;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use tokio::sync::watch;
use url::Url;

use super::within;
use crate::auth::{Credentials, Login};
use crate::error::{Error, ErrorKind};
use crate::limits::{self, Timeouts};
use crate::lock::lock;
use crate::message::method::LoginWait;
use crate::message::{Head, Message, Method};
use crate::net::{self, Call, Content, Endpoint, HttpClient, Jar, Progress};
use crate::secret::{Scrubber, Secret, shown};
use crate::traffic::{self, ExchangeTrace, Recovery};
use crate::wire::header;

mod answer;
#[cfg(test)]
mod asleep;
mod detect;
mod events;
mod exchanges;
mod legacy_sse;
mod link;
mod listen;
mod log;
mod logins;
mod modern;
mod ping;
mod post;
mod presence;
mod queue;
mod reading;
mod remedy;
mod report;
mod session;
mod session_loss;
mod stream;
mod streamable;

use answer::Refusal;
pub use detect::Transport;
pub(crate) use events::{lost_response, timeout};
pub use link::{HttpLink, open};
use logins::Logins;
use modern::Learnt;
use queue::EventQueue;
use report::Report;
use session::SessionHeaders;
pub use session::basic_authorization;
use session_loss::Habits;

/// All that a link to a server needs to know.
#[derive(Clone)]
pub struct HttpSettings {
    /// The MCP endpoint.
    pub url: Url,
    /// How the server is spoken to.
    pub transport: Transport,
    /// Headers of the user's; those that the transport sets itself win over them.
    pub headers: HeaderMap,
    /// Sent as `MCP-Protocol-Version` in place of what was negotiated.
    pub protocol_version: Option<HeaderValue>,
    /// How long requests may be silent.
    pub timeouts: Timeouts,
    /// How connections are made.
    pub net: net::Options,
    /// How long messages wait for a new session before they come back.
    pub away_wait: Duration,
    /// How long a request waits for a person to log in.
    pub login_wait: Duration,
    /// Whether a person may be asked to log in.
    pub may_log_in: bool,
    /// The largest single message, in bytes.
    pub max_message: usize,
    /// How many POSTs run at once.
    pub parallel: usize,
    /// One message at a time, in strict order.
    pub serial: bool,
    /// Whether to open the stream for what the server says on its own account.
    pub server_stream: bool,
    /// Whether cookies of the server's are kept and sent back.
    pub cookies: bool,
    /// Headers that change while the program runs; they win over all others.
    pub credentials: Option<Arc<Credentials>>,
    /// Knows the secrets that must not show up in error texts.
    pub scrubber: Scrubber,
}

/// The URL may hold a password.
impl fmt::Debug for HttpSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = shown(&self.url);
        f.debug_struct("Settings").field("url", &url).finish_non_exhaustive()
    }
}

impl HttpSettings {
    /// The defaults for `url`.
    #[must_use]
    pub fn new(url: Url) -> Self {
        Self {
            url,
            transport: Transport::default(),
            headers: HeaderMap::new(),
            protocol_version: None,
            timeouts: Timeouts::default(),
            net: net::Options::default(),
            away_wait: limits::AWAY_WAIT,
            login_wait: limits::LOGIN_PATIENCE,
            may_log_in: true,
            max_message: limits::MESSAGE_SIZE,
            parallel: limits::PARALLEL_POSTS,
            serial: false,
            server_stream: true,
            cookies: true,
            credentials: None,
            scrubber: Scrubber::default(),
        }
    }
}

/// How a request is sent.
#[derive(Clone, Copy, Debug)]
struct SendOptions {
    /// How long the server may take for the head of its answer. A login takes its own time.
    limit: Option<Duration>,
    /// What it is, for the error when that is over.
    what: &'static str,
    /// Whether a person may be asked to log in for it.
    login: Login,
    /// Whether it waits for that person for ever; if not, it ends with word of where to log in.
    waits: bool,
}

impl SendOptions {
    /// For what nobody is bothered for, without a limit of its own.
    fn aside() -> Self {
        Self { limit: None, what: "Request", login: Login::Never, waits: true }
    }

    /// For `message`: a person may be asked to log in if somebody waits for an answer that is worth
    /// it. A client's probe opens no browser (C5, C22), and neither does what the client has not
    /// asked a person's question with. A probe of our own is asked because somebody waits for more
    /// than its answer.
    fn of(message: &Message) -> Self {
        let Head::Request { method, .. } = message.head() else {
            return Self { what: "Notify", ..Self::aside() };
        };
        let wait = method.properties().login;
        let is_own_probe = *method == Method::Discover && message.is_own();
        let login = match wait {
            LoginWait::Never if !is_own_probe => Login::Never,
            _ => Login::Allowed,
        };
        // Who opens a session is answered in other ways while a login is pending.
        Self { login, waits: wait != LoginWait::Limited, ..Self::aside() }
    }
}

/// What every task of the link shares.
#[derive(Debug)]
struct Context {
    client: HttpClient,
    endpoint: Arc<Endpoint>,
    settings: HttpSettings,
    /// To whoever holds the link.
    events: EventQueue,
    /// To the link itself, which takes them before anything else happens: a few at most.
    reports: Mutex<VecDeque<Report>>,
    /// The last word of the server is that it cannot be reached.
    is_away: AtomicBool,
    /// That it has answered is told once.
    connected: Once,
    /// Empty where nobody wants them.
    cookies: Mutex<Jar>,
    /// Changes whenever there is a reason to think that the server can be reached now.
    wakeups: watch::Sender<()>,
    /// Logins that requests wait for.
    logins: Logins,
    /// What the answers of a modern server have taught.
    learnt: Mutex<Learnt>,
    /// How the server refuses what it does not know.
    habits: Mutex<Habits>,
}

impl Context {
    fn new(settings: HttpSettings, endpoint: Arc<Endpoint>) -> Self {
        Self {
            client: HttpClient::new(&settings.net),
            endpoint,
            events: EventQueue::default(),
            reports: Mutex::default(),
            is_away: AtomicBool::new(false),
            connected: Once::new(),
            cookies: Mutex::default(),
            wakeups: watch::Sender::default(),
            logins: Logins::default(),
            learnt: Mutex::default(),
            habits: Mutex::default(),
            settings,
        }
    }

    /// Tells the link something that it has to know before what comes next.
    fn report(&self, report: Report) {
        lock(&self.reports).push_back(report);
    }

    fn next_report(&self) -> Option<Report> {
        lock(&self.reports).pop_front()
    }

    /// The client says something, or the server is back: whoever waits to try again need not.
    fn wake_retries(&self) {
        // Nobody who listens is the rule, and no fault.
        let _ = self.wakeups.send(());
    }

    /// A request to the endpoint.
    fn call(&self, method: http::Method, headers: impl Into<Arc<HeaderMap>>, body: Bytes) -> Call {
        let (endpoint, headers) = (Arc::clone(&self.endpoint), headers.into());
        Call {
            method,
            endpoint,
            headers,
            body,
            lane: net::Lane::Calls,
            progress: Progress::default(),
        }
    }

    /// A POST in this session that says nothing yet.
    fn post_in(&self, session: &SessionHeaders) -> Call {
        self.call(http::Method::POST, Arc::clone(&session.in_session), Bytes::new())
    }

    /// Sends `call` with the credentials of the day. A server that refuses them is asked once more
    /// if there are others: it has carried out nothing. More scope (403) may be wanted after that,
    /// or others than a renewal brings.
    async fn send(
        &self,
        mut call: Call,
        mut options: SendOptions,
    ) -> Result<Response<Content>, Error> {
        let Some(credentials) = &self.settings.credentials else {
            return self.exchange(&call, options).await;
        };
        if options.login == Login::Allowed && !self.settings.may_log_in {
            options.login = Login::Never;
        }
        let mut granted = credentials.get(options.login).await?;
        let (mut unauthorized, mut forbidden) = (0, 0);
        loop {
            granted.apply(&mut call.headers);
            let response = self.exchange(&call, options).await?;
            let (times, most) = match response.status() {
                StatusCode::UNAUTHORIZED => (&mut unauthorized, 2),
                StatusCode::FORBIDDEN => (&mut forbidden, 1),
                _ => return Ok(response),
            };
            if *times == most {
                return Ok(response);
            }
            let is_vain = *times > 0;
            *times += 1;
            if let (Some(oauth), Some(peer)) = (credentials.oauth(), response.body().peer()) {
                oauth.met(peer);
            }
            let had_none = granted.is_empty();
            let others = self.other_credentials(credentials, &granted, &response, is_vain, options);
            match Box::pin(others).await {
                Ok(None) => return Ok(response),
                Ok(Some(renewed)) => granted = renewed,
                Err(error) if error.login_url.is_some() => return Err(error),
                Err(error) => return Err(Box::pin(self.refused_for_good(response, error)).await),
            }
            traffic::recovery(
                if had_none { Recovery::CredentialsFound } else { Recovery::CredentialsRenewed },
                None,
            );
            call.progress.reset();
        }
    }

    /// The server refused us, and `error` is why nothing could be done about it. What the server
    /// said is not lost for that (C5).
    async fn refused_for_good(&self, response: Response<Content>, error: Error) -> Error {
        let refusal = Refusal::read(response, self, None).await.error;
        let message = format!("{}; {}", refusal.message, error.message);
        let hint = match error.kind {
            ErrorKind::Login => error.hint.or_else(|| Some(self.remedy_for_login())),
            _ => error.hint.or(refusal.hint),
        };
        Error { kind: error.kind, message, reason: error.reason, hint, ..refusal }
    }

    /// One request and its answer, with the cookies that the server wants to see again.
    async fn exchange(
        &self,
        call: &Call,
        options: SendOptions,
    ) -> Result<Response<Content>, Error> {
        let url = call.endpoint.url();
        let with_cookies = Some(lock(&self.cookies)).filter(|jar| !jar.is_empty()).map(|jar| {
            let mut call = call.clone();
            jar.apply(url, Arc::make_mut(&mut call.headers), SystemTime::now());
            call
        });
        let call = with_cookies.as_ref().unwrap_or(call);
        let is_away = self.is_away.load(Ordering::Relaxed);
        let mut told = ExchangeTrace::begin(&call.method, url, &call.headers, &call.body, is_away);
        let answer = {
            let retry = told.as_mut().filter(|told| told.is_retry());
            // It stays where it is: it is large, and there would be a second place for it otherwise.
            let mut sending = pin!(self.client.send(call));
            let timed = match retry {
                None => within(options.limit, sending).await,
                Some(retry) => {
                    let leaving = async {
                        call.progress.begun().await;
                        retry.leaves();
                    };
                    let sending = async {
                        tokio::select! {
                            biased;
                            answer = &mut sending => answer,
                            () = leaving => sending.await,
                        }
                    };
                    Box::pin(within(options.limit, sending)).await
                }
            };
            timed.unwrap_or_else(|limit| {
                let error = timeout(&format!("{} timeout", options.what), limit);
                Err(if call.progress.has_started() { error } else { error.not_delivered() })
            })
        };
        if let Some(told) = told {
            told.end(&answer);
        }
        let response = answer?;
        if self.settings.cookies && header::find(response.headers(), &SET_COOKIE).is_some() {
            let mut jar = lock(&self.cookies);
            jar.note(url, response.headers(), SystemTime::now());
            // They go back with every request, and a server may show them to us in an error.
            jar.values().for_each(|value| self.settings.scrubber.add_passing(&Secret::new(value)));
        }
        Content::of(response, url)
    }

    /// The same error without any secret that a server may have echoed.
    fn scrubbed(&self, mut error: Error) -> Error {
        let scrubber = &self.settings.scrubber;
        error.message = scrubber.clean(&error.message);
        error.body = error.body.map(|body| scrubber.clean(&body).into());
        error.reason = error.reason.map(|reason| scrubber.clean(&reason).into());
        error.hint = error.hint.map(|hint| scrubber.clean(&hint));
        error
    }
}
