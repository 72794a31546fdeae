//! `mcp-span install` and `uninstall`: entries in the configuration files of clients.
//!
//! What the entry holds (`request`, `program`, `naming`), where it goes (`clients`), what becomes of
//! the text (`edit` and below, pure), and of the file (`files`).

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::args::{Connect, Parsed};
use super::report::Usage;
use super::{Failure, report};
use mcp_span::limits::{EDIT_PAUSE, EDIT_TRIES};

mod clients;
mod edit;
mod entry;
mod files;
mod jsonc;
mod layout;
mod naming;
mod program;
mod request;
#[cfg(test)]
mod tests;
mod told;
mod toml;
mod uninstall;

use clients::{Client, Scope, System};
use edit::{Fault, Format};
use entry::{Entry, Listed};
use files::ClientFile;
use told::{Deed, Told};
pub(super) use uninstall::{Uninstall, run as uninstall};

#[derive(Args)]
pub(super) struct Install {
    #[command(flatten)]
    place: Place,

    /// The name of the entry; else one that is made of the URL
    #[arg(long)]
    name: Option<String>,

    /// Set this variable for the server: NAME=VALUE, written into the entry as it is
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,

    /// Only show the entry
    #[arg(long)]
    print: bool,

    #[command(flatten)]
    pub(super) connect: Connect,
}

/// Which file is meant, and how it is dealt with.
#[derive(Args, Clone, Copy)]
struct Place {
    /// The client
    client: Client,

    /// For whom the entry is
    #[arg(long, value_name = "SCOPE", default_value = "user")]
    scope: Scope,

    /// Replace or remove an entry that is not the same, or not of this program
    #[arg(long)]
    force: bool,

    /// Tell programs what was done
    #[arg(long)]
    json: bool,
}

/// Writes the entry.
pub(super) fn run(
    parsed: &Parsed,
    typed: &Install,
    ignored: &[String],
) -> Result<ExitCode, Failure> {
    let (command, matches) = match parsed.matches.subcommand() {
        Some((name, matches)) => (parsed.command.find_subcommand(name), matches),
        None => (None, &parsed.matches),
    };
    let options = &typed.connect.options;
    if options.oauth_client_secret.is_some() {
        let sentence = "a secret of a client would stand in the file: give it in a variable, with \
                        --oauth-client-secret-env NAME and --env NAME=VALUE";
        return Err(Usage::new(sentence).into());
    }
    let program = match typed.connect.entry {
        Some(_) => Vec::new(),
        None => request::program(options.command.as_deref().unwrap_or_default())?,
    };
    let target = request::target(&typed.connect, &program)?;
    let command = command.unwrap_or(&parsed.command);
    let mut words = request::words(command, matches, &target, &program)?;
    let mut env = request::variables(&typed.env)?;
    let known = typed.place.client.known();
    if known.expands_variables {
        words.move_headers(&mut env, known.title);
    }
    words.warn_of_variables(&env, known.title);
    if !ignored.is_empty() {
        let sentence = format!("accepted without any effect, and left out: {}", ignored.join(" "));
        words.warnings.push(sentence);
    }
    let name = typed.name.clone().unwrap_or(target.name);
    naming::check(&name)?;
    let by_name = known.is_for_terminals || typed.place.scope == Scope::Project;
    let entry =
        Entry { command: program::command(by_name)?, args: std::mem::take(&mut words.args), env };
    let path = typed.place.file()?;
    if typed.print {
        told::print(&typed.place, &path, &name, &entry, &words.warnings)?;
        return Ok(ExitCode::SUCCESS);
    }
    let file = ClientFile::at(path, typed.place.scope)?;
    if file.is_open_to_others() {
        words.warn_of_readers(&entry.env, &file.path);
    }
    let (deed, backup) = write(&file, &typed.place, &name, &entry)?;
    let line = format!("{} {}", report::plain(&entry.command), words.shown.join(" "));
    let warnings = words.warnings;
    let place = &typed.place;
    Told { deed, place, file: &file.path, name: &name, backup, line, warnings }.tell()?;
    Ok(ExitCode::SUCCESS)
}

impl Place {
    /// The file that the client reads.
    fn file(&self) -> Result<PathBuf, Usage> {
        let known = self.client.known();
        let lookup = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let title = known.title;
        match self.scope {
            Scope::User => known.user_file(System::this(), lookup).ok_or_else(|| {
                Usage::new("it is not known where your home directory is: HOME is not set, or no full path")
            }),
            Scope::Project => {
                let here = std::env::current_dir()
                    .map_err(|error| Usage::new(format!("the current directory: {error}")))?;
                known.project_file(&here).ok_or_else(|| {
                    Usage::new(format!("no file of a project's is known that {title} reads"))
                })
            }
        }
    }
}

/// Changes the file, and makes a backup where there was one.
fn write(
    file: &ClientFile,
    place: &Place,
    name: &str,
    entry: &Entry,
) -> Result<(Deed, Option<PathBuf>), Failure> {
    let format = place.client.known().format;
    file.make_folder()?;
    let _lock = file.lock()?;
    for _ in 0..EDIT_TRIES {
        let before = file.read()?;
        let text = before.as_deref().unwrap_or_default();
        let blamed = |fault: Fault| blame(file, &fault);
        let listed = format.list(text).map_err(blamed)?;
        let known = listed.iter().find(|listed| listed.name == name);
        let (deed, after) = match known {
            Some(known) if known.entry.as_ref() == Some(entry) => {
                return Ok((Deed::Unchanged, None));
            }
            Some(known) if !place.force => return Err(taken(file, known).into()),
            Some(_) => (Deed::Replaced, format.replace(text, name, entry).map_err(blamed)?),
            None => (Deed::Installed, format.insert(text, name, entry).map_err(blamed)?),
        };
        check(format, &after, |found| {
            found.iter().filter(|listed| listed.name == name).count() == 1
                && found.iter().any(|listed| listed.entry.as_ref() == Some(entry))
                && found.len() == listed.len() + usize::from(deed == Deed::Installed)
        })?;
        file.check_writable()?;
        let backup = before.as_deref().map(|text| file.back_up(text)).transpose()?;
        if file.write(before.as_deref(), &after)? {
            return Ok((deed, backup));
        }
        std::thread::sleep(EDIT_PAUSE);
    }
    Err(restless(file))
}

/// Nothing is written that would not be read as what it is meant to be.
fn check(
    format: Format,
    text: &str,
    is_right: impl FnOnce(&[Listed]) -> bool,
) -> Result<(), Failure> {
    match format.list(text) {
        Ok(listed) if is_right(&listed) => Ok(()),
        _ => Err(Failure::Unexpected(std::io::Error::other(
            "the change would damage the file, which is left alone; please report this",
        ))),
    }
}

fn blame(file: &ClientFile, fault: &Fault) -> Usage {
    let Fault { line, column, what } = fault;
    let path = file.path.display();
    Usage::new(format!("{path}, line {line}, column {column}: {what}; the file is left alone"))
}

fn taken(file: &ClientFile, known: &Listed) -> Usage {
    let Listed { name, line, .. } = known;
    let path = file.path.display();
    let what = if known.is_ours() { "another entry" } else { "an entry of another sort" };
    Usage::new(format!(
        "{path}, line {line}: there is {what} for '{name}': --force replaces it, and --name gives \
         the new one another name"
    ))
}

/// The client writes to its file again and again.
fn restless(file: &ClientFile) -> Failure {
    let sentence = format!("{} changes all the time: end the client first", file.path.display());
    Usage::new(sentence).into()
}
