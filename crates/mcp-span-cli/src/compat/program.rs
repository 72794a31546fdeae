//! Finds the name of another bridge that was left in a command line, with what ran it there.

use std::ffi::OsString;
use std::ops::Range;

use super::super::report::Usage;
use super::super::target::is_url;
use super::flags::{Meaning, Program, is_runner, program};
use super::words::{Flags, Item};

/// A bridge, and which words to leave out with its name.
pub(super) struct Named {
    pub(super) program: Program,
    pub(super) words: Range<usize>,
}

/// Looks before the URL, between and behind flags. `words` begin behind the name of the command.
pub(super) fn find(
    flags: &Flags<'_>,
    words: &[OsString],
    is_name: impl Fn(&str) -> bool,
) -> Result<Option<Named>, Usage> {
    let mut before_url = flags.words_before_url();
    let typed: Vec<OsString> = words.to_vec();
    let mut rest = typed.into_iter();
    loop {
        let (start, ahead) = (words.len() - rest.len(), rest.as_slice());
        // A server may have such a name, too, and is meant where nothing else says which one is (C36).
        let is_server = ahead.first().is_some_and(|word| is_name(text(word)));
        if is_server && !ahead.iter().any(|word| is_url(text(word))) {
            return Ok(None);
        }
        if let Some((program, length)) = run(ahead)? {
            return Ok(Some(Named { program, words: start..start + length }));
        }
        let Some(word) = rest.next() else { return Ok(None) };
        match flags.item(word, &mut rest) {
            Ok(Item::Theirs(_, Meaning::Url(_), _)) => return Ok(None),
            Ok(Item::Ours(..) | Item::Theirs(..)) => {}
            Ok(Item::Word(_)) if before_url > 0 => before_url -= 1,
            // What it is will be said where the line is parsed.
            Ok(Item::Word(_) | Item::Unknown(_)) | Err(_) => return Ok(None),
        }
    }
}

/// What to say of a word behind the URL; nothing if nobody knows what it was meant to be.
pub(super) fn misplaced(word: &OsString) -> Option<Usage> {
    let word = text(word);
    if program(word).is_some() {
        let name = word.split(['@', '=']).next().unwrap_or_default();
        return Some(Usage::new(format!(
            "'{name}' stands behind the URL: leave the name of the other bridge out, or write it \
             before the URL"
        )));
    }
    let is_number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| {
        Usage::new("a number behind the URL is the port of a login, and a port is 1 to 65535")
    })
}

/// The program at the beginning of `words`, and how many of them run it.
fn run(words: &[OsString]) -> Result<Option<(Program, usize)>, Usage> {
    let mut length = 0;
    while let Some(word) = words.get(length).map(text) {
        let next = words.get(length + 1).map(text).unwrap_or_default();
        length += match word {
            word if is_runner(word) => 1,
            // npx takes a program of another name out of the package.
            "-p" | "--package" if program(next).is_some() => 2,
            word if word.strip_prefix("--package=").and_then(program).is_some() => 1,
            "mcp-remote-client" => return Err(no_client()),
            word => return Ok(program(word).map(|program| (program, length + 1))),
        };
    }
    Ok(None)
}

fn no_client() -> Usage {
    Usage::new(
        "mcp-remote-client, the client mode of mcp-remote, has no counterpart here: 'mcp-span tools \
         URL' lists the tools of a server, and 'mcp-span call URL TOOL' calls one",
    )
}

fn text(word: &OsString) -> &str {
    word.to_str().unwrap_or_default()
}
