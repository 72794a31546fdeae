//! What a server has promised to tell on `subscriptions/listen`, and what may have been missed of it.

use serde_json::{Value, json};

use super::translate::SUBSCRIPTION_ID;
use crate::message::{Id, Json, Members, Message, Method, get, reply};

/// A list of a server's whose changes it may announce.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct List {
    /// The capability that says so in its member `listChanged`.
    capability: &'static str,
    /// The member that asks for it in `subscriptions/listen`, and acknowledges it.
    member: &'static str,
    /// The notification.
    pub(crate) changed: Method,
}

static LISTS: [List; 3] = [
    List { capability: "tools", member: "toolsListChanged", changed: Method::ToolsChanged },
    List { capability: "prompts", member: "promptsListChanged", changed: Method::PromptsChanged },
    List {
        capability: "resources",
        member: "resourcesListChanged",
        changed: Method::ResourcesChanged,
    },
];

/// Which changes a server announces, or may be asked to announce.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    pub(crate) lists: Vec<&'static List>,
    /// Whether single resources can be subscribed to.
    pub(crate) resources: bool,
}

impl Changes {
    /// What a server with these capabilities announces.
    pub(crate) fn of(capabilities: &str) -> Self {
        let has = |what, member| get(capabilities, &[what, member]).is_some_and(Json::is_true);
        Self {
            lists: LISTS.iter().filter(|list| has(list.capability, "listChanged")).collect(),
            resources: has("resources", "subscribe"),
        }
    }
}

/// What `subscriptions/listen` asks for, or what was acknowledged of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Promise {
    pub(crate) lists: Vec<&'static List>,
    /// The URIs of single resources.
    pub(crate) resources: Vec<String>,
}

impl Promise {
    /// What `message` promises, if it is an acknowledgement.
    #[must_use]
    pub fn of(message: &Message) -> Option<Self> {
        if message.method() != Some(&Method::Acknowledged) {
            return None;
        }
        Some(message.get(&["params", "notifications"]).map(Self::read).unwrap_or_default())
    }

    /// Reads the member `notifications`.
    pub(crate) fn read(notifications: Json<'_>) -> Self {
        let is_named = |list: &&List| notifications.get(&[list.member]).is_some_and(Json::is_true);
        let resources = notifications.get(&["resourceSubscriptions"]).and_then(Json::elements);
        Self {
            lists: LISTS.iter().filter(is_named).collect(),
            resources: resources.into_iter().flatten().filter_map(Json::to_text).collect(),
        }
    }

    /// Writes the member `notifications`.
    pub(crate) fn write(&self, notifications: &mut Members<'_>) {
        for list in &self.lists {
            notifications.set(list.member, "true");
        }
        if !self.resources.is_empty() {
            notifications.set("resourceSubscriptions", Value::from(&*self.resources).to_string());
        }
    }

    /// Everything that may have changed while nobody listened, told for the subscription `id` if it
    /// has one.
    #[must_use]
    pub fn missed(&self, id: Option<&Id>) -> Vec<Message> {
        let lists = self.lists.iter().map(|list| reply::notification(list.changed.name(), None));
        let updated = self.resources.iter().map(|uri| {
            let params = json!({"uri": uri}).to_string();
            reply::notification(Method::ResourceUpdated.name(), Some(&params))
        });
        let missed = lists.chain(updated);
        missed.map(|notice| id.map_or(notice.clone(), |id| told_for(id, &notice))).collect()
    }
}

/// The same notification, or last word, told for the subscription `id`.
pub(crate) fn told_for(id: &Id, message: &Message) -> Message {
    let place = if message.is_answer() { "result" } else { "params" };
    message
        .edited(|members| members.object(place).object("_meta").set(SUBSCRIPTION_ID, id.as_json()))
}

/// The same if it is told for another one.
pub(crate) fn of_request(message: Message, id: &Id) -> Message {
    let place = if message.is_answer() { "result" } else { "params" };
    match message.get(&[place, "_meta", SUBSCRIPTION_ID]) {
        Some(named) if named.as_str() != id.as_json() => told_for(id, &message),
        _ => message,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn message(text: &str) -> Message {
        Message::parse(Bytes::copy_from_slice(text.as_bytes())).expect("a message")
    }

    const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

    fn acknowledged(notifications: &str) -> Message {
        message(&format!(
            r#"{{"jsonrpc":"2.0","method":"{ACKNOWLEDGED}","params":{{"_meta":{{}},"notifications":{notifications}}}}}"#
        ))
    }

    #[test]
    fn all_that_was_promised_may_have_been_missed() {
        let promise = Promise::of(&acknowledged(
            r#"{"toolsListChanged":true,"promptsListChanged":false,"resourcesListChanged":true,
                "resourceSubscriptions":["file:///a\"b"],"io.example/more":[1]}"#,
        ));
        let missed = promise.unwrap().missed(Some(&Id::string("listen:0")));
        let texts: Vec<&str> =
            missed.iter().map(|m| std::str::from_utf8(m.bytes()).unwrap()).collect();
        assert_eq!(
            texts,
            [
                r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"listen:0"}}}"#,
                r#"{"jsonrpc":"2.0","method":"notifications/resources/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"listen:0"}}}"#,
                r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///a\"b","_meta":{"io.modelcontextprotocol/subscriptionId":"listen:0"}}}"#,
            ]
        );
        for message in missed {
            assert_eq!(Message::parse(message.bytes().clone()).as_ref(), Ok(&message));
        }
    }

    #[test]
    fn ids_keep_their_digits() {
        let promise = Promise::of(&acknowledged(r#"{"toolsListChanged":true}"#)).unwrap();
        let missed = promise.missed(Id::from_json("12345678901234567890").as_ref());
        assert!(missed[0].bytes().ends_with(br#"subscriptionId":12345678901234567890}}}"#));
    }

    #[test]
    fn an_acknowledgement_that_says_nothing_promises_nothing() {
        let bare = message(&format!(r#"{{"jsonrpc":"2.0","method":"{ACKNOWLEDGED}"}}"#));
        assert_eq!(Promise::of(&bare), Some(Promise::default()));
        assert!(Promise::default().missed(None).is_empty());
        let other = message(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
        assert_eq!(Promise::of(&other), None);
    }
}
