//! What reopening a session and retrying requests needs to know: the handshake, subscriptions, the log
//! level, and which tools are safe.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use tracing::warn;

use crate::limits;
use crate::message::{Head, Json, Message, Method, peek, reply};

/// What is remembered of past requests and responses.
#[derive(Debug, Default)]
pub(super) struct Record {
    initialize: Option<Message>,
    initialized: Option<Message>,
    offer: Option<Offer>,
    /// The last `resources/subscribe` for each subscribed URI, up to the limit.
    subscriptions: BTreeMap<String, Message>,
    /// The limit on subscriptions was logged.
    has_warned: bool,
    level: Option<Message>,
    /// Tools with a hint that makes them safe to repeat.
    safe_tools: HashSet<String>,
}

/// Version and capabilities of the server, as in its response to `initialize`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) version: String,
    /// The names of the capabilities.
    capabilities: BTreeSet<String>,
}

impl Record {
    /// The client's `initialize`.
    pub(super) fn initialize(&self) -> Option<&Message> {
        self.initialize.as_ref()
    }

    /// What follows a repeated `initialize`: in the client's words, if it has confirmed its own.
    pub(super) fn confirmation(&self) -> Message {
        let initialized = self.initialized.clone();
        initialized.unwrap_or_else(|| reply::notification("notifications/initialized", None))
    }

    /// The requests that restore the session after that.
    pub(super) fn to_restore(&self) -> Vec<Message> {
        self.level.iter().chain(self.subscriptions.values()).cloned().collect()
    }

    /// Records a message of the client's.
    pub(super) fn on_client_message(&mut self, message: &Message) {
        match message.head() {
            Head::Request { method: Method::Initialize, .. } => {
                *self = Self { initialize: Some(message.clone()), ..Self::default() };
            }
            Head::Notification { method: Method::Initialized } => {
                self.initialized = Some(message.clone());
            }
            Head::Request { method: Method::SetLevel, .. } => self.level = Some(message.clone()),
            Head::Request { method: Method::ResourcesSubscribe, .. } => {
                if let Some(uri) = peek::subject(message) {
                    self.note_subscription(uri, message);
                }
            }
            Head::Request { method: Method::ResourcesUnsubscribe, .. } => {
                peek::subject(message).and_then(|uri| self.subscriptions.remove(&uri));
            }
            _ => {}
        }
    }

    /// Records the response to a request with `method`.
    pub(super) fn server_answers(&mut self, method: &Method, answer: &Message) {
        match method {
            Method::Initialize => self.offer = offer(answer).or(self.offer.take()),
            Method::ToolsList => self.note_tools(answer),
            _ => {}
        }
    }

    /// A new session is open: what the server offered before, and what it offers now.
    pub(super) fn reopened(&mut self, answer: &Message) -> (Offer, Offer) {
        let now = offer(answer).unwrap_or_default();
        let before = self.offer.replace(now.clone()).unwrap_or_else(|| now.clone());
        (before, now)
    }

    /// Whether `message` is safe to repeat.
    pub(super) fn is_safe(&self, message: &Message) -> bool {
        match message.method() {
            Some(Method::ToolsCall) => {
                peek::subject(message).is_some_and(|name| self.safe_tools.contains(&name))
            }
            Some(method) => method.properties().is_safe,
            None => false,
        }
    }

    fn note_subscription(&mut self, uri: String, message: &Message) {
        let limit = limits::RESTORED_SUBSCRIPTIONS;
        if self.subscriptions.len() < limit || self.subscriptions.contains_key(&uri) {
            self.subscriptions.insert(uri, message.clone());
        } else if !std::mem::replace(&mut self.has_warned, true) {
            warn!(
                "the client subscribes to more than {limit} resources: if the session is lost, \
                 only {limit} of them are subscribed to again"
            );
        }
    }

    fn note_tools(&mut self, answer: &Message) {
        let tools = answer.get(&["result", "tools"]).and_then(Json::elements);
        for tool in tools.into_iter().flatten() {
            let Some(name) = tool.get(&["name"]).and_then(Json::to_text) else { continue };
            let [read_only, idempotent] = ["readOnlyHint", "idempotentHint"]
                .map(|hint| tool.get(&["annotations", hint]).is_some_and(Json::is_true));
            self.safe_tools.remove(&name);
            if (read_only || idempotent) && self.safe_tools.len() < limits::SAFE_TOOLS {
                self.safe_tools.insert(name);
            }
        }
    }
}

impl Offer {
    /// The `list_changed` notifications for whatever either offer has.
    pub(super) fn lists_changed(&self, other: &Self) -> impl Iterator<Item = String> {
        ["tools", "resources", "prompts"]
            .into_iter()
            .filter(|name| self.capabilities.contains(*name) || other.capabilities.contains(*name))
            .map(|name| format!("notifications/{name}/list_changed"))
    }

    /// Whether something is no longer offered.
    pub(super) fn has_lost(&self, before: &Self) -> bool {
        !before.capabilities.is_subset(&self.capabilities)
    }
}

fn offer(answer: &Message) -> Option<Offer> {
    let paths: [&[&str]; 2] = [&["result", "protocolVersion"], &["result", "capabilities"]];
    let [version, capabilities] = answer.get_all(paths)?;
    let capabilities = capabilities.and_then(Json::members).into_iter().flatten();
    let capabilities = capabilities.map(|(name, _)| name.into_owned()).collect();
    Some(Offer { version: version?.to_text()?, capabilities })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn message(text: &str) -> Message {
        Message::parse(Bytes::copy_from_slice(text.as_bytes())).expect("a message")
    }

    fn request(method: &str, params: &str) -> Message {
        message(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#))
    }

    fn restored(record: &Record) -> Vec<String> {
        let rest = record.to_restore();
        rest.iter().map(|m| String::from_utf8_lossy(m.bytes()).into_owned()).collect()
    }

    #[test]
    fn subscriptions_and_the_log_level_are_remembered_as_they_stand() {
        let mut record = Record::default();
        record.on_client_message(&request("initialize", "{}"));
        for (method, params) in [
            ("resources/subscribe", r#"{"uri":"a"}"#),
            ("resources/subscribe", r#"{"uri":"b"}"#),
            ("logging/setLevel", r#"{"level":"info"}"#),
            ("resources/unsubscribe", r#"{"uri":"a"}"#),
            ("logging/setLevel", r#"{"level":"debug"}"#),
        ] {
            record.on_client_message(&request(method, params));
        }
        let restored = restored(&record);
        assert_eq!(restored.len(), 2);
        assert!(restored[0].contains("debug") && restored[1].contains("\"b\""), "{restored:?}");
        record.on_client_message(&request("initialize", "{}"));
        assert!(self::restored(&record).is_empty(), "a new session starts from nothing");
    }

    #[test]
    fn no_more_subscriptions_are_kept_than_are_restored() {
        let mut record = Record::default();
        let limit = limits::RESTORED_SUBSCRIPTIONS;
        let tell = |record: &mut Record, method: &str, number: usize| {
            record.on_client_message(&request(method, &format!(r#"{{"uri":"r{number}"}}"#)));
        };
        for number in 0..limit + 2 {
            tell(&mut record, "resources/subscribe", number);
        }
        assert_eq!(restored(&record).len(), limit);
        assert!(record.has_warned);
        tell(&mut record, "resources/subscribe", 0);
        assert_eq!(restored(&record).len(), limit, "one that is known is renewed");
        tell(&mut record, "resources/unsubscribe", 1);
        tell(&mut record, "resources/subscribe", limit);
        let restored = restored(&record);
        let has = |number: usize| restored.iter().any(|m| m.contains(&format!("\"r{number}\"")));
        assert!(restored.len() == limit && !has(1) && has(limit), "there was room again");
    }

    #[test]
    fn beyond_the_limit_no_tool_is_safe() {
        let mut record = Record::default();
        let list = |numbers: std::ops::Range<usize>| {
            let tool = |n| format!(r#"{{"name":"t{n}","annotations":{{"readOnlyHint":true}}}}"#);
            let tools = numbers.map(tool).collect::<Vec<_>>().join(",");
            message(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{tools}]}}}}"#))
        };
        record.server_answers(&Method::ToolsList, &list(0..limits::SAFE_TOOLS));
        record.server_answers(&Method::ToolsList, &list(0..limits::SAFE_TOOLS + 1));
        let call = |n: usize| request("tools/call", &format!(r#"{{"name":"t{n}"}}"#));
        assert!(record.is_safe(&call(0)) && record.is_safe(&call(limits::SAFE_TOOLS - 1)));
        assert!(!record.is_safe(&call(limits::SAFE_TOOLS)));
    }

    #[test]
    fn tools_are_safe_by_their_own_word() {
        let mut record = Record::default();
        let call = |name: &str| request("tools/call", &format!(r#"{{"name":"{name}"}}"#));
        assert!(!record.is_safe(&call("r")));
        record.server_answers(
            &Method::ToolsList,
            &message(
                r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[
                {"name":"r","annotations":{"readOnlyHint":true}},
                {"name":"i","annotations":{"idempotentHint":true,"readOnlyHint":false}},
                {"name":"w","annotations":{"readOnlyHint":false}},
                {"name":"n"}]}}"#,
            ),
        );
        assert!(record.is_safe(&call("r")) && record.is_safe(&call("i")));
        assert!(!record.is_safe(&call("w")) && !record.is_safe(&call("n")));
        let changed = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"r"}]}}"#;
        record.server_answers(&Method::ToolsList, &message(changed));
        assert!(!record.is_safe(&call("r")), "the newest list counts");
        let odd = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"title":"?"},
            {"name":"i","annotations":{"idempotentHint":true,"idempotentHint":true}},
            {"name":"r","annotations":{"readOnlyHint":true}}]}}"#;
        record.server_answers(&Method::ToolsList, &message(odd));
        assert!(record.is_safe(&call("r")), "whatever else is in the list");
        assert!(!record.is_safe(&call("i")), "which of the two hints counts nobody knows");
    }

    #[test]
    fn offers_are_compared() {
        let mut record = Record::default();
        let answer = |caps: &str| {
            message(&format!(
                r#"{{"jsonrpc":"2.0","id":1,"result":{{"protocolVersion":"v","capabilities":{caps}}}}}"#
            ))
        };
        record.server_answers(&Method::Initialize, &answer(r#"{"tools":{},"prompts":{}}"#));
        let (before, now) = record.reopened(&answer(r#"{"tools":{},"resources":{}}"#));
        assert!(now.has_lost(&before));
        let told: Vec<_> = now.lists_changed(&before).collect();
        assert_eq!(told.len(), 3, "{told:?}");
    }
}
