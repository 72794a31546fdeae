//! Variables in texts: `${VAR}`, `${VAR:-default}`, and VS Code's `${env:VAR}`.

use crate::limits;

/// Where variables come from.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A text with its variables replaced.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Expanded {
    /// The text.
    pub text: String,
    /// The variables that were put in, with their values, which may be secrets.
    pub values: Vec<(String, String)>,
}

/// Replaces the variables in `text` by what `lookup` gives. What only looks like one, such as
/// `${X%%.*}` in a script, stays as it is.
///
/// # Errors
///
/// A message that names the variable which is not set, or which nobody but an editor knows.
pub fn expand(text: &str, lookup: Lookup<'_>) -> Result<Expanded, String> {
    let mut expanded = Expanded::default();
    put(text, lookup, limits::VARIABLES_DEEPEST, &mut expanded)?;
    Ok(expanded)
}

fn put(text: &str, lookup: Lookup<'_>, depth: usize, into: &mut Expanded) -> Result<(), String> {
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let Some(length) = length(&rest[start..]) else { break };
        let (whole, behind) = rest[start..].split_at(length);
        into.text.push_str(&rest[..start]);
        match Reference::of(whole)? {
            None => into.text.push_str(whole),
            Some(reference) => reference.put(whole, lookup, depth, into)?,
        }
        rest = behind;
    }
    into.text.push_str(rest);
    Ok(())
}

/// How long the reference is that `text` begins with; those in its default are part of it.
fn length(text: &str) -> Option<usize> {
    let mut open = 0;
    for (at, letter) in text.char_indices() {
        match letter {
            '{' if text[..at].ends_with('$') => open += 1,
            '}' if open == 1 => return Some(at + 1),
            '}' => open -= 1,
            _ => {}
        }
    }
    None
}

struct Reference<'a> {
    name: &'a str,
    default: Option<&'a str>,
}

impl<'a> Reference<'a> {
    fn of(whole: &'a str) -> Result<Option<Self>, String> {
        let inner = whole.strip_prefix("${").and_then(|text| text.strip_suffix('}'));
        let Some(inner) = inner else { return Ok(None) };
        let (name, default) = match inner.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inner, None),
        };
        match name.split_once(':') {
            Some(("env", name)) if is_name(name) => return Ok(Some(Self { name, default })),
            Some(("input" | "command" | "config", _)) => {
                return Err(format!(
                    "'{whole}' is known to the editor alone: put the value into a variable of the environment, and write ${{NAME}}"
                ));
            }
            _ => {}
        }
        if matches!(name, "workspaceFolder" | "workspaceFolderBasename" | "workspaceRoot") {
            return Err(format!("'{whole}' is known to the editor alone: write the folder's path"));
        }
        Ok(is_name(name).then_some(Self { name, default }))
    }

    fn put(
        &self,
        whole: &str,
        lookup: Lookup<'_>,
        depth: usize,
        into: &mut Expanded,
    ) -> Result<(), String> {
        let value = match self.name {
            "userHome" => lookup("HOME").or_else(|| lookup("USERPROFILE")),
            name => lookup(name),
        };
        match (value, self.default) {
            (Some(value), None) => into.add(self.name, value),
            (Some(value), Some(_)) if !value.is_empty() => into.add(self.name, value),
            (_, Some(default)) if depth > 0 => put(default, lookup, depth - 1, into)?,
            (_, Some(_)) => return Err("variables stand too deep in each other".to_owned()),
            (None, None) => {
                let name = self.name;
                return Err(format!("the environment variable '{name}' in {whole} is not set"));
            }
        }
        Ok(())
    }
}

impl Expanded {
    fn add(&mut self, name: &str, value: String) {
        self.text.push_str(&value);
        self.values.push((name.to_owned(), value));
    }
}

/// Names that variables can have; Windows has some with brackets.
fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '(' | ')' | '.' | '-'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lookup(name: &str) -> Option<String> {
        match name {
            "A" => Some("1".to_owned()),
            "EMPTY" => Some(String::new()),
            "HOME" => Some("/home/me".to_owned()),
            "ODD" => Some("${A}".to_owned()),
            _ => None,
        }
    }

    fn text(text: &str) -> String {
        expand(text, &lookup).unwrap().text
    }

    #[test]
    fn variables_are_replaced_and_the_rest_stays() {
        assert_eq!(text("Bearer ${A}-${env:A}$"), "Bearer 1-1$");
        assert_eq!(text("no $A here, ${ open"), "no $A here, ${ open");
        assert_eq!(text("${X%%.*} ${} ${1} ${@}"), "${X%%.*} ${} ${1} ${@}");
        assert_eq!(text("${userHome}/x"), "/home/me/x");
        assert_eq!(text("${EMPTY}|${ODD}"), "|${A}", "a value is not looked into");
        let values = expand("${A}${NO:-x}", &lookup).unwrap().values;
        assert_eq!(values, [("A".to_owned(), "1".to_owned())]);
    }

    #[test]
    fn a_default_stands_in_for_what_is_unset_or_empty() {
        assert_eq!(text("${A:-2}${NO:-2}${EMPTY:-2}${NO:-}"), "122");
        assert_eq!(text("${NO:-http://h:1/${A}}/x"), "http://h:1/1/x");
        assert_eq!(text("${env:NO:-d}"), "d");
    }

    #[test]
    fn what_cannot_be_known_is_named() {
        let wrong = |text| expand(text, &lookup).unwrap_err();
        assert!(wrong("x ${NOPE}").contains("'NOPE' in ${NOPE} is not set"));
        assert!(wrong("${input:tok}").contains("'${input:tok}' is known to the editor alone"));
        assert!(wrong("${workspaceFolder}/a").contains("path"));
        let deep = "${N:-".repeat(5000) + &"}".repeat(5000);
        assert!(wrong(&deep).contains("too deep"));
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in "([${}:\\-A]|env|input|ä|\\PC){0,20}") {
            let _ = expand(&text, &lookup);
            if !text.contains("${") {
                prop_assert_eq!(expand(&text, &lookup).unwrap().text, text);
            }
        }
    }
}
