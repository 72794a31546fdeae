//! What a server has promised to tell on `subscriptions/listen`, and what may have been missed of it.

use serde_json::Value;

use super::translate::SUBSCRIPTION_ID;
use crate::message::{Head, Id, Json, Members, Message, Method};

/// What was acknowledged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Promise {
    /// The notifications about lists.
    lists: Vec<&'static str>,
    /// The URIs of single resources.
    resources: Vec<String>,
}

/// The members that promise to tell of a list, and the notifications that do.
const LISTS: [(&str, &str); 3] = [
    ("toolsListChanged", "notifications/tools/list_changed"),
    ("promptsListChanged", "notifications/prompts/list_changed"),
    ("resourcesListChanged", "notifications/resources/list_changed"),
];

impl Promise {
    /// What `message` promises, if it is an acknowledgement.
    #[must_use]
    pub fn of(message: &Message) -> Option<Self> {
        if message.method() != Some(&Method::Acknowledged) {
            return None;
        }
        let Some(promised) = message.get(&["params", "notifications"]) else {
            return Some(Self::default());
        };
        let is_promised = |member: &str| promised.get(&[member]).is_some_and(Json::is_true);
        let lists = LISTS.iter().filter(|(member, _)| is_promised(member));
        let resources = promised.get(&["resourceSubscriptions"]).and_then(Json::elements);
        Some(Self {
            lists: lists.map(|(_, method)| *method).collect(),
            resources: resources.into_iter().flatten().filter_map(Json::to_text).collect(),
        })
    }

    /// Everything that may have changed while nobody listened, told for the subscription `id`.
    #[must_use]
    pub fn missed(&self, id: &Id) -> Vec<Message> {
        let lists = self.lists.iter().map(|method| notification(method, None, id));
        let resources = self.resources.iter().map(|uri| notification(UPDATED, Some(uri), id));
        lists.chain(resources).collect()
    }
}

/// The same notification, or last word, told for the subscription `id`.
pub(crate) fn of_request(message: Message, id: &Id) -> Message {
    let place = match message.head() {
        Head::Notification { .. } => "params",
        Head::Response { is_error: false, .. } => "result",
        _ => return message,
    };
    let named = message.get(&[place, "_meta", SUBSCRIPTION_ID]);
    if named.is_none_or(|named| named.as_str() == id.as_json()) {
        return message;
    }
    let Some(mut members) = Members::of_message(&message) else { return message };
    let meta = members.object(place).object("_meta");
    meta.set(SUBSCRIPTION_ID, id.as_json().to_owned());
    members.into_message(message.head().clone())
}

const UPDATED: &str = "notifications/resources/updated";

fn notification(method: &str, uri: Option<&str>, id: &Id) -> Message {
    let mut members = Members::default();
    members.set("jsonrpc", r#""2.0""#);
    members.set("method", Value::from(method).to_string());
    let params = members.object("params");
    if let Some(uri) = uri {
        params.set("uri", Value::from(uri).to_string());
    }
    params.object("_meta").set(SUBSCRIPTION_ID, id.as_json().to_owned());
    members.into_message(Head::Notification { method: method.into() })
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
        let missed = promise.unwrap().missed(&Id::from_json("\"listen:0\"").unwrap());
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
        let missed = promise.missed(&Id::from_json("12345678901234567890").unwrap());
        assert!(missed[0].bytes().ends_with(br#"subscriptionId":12345678901234567890}}}"#));
    }

    #[test]
    fn an_acknowledgement_that_says_nothing_promises_nothing() {
        let bare = message(&format!(r#"{{"jsonrpc":"2.0","method":"{ACKNOWLEDGED}"}}"#));
        assert_eq!(Promise::of(&bare), Some(Promise::default()));
        assert!(Promise::default().missed(&Id::from_json("1").unwrap()).is_empty());
        let other = message(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
        assert_eq!(Promise::of(&other), None);
    }
}
