//! Finds the name of another bridge that was left in a command line, with what ran it there.

use std::ops::Range;

use super::super::report::Usage;
use super::super::target::is_url;
use super::flags::{Meaning, Program, is_runner, program};
use super::words::Item;

/// The bridge, and the items that run it. It is looked for before the URL, between and behind flags.
pub(super) fn find(
    items: &[Item],
    is_name: impl Fn(&str) -> bool,
) -> Result<Option<(Program, Range<usize>)>, Usage> {
    for (at, item) in items.iter().enumerate() {
        let ahead = &items[at..];
        // A server may have such a name, too, and is meant where nothing else says which one is (C36).
        let has_url = |item: &Item| match item {
            Item::Theirs(_, meaning, _) => matches!(meaning, Meaning::Url(_)),
            other => is_url(other.text()),
        };
        if is_name(item.text()) && !ahead.iter().any(has_url) {
            return Ok(None);
        }
        if let Some((program, length)) = run(ahead)? {
            return Ok(Some((program, at..at + length)));
        }
        match item {
            Item::Theirs(_, Meaning::Url(_), _) => return Ok(None),
            Item::Ours(..) | Item::Theirs(..) => {}
            Item::Word(_) | Item::Unknown(_) | Item::Rest(_) => return Ok(None),
        }
    }
    Ok(None)
}

/// The program at the beginning of `items`, and how many of them run it.
fn run(items: &[Item]) -> Result<Option<(Program, usize)>, Usage> {
    let mut length = 0;
    while let Some(word) = items.get(length).map(Item::text) {
        let next = items.get(length + 1).map(Item::text).unwrap_or_default();
        length += match word {
            word if is_runner(word) => 1,
            // npx takes a program of another name out of the package.
            "-p" | "--package" if program(next).is_some() => 2,
            word if word.strip_prefix("--package=").and_then(program).is_some() => 1,
            "mcp-remote-client" => {
                return Err(Usage::new(
                    "mcp-remote-client, the client mode of mcp-remote, is not supported. Use \
                     'mcp-span tools URL' to list the tools of a server, and 'mcp-span call URL TOOL' \
                     to call one",
                ));
            }
            word => return Ok(program(word).map(|program| (program, length + 1))),
        };
    }
    Ok(None)
}

/// What to say of a word behind the URL; nothing if nobody knows what it was meant to be.
pub(super) fn misplaced(word: &str) -> Option<Usage> {
    if program(word).is_some() {
        let name = word.split(['@', '=']).next().unwrap_or_default();
        return Some(Usage::new(format!(
            "'{name}' stands behind the URL. Leave the name of the other bridge out, or write it \
             before the URL"
        )));
    }
    let is_number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| {
        Usage::new("a number behind the URL is the port of a login, and a port is 1 to 65535")
    })
}
