//! `mcp-span uninstall`: removes a server from a client.

use std::process::ExitCode;

use clap::Args;
use url::Url;

use super::super::Failure;
use super::super::compat;
use super::super::report::Usage;
use super::files::{Change, ClientFile};
use super::outcome::{Action, Outcome};
use super::server::ServerEntry;
use super::{ClientArgs, unreadable, verify};

#[derive(Args)]
pub(crate) struct Uninstall {
    #[command(flatten)]
    place: ClientArgs,

    /// Name or URL of the server [default: the only one that runs mcp-span]
    target: Option<String>,

    /// Name of the server
    #[arg(long, conflicts_with = "target")]
    name: Option<String>,
}

/// Removes the server, and leaves everything around it as it was.
pub(crate) fn run(typed: &Uninstall) -> Result<ExitCode, Failure> {
    let place = &typed.place;
    let file = ClientFile::at(place.file()?, place.scope)?;
    let format = place.client.format;
    let _lock = file.lock()?;
    let ((name, after), backup) = file.edit(|before| {
        let Some(before) = before else {
            let path = file.path.display();
            return Err(Usage::new(format!("nothing to remove: {path} does not exist")).into());
        };
        let entries = format.list(before).map_err(|error| unreadable(&file, &error))?;
        let entry = choose(&entries, typed, &file)?;
        if !entry.is_ours() && !place.force {
            return Err(not_ours(&file, entry).into());
        }
        let name = &entry.name;
        let after = format.remove(before, name, &file.earlier());
        let after = after.map_err(|error| unreadable(&file, &error))?;
        verify(format, &after, |left| {
            left.len() + 1 == entries.len() && !left.iter().any(|entry| entry.name == *name)
        })?;
        // A backup would keep the secrets of our own entry, which can be installed again; another
        // program's entry cannot.
        let is_backed_up = !entry.is_ours();
        Ok(Change { after: Some(after.clone()), is_backed_up, result: (name.clone(), after) })
    })?;
    let mut outcome = Outcome {
        action: Action::Removed,
        place,
        file: &file.path,
        name: &name,
        server: None,
        backup,
        warnings: Vec::new(),
    };
    if outcome.backup.is_none() {
        // Backups that hold the entry, perhaps with a secret, or no more than the file.
        let is_it = |entry: &ServerEntry| entry.name == name && entry.is_ours();
        let holds_it = |text: &str| format.list(text).is_ok_and(|all| all.iter().any(is_it));
        let kept = file.delete_backups(|text| text == after || holds_it(text));
        outcome.warnings.extend(kept.iter().map(|(path, error)| {
            format!("cannot delete the backup {}, which may hold a secret: {error}", path.display())
        }));
    }
    outcome.print()
}

/// The entry that is meant.
fn choose<'a>(
    entries: &'a [ServerEntry],
    typed: &Uninstall,
    file: &ClientFile,
) -> Result<&'a ServerEntry, Usage> {
    let is_meant = |entry: &&ServerEntry| match (&typed.name, &typed.target) {
        (Some(name), _) => entry.name == *name,
        // The name of one entry may be where another leads to.
        (None, Some(target)) => {
            entry.name == *target || (entry.is_ours() && connects_to(entry, target))
        }
        (None, None) => entry.is_ours(),
    };
    let found: Vec<_> = entries.iter().filter(is_meant).collect();
    let ours: Vec<_> = entries.iter().filter(|entry| entry.is_ours()).collect();
    let path = file.path.display();
    let (sentence, choice) = match found.as_slice() {
        [one] => return Ok(one),
        [] if typed.name.is_none() && typed.target.is_none() => {
            (format!("no server in {path} runs mcp-span"), ours)
        }
        [] => (format!("no server in {path} has that name or URL"), ours),
        _ => (format!("several servers in {path} match"), found),
    };
    let names: Vec<_> = choice.iter().map(|entry| entry.name.as_str()).collect();
    if names.is_empty() {
        return Err(Usage::new(sentence));
    }
    Err(Usage::new(format!("{sentence}. Choose one with --name: {}", names.join(", "))))
}

/// Whether the entry is about the server `target`. URLs can be written in several ways.
fn connects_to(entry: &ServerEntry, target: &str) -> bool {
    let same = |word: &str| {
        word == target || matches!((Url::parse(word), Url::parse(target)), (Ok(a), Ok(b)) if a == b)
    };
    let word = entry.server.as_ref().and_then(|server| compat::server_of(&server.args));
    word.is_some_and(|word| same(&word))
}

fn not_ours(file: &ClientFile, entry: &ServerEntry) -> Usage {
    let (path, ServerEntry { name, line, .. }) = (file.path.display(), entry);
    Usage::new(format!(
        "{path}:{line}: '{name}' does not run mcp-span. Remove it anyway with --force"
    ))
}
