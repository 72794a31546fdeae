//! What passed by and will be needed again: to open a session anew, and to know what is safe.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use tracing::warn;

use crate::limits;
use crate::message::{Head, Json, Message, Method, peek};

/// The most that is kept of a notification, to know the next one by.
const BEGINNING: usize = 512;

/// What the client said and the server answered, as far as it must be remembered.
#[derive(Debug, Default)]
pub(super) struct Record {
    initialize: Option<Message>,
    initialized: Option<Message>,
    offer: Option<Offer>,
    /// The last `resources/subscribe` for each URI that is subscribed to, of as many as are restored.
    subscriptions: BTreeMap<String, Message>,
    /// There was a warning that not all subscriptions are restored.
    has_warned: bool,
    level: Option<Message>,
    /// Tokens of requests whose progress the client has seen, the newest last.
    progressed: VecDeque<String>,
    /// What told of the newest, up to its token and the sign behind that.
    last_progress: Vec<u8>,
    /// Tools that say of themselves that calling them twice does no harm.
    safe_tools: HashSet<String>,
}

/// What a server said of itself in the answer to `initialize`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) version: String,
    /// The names of the capabilities.
    capabilities: BTreeSet<String>,
}

impl Record {
    /// The client's own words for opening a session.
    pub(super) fn initialize(&self) -> Option<&Message> {
        self.initialize.as_ref()
    }

    /// What follows a repeated `initialize`: the confirmation, if the client gave one, and whatever
    /// the lost session had been told.
    pub(super) fn to_restore(&self) -> (Option<&Message>, impl Iterator<Item = &Message>) {
        (self.initialized.as_ref(), self.level.iter().chain(self.subscriptions.values()))
    }

    /// Notes what the client says.
    pub(super) fn client_says(&mut self, message: &Message) {
        match (message.head(), message.method()) {
            (Head::Request { .. }, Some(Method::Initialize)) => {
                *self = Self { initialize: Some(message.clone()), ..Self::default() };
            }
            (Head::Notification { .. }, Some(Method::Initialized)) => {
                self.initialized = Some(message.clone());
            }
            (Head::Request { .. }, Some(Method::SetLevel)) => self.level = Some(message.clone()),
            (Head::Request { .. }, Some(Method::ResourcesSubscribe)) => {
                if let Some(uri) = peek::subject(message) {
                    self.note_subscription(uri, message);
                }
            }
            (Head::Request { .. }, Some(Method::ResourcesUnsubscribe)) => {
                if let Some(uri) = peek::subject(message) {
                    self.subscriptions.remove(&uri);
                }
            }
            _ => {}
        }
    }

    /// Notes the answer to a request with `method`.
    pub(super) fn server_answers(&mut self, method: &Method, answer: &Message) {
        match method {
            Method::Initialize => self.offer = offer(answer).or(self.offer.take()),
            Method::ToolsList => self.note_tools(answer),
            _ => {}
        }
    }

    /// Notes what the server says unasked.
    pub(super) fn server_notifies(&mut self, message: &Message) {
        if message.method() != Some(&Method::Progress) {
            return;
        }
        // There may be thousands about one request, which begin alike.
        let bytes = message.bytes();
        if !self.last_progress.is_empty() && bytes.starts_with(&self.last_progress) {
            return;
        }
        let Some(token) = peek::progress_token(message) else { return };
        // It is a part of the message.
        let end = token.as_bytes().as_ptr_range().end as usize - bytes.as_ptr() as usize;
        let beginning = bytes.get(..=end).filter(|beginning| beginning.len() <= BEGINNING);
        self.last_progress = beginning.unwrap_or_default().to_vec();
        if self.progressed.back().is_none_or(|last| last != token) {
            self.progressed.retain(|known| known != token);
            self.progressed.push_back(token.to_owned());
        }
        if self.progressed.len() > limits::PARALLEL_POSTS {
            self.progressed.pop_front();
        }
    }

    /// A new session has begun: what the server offers now, and what it offered before.
    pub(super) fn reopened(&mut self, answer: &Message) -> (Offer, Offer) {
        let now = offer(answer).unwrap_or_default();
        let before = self.offer.replace(now.clone()).unwrap_or_else(|| now.clone());
        (before, now)
    }

    /// Whether carrying out `message` twice does no harm.
    pub(super) fn is_safe(&self, message: &Message) -> bool {
        // Progress only ever increases; a second run would begin anew.
        if !self.progressed.is_empty()
            && peek::requested_progress(message)
                .is_some_and(|token| self.progressed.contains(&token))
        {
            return false;
        }
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
    /// The notifications that tell a client to ask again for whatever either offer has.
    pub(super) fn lists_changed(&self, other: &Self) -> impl Iterator<Item = &'static str> {
        [
            ("tools", "notifications/tools/list_changed"),
            ("resources", "notifications/resources/list_changed"),
            ("prompts", "notifications/prompts/list_changed"),
        ]
        .into_iter()
        .filter(|(name, _)| self.capabilities.contains(*name) || other.capabilities.contains(*name))
        .map(|(_, method)| method)
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
        let (_, rest) = record.to_restore();
        rest.map(|m| String::from_utf8_lossy(m.bytes()).into_owned()).collect()
    }

    #[test]
    fn subscriptions_and_the_log_level_are_remembered_as_they_stand() {
        let mut record = Record::default();
        record.client_says(&request("initialize", "{}"));
        for (method, params) in [
            ("resources/subscribe", r#"{"uri":"a"}"#),
            ("resources/subscribe", r#"{"uri":"b"}"#),
            ("logging/setLevel", r#"{"level":"info"}"#),
            ("resources/unsubscribe", r#"{"uri":"a"}"#),
            ("logging/setLevel", r#"{"level":"debug"}"#),
        ] {
            record.client_says(&request(method, params));
        }
        let restored = restored(&record);
        assert_eq!(restored.len(), 2);
        assert!(restored[0].contains("debug") && restored[1].contains("\"b\""), "{restored:?}");
        record.client_says(&request("initialize", "{}"));
        assert!(self::restored(&record).is_empty(), "a new session starts from nothing");
    }

    #[test]
    fn no_more_subscriptions_are_kept_than_are_restored() {
        let mut record = Record::default();
        let limit = limits::RESTORED_SUBSCRIPTIONS;
        let tell = |record: &mut Record, method: &str, number: usize| {
            record.client_says(&request(method, &format!(r#"{{"uri":"r{number}"}}"#)));
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
    fn every_token_is_noted_whose_progress_was_told() {
        let mut record = Record::default();
        let long = "x".repeat(2 * BEGINNING);
        let told = |token: &str| format!(r#"{{"progressToken":{token},"progress":1}}"#);
        let told = [&told("1"), &told("1"), &told("12"), &told("1"), r#"{"progressToken":"1"}"#]
            .map(str::to_owned);
        let odd = r#"{"progress\u0054oken":3}"#.to_owned();
        let behind = format!(r#"{{"message":"{long}","progressToken":7}}"#);
        for params in told.iter().chain([&odd, &odd, &behind, &behind]) {
            record.server_notifies(&message(&format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}"#
            )));
        }
        assert_eq!(record.progressed, ["12", "1", "\"1\"", "3", "7"]);
        assert!(record.last_progress.is_empty(), "too much to be kept");
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
    fn a_call_whose_progress_was_seen_is_not_run_again() {
        let mut record = Record::default();
        let read = request("resources/read", r#"{"_meta":{"progressToken":"t"}}"#);
        assert!(record.is_safe(&read));
        record.server_notifies(&message(
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1}}"#,
        ));
        assert!(!record.is_safe(&read));
        assert!(record.is_safe(&request("resources/read", "{}")));
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
        let told: Vec<&str> = now.lists_changed(&before).collect();
        assert_eq!(told.len(), 3, "{told:?}");
    }
}
