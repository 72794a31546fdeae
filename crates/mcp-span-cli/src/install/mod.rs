//! `mcp-span install` and `uninstall`: servers in the configuration files of clients.
//!
//! What the client is to run (`command_line`, `executable`, `server_name`), where it is written
//! (`clients`), what becomes of the text (`edit` and below, pure), and of the file (`files`).

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::Failure;
use super::args::{Connect, Parsed};
use super::report::{self, Usage};

mod clients;
mod command_line;
mod edit;
mod executable;
mod files;
mod json;
mod json_layout;
mod outcome;
mod server;
mod server_name;
#[cfg(test)]
mod tests;
mod toml;
mod uninstall;

use clients::{Client, Scope};
use command_line::CommandLine;
use edit::{Format, SyntaxError};
use files::{Change, ClientFile};
use outcome::{Action, Outcome};
use server::{ServerEntry, StdioServer};
pub(super) use uninstall::{Uninstall, run as uninstall};

#[derive(Args)]
pub(super) struct Install {
    #[command(flatten)]
    place: ClientArgs,

    /// Name of the server in the client [default: derived from the URL]
    #[arg(long)]
    name: Option<String>,

    /// Set an environment variable for the server: NAME=VALUE, stored as it is
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,

    /// Print the entry without writing it
    #[arg(long)]
    print: bool,

    #[command(flatten)]
    pub(super) connect: Connect,
}

/// Which file is meant, and how it is dealt with.
#[derive(Args, Clone, Copy)]
struct ClientArgs {
    /// Client to configure
    client: Client,

    /// Which configuration of the client to edit
    #[arg(long, value_name = "SCOPE", default_value = "user")]
    scope: Scope,

    /// Replace a server that differs, or remove one that does not run mcp-span
    #[arg(long)]
    force: bool,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Adds a server to a client.
pub(super) fn run(
    parsed: &Parsed,
    typed: &Install,
    ignored: &[String],
) -> Result<ExitCode, Failure> {
    if typed.connect.options.oauth_client_secret.is_some() {
        let sentence = "the client secret would be written to the file. Pass it in a variable: \
                        --oauth-client-secret-env NAME and --env NAME=VALUE";
        return Err(Usage::new(sentence).into());
    }
    let place = &typed.place;
    let client = &place.client;
    let mut line = CommandLine::from_args(parsed, &typed.connect)?;
    let mut env = command_line::variables(&typed.env)?;
    line.warn_of_missing(&env, client.title);
    let secrets = line.secrets(&env);
    if client.expands_variables {
        line.move_headers(&mut env, client.title);
    }
    if !ignored.is_empty() {
        line.warnings.push(format!("left out what has no effect: {}", ignored.join(" ")));
    }
    let name = typed.name.clone().unwrap_or_else(|| line.name.clone());
    server_name::check(&name)?;
    let by_name = client.is_for_terminals || place.scope == Scope::Project;
    let server = StdioServer { command: executable::command(by_name)?, args: line.args(), env };
    let path = place.file()?;
    let shown = format!("{} {}", report::plain(&server.command), line.shown());
    let mut outcome = Outcome {
        action: Action::Printed,
        place,
        file: &path,
        name: &name,
        server: Some((shown, &server)),
        backup: None,
        warnings: line.warnings,
    };
    if !typed.print {
        let file = ClientFile::at(path.clone(), place.scope)?;
        if file.is_open_to_others() && !secrets.is_empty() {
            let (path, secrets) = (path.display(), secrets.join(", "));
            outcome.warnings.push(format!("other users can read {path}, which contains {secrets}"));
        }
        (outcome.action, outcome.backup) = write(&file, place, &name, &server)?;
    }
    outcome.print()
}

impl ClientArgs {
    /// The file that the client reads.
    fn file(&self) -> Result<PathBuf, Usage> {
        let lookup = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        match self.scope {
            Scope::User => self.client.user_file(std::env::consts::OS, lookup).ok_or_else(|| {
                Usage::new("no home directory: HOME is not set, or is not an absolute path")
            }),
            Scope::Project => {
                let here = std::env::current_dir()
                    .map_err(|error| Usage::new(format!("no current directory: {error}")))?;
                self.client.project_file(&here).ok_or_else(|| {
                    Usage::new(format!("{} has no project configuration", self.client.title))
                })
            }
        }
    }
}

/// Changes the file, and makes a backup where there was one.
fn write(
    file: &ClientFile,
    place: &ClientArgs,
    name: &str,
    server: &StdioServer,
) -> Result<(Action, Option<PathBuf>), Failure> {
    let format = place.client.format;
    file.make_folder()?;
    let _lock = file.lock()?;
    file.edit(|before| {
        let text = before.unwrap_or_default();
        let entries = format.list(text).map_err(|error| unreadable(file, &error))?;
        let action = match entries.iter().find(|entry| entry.name == name) {
            Some(entry) if entry.server.as_ref() == Some(server) => {
                return Ok(Change { after: None, is_backed_up: false, result: Action::Unchanged });
            }
            Some(entry) if !place.force => return Err(already_exists(file, place, entry).into()),
            Some(_) => Action::Replaced,
            None => Action::Installed,
        };
        let after = format.set(text, name, server).map_err(|error| unreadable(file, &error))?;
        verify(format, &after, |found| {
            found.iter().filter(|entry| entry.name == name).count() == 1
                && found.iter().any(|entry| entry.server.as_ref() == Some(server))
                && found.len() == entries.len() + usize::from(action == Action::Installed)
        })?;
        Ok(Change { after: Some(after), is_backed_up: true, result: action })
    })
}

/// Nothing is written that would not be read as what it is meant to be.
fn verify(
    format: Format,
    text: &str,
    is_right: impl FnOnce(&[ServerEntry]) -> bool,
) -> Result<(), Failure> {
    match format.list(text) {
        Ok(entries) if is_right(&entries) => Ok(()),
        _ => Err(Failure::Unexpected(std::io::Error::other(
            "the change would corrupt the file, which was not changed. Please report this",
        ))),
    }
}

fn unreadable(file: &ClientFile, error: &SyntaxError) -> Usage {
    let SyntaxError { line, column, what } = error;
    Usage::new(format!("{}:{line}:{column}: {what}", file.path.display()))
}

fn already_exists(file: &ClientFile, place: &ClientArgs, entry: &ServerEntry) -> Usage {
    let (path, title, ServerEntry { name, line, .. }) =
        (file.path.display(), place.client.title, entry);
    Usage::new(format!(
        "{path}:{line}: {title} has a different server '{name}' already. Replace it with --force, \
         or choose another name with --name"
    ))
}
