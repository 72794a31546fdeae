//! Requests of the client's on their way to the legacy server, and their answers on the way back.

use tracing::debug;

use super::asks::{Abilities, Asks, fingerprint};
use super::{ModernClient, Waits};
use crate::error::{Error, Kind};
use crate::message::{Head, Id, Members, Message, Method, peek, reply};
use crate::revision::translate::{Protocol, tasks};

/// A request that is under way at the server.
#[derive(Debug)]
pub(super) struct ServerCall {
    pub(super) what: What,
    /// Later ones have a higher number.
    pub(super) order: u64,
    pub(super) waiter: Waiter,
    pub(super) wants_logs: bool,
    /// The token that the server knows.
    pub(super) upstream_token: Option<Id>,
    /// The one that the client knows now.
    pub(super) token: Option<Id>,
    /// The server has asked the client something for it.
    pub(super) has_asked: bool,
}

/// What a request is about.
#[derive(Clone, Debug)]
pub(super) struct What {
    pub(super) method: Method,
    pub(super) fingerprint: u64,
    pub(super) abilities: Abilities,
}

/// Who gets the answer to a call.
#[derive(Debug)]
pub(super) enum Waiter {
    /// This request of the client's.
    Client(Id),
    /// The one that will come back with this handle.
    Parked(String),
}

impl ModernClient {
    /// Something is said in a session that we have opened.
    pub(super) fn serve(&mut self, message: Message) {
        match message.head() {
            Head::Request { id, method } => {
                self.serve_request(id, method, &message);
            }
            Head::Notification { method } if *method != Method::Initialized => {
                self.cx.send_to_server(message);
            }
            _ => debug!(what = ?message, "dropped: a modern client has no reason to say this"),
        }
    }

    fn serve_request(&mut self, id: &Id, method: &Method, message: &Message) {
        if self.waiting.get(id).is_some() || self.passed.get(id).is_some() {
            let text = format!("Invalid request: a request with ID {id} is still in flight");
            let error = Error::new(Kind::InvalidRequest, text).not_delivered();
            return self.cx.fail(id, &error);
        }
        let is_refused = method.properties().is_legacy_only
            || (*method == Method::Discover && self.protocol == Protocol::Legacy);
        match method {
            _ if is_refused => {
                self.cx.send_to_client(reply::method_not_found(id, method.name()));
            }
            Method::Discover => {
                if let Some(answer) = self.server().map(|server| server.described(id)) {
                    self.cx.send_to_client(answer);
                }
            }
            Method::Listen => self.listen(id, message),
            _ => self.call(id, method, message),
        }
    }

    fn call(&mut self, id: &Id, method: &Method, message: &Message) {
        let mut request = Members::of_message(message).unwrap_or_default();
        let Some(asks) = Asks::take(&mut request, method.properties().may_ask_input) else {
            return self.cx.refuse(id, "Invalid params: they are not an object");
        };
        if self.waits_for_level(message, asks.log_level.as_deref()) {
            return;
        }
        // Only what can come to be parked has to be known again.
        let is_known_again = method.properties().may_ask_input
            && (asks.handle.is_some() || asks.abilities != Abilities::default());
        let what = What {
            method: method.clone(),
            fingerprint: if is_known_again { fingerprint(&self.hashing, &mut request) } else { 0 },
            abilities: asks.abilities,
        };
        if let Some(handle) = &asks.handle
            && !self.resume(handle, id, &what, &asks)
        {
            return;
        }
        let upstream = self.cx.string();
        let upstream_token = self.claim_token(asks.token.as_ref(), &upstream);
        if let Some(token) = upstream_token.as_ref().filter(|_| upstream_token != asks.token) {
            let meta = request.object("params").object("_meta");
            meta.set("progressToken", token.as_json().to_owned());
        }
        self.waiting.open(id, Waits::Call(upstream.clone()));
        let call = ServerCall {
            what,
            order: self.cx.last_id,
            waiter: Waiter::Client(id.clone()),
            wants_logs: asks.log_level.is_some(),
            upstream_token,
            token: asks.token,
            has_asked: false,
        };
        self.calls.insert(upstream.clone(), call);
        self.cx.send_to_server(request.into_message_with_id(message.head(), &upstream));
    }

    /// The token that the server gets: the client's own, unless a parked call has the same one.
    fn claim_token(&mut self, token: Option<&Id>, upstream: &Id) -> Option<Id> {
        let token = token?;
        let is_taken = self.tokens.contains_key(&token.canonical());
        let token = if is_taken { upstream } else { token };
        self.tokens.insert(token.canonical(), upstream.clone());
        Some(token.clone())
    }

    /// Forgets a call that is over for the server.
    pub(super) fn drop_call(&mut self, upstream: &Id) -> Option<ServerCall> {
        let call = self.calls.remove(upstream)?;
        self.free_token(&call);
        Some(call)
    }

    fn free_token(&mut self, call: &ServerCall) {
        if let Some(token) = &call.upstream_token {
            self.tokens.remove(&token.canonical());
        }
    }

    pub(super) fn cancel_call(&mut self, upstream: &Id, notice: &Message) {
        self.drop_call(upstream);
        let mut members = Members::of_message(notice).unwrap_or_default();
        members.object("params").set("requestId", upstream.as_json().to_owned());
        self.cx.send_to_server(members.into_message(notice.head().clone()));
    }

    pub(super) fn call_answered(&mut self, call: &ServerCall, answer: &Message) {
        self.free_token(call);
        match &call.waiter {
            Waiter::Client(id) => self.finish(&call.what, id, answer),
            Waiter::Parked(handle) => self.keep_answer(handle, answer.clone()),
        }
    }

    /// Gives an answer of the server's to the client's request `id`.
    pub(super) fn finish(&mut self, what: &What, id: &Id, answer: &Message) {
        self.waiting.close_exactly(id);
        let Head::Response { is_error: true, .. } = answer.head() else {
            return self.cx.send_to_client(self.completed(what, id, answer));
        };
        match peek::error_code(answer) {
            Some((-32042, _)) if self.park_for_pages(what, id, answer) => {}
            Some((-32002, _)) => {
                let mut members = Members::of_message(answer).unwrap_or_default();
                members.object("error").set("code", "-32602");
                let answer = members.into_message_with_id(answer.head(), id);
                self.cx.send_to_client(answer);
            }
            _ => self.send_readdressed(answer, id),
        }
    }

    fn completed(&self, what: &What, id: &Id, answer: &Message) -> Message {
        let mut members = Members::of_message(answer).unwrap_or_default();
        let result = members.object("result");
        if what.method == Method::ToolsList {
            tasks::drop_from_tools(result);
        }
        self.complete(result, what.method.properties().is_cacheable);
        members.into_message_with_id(answer.head(), id)
    }

    pub(super) fn server_notifies(&mut self, message: Message) {
        let Some(method) = message.method() else { return };
        match method {
            Method::Progress => self.progress(message),
            Method::LogMessage => {
                let is_wanted =
                    |call: &ServerCall| call.wants_logs && matches!(call.waiter, Waiter::Client(_));
                if self.calls.values().any(is_wanted) {
                    self.cx.send_to_client(message);
                }
            }
            Method::Cancelled => self.withdraw_question(&message),
            Method::ToolsChanged
            | Method::PromptsChanged
            | Method::ResourcesChanged
            | Method::ResourceUpdated => self.tell_listeners(method, &message),
            // The modern era has no word for these.
            Method::ElicitationComplete | Method::TaskStatus => {}
            _ => self.cx.send_to_client(message),
        }
    }

    /// Whether this is about the progress of a call of ours, also of one that has outlived the
    /// session that it was made in.
    pub(super) fn is_progress(&self, message: &Message) -> bool {
        message.method() == Some(&Method::Progress) && self.progressing(message).is_some()
    }

    /// The call that a notification about progress is about.
    fn progressing(&self, notice: &Message) -> Option<&Id> {
        let token = Id::from_json(peek::progress_token(notice)?)?;
        self.tokens.get(&token.canonical())
    }

    /// Progress goes to the request that waits now, under the token that it has named.
    fn progress(&mut self, message: Message) {
        let upstream = self.progressing(&message);
        let Some(call) = upstream.and_then(|upstream| self.calls.get(upstream)) else { return };
        let (Waiter::Client(_), Some(token)) = (&call.waiter, &call.token) else { return };
        if call.upstream_token.as_ref() == Some(token) {
            return self.cx.send_to_client(message);
        }
        let mut members = Members::of_message(&message).unwrap_or_default();
        members.object("params").set("progressToken", token.as_json().to_owned());
        self.cx.send_to_client(members.into_message(message.head().clone()));
    }
}
