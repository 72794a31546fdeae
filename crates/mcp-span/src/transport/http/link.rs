//! A link to an HTTP server, polled by the bridge: it does what it is told, and reports what happens.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use tokio::runtime::Handle;

use super::exchanges::Exchanges;
use super::legacy_sse::HttpSse;
use super::report::Report;
use super::streamable::{Streamable, end_session};
use super::{Context, HttpSettings, Transport, logins};
use crate::auth::Login;
use crate::engine::Limits;
use crate::error::Error;
use crate::limits;
use crate::net::{Call, Endpoint};
use crate::transport::{Command, Event};

/// A link to an HTTP server.
#[derive(Debug)]
pub struct HttpLink {
    io: Io,
    speaks: Speaks,
}

/// What both transports work with.
#[derive(Debug)]
pub(super) struct Io {
    pub(super) context: Arc<Context>,
    pub(super) exchanges: Exchanges,
}

#[derive(Debug)]
enum Speaks {
    Streamable(Streamable),
    HttpSse(HttpSse),
}

/// Opens a link. Nothing is sent before the first message.
///
/// # Errors
///
/// When the URL is not one that HTTP can carry.
pub fn open(settings: HttpSettings) -> Result<HttpLink, Error> {
    let endpoint = Arc::new(Endpoint::new(&settings.url)?);
    Ok(HttpLink::new(Arc::new(Context::new(settings, endpoint))))
}

impl HttpLink {
    pub(super) fn new(context: Arc<Context>) -> Self {
        let speaks = match context.settings.transport {
            Transport::Sse => Speaks::HttpSse(HttpSse::default()),
            Transport::Auto | Transport::Http => Speaks::Streamable(Streamable::new(&context)),
        };
        let mut io = Io { context, exchanges: Exchanges::default() };
        if let Some(pages) = io.context.settings.credentials.as_ref().and_then(|c| c.pending()) {
            let context = Arc::clone(&io.context);
            io.exchanges.start_aside(logins::tell(context, pages));
        }
        Self { io, speaks }
    }

    pub(crate) fn limits(&self) -> Limits {
        let settings = &self.io.context.settings;
        Limits {
            parallel: settings.parallel,
            serial: settings.serial,
            timeouts: settings.timeouts,
            is_http_sse: settings.transport == Transport::Sse,
        }
    }

    /// Does what it is told.
    pub(crate) fn execute(&mut self, command: Command) {
        match (command, &mut self.speaks) {
            (Command::Send(send), Speaks::Streamable(http)) => http.send(*send, &mut self.io),
            (Command::Send(send), Speaks::HttpSse(sse)) => sse.send(*send, &mut self.io),
            (Command::Cancel { ticket, grace }, speaks) => {
                if let Speaks::HttpSse(sse) = speaks {
                    sse.cancel(ticket);
                }
                self.io.exchanges.give_up(ticket, grace);
            }
        }
    }

    /// The next thing that happens.
    pub(crate) async fn event(&mut self) -> Event {
        poll_fn(|context| {
            self.run_exchanges(context);
            loop {
                if let Some(event) = self.try_event() {
                    return Poll::Ready(event);
                }
                let Speaks::HttpSse(sse) = &mut self.speaks else { return Poll::Pending };
                ready!(sse.poll_stream(context, &mut self.io));
            }
        })
        .await
    }

    /// Lets the exchanges go on while nobody takes what they bring; what is of no interest to others
    /// is taken all the same.
    pub(crate) async fn drive(&mut self) -> Event {
        poll_fn(|context| {
            self.run_exchanges(context);
            self.io.context.events.pop_accepted().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Something that has happened already.
    pub(crate) fn try_event(&mut self) -> Option<Event> {
        self.io.context.events.pop()
    }

    fn run_exchanges(&mut self, context: &std::task::Context<'_>) {
        self.io.exchanges.begin_turn(context);
        while self.io.exchanges.run_next() {
            // At once: what is to be sent next may depend on them.
            while let Some(report) = self.io.context.next_report() {
                self.on_report(report);
            }
        }
    }

    fn on_report(&mut self, report: Report) {
        match (report, &mut self.speaks) {
            (Report::IsLegacySse { send, stream }, _) => {
                let sse = HttpSse::take_over(*send, stream, &mut self.io);
                self.speaks = Speaks::HttpSse(sse);
            }
            (report, Speaks::Streamable(streamable)) => streamable.on_report(report, &mut self.io),
            (report, Speaks::HttpSse(sse)) => sse.on_report(report, &mut self.io),
        }
    }

    /// Nothing more is sent in the session; gives back what tells the server so.
    fn end(&mut self) -> Option<Call> {
        match &mut self.speaks {
            Speaks::Streamable(streamable) => streamable.end(&self.io.context),
            Speaks::HttpSse(_) => None,
        }
    }

    /// Drops all exchanges and deletes the session, within `limit`.
    pub(crate) async fn close(mut self, limit: Duration) {
        self.io.exchanges = Exchanges::default();
        let context = Arc::clone(&self.io.context);
        if let Some(call) = self.end() {
            end_session(&context, call, Login::Leaving, limit).await;
        }
        let credentials = self.io.context.settings.credentials.as_ref();
        if let Some(oauth) = credentials.and_then(|credentials| credentials.oauth()) {
            oauth.settle().await;
        }
    }
}

/// Whoever drops a link without closing it leaves no session behind.
impl Drop for HttpLink {
    fn drop(&mut self) {
        let context = Arc::clone(&self.io.context);
        if let (Some(call), Ok(runtime)) = (self.end(), Handle::try_current()) {
            runtime.spawn(async move {
                end_session(&context, call, Login::Leaving, limits::SHUTDOWN_CLOSE).await;
            });
        }
    }
}

impl Io {
    pub(super) fn report(&self, event: Event) {
        self.context.events.push(event);
    }
}
