//! What people, or programs, are told of an installation.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::json;

use super::super::Failure;
use super::super::report::{self, plain};
use super::ClientArgs;
use super::clients::Client;
use super::edit::Format;
use super::server::StdioServer;

/// What was done.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Installed,
    Replaced,
    Unchanged,
    Removed,
}

/// All there is to tell.
pub(super) struct Outcome<'a> {
    pub(super) action: Action,
    pub(super) place: &'a ClientArgs,
    pub(super) file: &'a Path,
    pub(super) name: &'a str,
    pub(super) backup: Option<PathBuf>,
    /// The command line of the entry, without secrets.
    pub(super) line: String,
    pub(super) warnings: Vec<String>,
}

impl Outcome<'_> {
    /// The action on stdout, doubts on stderr.
    pub(super) fn print(&self) -> Result<(), Failure> {
        let known = self.place.client.known();
        if self.place.json {
            let action = match self.action {
                Action::Installed => "installed",
                Action::Replaced => "replaced",
                Action::Unchanged => "unchanged",
                Action::Removed => "removed",
            };
            let told = json!({
                "action": action,
                "client": client_name(self.place.client),
                // A path need not be UTF-8, as JSON has to be.
                "file": self.file.to_string_lossy(),
                "name": self.name,
                "backup": self.backup.as_ref().map(|path| path.to_string_lossy()),
                "next": self.next(),
                "warnings": self.warnings,
            });
            report::print(&format!("{told}\n"))?;
            return Ok(());
        }
        self.warnings.iter().for_each(|warning| report::warning(warning));
        let (name, title) = (self.name, known.title);
        let file = self.file.display();
        let mut text = match self.action {
            Action::Installed => format!("{title} has a new server '{name}', in {file}\n"),
            Action::Replaced => format!("The server '{name}' of {title} was replaced, in {file}\n"),
            Action::Unchanged => {
                format!("{title} has this very server '{name}' already, in {file}\n")
            }
            Action::Removed => format!("{title} has no server '{name}' any more, in {file}\n"),
        };
        if self.action != Action::Removed {
            text += &format!("  it runs: {}\n", self.line);
        }
        if let Some(backup) = &self.backup {
            text += &format!("  as it was before: {}\n", backup.display());
        }
        text += self.next();
        report::print(&format!("{}\n", plain(&text).trim_end()))?;
        Ok(())
    }

    /// What is to be done now.
    fn next(&self) -> &'static str {
        match self.action {
            Action::Unchanged => "",
            Action::Removed => "Restart the client if it still shows the server.",
            Action::Installed | Action::Replaced => self.place.client.known().next,
        }
    }
}

/// `--print`: the entry alone, as a file that has nothing else would hold it.
pub(super) fn print(
    place: &ClientArgs,
    file: &Path,
    name: &str,
    entry: &StdioServer,
    warnings: &[String],
) -> Result<(), Failure> {
    let format: Format = place.client.known().format;
    let text = format.set("", name, entry).unwrap_or_default();
    if !place.json {
        warnings.iter().for_each(|warning| report::warning(warning));
        report::warning(&format!("nothing was changed; this goes into {}", file.display()));
        report::print(&text)?;
        return Ok(());
    }
    let told = json!({
        "action": "printed",
        "client": client_name(place.client),
        "file": file.to_string_lossy(),
        "name": name,
        "entry": { "command": entry.command, "args": entry.args, "env": entry.env },
        "text": text,
        "warnings": warnings,
    });
    report::print(&format!("{told}\n"))?;
    Ok(())
}

fn client_name(client: Client) -> String {
    client.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}
