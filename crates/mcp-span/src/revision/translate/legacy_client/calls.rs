//! Requests on their way to a modern server, and the answers on their way back.

use tracing::debug;

use super::{Asked, Translation, TranslatorContext, shapes};
use crate::error::{Error, ErrorKind};
use crate::message::{Id, Json, Message, Method, peek, reply};
use crate::revision::tools::is_first_page;
use crate::revision::translate::{LOG_LEVEL, SUBSCRIPTION_ID};

/// The levels that a client may ask for.
const LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

impl Translation {
    pub(super) fn ask(&mut self, request: Message, cx: &mut TranslatorContext) {
        let mut members = request.members();
        // Parameters by position have no place for the envelope.
        let has_room = members.get("params").is_none_or(|params| params.starts_with('{'));
        if let (Some(id), false) = (request.id(), has_room) {
            return cx.refuse(id, "The parameters must be an object");
        }
        let id = cx.number();
        cx.introduction.fill(members.object("params"));
        let call = members.into_message(request.head().clone().with_id(&id));
        cx.send_to_server(call.with_timeout(request.timeout()));
        self.asked.insert(id, Asked { request, rounds: 0 });
    }

    /// The answer to a request of the client's.
    pub(super) fn answered(&mut self, asked: Asked, answer: &Message, cx: &mut TranslatorContext) {
        let Some(id) = asked.request.id().cloned() else { return };
        if answer.is_error() {
            return cx.send_to_client(legacy_error(&asked.request, answer, &id));
        }
        let (head, mut members) = (answer.head().clone().with_id(&id), answer.members());
        if !members.get("result").is_some_and(|raw| raw.starts_with('{')) {
            // Not for us to mend.
            return cx.send_to_client(members.into_message(head));
        }
        let result = members.object("result");
        match result.text("resultType").as_deref() {
            None | Some("complete") => {}
            Some("input_required") => return self.ask_client(asked, result, cx),
            Some(other) => {
                let message = format!(
                    "The server answered with a result of the kind {other:?}, which a client of \
                     its revision cannot read"
                );
                let error = Error::new(ErrorKind::BadResponse, message);
                return cx.fail(&id, &error);
            }
        }
        for added in ["resultType", "ttlMs", "cacheScope"] {
            result.remove(added);
        }
        match asked.request.method() {
            Some(Method::ToolsList) => {
                shapes::legacy_tools(result, is_first_page(&asked.request), &mut self.wrapped);
            }
            Some(Method::ToolsCall) => {
                // Its name is looked for only where it matters.
                let is_wrapped = !self.wrapped.is_empty()
                    && peek::subject(&asked.request)
                        .is_some_and(|name| self.wrapped.contains_key(&name));
                shapes::legacy_content(result, is_wrapped);
            }
            _ => {}
        }
        cx.send_to_client(members.into_message(head));
    }

    /// What a server tells: about a request, or on a subscription.
    pub(super) fn server_tells(&mut self, message: Message, cx: &mut TranslatorContext) {
        if message.method() == Some(&Method::Acknowledged) {
            return self.listening.acknowledged(&message, cx);
        }
        let Some(subscription) = subscription(&message) else { return cx.send_to_client(message) };
        if !self.listening.is(&subscription) {
            return debug!(what = ?message, "of a subscription that is over");
        }
        cx.send_to_client(message.edited(|members| {
            let params = members.object("params");
            params.object("_meta").remove(SUBSCRIPTION_ID);
            params.drop_if_empty("_meta");
            members.drop_if_empty("params");
        }));
    }
}

/// The log level is kept here, and goes with every request from now on.
pub(super) fn set_level(id: &Id, request: &Message, cx: &mut TranslatorContext) {
    let level = request.get(&["params", "level"]).and_then(Json::to_text).unwrap_or_default();
    if !LEVELS.contains(&level.as_str()) {
        return cx.refuse(id, "Unknown log level");
    }
    cx.introduction.set(LOG_LEVEL, format!("\"{level}\""));
    cx.send_to_client(reply::raw_result(Some(id), "{}"));
}

/// A resource that is not there has a code of its own in the older revisions.
pub(super) fn legacy_error(request: &Message, answer: &Message, id: &Id) -> Message {
    let is_read = request.method() == Some(&Method::ResourcesRead);
    let [code, uri] =
        answer.get_all([&["error", "code"], &["error", "data", "uri"]]).unwrap_or_default();
    let is_absent = is_read && uri.is_some() && code.and_then(Json::integer) == Some(-32602);
    answer.edited_with_id(id, |members| {
        if is_absent {
            members.object("error").set("code", "-32002");
        }
    })
}

/// The subscription that a notification belongs to.
pub(super) fn subscription(message: &Message) -> Option<Id> {
    memchr::memmem::find(message.bytes(), b"subscriptionId")?;
    Id::from_json(message.get(&["params", "_meta", SUBSCRIPTION_ID])?.as_str())
}
