//! A link to an HTTP server, polled by the bridge: it does what it is told, and reports what happens.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use tokio::runtime::Handle;

use super::command::{Command, Event};
use super::exchanges::Exchanges;
use super::legacy_sse::HttpSse;
use super::report::Report;
use super::streamable::{Streamable, delete_session};
use super::{Context, HttpSettings, Transport, logins};
use crate::engine::Limits;
use crate::error::Error;
use crate::limits;
use crate::net::Endpoint;

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
    /// What the transport itself has to report: a few for each thing that happens.
    pending: VecDeque<Event>,
}

#[derive(Debug)]
enum Speaks {
    Streamable(Streamable),
    HttpSse(Box<HttpSse>),
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
            Transport::Sse => Speaks::HttpSse(Box::default()),
            Transport::Auto | Transport::Http => Speaks::Streamable(Streamable::new(&context)),
        };
        let exchanges = Exchanges::default();
        let mut io = Io { context, exchanges, pending: VecDeque::new() };
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
            (Command::Send(send), Speaks::Streamable(streamable)) => {
                streamable.send(*send, &mut self.io);
            }
            (Command::Send(send), Speaks::HttpSse(sse)) => sse.send(*send, &mut self.io),
            (Command::Cancel { ticket, grace }, speaks) => {
                if let Speaks::HttpSse(sse) = speaks {
                    sse.cancel(ticket);
                }
                match grace.is_zero() {
                    true => self.io.exchanges.drop_job(ticket),
                    false => self.io.exchanges.drop_after(ticket, grace),
                }
            }
        }
    }

    /// The next thing that happens.
    pub(crate) async fn event(&mut self) -> Event {
        poll_fn(|context| self.poll_event(context)).await
    }

    /// Lets the exchanges go on while nobody takes what they bring; what is of no interest to others
    /// is taken all the same.
    pub(crate) async fn drive(&mut self) -> Event {
        poll_fn(|context| {
            self.io.exchanges.begin_turn(context);
            while self.io.exchanges.run_next() {
                self.take_reports();
            }
            match self.io.context.events.pop_accepted() {
                Some(event) => Poll::Ready(event),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Something that has happened already.
    pub(crate) fn try_event(&mut self) -> Option<Event> {
        self.take_reports();
        self.io.pending.pop_front().or_else(|| self.io.context.events.pop())
    }

    pub(crate) fn poll_event(&mut self, context: &mut std::task::Context<'_>) -> Poll<Event> {
        self.io.exchanges.begin_turn(context);
        loop {
            // Reports first: what is to be sent next may depend on them.
            self.take_reports();
            if let Some(event) = self.io.pending.pop_front() {
                return Poll::Ready(event);
            }
            if self.io.exchanges.run_next() {
                continue;
            }
            if let Some(event) = self.io.context.events.pop() {
                return Poll::Ready(event);
            }
            let Speaks::HttpSse(sse) = &mut self.speaks else { return Poll::Pending };
            ready!(sse.poll_stream(context, &mut self.io));
        }
    }

    fn take_reports(&mut self) {
        while let Some(report) = self.io.context.next_report() {
            self.on_report(report);
        }
    }

    fn on_report(&mut self, report: Report) {
        match (report, &mut self.speaks) {
            (Report::IsLegacySse { send, stream }, _) => {
                let sse = HttpSse::take_over(*send, stream, &mut self.io);
                self.speaks = Speaks::HttpSse(Box::new(sse));
            }
            (report, Speaks::Streamable(streamable)) => streamable.on_report(report, &mut self.io),
            (report, Speaks::HttpSse(sse)) => sse.on_report(report, &mut self.io),
        }
    }

    /// Drops all exchanges and deletes the session, within `limit`.
    pub(crate) async fn close(mut self, limit: Duration) {
        self.io.exchanges.clear();
        if let Speaks::Streamable(streamable) = &mut self.speaks {
            let session = streamable.end();
            delete_session(&self.io.context, &session, limit).await;
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
        let Speaks::Streamable(streamable) = &mut self.speaks else { return };
        let session = streamable.end();
        if let (Some(_), Ok(runtime)) = (session.id(), Handle::try_current()) {
            let context = Arc::clone(&self.io.context);
            runtime.spawn(async move {
                delete_session(&context, &session, limits::SHUTDOWN_CLOSE).await;
            });
        }
    }
}

impl Io {
    pub(super) fn report(&mut self, event: Event) {
        self.pending.push_back(event);
    }
}
