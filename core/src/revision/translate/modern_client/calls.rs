//! Requests of the client's on their way to the legacy server, and their answers on the way back.

use tokio::time::Instant;
use tracing::debug;

use super::asks::{Abilities, Asks, fingerprint};
use super::{ModernClient, Waits, readdressed};
use crate::error::{Error, Kind};
use crate::message::{Head, Id, Members, Message, Method, peek, reply};
use crate::revision::translate::{Protocol, Step, Steps, tasks};

/// A request that is under way at the server.
#[derive(Debug)]
pub(super) struct Call {
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
    pub(super) fn serve(&mut self, message: Message, now: Instant, out: &mut Steps) {
        match message.head() {
            Head::Request { id, method } => {
                let (id, method) = (id.clone(), method.clone());
                self.serve_request(&id, &method, &message, now, out);
            }
            Head::Notification { method } if *method != Method::Initialized => {
                out.push_back(Step::ToServer(message));
            }
            _ => debug!(what = ?message, "dropped: a modern client has no reason to say this"),
        }
    }

    fn serve_request(
        &mut self,
        id: &Id,
        method: &Method,
        message: &Message,
        now: Instant,
        out: &mut Steps,
    ) {
        if self.waiting.get_mut(id).is_some() || self.passed.get_mut(id).is_some() {
            let text = format!("Invalid request: a request with ID {id} is still in flight");
            let error = Error::new(Kind::InvalidRequest, text).not_delivered();
            return out.push_back(Step::ToClient(reply::error(Some(id), &error)));
        }
        let is_refused = method.properties().is_legacy_only
            || (*method == Method::Discover && self.protocol == Protocol::Legacy);
        match method {
            _ if is_refused => {
                out.push_back(Step::ToClient(reply::method_not_found(id, method.name())));
            }
            Method::Discover => {
                out.extend(self.server().map(|server| Step::ToClient(server.described(id))));
            }
            Method::Listen => self.listen(id, message, out),
            _ => self.call(id, method, message, now, out),
        }
    }

    fn call(&mut self, id: &Id, method: &Method, message: &Message, now: Instant, out: &mut Steps) {
        let mut request = Members::of_message(message).unwrap_or_default();
        let Some(asks) = Asks::take(&mut request, method.properties().may_ask_input) else {
            let text = "Invalid params: they are not an object";
            return out.push_back(Step::ToClient(reply::refusal(id, -32602, text)));
        };
        if self.waits_for_level(message, asks.log_level.as_deref(), now, out) {
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
            && !self.resume(handle, id, &what, &asks, now, out)
        {
            return;
        }
        let upstream = self.ids.next();
        let upstream_token = self.claim_token(asks.token.as_ref(), &upstream);
        if let Some(token) = upstream_token.as_ref().filter(|_| upstream_token != asks.token) {
            let meta = request.object("params").object("_meta");
            meta.set("progressToken", token.as_json().to_owned());
        }
        self.waiting.open(id, Waits::Call(upstream.clone()));
        let call = Call {
            what,
            order: self.ids.count,
            waiter: Waiter::Client(id.clone()),
            wants_logs: asks.log_level.is_some(),
            upstream_token,
            token: asks.token,
            has_asked: false,
        };
        self.calls.insert(upstream.clone(), call);
        out.push_back(Step::ToServer(request.into_message_with_id(message.head(), &upstream)));
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
    pub(super) fn drop_call(&mut self, upstream: &Id) -> Option<Call> {
        let call = self.calls.remove(upstream)?;
        self.free_token(&call);
        Some(call)
    }

    fn free_token(&mut self, call: &Call) {
        if let Some(token) = &call.upstream_token {
            self.tokens.remove(&token.canonical());
        }
    }

    pub(super) fn cancel_call(&mut self, upstream: &Id, notice: &Message, out: &mut Steps) {
        self.drop_call(upstream);
        let mut members = Members::of_message(notice).unwrap_or_default();
        members.object("params").set("requestId", upstream.as_json().to_owned());
        out.push_back(Step::ToServer(members.into_message(notice.head().clone())));
    }

    pub(super) fn call_answered(
        &mut self,
        call: Call,
        answer: Message,
        now: Instant,
        out: &mut Steps,
    ) {
        self.free_token(&call);
        match &call.waiter {
            Waiter::Client(id) => self.finish(&call.what, id, &answer, now, out),
            Waiter::Parked(handle) => self.keep_answer(handle, answer),
        }
    }

    /// Gives an answer of the server's to the client's request `id`.
    pub(super) fn finish(
        &mut self,
        what: &What,
        id: &Id,
        answer: &Message,
        now: Instant,
        out: &mut Steps,
    ) {
        self.waiting.close_exactly(id);
        let Head::Response { is_error: true, .. } = answer.head() else {
            return out.push_back(Step::ToClient(self.completed(what, id, answer)));
        };
        match peek::error_code(answer) {
            Some((-32042, _)) if self.park_for_pages(what, id, answer, now, out) => {}
            Some((-32002, _)) => {
                let mut members = Members::of_message(answer).unwrap_or_default();
                members.object("error").set("code", "-32602");
                let answer = members.into_message_with_id(answer.head(), id);
                out.push_back(Step::ToClient(answer));
            }
            _ => out.push_back(readdressed(answer, id)),
        }
    }

    fn completed(&self, what: &What, id: &Id, answer: &Message) -> Message {
        let mut members = Members::of_message(answer).unwrap_or_default();
        let result = members.object("result");
        if what.method == Method::ToolsList {
            tasks::drop_from_tools(result);
        }
        match self.server() {
            Some(server) => server.complete(result, what.method.properties().is_cacheable),
            None => result.add("resultType", "\"complete\""),
        }
        members.into_message_with_id(answer.head(), id)
    }

    pub(super) fn server_notifies(&mut self, method: &Method, message: Message, out: &mut Steps) {
        match method {
            Method::Progress => self.progress(message, out),
            Method::LogMessage => {
                let is_wanted =
                    |call: &Call| call.wants_logs && matches!(call.waiter, Waiter::Client(_));
                if self.calls.values().any(is_wanted) {
                    out.push_back(Step::ToClient(message));
                }
            }
            Method::Cancelled => self.withdraw_question(&message),
            Method::ToolsChanged
            | Method::PromptsChanged
            | Method::ResourcesChanged
            | Method::ResourceUpdated => self.tell_listeners(method, &message, out),
            // The modern era has no word for these.
            Method::ElicitationComplete | Method::TaskStatus => {}
            _ => out.push_back(Step::ToClient(message)),
        }
    }

    /// Whether this is about the progress of a call of ours, also of one that has outlived the
    /// session that it was made in.
    pub(super) fn is_progress(&self, message: &Message) -> bool {
        !self.tokens.is_empty()
            && message.method() == Some(&Method::Progress)
            && peek::progress_token(message)
                .and_then(Id::from_json)
                .is_some_and(|token| self.tokens.contains_key(&token.canonical()))
    }

    /// Progress goes to the request that waits now, under the token that it has named.
    fn progress(&self, message: Message, out: &mut Steps) {
        let token = peek::progress_token(&message).and_then(Id::from_json);
        let upstream = token.and_then(|token| self.tokens.get(&token.canonical()));
        let Some(call) = upstream.and_then(|upstream| self.calls.get(upstream)) else { return };
        let (Waiter::Client(_), Some(token)) = (&call.waiter, &call.token) else { return };
        if call.upstream_token.as_ref() == Some(token) {
            return out.push_back(Step::ToClient(message));
        }
        let mut members = Members::of_message(&message).unwrap_or_default();
        members.object("params").set("progressToken", token.as_json().to_owned());
        out.push_back(Step::ToClient(members.into_message(message.head().clone())));
    }
}
