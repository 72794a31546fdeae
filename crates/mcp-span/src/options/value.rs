//! The values of options: how their texts are read, and how they are written.

use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use super::{LogFormat, LogLevel};
use crate::auth::oauth::{CallbackPorts, ClientAuthentication, Grant, TokenStore};
use crate::limits;
use crate::revision::translate::Protocol;
use crate::transport::http::Transport;

/// What sort of value an option has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// On or off.
    Switch,
    /// One text.
    One,
    /// One text that is the path of a file or directory.
    Path,
    /// Any number of texts.
    Many,
    /// Any number of paths.
    Paths,
}

impl ValueKind {
    /// Whether it can be given several times.
    #[must_use]
    pub fn is_many(self) -> bool {
        matches!(self, Self::Many | Self::Paths)
    }
}

/// A value as it was given: typed, in a variable, or in a file.
#[derive(Clone, Copy, Debug)]
pub enum Given<'a> {
    /// `true` or `false`.
    Switch(bool),
    /// A text, or a number as it is written.
    Text(&'a str),
    /// A list of texts.
    List(&'a [String]),
}

/// A type that an option can have.
pub trait Value {
    /// What sort of value it is.
    const KIND: ValueKind = ValueKind::One;
    /// The names of its values with their help, where there are only a few.
    const CHOICES: &'static [(&'static [&'static str], &'static str)] = &[];
    /// What would be typed for it.
    fn texts(&self) -> Vec<String>;
}

/// Exactly one value.
pub(super) fn one<T>(
    read: impl Fn(&str) -> Result<T, String>,
) -> impl Fn(Given<'_>) -> Result<T, String> {
    move |given| match given {
        Given::Text(text) => read(text),
        Given::Switch(_) | Given::List(_) => Err("it must be a text or a number".to_owned()),
    }
}

/// Any number of values.
pub(super) fn many<T>(
    read: impl Fn(&str) -> Result<T, String>,
) -> impl Fn(Given<'_>) -> Result<Vec<T>, String> {
    move |given| match given {
        Given::Text(text) => Ok(vec![read(text)?]),
        Given::List(texts) => texts.iter().map(|text| read(text)).collect(),
        Given::Switch(_) => Err("it must be a list of texts".to_owned()),
    }
}

/// The same with a value on each line of each text.
pub(super) fn lines<T>(
    read: impl Fn(&str) -> Result<T, String>,
) -> impl Fn(Given<'_>) -> Result<Vec<T>, String> {
    move |given| {
        let texts = many(|text| Ok(text.to_owned()))(given)?;
        let read_line = |line: &str| match texts.len() {
            // An empty text alone is a slip; an empty line among others is none.
            1 if texts[0].trim().is_empty() => read(line).map(Some),
            _ if line.trim().is_empty() => Ok(None),
            _ => read(line).map(Some),
        };
        let lines = texts.iter().flat_map(|text| text.split('\n'));
        lines.filter_map(|line| read_line(line).transpose()).collect()
    }
}

/// On or off.
pub(super) fn switch(given: Given<'_>) -> Result<bool, String> {
    match given {
        Given::Switch(is_on) => Ok(is_on),
        Given::Text("true") => Ok(true),
        Given::Text("false") => Ok(false),
        Given::Text(_) | Given::List(_) => Err("it must be true or false".to_owned()),
    }
}

#[expect(clippy::unnecessary_wraps, reason = "other values can be wrong")]
pub(super) fn text(text: &str) -> Result<String, String> {
    Ok(text.to_owned())
}

#[expect(clippy::unnecessary_wraps, reason = "other values can be wrong")]
pub(super) fn path(text: &str) -> Result<PathBuf, String> {
    Ok(text.into())
}

/// A time, from nothing up to the longest.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 =
        text.parse().map_err(|_| "it must be a number of seconds, such as 30 or 0.5".to_owned())?;
    Duration::try_from_secs_f64(number)
        .ok()
        .filter(|limit| *limit <= limits::LONGEST_TIME)
        .ok_or_else(|| "it must be a number of seconds from 0 up to a year".to_owned())
}

/// A time that is not nothing.
pub fn some_seconds(text: &str) -> Result<Duration, String> {
    match seconds(text)? {
        Duration::ZERO => Err("it must be more than 0 seconds".to_owned()),
        duration => Ok(duration),
    }
}

/// A number from 1 up.
pub(super) fn count(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "it must be a number from 1 up".to_owned())
}

/// A size; K, M and G count in 1024s.
pub(super) fn bytes(text: &str) -> Result<usize, String> {
    let wrong = || "it must be a number of bytes from 1 up, such as 1000000 or 64M".to_owned();
    let (digits, unit) = match text.trim_end_matches(['b', 'B', 'i']) {
        text if text.ends_with(['k', 'K']) => (&text[..text.len() - 1], 1 << 10),
        text if text.ends_with(['m', 'M']) => (&text[..text.len() - 1], 1 << 20),
        text if text.ends_with(['g', 'G']) => (&text[..text.len() - 1], 1 << 30),
        text => (text, 1),
    };
    let number: usize = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(unit).filter(|size| *size > 0).ok_or_else(wrong)
}

pub(super) fn trace_limit(text: &str) -> Result<usize, String> {
    let least = limits::TRACE_SIZE_LEAST;
    match bytes(text)? {
        size if size < least => Err(format!("it must be at least {}K", least / 1024)),
        size => Ok(size),
    }
}

/// A pattern for names of tools. An empty one would hide nothing, and is a slip: most often of a
/// shell whose variable is not set.
pub(super) fn tool_pattern(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("it must be the name of a tool, or a pattern such as 'delete*'".to_owned());
    }
    Ok(text.to_owned())
}

/// One port, or the first and the last of several.
pub(super) fn callback_ports(text: &str) -> Result<CallbackPorts, String> {
    let port = |text: &str| text.trim().parse::<u16>();
    let ports = match text.split_once('-') {
        None => port(text).map(|port| port..=port),
        Some((first, last)) => port(first).and_then(|first| Ok(first..=port(last)?)),
    };
    let is_such =
        |ports: &CallbackPorts| !ports.is_empty() && (*ports.start() > 0 || *ports.end() == 0);
    let wrong = || "it must be a port such as 9696, or several such as 9696-9703".to_owned();
    ports.ok().filter(is_such).ok_or_else(wrong)
}

/// What to say of a text that is no URL.
pub(super) const NO_URL: &str = "it is not a URL: write it like https://login.example.com";

/// A URL.
pub(super) fn address(text: &str) -> Result<Url, String> {
    Url::parse(text).map_err(|_| NO_URL.to_owned())
}

/// One of a few words, in small letters or large ones.
pub(super) fn choice<T: Choice>(text: &str) -> Result<T, String> {
    let known = T::CHOICES.iter().zip(T::ALL);
    let is_it = |names: &[&str]| names.iter().any(|name| name.eq_ignore_ascii_case(text));
    known.into_iter().find(|((names, _), _)| is_it(names)).map(|(_, value)| *value).ok_or_else(
        || {
            let names: Vec<&str> = T::CHOICES.iter().map(|(names, _)| names[0]).collect();
            let (last, others) = names.split_last().unwrap_or((&"", &[]));
            format!("it must be {} or {last}", others.join(", "))
        },
    )
}

/// A type with only a few values.
pub(super) trait Choice: Value + Copy + PartialEq + 'static {
    /// They, in the order of `CHOICES`.
    const ALL: &'static [Self];
}

/// Gives the values of an enum their names: the first is shown, all are understood.
macro_rules! choices {
    ($($type:ident { $($value:ident: $($name:literal)|+, $help:literal;)+ })+) => { $(
        impl Value for $type {
            const CHOICES: &'static [(&'static [&'static str], &'static str)] =
                &[$((&[$($name),+], $help)),+];

            fn texts(&self) -> Vec<String> {
                let names = Self::ALL.iter().zip(Self::CHOICES);
                let name = names.filter(|(value, _)| *value == self);
                name.map(|(_, (names, _))| names[0].to_owned()).collect()
            }
        }

        impl Choice for $type {
            const ALL: &'static [Self] = &[$(Self::$value),+];
        }
    )+ };
}

choices! {
    Transport {
        Auto: "auto" | "http-first" | "sse-first", "Streamable HTTP, or HTTP+SSE where the server refuses that";
        Http: "http" | "http-only" | "streamable-http" | "streamablehttp" | "streamable_http", "Streamable HTTP only";
        Sse: "sse" | "sse-only", "HTTP+SSE only, with its two endpoints";
    }
    Protocol {
        Auto: "auto", "Whatever the two speak, translated where they have nothing in common";
        Legacy: "legacy", "The server is only spoken to as in the revisions with sessions";
        Modern: "modern", "The client is offered the stateless revision, whatever the server speaks";
    }
    Grant {
        Code: "code" | "authorization-code" | "authorization_code", "A person logs in with a browser";
        DeviceCode: "device-code" | "device" | "device_code", "A person enters a code on any device";
        ClientCredentials: "client-credentials" | "client_credentials", "The client itself has a secret or a key";
    }
    TokenStore {
        File: "file", "Files that only their owner can read";
        Keychain: "keychain", "The keychain of the operating system, in builds that have it";
    }
    ClientAuthentication {
        Basic: "basic" | "header" | "client_secret_basic", "In the Authorization header";
        Post: "post" | "body" | "client_secret_post", "In the body";
    }
    LogLevel {
        Off: "off" | "none", "";
        Error: "error" | "critical", "";
        Warn: "warn" | "warning", "";
        Info: "info", "";
        Debug: "debug", "";
        Trace: "trace", "";
    }
    LogFormat {
        Text: "text", "";
        Json: "json", "";
    }
}

impl Value for bool {
    const KIND: ValueKind = ValueKind::Switch;

    fn texts(&self) -> Vec<String> {
        vec![self.to_string()]
    }
}

impl Value for Duration {
    fn texts(&self) -> Vec<String> {
        vec![self.as_secs_f64().to_string()]
    }
}

/// In the largest unit that fits.
impl Value for usize {
    fn texts(&self) -> Vec<String> {
        let units = [(1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
        let unit = units.into_iter().find(|(unit, _)| *self > 0 && self.is_multiple_of(*unit));
        let (unit, letter) = unit.unwrap_or((1, ""));
        vec![format!("{}{letter}", self / unit)]
    }
}

impl Value for CallbackPorts {
    fn texts(&self) -> Vec<String> {
        let (first, last) = (self.start(), self.end());
        vec![if first == last { first.to_string() } else { format!("{first}-{last}") }]
    }
}

impl Value for PathBuf {
    const KIND: ValueKind = ValueKind::Path;

    fn texts(&self) -> Vec<String> {
        vec![self.display().to_string()]
    }
}

impl Value for u32 {
    fn texts(&self) -> Vec<String> {
        vec![self.to_string()]
    }
}

impl Value for String {
    fn texts(&self) -> Vec<String> {
        vec![self.clone()]
    }
}

impl Value for Url {
    fn texts(&self) -> Vec<String> {
        vec![self.to_string()]
    }
}

impl<T: Value> Value for Vec<T> {
    const KIND: ValueKind =
        if matches!(T::KIND, ValueKind::Path) { ValueKind::Paths } else { ValueKind::Many };

    fn texts(&self) -> Vec<String> {
        self.iter().flat_map(Value::texts).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_read_and_nonsense_is_not() {
        assert_eq!(bytes("1000"), Ok(1000));
        assert_eq!(bytes("64M"), Ok(64 << 20));
        assert_eq!(bytes("1KiB"), Ok(1024));
        for text in ["", "0", "-1", "M", "1.5M", "99999999999G", "ü"] {
            assert!(bytes(text).is_err(), "{text}");
        }
        assert_eq!(seconds("0"), Ok(Duration::ZERO));
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for text in ["", "x", "-1", "NaN", "1e19", "1e400"] {
            assert!(seconds(text).is_err(), "{text}");
        }
        assert!(some_seconds("0").is_err());
    }

    #[test]
    fn ports_are_one_or_several() {
        assert_eq!(callback_ports("9696"), Ok(9696..=9696));
        assert_eq!(callback_ports("9696-9703"), Ok(9696..=9703));
        assert_eq!(callback_ports("0"), Ok(0..=0), "any");
        for wrong in ["", "x", "70000", "9-8", "0-9", "-9", "1-2-3"] {
            assert!(callback_ports(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_trace_has_a_smallest_limit() {
        assert_eq!(trace_limit(&limits::TRACE_SIZE.texts()[0]), Ok(limits::TRACE_SIZE));
        assert!(trace_limit("1K").is_err());
    }

    #[test]
    fn values_are_written_as_a_person_would() {
        assert_eq!(Duration::from_secs(10).texts(), ["10"]);
        assert_eq!(Duration::from_millis(500).texts(), ["0.5"]);
        for (size, text) in [(64 << 20, "64M"), (3 << 30, "3G"), (1537, "1537"), (8192, "8K")] {
            assert_eq!(usize::texts(&size), [text]);
            assert_eq!(bytes(text), Ok(size));
        }
    }

    #[test]
    fn words_are_found_by_any_of_their_names() {
        assert_eq!(choice("HTTP-only"), Ok(Transport::Http));
        assert_eq!(Transport::Http.texts(), ["http"]);
        assert_eq!(choice::<Protocol>("old").unwrap_err(), "it must be auto, legacy or modern");
    }

    #[test]
    fn a_list_may_have_one_value_a_line() {
        let read = lines(tool_pattern);
        assert_eq!(read(Given::Text("a\n\nb*\n")).unwrap(), ["a", "b*"]);
        assert!(read(Given::Text("")).is_err() && read(Given::Text(" ")).is_err());
        assert!(read(Given::Switch(true)).is_err());
    }
}
