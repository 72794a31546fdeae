//! Requests of the client's on their way to the legacy server, and their answers on the way back.

use super::asks::{Asks, can_be_asked};
use super::json_string;
use super::session::LegacySession;
use crate::message::{Id, Json, Message, Method, edit, peek};
use crate::revision::translate::{CLIENT_CAPABILITIES, tasks};

/// A request that the server was sent.
pub(super) struct ServerCall {
    /// The request of the client's that gets the answer.
    pub(super) client: Id,
    pub(super) method: Method,
    /// The same as it came.
    pub(super) request: Message,
    /// Later ones have a higher number.
    pub(super) order: u64,
    pub(super) wants_logs: bool,
    /// The token that the client knows now.
    pub(super) token: Option<Id>,
    /// The one that the server knows: the client's own, unless another call had the same.
    pub(super) upstream_token: Option<Id>,
    /// The server has asked the client something for it.
    pub(super) has_asked: bool,
}

impl ServerCall {
    /// Whether it is about the same as another one, word for word.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let (one, other_one) = (subject(&self.request), subject(&other.request));
        self.method == other.method && one.is_some() && one == other_one
    }

    /// Whether the client can be asked this as the answer to it.
    pub(super) fn can_be_asked(&self, method: &Method, params: Option<&str>) -> bool {
        let capabilities = self.request.get(&["params", "_meta", CLIENT_CAPABILITIES]);
        self.method.properties().may_ask_input
            && can_be_asked(capabilities.map_or("", Json::as_str), method, params)
    }

    /// Whether the server tells its progress under this token.
    fn has_token(&self, token: &Id) -> bool {
        let own = self.upstream_token.as_ref();
        own.is_some_and(|own| own.canonical() == token.canonical())
    }
}

/// What a call is about; `None` where a name is there twice.
fn subject(call: &Message) -> Option<[Option<&str>; 3]> {
    let paths: [&[&str]; 3] = [&["params", "name"], &["params", "uri"], &["params", "arguments"]];
    Some(call.get_all(paths)?.map(|found| found.map(Json::as_str)))
}

impl LegacySession {
    /// `false`: it has to wait until the server has taken the log level.
    pub(super) fn call(&mut self, id: &Id, method: &Method, message: &Message) -> bool {
        let mut request = message.members();
        let Some(asks) = Asks::take(&mut request, method.properties().may_ask_input) else {
            self.cx.refuse(id, "Invalid params: they are not an object");
            return true;
        };
        if self.waits_for_level(asks.log_level.as_deref()) {
            return false;
        }
        let mut call = ServerCall {
            client: id.clone(),
            method: method.clone(),
            request: message.clone(),
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
        call.upstream_token = call.token.clone();
        let is_taken = |token: &Id| self.running().any(|(_, other)| other.has_token(token));
        if call.token.as_ref().is_some_and(is_taken) {
            let meta = request.object("params").object("_meta");
            meta.set("progressToken", upstream.as_json().to_owned());
            call.upstream_token = Some(upstream.clone());
        }
        self.waiting.open(id, Some(upstream.clone()));
        self.cx.send_to_server(request.into_message(message.head().clone().with_id(&upstream)));
        self.calls.insert(upstream, call);
        true
    }

    pub(super) fn cancel_call(&mut self, upstream: &Id, notice: &Message) {
        self.calls.remove(upstream);
        self.cx.send_to_server(notice.edited(|members| {
            members.object("params").set("requestId", upstream.as_json());
        }));
    }

    /// The server's answer to a call; `false`: this is none.
    pub(super) fn answered(&mut self, upstream: &Id, answer: &Message) -> bool {
        let Some(call) = self.calls.remove(upstream) else {
            return self.parked_answered(upstream, answer);
        };
        self.finish(upstream, call, answer);
        true
    }

    /// Gives an answer of the server's to the client.
    pub(super) fn finish(&mut self, upstream: &Id, call: ServerCall, answer: &Message) {
        let id = &call.client;
        self.waiting.close_exactly(id);
        if !answer.is_error() {
            let answer = answer.edited_with_id(id, |members| {
                let result = members.object("result");
                if call.method == Method::ToolsList {
                    tasks::drop_from_tools(result);
                }
                self.complete(result, call.method.properties().is_cacheable);
            });
            return self.cx.send_to_client(answer);
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

    /// The call that a notification is about the progress of, also if it has outlived the session
    /// that it was made in.
    pub(super) fn progressing(&self, notice: &Message) -> Option<&ServerCall> {
        let token = notice.method().filter(|method| **method == Method::Progress);
        let token = Id::from_json(token.and_then(|_| peek::progress_token(notice))?)?;
        self.calls.values().find(|call| call.has_token(&token))
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

/// An answer of the server's for another request. An error of the bridge's own names the request that
/// it answers; the client knows that one under another id.
pub(super) fn readdressed(answer: &Message, id: &Id) -> Message {
    let Some(old) = answer.id().filter(|_| answer.failure().is_some()) else {
        return edit::with_id(answer, id);
    };
    let renamed = answer.edited_with_id(id, |members| {
        let error = members.object("error");
        if let Some(text) = error.text("message") {
            error.set("message", json_string(&text.replace(old.as_json(), id.as_json())));
        }
    });
    renamed.like(answer)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn call(params: &str) -> Message {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        Message::parse(Bytes::from(text)).expect("a message")
    }

    #[test]
    fn other_arguments_are_another_call() {
        let one = call(r#"{"name":"a","arguments":{"x":1}}"#);
        let is_like = |params: &str| subject(&one) == subject(&call(params));
        assert!(is_like(r#"{"arguments":{"x":1},"name":"a","other":2}"#));
        assert!(!is_like(r#"{"name":"a","arguments":{"x":2}}"#));
        assert!(!is_like(r#"{"name":"b","arguments":{"x":1}}"#));
        assert!(!is_like(r#"{"uri":"a","arguments":{"x":1}}"#));
        assert_eq!(subject(&call(r#"{"name":"a","name":"a"}"#)), None);
    }
}
