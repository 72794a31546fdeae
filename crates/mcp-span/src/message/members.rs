//! Takes the objects of a message apart into members and puts them together again; what is not
//! changed stays the bytes that it was.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Serialize;

use super::scan::{Scanner, decoded, is_name, plain};
use super::{Head, Id, Message};

/// Most objects have no more members.
const USUAL: usize = 6;

/// The members of one object, in their order.
///
/// Values are the text that they were in the message. An object inside of it is taken apart only
/// when something in it is to change, so that a large payload is copied once: when the whole is
/// written. Names are kept as they are written between their quotes.
#[derive(Clone, Debug, Default)]
pub struct Members<'a>(Vec<(Cow<'a, str>, Value<'a>)>);

#[derive(Clone, Debug)]
struct Value<'a> {
    raw: Cow<'a, str>,
    /// What stands in its place once it was taken apart.
    parts: Option<Members<'a>>,
}

impl<'a> From<Cow<'a, str>> for Value<'a> {
    fn from(raw: Cow<'a, str>) -> Self {
        Self { raw, parts: None }
    }
}

impl<'a> Value<'a> {
    /// Its text, unless it was taken apart.
    fn text(&self) -> Option<&str> {
        self.parts.is_none().then_some(&*self.raw)
    }

    fn members(&mut self) -> &mut Members<'a> {
        let raw = std::mem::take(&mut self.raw);
        self.parts.get_or_insert_with(|| {
            let parts = match raw {
                Cow::Borrowed(raw) => Members::of(raw),
                Cow::Owned(raw) => Members::read(&raw, |part| Cow::Owned(part.to_owned())),
            };
            parts.unwrap_or_default()
        })
    }
}

impl<'a> Members<'a> {
    /// The members of the object that `json` is; `None` if it is none.
    #[must_use]
    pub fn of(json: &'a str) -> Option<Self> {
        Self::read(json, Cow::Borrowed)
    }

    /// The same, of which each part becomes what `keep` makes of it.
    fn read<'j>(json: &'j str, keep: impl Fn(&'j str) -> Cow<'a, str>) -> Option<Self> {
        let mut members = Vec::with_capacity(USUAL);
        Scanner::object(json, |name, raw| members.push((keep(name), keep(raw).into())))?;
        Some(Self(members))
    }

    /// The text of a member's value; of several with this name the last, as most readers see it.
    /// An object that was taken apart has none.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rfind(|(known, _)| is_name(known, name)).and_then(|(_, value)| value.text())
    }

    /// The decoded value of a member that is a string.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name).and_then(|raw| serde_json::from_str(raw).ok())
    }

    /// Whether there is a member with this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| is_name(known, name))
    }

    /// Whether there are no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names and texts of all members that were not taken apart.
    pub fn iter(&self) -> impl Iterator<Item = (Cow<'_, str>, &str)> {
        self.0.iter().filter_map(|(name, value)| Some((decoded(name)?, value.text()?)))
    }

    /// Gives a member another value, in its place; a new one comes last.
    pub fn set(&mut self, name: impl Into<Cow<'a, str>>, json: impl Into<Cow<'a, str>>) {
        let (name, json) = (name.into(), json.into());
        match self.0.iter_mut().rfind(|(known, _)| is_name(known, &name)) {
            Some((_, old)) => *old = json.into(),
            None => self.0.push((written(name), json.into())),
        }
    }

    /// The same with this value of a member, written as JSON.
    pub(crate) fn with(self, name: &'a str, value: impl Serialize) -> Self {
        self.with_some(name, Some(value))
    }

    /// The same, unless there is nothing to be said about it.
    pub(crate) fn with_some(mut self, name: &'a str, value: Option<impl Serialize>) -> Self {
        if let Some(json) = value.and_then(|value| serde_json::to_string(&value).ok()) {
            self.set(name, json);
        }
        self
    }

    /// Adds a member at the end unless there is one with this name.
    pub fn add(&mut self, name: impl Into<Cow<'a, str>>, json: impl Into<Cow<'a, str>>) {
        let name = name.into();
        if !self.has(&name) {
            self.0.push((written(name), json.into().into()));
        }
    }

    /// Takes out all members with this name, and gives back the text of the last.
    pub fn remove(&mut self, name: &str) -> Option<Cow<'a, str>> {
        let mut removed = None;
        self.0.retain_mut(|(known, value)| {
            let stays = !is_name(known, name);
            if !stays && value.parts.is_none() {
                removed = Some(std::mem::take(&mut value.raw));
            }
            stays
        });
        removed
    }

    /// The object that a member is, to be changed; an empty one where there is none.
    pub fn object(&mut self, name: &'a str) -> &mut Self {
        let at = self.0.iter().rposition(|(known, _)| is_name(known, name)).unwrap_or_else(|| {
            self.0.push((written(name.into()), Cow::Borrowed("{}").into()));
            self.0.len() - 1
        });
        self.0[at].1.members()
    }

    /// Takes an object out that was taken apart, if nothing is left in it.
    pub fn drop_if_empty(&mut self, name: &str) {
        let is_empty = |value: &Value<'_>| value.parts.as_ref().is_some_and(Members::is_empty);
        self.0.retain(|(known, value)| !is_name(known, name) || !is_empty(value));
    }

    /// The JSON text.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut json = String::with_capacity(self.size());
        self.write(&mut json);
        json
    }

    /// The message that these members are, under the id of `head`, which else says the same as they
    /// do.
    #[must_use]
    pub fn into_message(mut self, head: Head) -> Message {
        if let Some(id) = head.id() {
            self.set("id", id.as_json().to_owned());
        }
        Message::new(Bytes::from(self.to_json()), head)
    }

    fn size(&self) -> usize {
        let member = |(name, value): &(Cow<'_, str>, Value<'_>)| {
            let value = value.parts.as_ref().map_or(value.raw.len(), Members::size);
            name.len() + value + 4
        };
        self.0.iter().map(member).sum::<usize>() + 2
    }

    fn write(&self, json: &mut String) {
        json.push('{');
        for (at, (name, value)) in self.0.iter().enumerate() {
            if at > 0 {
                json.push(',');
            }
            json.push('"');
            json.push_str(name);
            json.push_str("\":");
            match &value.parts {
                Some(members) => members.write(json),
                None => json.push_str(&value.raw),
            }
        }
        json.push('}');
    }
}

impl Message {
    /// The members of the whole message.
    #[must_use]
    pub fn members(&self) -> Members<'_> {
        self.json().and_then(|json| Members::of(json.as_str())).unwrap_or_default()
    }

    /// The same message with other members; `change` leaves those of the head alone.
    #[must_use]
    pub fn edited<'a>(&'a self, change: impl FnOnce(&mut Members<'a>)) -> Self {
        let mut members = self.members();
        change(&mut members);
        members.into_message(self.head().clone())
    }

    /// The same under another id.
    #[must_use]
    pub fn edited_with_id<'a>(&'a self, id: &Id, change: impl FnOnce(&mut Members<'a>)) -> Self {
        let mut members = self.members();
        change(&mut members);
        members.into_message(self.head().clone().with_id(id))
    }
}

/// A name as it is written between its quotes.
fn written(name: Cow<'_, str>) -> Cow<'_, str> {
    if plain(name.as_bytes()) == name.len() {
        return name;
    }
    let json = serde_json::Value::from(name).to_string();
    Cow::Owned(json[1..json.len() - 1].to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_not_touched_keeps_its_text() {
        let text =
            r#"{ "a" : 12345678901234567890.0 , "b":{"x" : [1, 2 ], "y":"\u00e4\/"},"c":1e400}"#;
        let mut members = Members::of(text).unwrap();
        assert_eq!(members.get("a"), Some("12345678901234567890.0"));
        members.object("b").set("z", "true");
        members.set("d", "null");
        assert_eq!(
            members.to_json(),
            r#"{"a":12345678901234567890.0,"b":{"x":[1, 2 ],"y":"\u00e4\/","z":true},"c":1e400,"d":null}"#
        );
    }

    #[test]
    fn members_are_replaced_in_place_added_and_taken_out() {
        let mut members = Members::of(r#"{"a":1,"b":2,"a":3}"#).unwrap();
        assert_eq!(members.get("a"), Some("3"), "the last counts");
        members.set("a", "4");
        members.add("b", "9");
        assert_eq!(members.to_json(), r#"{"a":1,"b":2,"a":4}"#);
        assert_eq!(members.remove("a").as_deref(), Some("4"));
        assert_eq!(members.remove("a"), None);
        assert_eq!(members.to_json(), r#"{"b":2}"#);
    }

    #[test]
    fn objects_appear_where_there_are_none_and_go_when_they_are_empty() {
        let mut members = Members::of(r#"{"p":5}"#).unwrap();
        members.object("p").object("_meta").set("k", "1");
        assert_eq!(members.to_json(), r#"{"p":{"_meta":{"k":1}}}"#);
        members.object("p").object("_meta").remove("k");
        members.object("p").drop_if_empty("_meta");
        members.drop_if_empty("p");
        assert_eq!(members.to_json(), "{}");
        let mut members = Members::default();
        members.set("made", r#"{"x":1}"#.to_owned());
        members.object("made").set("y", "2");
        assert_eq!(members.to_json(), r#"{"made":{"x":1,"y":2}}"#);
    }

    #[test]
    fn odd_names_are_written_as_strings() {
        let text = r#"{"a\"\n\u00e4":1,"a\/b":2,"\ud800":3}"#;
        let mut members = Members::of(text).unwrap();
        assert!(members.has("a\"\nä") && members.has("a/b"));
        assert_eq!(members.to_json(), text, "as they were written");
        members.set("q\"", "4");
        assert_eq!(members.to_json(), text.replace('}', r#","q\"":4}"#));
    }

    #[test]
    fn what_is_no_object_has_no_members() {
        for text in ["[1]", "{", "{}x", "{\"a\":1,}", "{\"a\" 1}", "{\"a\":}", "{a:1}", "1", ""] {
            assert!(Members::of(text).is_none(), "{text}");
        }
        for text in ["{}", " { } ", "{ \"a\" : {} , \"b\":[ ] }\n"] {
            assert!(Members::of(text).is_some(), "{text}");
        }
    }

    #[test]
    fn a_message_gets_another_id_and_says_so_in_its_head() {
        let text = r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{}}"#;
        let message = Message::parse(Bytes::from_static(text.as_bytes())).unwrap();
        let id = Id::from_json("7").unwrap();
        let edited = message.edited_with_id(&id, |_| {});
        assert_eq!(Message::parse(edited.bytes().clone()).as_ref(), Ok(&edited));
        assert_eq!(&edited.bytes()[..], br#"{"jsonrpc":"2.0","id":7,"method":"a","params":{}}"#);
    }

    proptest! {
        #[test]
        fn taking_apart_and_putting_together_keeps_every_value(
            values in proptest::collection::vec(("[a-c\"é]{0,3}", "(-?[1-9][0-9]{0,30}|\"[a-z\\\\u0041 ]{0,0}\"|\\[ [0-9] , null\\]|\\{ \"x\" :1\\})"), 0..8),
        ) {
            let mut text = String::from("{");
            for (at, (name, value)) in values.iter().enumerate() {
                let comma = if at > 0 { " , " } else { "" };
                text += &format!("{comma}{} : {value}", serde_json::Value::from(&**name));
            }
            text += "}";
            let members = Members::of(&text).unwrap();
            let json = members.to_json();
            let again = Members::of(&json).unwrap();
            let pairs = |m: &Members<'_>| m.iter().map(|(a, b)| (a.into_owned(), b.to_owned())).collect::<Vec<_>>();
            prop_assert_eq!(pairs(&members), pairs(&again));
            let written: Vec<String> = values.iter().map(|(_, v)| v.clone()).collect();
            let read: Vec<String> = again.iter().map(|(_, v)| v.to_owned()).collect();
            prop_assert_eq!(written, read);
        }
    }
}
