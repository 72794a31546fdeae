//! Takes a command line apart into our own flags, those of other bridges, and the rest.

use std::collections::HashSet;
use std::ffi::OsString;

use clap::{Arg, Command};

use super::compat_flags::{KEEP_ALIVE, Meaning, meaning};
use super::report::Usage;

/// Arguments that belong together.
#[derive(PartialEq, Eq)]
pub(super) enum Item {
    /// A flag of ours, by its long name, as it was typed, with its value.
    Ours(String, Vec<OsString>),
    /// A flag of another bridge, as it was typed, and its values.
    Theirs(String, Meaning, Vec<OsString>),
    /// A word without a flag.
    Word(OsString),
    /// A flag that nobody knows, or all that follows `--`.
    Unknown(Vec<OsString>),
}

/// Whether a flag has a value behind it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Value {
    None,
    Maybe,
    Always,
}

/// The flags that a command of ours has. They are looked for when one is typed: most lines have none.
pub(super) struct Flags<'a>(&'a Command);

impl<'a> Flags<'a> {
    pub(super) fn of(command: &'a Command) -> Self {
        Self(command)
    }

    /// The long names of all.
    pub(super) fn names(&self) -> HashSet<String> {
        self.0.get_arguments().filter_map(Arg::get_long).map(str::to_owned).collect()
    }

    /// The long name of the flag that `is_it`, and whether it has a value.
    fn find(&self, is_it: impl Fn(&Arg) -> bool) -> Option<(String, Value)> {
        let arg = self.0.get_arguments().find(|arg| arg.get_long().is_some() && is_it(arg))?;
        Some((arg.get_long()?.to_owned(), value(arg)))
    }

    fn named(&self, name: &str) -> Option<(String, Value)> {
        let is_alias = |arg: &Arg| arg.get_all_aliases().is_some_and(|all| all.contains(&name));
        self.find(|arg| arg.get_long() == Some(name) || is_alias(arg))
    }

    fn lettered(&self, letter: char) -> Option<(String, Value)> {
        let is_alias =
            |arg: &Arg| arg.get_all_short_aliases().is_some_and(|all| all.contains(&letter));
        self.find(|arg| arg.get_short() == Some(letter) || is_alias(arg))
    }

    /// Takes the whole line apart.
    pub(super) fn items(&self, words: Vec<OsString>) -> Result<Vec<Item>, Usage> {
        let mut rest = words.into_iter();
        let mut items = Vec::new();
        while let Some(word) = rest.next() {
            items.push(self.item(word, &mut rest)?);
        }
        Ok(items)
    }

    /// Puts the name of a command in front of the flags that were typed before it: they are its own,
    /// and the name is not the name of a server (C36). `words` begin behind our program's name.
    pub(super) fn command_first(&self, words: &mut [OsString]) {
        let typed: Vec<OsString> = words.to_vec();
        let mut rest = typed.into_iter();
        while let Some(word) = rest.next() {
            match self.item(word, &mut rest) {
                Ok(Item::Theirs(_, Meaning::Url(_), _)) => return,
                Ok(Item::Ours(..) | Item::Theirs(..)) => {}
                Ok(Item::Word(word)) => {
                    let name = word.to_str().unwrap_or_default();
                    if name == "help" || self.0.find_subcommand(name).is_some() {
                        let behind = words.len() - rest.len();
                        words[..behind].rotate_right(1);
                    }
                    return;
                }
                // What it is will be said where the line is parsed.
                Ok(Item::Unknown(_)) | Err(_) => return,
            }
        }
    }

    /// How many words stand before the URL: `install` has the name of a client there.
    pub(super) fn words_before_url(&self) -> usize {
        let is_url = |arg: &Arg| arg.get_id() == "url";
        // An index is given by hand where the order of the definitions does not count.
        let by_hand = self.0.get_positionals().find(|arg| is_url(arg)).and_then(Arg::get_index);
        let defined = || self.0.get_positionals().take_while(|arg| !is_url(arg)).count();
        by_hand.map_or_else(defined, |index| index - 1)
    }

    /// Whether other servers may stand behind the URL.
    pub(super) fn takes_more_servers(&self) -> bool {
        self.0.get_positionals().any(|arg| arg.get_id() == "more")
    }

    /// What begins with `word`.
    pub(super) fn item(
        &self,
        word: OsString,
        rest: &mut std::vec::IntoIter<OsString>,
    ) -> Result<Item, Usage> {
        let text = word.to_str().unwrap_or_default();
        Ok(if text == "--" {
            Item::Unknown([word].into_iter().chain(rest).collect())
        } else if let Some(name) = text.strip_prefix("--") {
            let (name, glued) = match name.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(OsString::from(value))),
                None => (name.to_owned(), None),
            };
            self.long(word, &name, glued, rest)?
        } else if text.len() > 1 && text.starts_with('-') {
            self.short(word, rest)
        } else {
            Item::Word(word)
        })
    }

    fn long(
        &self,
        word: OsString,
        name: &str,
        glued: Option<OsString>,
        rest: &mut std::vec::IntoIter<OsString>,
    ) -> Result<Item, Usage> {
        if let Some((long, value)) = self.named(name) {
            if long == "keep-alive" && glued.is_none() && stands_alone(rest.as_slice().first()) {
                let meaning = Meaning::Fixed("keep-alive", KEEP_ALIVE);
                return Ok(Item::Theirs(format!("--{name}"), meaning, Vec::new()));
            }
            let value = if glued.is_some() { Value::None } else { value };
            return Ok(Item::Ours(long, with_value(word, value, rest)));
        }
        let Some(meaning) = meaning(name) else { return Ok(Item::Unknown(vec![word])) };
        let mut values: Vec<OsString> = glued.into_iter().collect();
        while values.len() < meaning.values() {
            let value = rest.next().filter(|value| !is_long(value));
            values.push(value.ok_or_else(|| {
                let what =
                    if meaning == Meaning::Header { "a name and a value" } else { "a value" };
                Usage::new(format!("--{name} needs {what} behind it"))
            })?);
        }
        if values.len() > meaning.values() {
            return Err(Usage::new(format!("--{name} is a switch and takes no value")));
        }
        Ok(Item::Theirs(format!("--{name}"), meaning, values))
    }

    /// One letter, or several in one: `-vH 'Name: value'`.
    fn short(&self, word: OsString, rest: &mut std::vec::IntoIter<OsString>) -> Item {
        if word == "-H"
            && let [name, value, ..] = rest.as_slice()
            && name.to_str().is_some_and(is_name)
            && !is_long(value)
        {
            return Item::Theirs("-H".to_owned(), Meaning::Header, rest.by_ref().take(2).collect());
        }
        let text = word.to_string_lossy().into_owned();
        for (at, letter) in text.char_indices().skip(1) {
            let Some((long, value)) = self.lettered(letter) else { break };
            let is_last = at + letter.len_utf8() == text.len();
            if is_last || value != Value::None {
                let value = if is_last { value } else { Value::None };
                return Item::Ours(long, with_value(word, value, rest));
            }
        }
        Item::Unknown(vec![word])
    }
}

fn value(arg: &Arg) -> Value {
    if !arg.get_action().takes_values() || arg.is_require_equals_set() {
        return Value::None;
    }
    match arg.get_num_args() {
        Some(range) if range.min_values() == 0 => Value::Maybe,
        _ => Value::Always,
    }
}

fn with_value(
    word: OsString,
    value: Value,
    rest: &mut std::vec::IntoIter<OsString>,
) -> Vec<OsString> {
    let is_next = match value {
        Value::None => false,
        Value::Maybe => rest.as_slice().first().is_some_and(|next| !starts_with(next, "-")),
        Value::Always => true,
    };
    [word].into_iter().chain(is_next.then(|| rest.next()).flatten()).collect()
}

/// Whether what comes next cannot be meant as a number of seconds: nothing, a flag, or a URL.
fn stands_alone(next: Option<&OsString>) -> bool {
    let Some(next) = next.map(|next| next.to_string_lossy()) else { return true };
    let is_flag = next.starts_with('-') && next.parse::<f64>().is_err();
    is_flag || next.contains([':', '/'])
}

/// A header's name alone. In `Name: value`, which is ours, there is a colon.
fn is_name(text: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    !text.is_empty() && !text.starts_with('-') && text.chars().all(is_letter)
}

fn is_long(word: &OsString) -> bool {
    starts_with(word, "--")
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
