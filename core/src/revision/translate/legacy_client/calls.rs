//! Requests on their way to a modern server, and the answers on their way back.

use tokio::time::Instant;
use tracing::debug;

use super::{Asked, Ids, Step, Steps, Translation, shapes};
use crate::error::{Error, Kind};
use crate::message::{Head, Id, Json, Members, Message, Method, reply};
use crate::revision::Revision;
use crate::revision::tools::is_first_page;
use crate::revision::translate::{
    CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION, SUBSCRIPTION_ID, tasks,
};

/// What goes with every request to a modern server.
#[derive(Clone, Debug)]
pub(super) struct Envelope {
    /// The revision, as JSON.
    version: String,
    capabilities: String,
    client_info: Option<String>,
    /// The level from which on the client wants to see log messages, as JSON.
    level: Option<String>,
}

/// The levels that a client may ask for.
const LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

impl Envelope {
    /// From what a legacy client says of itself when it opens.
    pub(super) fn of(initialize: &Message) -> Self {
        let parameter = |name| initialize.get(&["params", name]).map(Json::as_str);
        Self {
            version: format!("\"{}\"", Revision::LATEST_MODERN),
            capabilities: tasks::without_tasks(parameter("capabilities").unwrap_or("{}")),
            client_info: parameter("clientInfo").map(str::to_owned),
            level: None,
        }
    }

    /// The message in its envelope, under another id if it is a request.
    pub(super) fn put_around(&self, message: &Message, id: Option<&Id>) -> Message {
        let members = Members::of_message(message).unwrap_or_default();
        self.put_around_members(members, message.head(), id)
    }

    fn put_around_members<'a>(
        &'a self,
        mut members: Members<'a>,
        head: &Head,
        id: Option<&Id>,
    ) -> Message {
        self.fill(members.object("params").object("_meta"));
        match id {
            Some(id) => members.into_message_with_id(head, id),
            None => members.into_message(head.clone()),
        }
    }

    fn fill<'a>(&'a self, meta: &mut Members<'a>) {
        meta.set(PROTOCOL_VERSION, &*self.version);
        meta.set(CLIENT_CAPABILITIES, &*self.capabilities);
        if let Some(info) = &self.client_info {
            meta.set(CLIENT_INFO, &**info);
        }
        if let Some(level) = &self.level {
            meta.set(LOG_LEVEL, &**level);
        }
    }

    /// The same request once more, with what the client has answered to the server's questions.
    pub(super) fn put_around_retry(
        &self,
        request: &Message,
        id: &Id,
        answers: Option<String>,
        state: Option<String>,
    ) -> Message {
        let mut members = Members::of_message(request).unwrap_or_default();
        let params = members.object("params");
        self.fill(params.object("_meta"));
        if let Some(answers) = answers {
            params.set("inputResponses", answers);
        }
        if let Some(state) = state {
            params.set("requestState", state);
        }
        members.into_message_with_id(request.head(), id)
    }
}

impl Translation {
    pub(super) fn client_asks(
        &mut self,
        request: Message,
        ids: &mut Ids,
        now: Instant,
        out: &mut Steps,
    ) {
        match request.method() {
            Some(Method::Ping) => {
                out.push_back(Step::ToClient(reply::raw_result(request.id(), "{}")));
            }
            Some(Method::SetLevel) => self.set_level(&request, out),
            Some(Method::ResourcesSubscribe | Method::ResourcesUnsubscribe) => {
                self.change_subscriptions(&request, ids, now, out);
            }
            _ => self.ask(request, ids, out),
        }
    }

    fn ask(&mut self, request: Message, ids: &mut Ids, out: &mut Steps) {
        let members = Members::of_message(&request).unwrap_or_default();
        // Parameters by position have no place for the envelope.
        let has_room = members.get("params").is_none_or(|params| params.starts_with('{'));
        if let (Some(id), false) = (request.id(), has_room) {
            let refusal = reply::refusal(id, -32602, "The parameters must be an object");
            return out.push_back(Step::ToClient(refusal));
        }
        let id = ids.number();
        let enveloped = self.envelope.put_around_members(members, request.head(), Some(&id));
        out.push_back(Step::ToServer(enveloped));
        self.asked.insert(id, Asked { request, rounds: 0 });
    }

    /// It is kept here, and goes with every request from now on.
    fn set_level(&mut self, request: &Message, out: &mut Steps) {
        let Some(id) = request.id() else { return };
        let level = parameter(request, "level").filter(|level| LEVELS.contains(&level.as_str()));
        let answer = match level {
            Some(level) => {
                self.envelope.level = Some(format!("\"{level}\""));
                reply::raw_result(Some(id), "{}")
            }
            None => reply::refusal(id, -32602, "Unknown log level"),
        };
        out.push_back(Step::ToClient(answer));
    }

    /// The answer to a request of the client's.
    pub(super) fn answered(
        &mut self,
        asked: Asked,
        answer: &Message,
        ids: &mut Ids,
        now: Instant,
        out: &mut Steps,
    ) {
        let Some(id) = asked.request.id().cloned() else { return };
        if matches!(answer.head(), Head::Response { is_error: true, .. }) {
            return out.push_back(Step::ToClient(legacy_error(&asked.request, answer, &id)));
        }
        let Some(mut members) = Members::of_message(answer) else { return };
        if !members.get("result").is_some_and(|raw| raw.starts_with('{')) {
            // Not for us to mend.
            let answer = members.into_message_with_id(answer.head(), &id);
            return out.push_back(Step::ToClient(answer));
        }
        let result = members.object("result");
        match result.text("resultType").as_deref() {
            None | Some("complete") => {}
            Some("input_required") => return self.ask_client(asked, result, ids, now, out),
            Some(other) => {
                let message = format!(
                    "The server answered with a result of the kind {other:?}, which a client of \
                     its revision cannot read"
                );
                let error = Error::new(Kind::BadResponse, message);
                return out.push_back(Step::ToClient(reply::error(Some(&id), &error)));
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
                    && parameter(&asked.request, "name").is_some_and(|n| self.wrapped.has(&n));
                shapes::legacy_content(result, is_wrapped);
            }
            _ => {}
        }
        out.push_back(Step::ToClient(members.into_message_with_id(answer.head(), &id)));
    }

    /// What a server tells: about a request, or on a subscription.
    pub(super) fn server_tells(
        &mut self,
        message: Message,
        ids: &mut Ids,
        now: Instant,
        out: &mut Steps,
    ) {
        if message.method() == Some(&Method::Acknowledged) {
            return self.acknowledged(&message, ids, now, out);
        }
        let Some(subscription) = subscription(&message) else {
            return out.push_back(Step::ToClient(message));
        };
        if !self.listening.is(&subscription) {
            return debug!(what = ?message, "of a subscription that is over");
        }
        let mut members = Members::of_message(&message).unwrap_or_default();
        let params = members.object("params");
        params.object("_meta").remove(SUBSCRIPTION_ID);
        params.drop_if_empty("_meta");
        members.drop_if_empty("params");
        out.push_back(Step::ToClient(members.into_message(message.head().clone())));
    }
}

/// A resource that is not there has a code of its own in the older revisions.
pub(super) fn legacy_error(request: &Message, answer: &Message, id: &Id) -> Message {
    let mut members = Members::of_message(answer).unwrap_or_default();
    if request.method() == Some(&Method::ResourcesRead)
        && let Some([Some(code), Some(_)]) =
            answer.get_all([&["error", "code"], &["error", "data", "uri"]])
        && code.integer() == Some(-32602)
    {
        members.object("error").set("code", "-32002");
    }
    members.into_message_with_id(answer.head(), id)
}

/// A member of the parameters that is a string.
pub(super) fn parameter(message: &Message, name: &str) -> Option<String> {
    message.get(&["params", name])?.to_text()
}

/// The subscription that a notification belongs to.
pub(super) fn subscription(message: &Message) -> Option<Id> {
    memchr::memmem::find(message.bytes(), b"subscriptionId")?;
    Id::from_json(message.get(&["params", "_meta", SUBSCRIPTION_ID])?.as_str())
}
