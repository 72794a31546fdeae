//! Single values of an entry: texts with their variables replaced, times, switches.

use std::time::Duration;

use super::document::{Member, Node, Value};
use super::expand::{Expanded, Lookup, expand};
use crate::limits;

/// A text; numbers and switches are taken as they are written, where a program would get a text.
pub(super) fn text(node: &Node, lookup: Lookup<'_>) -> Result<Expanded, String> {
    match &node.value {
        Value::Text(text) => expand(text, lookup),
        Value::Number(text) => Ok(Expanded { text: text.clone(), values: Vec::new() }),
        Value::Bool(flag) => Ok(Expanded { text: flag.to_string(), values: Vec::new() }),
        Value::Null | Value::List(_) | Value::Object(_) => Err("it must be a text".to_owned()),
    }
}

/// `true` or `false`, also out of a variable.
pub(super) fn switch(node: &Node, lookup: Lookup<'_>) -> Result<bool, String> {
    let wrong = || "it must be true or false".to_owned();
    match &node.value {
        Value::Bool(flag) => Ok(*flag),
        Value::Text(text) => match &*expand(text, lookup)?.text {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(wrong()),
        },
        _ => Err(wrong()),
    }
}

/// A time. A number is one of seconds, as with the flags, or of milliseconds, as other programs have
/// it, where it is too large for seconds; a text is always seconds.
pub(super) fn time(node: &Node, lookup: Lookup<'_>) -> Result<Duration, String> {
    let wrong = || "it must be a number of seconds, 0 for no limit".to_owned();
    let (number, least) = match &node.value {
        Value::Number(text) => (text.clone(), limits::CONFIG_MILLISECONDS_FROM),
        Value::Text(text) => (expand(text, lookup)?.text, f64::INFINITY),
        _ => return Err(wrong()),
    };
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    let seconds = if number >= least { number / 1000.0 } else { number };
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|time| *time <= limits::LONGEST_TIME)
        .ok_or_else(wrong)
}

/// Every element of a list, or every member of an object with its name; null is nothing.
pub(super) fn each(node: &Node) -> Option<Vec<(Option<&Member>, &Node)>> {
    let is_there = |node: &Node| !matches!(node.value, Value::Null);
    match &node.value {
        Value::List(nodes) => Some(nodes.iter().map(|node| (None, node)).collect()),
        Value::Object(members) => Some(
            members
                .iter()
                .filter(|member| is_there(&member.value))
                .map(|member| (Some(member), &member.value))
                .collect(),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(json: &str) -> Node {
        Node::read("f", json).unwrap()
    }

    #[test]
    fn numbers_from_a_thousand_up_are_milliseconds_and_texts_are_seconds() {
        let time = |json| time(&of(json), &|name| (name == "T").then(|| "7".to_owned()));
        assert_eq!(time("30"), Ok(Duration::from_secs(30)));
        assert_eq!(time("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(time("0"), Ok(Duration::ZERO));
        assert_eq!(time("999"), Ok(Duration::from_secs(999)));
        assert_eq!(time("1000"), Ok(Duration::from_secs(1)));
        assert_eq!(time("30000"), Ok(Duration::from_secs(30)));
        assert_eq!(time("\"1800\""), Ok(Duration::from_secs(1800)));
        assert_eq!(time("\"${T}\""), Ok(Duration::from_secs(7)));
        for json in ["-1", "\"x\"", "\"\"", "true", "[1]", "1e300", "\"NaN\"", "\"1e9\""] {
            assert!(time(json).is_err(), "{json}");
        }
    }

    #[test]
    fn switches_are_true_or_false() {
        let switch = |json| switch(&of(json), &|_| Some("true".to_owned()));
        assert_eq!(switch("true"), Ok(true));
        assert_eq!(switch("\"false\""), Ok(false));
        assert_eq!(switch("\"${X}\""), Ok(true));
        assert!(switch("1").is_err() && switch("\"yes\"").is_err());
    }
}
