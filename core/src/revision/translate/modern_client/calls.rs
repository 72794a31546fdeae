//! Requests of the client's on their way to the legacy server, and their answers on the way back.

use super::asks::{Abilities, Asks, fingerprint};
use super::json_string;
use super::session::LegacySession;
use crate::message::{Id, Message, Method, edit, peek};
use crate::revision::translate::tasks;

/// A request that the server was sent.
pub(super) struct ServerCall {
    /// The request of the client's that gets the answer.
    pub(super) client: Id,
    pub(super) method: Method,
    /// What it is about, where it has to be known again.
    pub(super) fingerprint: u64,
    pub(super) abilities: Abilities,
    /// Later ones have a higher number.
    pub(super) order: u64,
    pub(super) wants_logs: bool,
    /// The token that the server knows.
    pub(super) upstream_token: Option<Id>,
    /// The one that the client knows now.
    pub(super) token: Option<Id>,
    /// The server has asked the client something for it.
    pub(super) has_asked: bool,
}

impl ServerCall {
    /// Whether it is about the same as another one.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.method == other.method && self.fingerprint == other.fingerprint
    }
}

impl LegacySession {
    /// `false`: it has to wait until the server has taken the log level.
    pub(super) fn call(&mut self, id: &Id, method: &Method, message: &Message) -> bool {
        let mut request = message.members();
        let may_ask_input = method.properties().may_ask_input;
        let Some(asks) = Asks::take(&mut request, may_ask_input) else {
            self.cx.refuse(id, "Invalid params: they are not an object");
            return true;
        };
        if self.waits_for_level(asks.log_level.as_deref()) {
            return false;
        }
        // Only what can come to be parked has to be known again.
        let is_known_again =
            may_ask_input && (asks.handle.is_some() || asks.abilities != Abilities::default());
        let mut call = ServerCall {
            client: id.clone(),
            method: method.clone(),
            fingerprint: if is_known_again { fingerprint(&self.hashing, &mut request) } else { 0 },
            abilities: asks.abilities,
            order: 0,
            wants_logs: asks.log_level.is_some(),
            upstream_token: None,
            token: asks.token,
            has_asked: false,
        };
        if let Some(handle) = &asks.handle {
            let resumed = self.resume(handle, asks.responses.as_deref(), call);
            let Some(anew) = resumed else { return true };
            call = anew;
        }
        let upstream = self.cx.string();
        call.order = self.cx.last_id;
        call.upstream_token = self.claim_token(call.token.as_ref(), &upstream);
        if let Some(token) =
            call.upstream_token.as_ref().filter(|_| call.upstream_token != call.token)
        {
            let meta = request.object("params").object("_meta");
            meta.set("progressToken", token.as_json().to_owned());
        }
        self.waiting.open(id, Some(upstream.clone()));
        self.cx.send_to_server(request.into_message(message.head().clone().with_id(&upstream)));
        self.calls.insert(upstream, call);
        true
    }

    /// The token that the server gets: the client's own, unless a parked call has the same one.
    fn claim_token(&mut self, token: Option<&Id>, upstream: &Id) -> Option<Id> {
        let token = token?;
        let is_taken = self.tokens.contains_key(&token.canonical());
        let token = if is_taken { upstream } else { token };
        self.tokens.insert(token.canonical(), upstream.clone());
        Some(token.clone())
    }

    pub(super) fn free_token(&mut self, token: Option<Id>) {
        if let Some(token) = token {
            self.tokens.remove(&token.canonical());
        }
    }

    pub(super) fn cancel_call(&mut self, upstream: &Id, notice: &Message) {
        let call = self.calls.remove(upstream);
        self.free_token(call.and_then(|call| call.upstream_token));
        self.cx.send_to_server(notice.edited(|members| {
            members.object("params").set("requestId", upstream.as_json());
        }));
    }

    /// The server's answer to a call; `false`: this is none.
    pub(super) fn answered(&mut self, upstream: &Id, answer: &Message) -> bool {
        let Some(mut call) = self.calls.remove(upstream) else {
            return self.parked_answered(upstream, answer);
        };
        self.free_token(call.upstream_token.take());
        self.finish(upstream, call, answer);
        true
    }

    /// Gives an answer of the server's to the client.
    pub(super) fn finish(&mut self, upstream: &Id, call: ServerCall, answer: &Message) {
        let id = &call.client;
        self.waiting.close_exactly(id);
        if !answer.is_error() {
            return self.cx.send_to_client(self.completed(&call.method, id, answer));
        }
        match peek::error_code(answer) {
            Some((-32042, _)) => self.park_for_pages(upstream, call, answer),
            Some((-32002, _)) => {
                self.cx.send_to_client(answer.edited_with_id(id, |members| {
                    members.object("error").set("code", "-32602");
                }));
            }
            _ => self.cx.send_to_client(readdressed(answer, id)),
        }
    }

    fn completed(&self, method: &Method, id: &Id, answer: &Message) -> Message {
        answer.edited_with_id(id, |members| {
            let result = members.object("result");
            if *method == Method::ToolsList {
                tasks::drop_from_tools(result);
            }
            self.complete(result, method.properties().is_cacheable);
        })
    }

    /// The call that a notification is about the progress of, also if it has outlived the session
    /// that it was made in.
    pub(super) fn progressing(&self, notice: &Message) -> Option<&ServerCall> {
        let token = notice.method().filter(|method| **method == Method::Progress);
        let token = Id::from_json(token.and_then(|_| peek::progress_token(notice))?)?;
        self.calls.get(self.tokens.get(&token.canonical())?)
    }

    /// Progress goes to the request that waits now, under the token that it has named.
    pub(super) fn progress(&mut self, message: Message) {
        let Some(call) = self.progressing(&message) else { return };
        let Some(token) = &call.token else { return };
        if call.upstream_token.as_ref() == Some(token) {
            return self.cx.send_to_client(message);
        }
        let renamed = message.edited(|members| {
            members.object("params").set("progressToken", token.as_json());
        });
        self.cx.send_to_client(renamed);
    }
}

/// An answer of the server's for another request.
pub(super) fn readdressed(answer: &Message, id: &Id) -> Message {
    renamed(answer, id).unwrap_or_else(|| edit::with_id(answer, id))
}

/// An error of the bridge's own that names the request that it answers; the client knows that one
/// under another id.
fn renamed(answer: &Message, id: &Id) -> Option<Message> {
    answer.failure()?;
    let old = answer.id()?.as_json();
    let mut members = answer.members();
    let error = members.object("error");
    let text = error.text("message").filter(|text| text.contains(old))?;
    error.set("message", json_string(&text.replace(old, id.as_json())));
    Some(members.into_message(answer.head().clone().with_id(id)).like(answer))
}
