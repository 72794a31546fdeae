//! Fuzz target for messages: what is read quickly is what `serde_json` reads.

use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::scan::Scanner;
use super::{Head, Id, Malformed, Members, Message, Outliner, edit, parse_each, peek};
use crate::limits;

/// Heads and members agree with `serde_json` where both accept, and survive a round trip.
pub fn messages(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    for message in parse_each(bytes.clone()).flatten() {
        check_message(&message);
    }
    check_batch(&bytes);
    check_json(&bytes);
    check_cuts(&bytes);
    if let Ok(text) = str::from_utf8(data) {
        check_scanner(text);
        check_members(text);
    }
}

/// Bytes are either JSON for both, or for none.
fn check_json(bytes: &Bytes) {
    let is_json = serde_json::from_slice::<&RawValue>(bytes).is_ok();
    // White space of ASCII is more than JSON has; it is taken off all the same.
    let is_json = is_json || serde_json::from_slice::<&RawValue>(bytes.trim_ascii()).is_ok();
    let says = !matches!(Message::parse(bytes.clone()), Err(Malformed::NotJson(_)));
    assert_eq!(says, is_json);
}

fn check_message(message: &Message) {
    let bytes = message.bytes();
    assert_eq!(bytes.trim_ascii().len(), bytes.len(), "white space stays around a message");
    assert_eq!(Message::parse(bytes.clone()).as_ref(), Ok(message));
    // A tree cannot hold every message: half a surrogate pair, numbers that no float can be.
    let tree = serde_json::from_slice::<Map<String, Value>>(bytes).ok();
    if let Some(tree) = &tree {
        check_head(message, tree);
    }
    let id = Id::string("fuzz");
    let edited = edit::with_id(message, &id);
    assert_eq!(Message::parse(edited.bytes().clone()).as_ref(), Ok(&edited));
    if let (Some(mut tree), false) = (tree, matches!(message.head(), Head::Notification { .. })) {
        tree.insert("id".to_owned(), "fuzz".into());
        assert_eq!(serde_json::from_slice::<Map<String, Value>>(edited.bytes()).ok(), Some(tree));
    }
    let line = edit::one_line(bytes);
    assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
    assert_eq!(Message::parse(line).map(|line| line.head().clone()), Ok(message.head().clone()));
    look_at(message);
}

fn check_head(message: &Message, tree: &Map<String, Value>) {
    assert_eq!(tree.get("jsonrpc"), Some(&"2.0".into()));
    let method = message.method().map(|method| Value::from(method.name()));
    assert_eq!(tree.get("method"), method.as_ref());
    let id = message.id().and_then(|id| serde_json::from_str(id.as_json()).ok());
    assert_eq!(tree.get("id").filter(|id| !id.is_null()), id.as_ref());
    let is_there = |name: &str| tree.get(name).is_some_and(|value| !value.is_null());
    match message.head() {
        Head::Request { .. } | Head::Notification { .. } => {
            assert!(!is_there("result") && !is_there("error"));
        }
        Head::Response { is_error: true, .. } => assert!(!is_there("result")),
        Head::Response { is_error: false, .. } => assert!(!is_there("error")),
    }
}

/// Everything that looks inside of a message comes to an end.
fn look_at(message: &Message) {
    let _ = peek::cancelled_request(message);
    let _ = peek::subject(message);
    let _ = peek::progress_token(message);
    let _ = peek::requested_progress(message);
    let _ = peek::negotiated_version(message);
    let _ = peek::error_message(message);
    let _ = peek::error_code(message);
    let _ = peek::has_result_type(message);
    let _ = peek::supported_versions(message);
    if let Some(id) = message.id() {
        let canonical = id.canonical();
        assert_eq!(canonical.canonical(), canonical);
        assert!(id.resembles(&canonical) || id.as_json().len() > 16, "{id} and {canonical}");
    }
}

/// A batch has the elements that `serde_json` finds in it.
fn check_batch(bytes: &Bytes) {
    let Ok(elements) = serde_json::from_slice::<Vec<&RawValue>>(bytes) else { return };
    let batch = parse_each(bytes.clone());
    assert!(batch.is_batch());
    let one = |raw: &&RawValue| Message::parse(Bytes::copy_from_slice(raw.get().as_bytes()));
    let expected: Vec<_> = elements.iter().map(one).collect();
    assert_eq!(batch.collect::<Vec<_>>(), expected);
}

/// What the scanner takes for JSON is JSON.
fn check_scanner(text: &str) {
    let is_json = serde_json::from_str::<&RawValue>(text).is_ok();
    assert!(!Scanner::is_value(text) || is_json);
    let mut members = Vec::new();
    if Scanner::object(text, |name, raw| members.push((name, raw))).is_some() {
        assert!(is_json);
        for (name, raw) in members {
            assert!(serde_json::from_str::<&RawValue>(&format!("\"{name}\"")).is_ok(), "{name}");
            assert_eq!(serde_json::from_str::<&RawValue>(raw).ok().map(RawValue::get), Some(raw));
        }
    }
}

/// Members are put together to the object that they were.
fn check_members(text: &str) {
    let tree = serde_json::from_str::<Map<String, Value>>(text).ok();
    let Some(mut members) = Members::of(text) else { return assert_eq!(tree, None) };
    let json = members.to_json();
    let again = Members::of(&json).map(|members| members.to_json());
    assert_eq!(again.as_ref(), Some(&json));
    let Some(mut tree) = tree else { return };
    assert_eq!(serde_json::from_str(&json).ok().as_ref(), Some(&tree));
    for (name, value) in &tree {
        let found = members.get(name).and_then(|raw| serde_json::from_str::<Value>(raw).ok());
        assert_eq!(found.as_ref(), Some(value), "{name}");
    }
    members.remove("id");
    members.object("params").set("x", "1");
    members.set("\"", "2");
    let params = tree.get("params").and_then(Value::as_object).cloned();
    let mut params = params.unwrap_or_default();
    params.insert("x".to_owned(), 1.into());
    tree.remove("id");
    tree.insert("params".to_owned(), params.into());
    tree.insert("\"".to_owned(), 2.into());
    assert_eq!(serde_json::from_str(&members.to_json()).ok(), Some(tree));
}

/// An outline is the same wherever the message is cut, and that of its head.
fn check_cuts(bytes: &Bytes) {
    let outline = |size: usize| {
        let mut outliner = Outliner::default();
        bytes.chunks(size.max(1)).for_each(|piece| outliner.feed(piece));
        outliner.finish()
    };
    let whole = outline(bytes.len());
    assert_eq!(outline(1), whole);
    assert_eq!(outline(7), whole);
    let Ok(message) = Message::parse(bytes.clone()) else { return };
    let is_long = message.id().is_some_and(|id| id.as_json().len() > limits::ID_LENGTH);
    // Names with escapes are not found.
    if !is_long && !bytes.contains(&b'\\') {
        assert_eq!(whole.id.as_ref(), message.id());
        assert_eq!(whole.has_method, message.method().is_some());
    }
}
