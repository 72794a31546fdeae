//! Takes a command line apart into our own flags, those of other bridges, and the rest.

use std::borrow::Cow;
use std::ffi::OsString;
use std::vec;

use clap::{Arg, Command};

use super::super::report::Usage;
use super::flags::{KEEP_ALIVE, Meaning, meaning};

/// Arguments that belong together.
#[derive(PartialEq, Eq)]
pub(super) enum Item {
    /// A flag of ours, by its long name, as it was typed, with its value; or a word that is no server.
    Ours(String, Vec<OsString>),
    /// A flag of another bridge, as it was typed, and its values.
    Theirs(String, Meaning, Vec<OsString>),
    /// A word without a flag.
    Word(OsString),
    /// A flag that nobody knows.
    Unknown(OsString),
    /// All that follows `--`.
    Rest(Vec<OsString>),
}

impl Item {
    /// The word, or the unknown flag.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Word(word) | Self::Unknown(word) => word.to_str().unwrap_or_default(),
            _ => "",
        }
    }
}

/// The value of a flag of ours, behind it or glued to it.
pub(super) fn value(words: &[OsString]) -> Cow<'_, str> {
    match words {
        [_, value, ..] => value.to_string_lossy(),
        [flag] => match flag.to_string_lossy() {
            flag if flag.starts_with("--") => {
                flag.split_once('=').map_or_else(String::new, |(_, value)| value.to_owned()).into()
            }
            flag => flag.trim_start_matches('-').chars().skip(1).collect::<String>().into(),
        },
        [] => Cow::default(),
    }
}

/// Whether a flag has a value behind it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Value {
    None,
    Maybe,
    Always,
}

/// The items of a line. The flags of `command` are looked for when one is typed: most lines have none.
pub(super) struct Items<'a> {
    command: &'a Command,
    rest: vec::IntoIter<OsString>,
}

impl Iterator for Items<'_> {
    type Item = Result<Item, Usage>;

    fn next(&mut self) -> Option<Self::Item> {
        let word = self.rest.next()?;
        let text = word.to_str().unwrap_or_default();
        Some(if text == "--" {
            Ok(Item::Rest(self.rest.by_ref().collect()))
        } else if let Some(name) = text.strip_prefix("--") {
            let (name, glued) = match name.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(OsString::from(value))),
                None => (name.to_owned(), None),
            };
            self.long(word, &name, glued)
        } else if text.len() > 1 && text.starts_with('-') {
            Ok(self.short(word))
        } else {
            Ok(Item::Word(word))
        })
    }
}

impl<'a> Items<'a> {
    pub(super) fn new(command: &'a Command, words: Vec<OsString>) -> Self {
        Self { command, rest: words.into_iter() }
    }

    /// How many words were not looked at yet.
    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    /// The long name of the flag that `is_it`, and whether it has a value.
    fn flag(&self, is_it: impl Fn(&Arg) -> bool) -> Option<(String, Value)> {
        let arg =
            self.command.get_arguments().find(|arg| arg.get_long().is_some() && is_it(arg))?;
        let value = match arg.get_num_args() {
            _ if !arg.get_action().takes_values() || arg.is_require_equals_set() => Value::None,
            Some(range) if range.min_values() == 0 => Value::Maybe,
            _ => Value::Always,
        };
        Some((arg.get_long()?.to_owned(), value))
    }

    fn long(&mut self, word: OsString, name: &str, glued: Option<OsString>) -> Result<Item, Usage> {
        let is_alias = |arg: &Arg| arg.get_all_aliases().is_some_and(|all| all.contains(&name));
        if let Some((long, value)) = self.flag(|arg| arg.get_long() == Some(name) || is_alias(arg))
        {
            if long == "keep-alive" && glued.is_none() && stands_alone(self.peek()) {
                let meaning = Meaning::Fixed("keep-alive", KEEP_ALIVE);
                return Ok(Item::Theirs(format!("--{name}"), meaning, Vec::new()));
            }
            let value = if glued.is_some() { Value::None } else { value };
            return Ok(Item::Ours(long, self.with_value(word, value)));
        }
        let Some(meaning) = meaning(name) else { return Ok(Item::Unknown(word)) };
        let mut values: Vec<OsString> = glued.into_iter().collect();
        if values.len() > meaning.values() {
            return Err(Usage::new(format!("--{name} is a switch and takes no value")));
        }
        while values.len() < meaning.values() {
            let value = self.rest.next().filter(|value| !starts_with(value, "--"));
            values.push(value.ok_or_else(|| {
                let what =
                    if meaning == Meaning::Header { "a name and a value" } else { "a value" };
                Usage::new(format!("--{name} needs {what} behind it"))
            })?);
        }
        Ok(Item::Theirs(format!("--{name}"), meaning, values))
    }

    /// One letter, or several in one: `-vH 'Name: value'`.
    fn short(&mut self, word: OsString) -> Item {
        if word == "-H"
            && let [name, value, ..] = self.rest.as_slice()
            && name.to_str().is_some_and(is_header_name)
            && !starts_with(value, "--")
        {
            let values = self.rest.by_ref().take(2).collect();
            return Item::Theirs("-H".to_owned(), Meaning::Header, values);
        }
        let text = word.to_string_lossy().into_owned();
        for (at, letter) in text.char_indices().skip(1) {
            let is_alias =
                |arg: &Arg| arg.get_all_short_aliases().is_some_and(|all| all.contains(&letter));
            let found = self.flag(|arg| arg.get_short() == Some(letter) || is_alias(arg));
            let Some((long, value)) = found else { break };
            let is_last = at + letter.len_utf8() == text.len();
            if is_last || value != Value::None {
                let value = if is_last { value } else { Value::None };
                return Item::Ours(long, self.with_value(word, value));
            }
        }
        Item::Unknown(word)
    }

    fn peek(&self) -> Option<&OsString> {
        self.rest.as_slice().first()
    }

    fn with_value(&mut self, word: OsString, value: Value) -> Vec<OsString> {
        let is_next = match value {
            Value::None => false,
            Value::Maybe => self.peek().is_some_and(|next| !starts_with(next, "-")),
            Value::Always => true,
        };
        [word].into_iter().chain(self.rest.by_ref().take(usize::from(is_next))).collect()
    }
}

/// Whether what comes next cannot be meant as a number of seconds: nothing, a flag, or a URL.
fn stands_alone(next: Option<&OsString>) -> bool {
    let Some(next) = next.map(|next| next.to_string_lossy()) else { return true };
    let is_flag = next.starts_with('-') && next.parse::<f64>().is_err();
    is_flag || next.contains([':', '/'])
}

/// A header's name alone. In `Name: value`, which is ours, there is a colon.
fn is_header_name(text: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    !text.is_empty() && !text.starts_with('-') && text.chars().all(is_letter)
}

fn starts_with(word: &OsString, start: &str) -> bool {
    word.as_encoded_bytes().starts_with(start.as_bytes())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use proptest::prelude::*;

    use super::*;
    use crate::commands::Cli;
    use crate::compat::{Translated, translate};

    /// One flag of ours with a value that it may have, or a word without a flag.
    fn ours() -> impl Strategy<Value = Vec<String>> {
        let command = Cli::command();
        let args: Vec<_> = command.get_arguments().cloned().collect();
        let words = vec!["9696", "mcp-remote", "silent", "1", "a: b", "http://h/9", "X-A", "ü"];
        let pick = (prop::sample::select(args), prop::sample::select(words), any::<bool>());
        pick.prop_map(|(arg, word, is_glued)| {
            let Some(long) = arg.get_long() else { return vec!["http://host/mcp".to_owned()] };
            let takes_value = arg.get_action().takes_values();
            let word = if long == "keep-alive" { "5" } else { word };
            match arg.get_short() {
                _ if takes_value && arg.is_require_equals_set() => vec![format!("--{long}")],
                _ if is_glued && takes_value => vec![format!("--{long}={word}")],
                Some(short) if is_glued => vec![format!("-{short}")],
                Some(short) if takes_value => vec![format!("-{short}"), format!("A: {word}")],
                _ if takes_value => vec![format!("--{long}"), word.to_owned()],
                _ => vec![format!("--{long}")],
            }
        })
    }

    #[test]
    fn the_value_of_a_flag_is_found_in_every_form() {
        for words in
            [&["--header", "X-A: b"][..], &["--header=X-A: b"], &["-H", "X-A: b"], &["-HX-A: b"]]
        {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            assert_eq!(value(&words), "X-A: b");
        }
    }

    proptest! {
        #[test]
        fn a_line_of_our_own_flags_passes_unchanged(
            parts in prop::collection::vec(ours(), 0..8),
            subcommand in prop::sample::select(vec!["", "connect", "config"]),
        ) {
            let first = ["mcp-span", subcommand].into_iter().filter(|word| !word.is_empty());
            let words = first.map(str::to_owned).chain(parts.into_iter().flatten());
            let args: Vec<OsString> = words.map(OsString::from).collect();
            let translated = translate(args.clone(), &Cli::command(), |_| Some("x".to_owned()), |_| false).unwrap();
            prop_assert_eq!(translated, Translated { args, ..Translated::default() });
        }

        #[test]
        fn values_are_neither_ignored_by_name_nor_part_of_a_sentence(
            picks in prop::collection::vec(prop::sample::select(vec![
                "--host", "--silent", "--headers", "-H", "--keep-alive", "--ping-interval", "--sse",
                "--static-oauth-client-info", "--body-timeout", "-vH", "-", "--", "mcp-remote",
                "--oauth2Bearer", "--host=s3cret", "s3cret", "s3cret", "9", "-x", "--unknown=s3cret",
            ]), 0..8),
        ) {
            let args = picks.into_iter().map(OsString::from);
            let args = [OsString::from("mcp-span")].into_iter().chain(args).collect();
            match translate(args, &Cli::command(), |_| Some("x".to_owned()), |_| false) {
                Ok(done) => prop_assert!(!done.ignored.concat().contains("s3cret")),
                Err(usage) => prop_assert!(!usage.0.contains("s3cret")),
            }
        }
    }
}
