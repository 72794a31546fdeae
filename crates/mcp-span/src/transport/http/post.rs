//! The life of one POST of Streamable HTTP: sent, answered or failed, and never without an end.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{HeaderValue, Response};
use tracing::debug;

use super::answer::{Answer, drain, read_for_recorder, unreadable};
use super::modern::Params;
use super::remedy::is_modern_refusal;
use super::report::Report;
use super::session::SessionHeaders;
use super::{Context, SendOptions};
use crate::engine::silence_limit;
use crate::error::{Error, ErrorKind};
use crate::limits;
use crate::lock::lock;
use crate::message::{Head, Id, Message, Method, edit, peek, reply};
use crate::net::{Call, Content};
use crate::revision::subscription::Promise;
use crate::transport::{Event, Send};
use crate::wire::header;

/// One message on its way, with all that its exchange needs.
pub(super) struct Exchange {
    pub(super) context: Arc<Context>,
    pub(super) send: Send,
    /// The headers that repeat its arguments.
    pub(super) mirrored: Params,
    /// The session that it goes to.
    pub(super) session: Arc<SessionHeaders>,
    /// How long the server may be silent.
    pub(super) limit: Option<Duration>,
    /// Whether the request has its answer, or its error.
    pub(super) is_settled: bool,
    /// The session id that came with the answer.
    pub(super) named_session: Option<HeaderValue>,
    /// Whether a refusal has led to a try in another revision: one, at most.
    pub(super) tried_another_version: bool,
    /// The same with other headers.
    pub(super) tried_other_headers: bool,
    /// What a subscription was promised.
    pub(super) promise: Option<Promise>,
    /// The id under which the server knows it, if its stream was opened again.
    pub(super) alias: Option<Id>,
}

impl Exchange {
    pub(super) fn new(context: Arc<Context>, session: Arc<SessionHeaders>, send: Send) -> Self {
        Self {
            limit: silence_limit(&send.message, &context.settings.timeouts),
            context,
            send,
            mirrored: Params::new(),
            session,
            is_settled: false,
            named_session: None,
            tried_another_version: false,
            tried_other_headers: false,
            promise: None,
            alias: None,
        }
    }

    /// Sends the message, and delivers what comes back.
    pub(super) async fn run(mut self) {
        let call = self.written();
        self.context.log_sent(&self.send, self.session_id());
        if let Err(error) = self.perform(call).await {
            self.fail(error);
        }
        self.adopt_session();
    }

    /// The session's id, unless it is none of the message's business.
    pub(super) fn session_id(&self) -> Option<&HeaderValue> {
        self.session.id().filter(|_| self.is_in_session())
    }

    /// Whether it belongs to the legacy era, which has sessions, and streams that can be resumed.
    pub(super) fn is_in_session(&self) -> bool {
        self.send.envelope.is_none()
    }

    pub(super) fn request_id(&self) -> Option<&Id> {
        self.send.message.request_id()
    }

    pub(super) fn is(&self, method: &Method) -> bool {
        self.send.message.is_request(method)
    }

    /// Whether a client asks which era the server speaks. Questions of our own are asked because
    /// somebody waits for more than their answer.
    pub(super) fn is_probe(&self) -> bool {
        self.is(&Method::Discover) && !self.send.message.is_own()
    }

    /// Whether it begins something: then no session can have been lost under it.
    pub(super) fn opens(&self) -> bool {
        self.request_id().is_some()
            && self.send.message.method().is_some_and(|method| method.properties().opens)
    }

    /// What is seldom needed is boxed: every call would carry its size around otherwise.
    pub(super) async fn perform(&mut self, call: Call) -> Result<(), Error> {
        let response = match self.fetch(call).await {
            Err(error) if self.is_cut_subscription(&error) => {
                return Box::pin(self.listen(None)).await;
            }
            response => response?,
        };
        // Once there is a session, only an answer that opens another can name one.
        if self.opens() || self.session.would_adopt() {
            let named = response.headers().get(header::SESSION_ID).cloned();
            self.named_session = named.filter(header::is_session_id);
        }
        if response.status().is_success() && self.is(&Method::Ping) {
            lock(&self.context.habits).note_answered_ping();
        }
        let wants_content = self.request_id().is_some();
        let status = response.status().as_u16();
        let answer = Answer::of(&response);
        if !wants_content && answer != Answer::Refused {
            self.accept();
        }
        let fared = match answer {
            Answer::Refused => Box::pin(self.refused(response)).await,
            Answer::Events if self.is_subscription() => {
                Box::pin(self.listen(Some(response.into_body()))).await
            }
            Answer::Events => {
                // The server may ask something before it answers, and know only who names it.
                if let Some(session_id) =
                    self.named_session.clone().filter(|_| self.is(&Method::Initialize))
                {
                    self.context.report(Report::Named { session_id });
                }
                self.read_events(response.into_body()).await
            }
            _ if !wants_content => {
                drain(response.into_body()).await;
                Ok(())
            }
            Answer::Json => self.read_json(response.into_body()).await,
            Answer::Other => {
                let error = unreadable(&response, self.context.endpoint.url());
                let reading = read_for_recorder(response.into_body(), self.context.endpoint.url());
                Box::pin(reading).await;
                Err(error)
            }
        };
        // An answer that has begun shows that the server is there.
        fared.map_err(|error| match error.kind {
            ErrorKind::Closed if self.opens() => {
                Error { status: error.status.or(Some(status)), ..error }
            }
            _ => error,
        })
    }

    async fn fetch(&self, call: Call) -> Result<Response<Content>, Error> {
        let options = SendOptions { limit: self.limit, ..SendOptions::of(&self.send.message) };
        let sending = pin!(self.context.send(call, options));
        let answer = match self.context.is_away.load(Ordering::Relaxed) {
            false => sending.await,
            true => Box::pin(self.watched(sending)).await,
        };
        self.context.note_answer(&answer);
        answer
    }

    /// The first that gets through to a server that was away tells so: a connection that is not
    /// broken again at once is a sign of life.
    async fn watched<T>(&self, mut sending: impl Future<Output = T> + Unpin) -> T {
        let lasting = async {
            self.send.progress.begun().await;
            tokio::time::sleep(limits::SIGN_OF_LIFE).await;
            self.context.note_presence();
        };
        tokio::select! {
            biased;
            answer = &mut sending => answer,
            () = lasting => sending.await,
        }
    }

    /// Hands a message over, and notes if it is the answer that was waited for.
    pub(super) async fn deliver(&mut self, message: Message) {
        let (message, is_answer) = self.claim(message);
        if is_answer {
            return self.deliver_answer(message).await;
        }
        self.context.log_received(&message, None, self.session_id());
        self.context.events.send(Event::Message { message, answers: None }).await;
    }

    async fn deliver_answer(&mut self, mut message: Message) {
        let context = &self.context;
        if self.send.envelope.is_some() && self.is(&Method::ToolsList) {
            message = context.handle_tools_list(&self.send.message, message);
        }
        if self.send.progress.is_abandoned() {
            return debug!(what = ?message, "an answer that nobody wants was dropped");
        }
        context.log_received(&message, Some(&self.send), self.session_id());
        // A modern server has no handshake: its first result is what shows that it is there.
        if let Some(envelope) = self.send.envelope.as_ref().filter(|_| !message.is_error()) {
            context.note_connection("Streamable HTTP", Some(&envelope.version));
        }
        if self.is(&Method::Initialize) && !message.is_error() {
            // The link must know of the session before the client can answer.
            let version = peek::negotiated_version(&message);
            let (ticket, session_id) = (self.send.ticket, self.named_session.take());
            context.report(Report::Initialized { ticket, session_id, version });
        }
        self.adopt_session();
        let answers = Some(self.send.ticket);
        self.context.events.send(Event::Message { message, answers }).await;
        self.is_settled = true;
    }

    /// Whether `message` is the answer to this POST's request, and the form in which it goes on.
    ///
    /// The client gets back the id that it sent: servers write `1` for `1.0`, round large numbers, or
    /// leave the id out of an error (C23).
    fn claim(&self, message: Message) -> (Message, bool) {
        let (Some(own), Head::Response { id, is_error }) = (self.request_id(), message.head())
        else {
            return (message, false);
        };
        let is_exact = id.as_ref() == Some(own);
        let is_alias = id.is_some() && *id == self.alias;
        if !is_exact && !is_alias && !id.as_ref().map_or(*is_error, |id| id.resembles(own)) {
            return (message, false);
        }
        // C22: to a legacy server the question itself is an error. Questions of our own are judged
        // by whoever has asked them, and by every word.
        let is_servers = message.failure().is_none();
        if *is_error && self.is_probe() && is_servers && !is_modern_refusal(&message) {
            return (reply::method_not_found(own, "server/discover"), true);
        }
        if is_exact { (message, true) } else { (edit::with_id(&message, own), true) }
    }

    /// The message fails with this error, unless nobody waits for it any more.
    fn fail(&self, error: Error) {
        let error = self.context.scrubbed(error);
        if self.is_settled || self.send.progress.is_abandoned() {
            return debug!(kind = %error.kind, "the rest of an answer was lost: {error}");
        }
        let ticket = self.send.ticket;
        self.context.events.push(Event::Failed { ticket, error: error.into() });
    }

    /// The server has taken a message that has no answer.
    fn accept(&mut self) {
        self.is_settled = true;
        self.adopt_session();
        if self.send.message.is_notification(&Method::Initialized) {
            self.context.report(Report::Confirmed);
        }
        self.context.events.push(Event::Accepted(self.send.ticket));
    }

    /// Once there is a session, only an answer that opens another can name one.
    fn adopt_session(&mut self) {
        let adopts = self.is_in_session() && !self.is(&Method::Discover);
        if let Some(session_id) = self.named_session.take().filter(|_| adopts) {
            self.context.report(Report::Adopted { session_id });
        }
    }
}
