//! The life of one POST: sent, answered or failed, and never without an end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{HeaderValue, Response};
use tracing::debug;

use super::answer::{Answer, drain};
use super::command::{Event, Send};
use super::log::Direction;
use super::modern::Params;
use super::remedy::{Tried, is_modern_refusal};
use super::report::{Report, SessionRejected};
use super::session::Session;
use super::{Context, SendOptions};
use crate::engine::silence_limit;
use crate::error::{Error, Kind};
use crate::limits;
use crate::message::{Head, Id, Message, Method, edit, peek, reply};
use crate::net::{Call, Content};
use crate::revision::Revision;
use crate::revision::subscription::Promise;
use crate::transport::Alarm;
use crate::wire::header;

/// One message on its way, with all that its task needs.
#[derive(Debug)]
pub(super) struct Post {
    pub(super) send: Send,
    /// The headers that repeat its arguments.
    pub(super) mirrored: Params,
    pub(super) rules: &'static Revision,
    /// The session that it goes to.
    pub(super) session: Arc<Session>,
}

impl Post {
    /// The session's id, for logs.
    pub(super) fn session_id(&self) -> Option<&HeaderValue> {
        self.session.id().filter(|_| self.rules.sessions)
    }
}

pub(super) struct Exchange {
    pub(super) context: Arc<Context>,
    pub(super) post: Post,
    /// How long the server may be silent.
    pub(super) limit: Option<Duration>,
    /// Whether the request has its answer, or its error.
    pub(super) is_settled: bool,
    /// The session id that came with the answer.
    pub(super) session_id: Option<HeaderValue>,
    /// What the server said of the lost session, if it turns out not to be about the session.
    pub(super) last_word: Option<Message>,
    /// What was done about refusals.
    pub(super) tried: Tried,
    /// What a subscription was promised.
    pub(super) promise: Option<Promise>,
    /// The id under which the server knows it, if its stream was opened again.
    pub(super) alias: Option<Id>,
    /// For the limit.
    alarm: Alarm,
}

impl Exchange {
    pub(super) fn new(context: Arc<Context>, post: Post) -> Self {
        let limit = silence_limit(&post.send.message, &context.settings.timeouts);
        Self {
            context,
            post,
            limit,
            is_settled: false,
            session_id: None,
            last_word: None,
            tried: Tried::default(),
            promise: None,
            alias: None,
            alarm: Alarm::default(),
        }
    }

    /// Sends the message, and delivers what comes back.
    pub(super) async fn run(mut self, call: Call) -> Report {
        let (message, session) = (&self.post.send.message, self.post.session_id());
        let retry = self.post.send.retry;
        self.context.crossing(Direction::ToServer { retry }, message, session);
        match self.perform(call).await {
            Ok(()) => self.settle(false).await,
            Err(error) if error.kind == Kind::SessionLost => self.lose_session(error),
            Err(error) => {
                self.fail(error).await;
                self.settle(false).await;
            }
        }
        Report::Ended
    }

    /// The id, if the message is a request.
    pub(super) fn request_id(&self) -> Option<&Id> {
        match self.post.send.message.head() {
            Head::Request { id, .. } => Some(id),
            _ => None,
        }
    }

    pub(super) fn is(&self, method: &Method) -> bool {
        self.request_id().is_some() && self.post.send.message.method() == Some(method)
    }

    /// Whether a client asks which era the server speaks. Questions of our own are asked because
    /// somebody waits for more than their answer.
    pub(super) fn is_probe(&self) -> bool {
        self.is(&Method::Discover) && !self.post.send.message.is_own()
    }

    /// Whether it begins something: then no session can have been lost under it.
    pub(super) fn opens(&self) -> bool {
        self.request_id().is_some()
            && self.post.send.message.method().is_some_and(|method| method.properties().opens)
    }

    /// What is seldom needed is boxed: every call would carry its size around otherwise.
    pub(super) async fn perform(&mut self, call: Call) -> Result<(), Error> {
        let response = match self.send(call).await {
            Err(error) if self.is_cut_subscription(&error) => {
                return Box::pin(self.listen(None)).await;
            }
            response => response?,
        };
        // Once there is a session, only an answer that opens another can name one.
        if self.opens() || self.post.session.would_adopt() {
            let session_id = response.headers().get(header::SESSION_ID).cloned();
            self.session_id = session_id.filter(header::is_session_id);
        }
        if response.status().is_success() && self.is(&Method::Ping) {
            self.context.habits.note_answered_ping();
        }
        let wants_content = self.request_id().is_some();
        let status = response.status().as_u16();
        let answer = Answer::sort(response, wants_content, self.context.endpoint.url());
        if !wants_content && !matches!(answer, Answer::Refused(_)) {
            self.settle(true).await;
        }
        let fared = match answer {
            Answer::Json(body) => self.read_json(body).await,
            Answer::Events(body) if self.is_subscription() => {
                Box::pin(self.listen(Some(body))).await
            }
            Answer::Events(body) => {
                if self.session_id.is_some() {
                    self.name_session();
                }
                self.read_events(body).await
            }
            Answer::Accepted(body) => {
                drain(body).await;
                Ok(())
            }
            Answer::Unreadable(error) => Err(error),
            Answer::Refused(response) => Box::pin(self.refused(response)).await,
        };
        // An answer that has begun shows that the server is there.
        fared.map_err(|error| match error.kind {
            Kind::Closed if self.opens() => {
                Error { status: error.status.or(Some(status)), ..error }
            }
            _ => error,
        })
    }

    /// The server may ask something before it answers `initialize`, and know only who names it.
    fn name_session(&self) {
        if let Some(session_id) = self.session_id.clone().filter(|_| self.is(&Method::Initialize)) {
            self.context.report(Report::Named { session_id });
        }
    }

    async fn send(&mut self, call: Call) -> Result<Response<Content>, Error> {
        let mut alarm = std::mem::take(&mut self.alarm);
        let answer = self.attempt(call, &mut alarm).await;
        self.alarm = alarm;
        if let Err(error) = &answer {
            self.context.note_absence(error);
        }
        answer
    }

    /// Sends it; the first that gets through to a server that was away tells so.
    async fn attempt(&self, call: Call, alarm: &mut Alarm) -> Result<Response<Content>, Error> {
        let what = if self.request_id().is_some() { "Request" } else { "Notify" };
        let send_options =
            SendOptions::within(self.limit, what).with_login_for(&self.post.send.message);
        if !self.context.presence.is_away() {
            return self.context.send_by(call, send_options, alarm).await;
        }
        let mut sending = Box::pin(self.context.send_by(call, send_options, alarm));
        // A connection that is not broken again at once is a sign of life.
        let lasting = async {
            self.post.send.progress.begun().await;
            tokio::time::sleep(limits::SIGN_OF_LIFE).await;
        };
        tokio::select! {
            biased;
            answer = &mut sending => return self.reached(answer).await,
            () = lasting => {}
        }
        self.tell_reached().await;
        sending.await
    }

    async fn reached(
        &self,
        answer: Result<Response<Content>, Error>,
    ) -> Result<Response<Content>, Error> {
        if answer.is_ok() {
            self.tell_reached().await;
        }
        answer
    }

    pub(super) async fn tell_reached(&self) {
        if self.context.note_presence() {
            self.context.events.send(Event::Reached).await;
        }
    }

    /// Hands a message over, and notes if it is the answer that was waited for.
    pub(super) async fn deliver(&mut self, message: Message) {
        let (mut message, answers) = self.claim(message);
        if answers && self.post.send.envelope.is_some() && self.is(&Method::ToolsList) {
            message = self.context.heed_tools(&self.post.send.message, message);
        }
        if answers && self.post.send.progress.is_abandoned() {
            return debug!(what = ?message, "an answer that nobody wants was dropped");
        }
        let direction = match answers && self.post.send.message.is_own() {
            true => Direction::ToBridge,
            false => Direction::FromServer,
        };
        self.context.crossing(direction, &message, self.post.session_id());
        if answers {
            self.context.note_answer(&self.post.send, &message);
        }
        if answers && self.is(&Method::Initialize) {
            self.context.is_decided.store(true, Ordering::Relaxed);
            self.report_session(&message);
        }
        // The receiver is gone only when the link is being closed at once.
        let ticket = answers.then_some(self.post.send.ticket);
        if answers {
            self.adopt_session();
        }
        self.context.events.send(Event::Message { message, answers: ticket }).await;
        if answers {
            self.settle(true).await;
        }
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

    /// The driver must know of the session before the client can answer.
    fn report_session(&mut self, answer: &Message) {
        if matches!(answer.head(), Head::Response { is_error: true, .. }) {
            return;
        }
        let version = peek::negotiated_version(answer);
        let session_id = self.session_id.take();
        let ticket = self.post.send.ticket;
        self.context.report(Report::Initialized { ticket, session_id, version });
    }

    /// The message fails with this error, unless nobody waits for it any more.
    async fn fail(&mut self, error: Error) {
        let error = self.context.scrubbed(error);
        if self.is_settled || self.post.send.progress.is_abandoned() {
            return debug!(kind = %error.kind, "the rest of an answer was lost: {error}");
        }
        let ticket = self.post.send.ticket;
        self.context.events.send(Event::Failed { ticket, error: error.into() }).await;
    }

    /// The session that it was sent in is lost.
    fn lose_session(&mut self, error: Error) {
        if self.post.session_id().is_none() {
            return;
        }
        if self.post.send.is_last_try {
            self.context.habits.note_last_loss(error.status);
        }
        let rejected = SessionRejected {
            ticket: self.post.send.ticket,
            session: Arc::clone(&self.post.session),
            error: self.context.scrubbed(error),
            last_word: self.last_word.take(),
            is_last_try: self.post.send.is_last_try,
        };
        self.context.report(Report::SessionRejected(Box::new(rejected)));
    }

    /// Notes, once, that this message's turn is over.
    async fn settle(&mut self, well: bool) {
        if std::mem::replace(&mut self.is_settled, true) {
            return;
        }
        self.adopt_session();
        if well && self.request_id().is_none() {
            if self.post.send.is_notification(&Method::Initialized) {
                self.context.report(Report::Confirmed);
            }
            self.context.events.send(Event::Accepted(self.post.send.ticket)).await;
        }
    }

    /// Once there is a session, only an answer that opens another can name one.
    fn adopt_session(&mut self) {
        let adopts = self.post.rules.sessions && !self.is(&Method::Discover);
        if let Some(session_id) = self.session_id.take().filter(|_| adopts) {
            self.context.report(Report::Adopted { session_id });
        }
    }
}
