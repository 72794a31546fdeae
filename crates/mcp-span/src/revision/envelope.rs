//! Recognises the envelope that a modern request carries in `params._meta`.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::translate::PROTOCOL_VERSION;
use crate::message::method::Subject;
use crate::message::{Json, Message};

/// What the HTTP headers of a modern request repeat from its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The revision that the request speaks.
    pub version: String,
    /// The tool, prompt, resource or task that it is about.
    pub name: Option<String>,
}

/// A part of the key that a modern request cannot be without. Not all of it: some write the slash
/// in it with a backslash.
static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("modelcontextprotocol"));

impl Envelope {
    /// The envelope of `message`, if it has one.
    ///
    /// Legacy messages cost a search for the key and nothing more.
    #[must_use]
    pub fn of(message: &Message) -> Option<Self> {
        let method = message.method()?;
        FINDER.find(message.bytes())?;
        let subject: &[&str] = match method.properties().subject {
            Some(Subject::Named(member)) => &["params", member],
            Some(Subject::Shown(_)) | None => &[],
        };
        let [version, name] = message.get_all([&["params", "_meta", PROTOCOL_VERSION], subject])?;
        // What is not a string is for the server to complain about.
        Some(Self { version: version?.to_text()?, name: name.and_then(Json::to_text) })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn envelope(method: &str, params: &str) -> Option<Envelope> {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        Envelope::of(&Message::parse(Bytes::from(text)).expect("a message"))
    }

    const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;

    #[test]
    fn the_version_and_the_name_are_read() {
        let found = envelope("tools/call", &format!(r#"{{"name":"a\"b",{META}}}"#)).unwrap();
        assert_eq!((found.version.as_str(), found.name.as_deref()), ("2026-07-28", Some("a\"b")));
        let found = envelope("resources/read", &format!(r#"{{"uri":"x://y",{META}}}"#)).unwrap();
        assert_eq!(found.name.as_deref(), Some("x://y"));
        let found = envelope("tasks/get", &format!(r#"{{"taskId":"t",{META}}}"#)).unwrap();
        assert_eq!(found.name.as_deref(), Some("t"));
        let found = envelope("tools/list", &format!(r#"{{"name":"x",{META}}}"#)).unwrap();
        assert_eq!(found.name, None);
    }

    #[test]
    fn odd_forms_are_envelopes_all_the_same() {
        let escaped = META.replace("modelcontextprotocol/", "modelcontextprotocol\\/");
        assert!(envelope("tools/call", &format!(r#"{{"name":"a",{escaped}}}"#)).is_some());
        let escaped = META.replace("2026", "2\\u003026");
        let found = envelope("tools/call", &format!(r#"{{"n\u0061me":"a",{escaped}}}"#)).unwrap();
        assert_eq!((found.version.as_str(), found.name.as_deref()), ("2026-07-28", Some("a")));
        for name in ["5", "null", "{}", r#""\ud800""#] {
            let found = envelope("tools/call", &format!(r#"{{"name":{name},{META}}}"#)).unwrap();
            assert_eq!(found.name, None, "{name}");
        }
    }

    #[test]
    fn nobody_is_told_of_one_tool_while_another_may_be_meant() {
        for names in [r#""name":"a","name":"b""#, r#""name":"a","n\u0061me":"b""#] {
            assert_eq!(envelope("tools/call", &format!("{{{names},{META}}}")), None, "{names}");
        }
        let params = format!(r#"{{"name":"a",{META}}}"#);
        for second in ["{}", r#"{"name":"b"}"#] {
            assert_eq!(envelope("tools/call", &format!(r#"{params},"params":{second}"#)), None);
            let twice = format!(r#"{{"name":"a",{META},"_meta":{second}}}"#);
            assert_eq!(envelope("tools/call", &twice), None);
        }
        let version = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
        let twice = format!(r#"{{"name":"a","_meta":{{{version},{version}}}}}"#);
        assert_eq!(envelope("tools/call", &twice), None);
    }

    #[test]
    fn the_key_elsewhere_makes_no_envelope() {
        let key = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
        assert_eq!(envelope("tools/call", &format!(r#"{{"arguments":{{{key}}}}}"#)), None);
        assert_eq!(
            envelope("tools/call", &format!(r#"{{"arguments":{{"_meta":{{{key}}}}}}}"#)),
            None
        );
        assert_eq!(envelope("tools/call", "{}"), None);
    }
}
