//! `mcp-span uninstall`: takes an entry out again.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use url::Url;

use super::super::Failure;
use super::super::args::whole;
use super::super::compat_flags::Meaning;
use super::super::compat_words::{Flags, Item};
use super::super::report::Usage;
use super::edit::Format;
use super::files::ClientFile;
use super::outcome::{Action, Outcome};
use super::server::{ServerEntry, StdioServer};
use super::{ClientArgs, check, keeps_changing, unreadable};
use mcp_span::limits::{EDIT_PAUSE, EDIT_TRIES};

#[derive(Args)]
pub(crate) struct Uninstall {
    #[command(flatten)]
    place: ClientArgs,

    /// The URL that the entry leads to, or its name; not needed where there is one entry of ours
    target: Option<String>,

    /// The name of the entry
    #[arg(long, conflicts_with = "target")]
    name: Option<String>,
}

/// Takes the entry out, and leaves everything around it as it was.
pub(crate) fn run(typed: &Uninstall) -> Result<ExitCode, Failure> {
    let place = &typed.place;
    let file = ClientFile::at(place.file()?, place.scope)?;
    let format = place.client.known().format;
    let _lock = file.lock()?;
    for _ in 0..EDIT_TRIES {
        let Some(before) = file.read()? else {
            let path = file.path.display();
            return Err(Usage::new(format!("there is no file {path}, and no entry in it")).into());
        };
        let listed = format.list(&before).map_err(|fault| unreadable(&file, &fault))?;
        let found = choose(&listed, typed, &file)?;
        if !found.is_ours() && !place.force {
            return Err(not_ours(&file, found).into());
        }
        let name = &found.name;
        let after = format.remove(&before, name, &file.earlier());
        let after = after.map_err(|fault| unreadable(&file, &fault))?;
        check(format, &after, |left| {
            left.len() + 1 == listed.len() && !left.iter().any(|listed| listed.name == *name)
        })?;
        file.check_writable()?;
        // A backup would keep the secrets of our entry, which can be installed again; another
        // program's entry cannot.
        let backup = (!found.is_ours()).then(|| file.back_up(&before)).transpose()?;
        if file.write(Some(&before), &after)? {
            let warnings =
                if found.is_ours() { scrub(&file, &after, format, name) } else { Vec::new() };
            let (action, line, file) = (Action::Removed, String::new(), file.path.as_path());
            Outcome { action, place, file, name, backup, line, warnings }.print()?;
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(EDIT_PAUSE);
    }
    Err(keeps_changing(&file))
}

/// Takes the entry out of the backups as well; warns of those where that cannot be done.
fn scrub(file: &ClientFile, now: &str, format: Format, name: &str) -> Vec<String> {
    let is_it = |listed: &ServerEntry| listed.name == name && listed.is_ours();
    let without = |text: &str| {
        let has_it = format.list(text).is_ok_and(|listed| listed.iter().any(is_it));
        has_it.then(|| format.remove(text, name, &[]).unwrap_or_default())
    };
    let left = file.scrub_backups(now, without);
    let warning = |path: &PathBuf| format!("{} still holds the entry: delete it", path.display());
    left.iter().map(warning).collect()
}

/// The entry that is meant.
fn choose<'a>(
    listed: &'a [ServerEntry],
    typed: &Uninstall,
    file: &ClientFile,
) -> Result<&'a ServerEntry, Usage> {
    let path = file.path.display();
    let named = |name: &str| listed.iter().find(|listed| listed.name == name);
    if let Some(name) = &typed.name {
        let none = || Usage::new(format!("{path} has no server '{name}'{}", ours(listed)));
        return named(name).ok_or_else(none);
    }
    let leads_there = |listed: &&ServerEntry| match &typed.target {
        Some(target) => listed.is_ours() && leads_to(listed, target),
        None => listed.is_ours(),
    };
    let found: Vec<_> = listed.iter().filter(leads_there).collect();
    let named = typed.target.as_deref().and_then(named);
    match (found.as_slice(), named) {
        // The name of one entry may be where another leads to.
        ([one], Some(named)) if one.name != named.name => Err(Usage::new(format!(
            "{path} has an entry of that name, and '{}', which leads there: say which with --name",
            one.name
        ))),
        ([one], _) => Ok(one),
        ([], Some(named)) => Ok(named),
        ([], None) if typed.target.is_some() => {
            Err(Usage::new(format!("{path} has no entry that leads there{}", ours(listed))))
        }
        ([], None) => Err(Usage::new(format!("{path} has no entry of mcp-span's"))),
        _ => Err(Usage::new(format!("{path} has several: say which with --name{}", ours(listed)))),
    }
}

/// Whether the entry is about the server `target`. URLs can be written in several ways.
fn leads_to(listed: &ServerEntry, target: &str) -> bool {
    let same = |word: &str| {
        word == target || matches!((Url::parse(word), Url::parse(target)), (Ok(a), Ok(b)) if a == b)
    };
    listed.server.as_ref().and_then(server).is_some_and(|word| same(&word))
}

/// The URL or the name that stands on the command line of an entry; a flag's value is neither.
fn server(entry: &StdioServer) -> Option<String> {
    let words = entry.args.iter().map(OsString::from).collect();
    let items = Flags::of(&whole()).items(words).ok()?;
    let words = items.into_iter().filter_map(|item| match item {
        Item::Word(word) => Some(word),
        Item::Theirs(_, Meaning::Url(_), values) => values.into_iter().next(),
        // Others have nothing but the URL behind `--`.
        Item::Unknown(words) => match <[_; 2]>::try_from(words) {
            Ok([dashes, word]) if dashes == "--" => Some(word),
            _ => None,
        },
        _ => None,
    });
    let mut words = words.filter_map(|word| word.into_string().ok()).peekable();
    words.next_if(|word| word == "connect");
    words.next()
}

/// A list of what could have been meant.
fn ours(listed: &[ServerEntry]) -> String {
    let names: Vec<_> =
        listed.iter().filter(|listed| listed.is_ours()).map(|one| one.name.as_str()).collect();
    match names.as_slice() {
        [] => String::new(),
        names => format!("; those of mcp-span's are {}", names.join(", ")),
    }
}

fn not_ours(file: &ClientFile, found: &ServerEntry) -> Usage {
    let ServerEntry { name, line, .. } = found;
    let path = file.path.display();
    Usage::new(format!(
        "{path}, line {line}: '{name}' does not start mcp-span; --force removes it all the same"
    ))
}
