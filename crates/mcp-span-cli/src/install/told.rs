//! What people, or programs, are told of an installation.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::json;

use super::super::Failure;
use super::super::report::{self, plain};
use super::Place;
use super::clients::Client;
use super::edit::Format;
use super::entry::Entry;

/// What was done.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    Installed,
    Replaced,
    Unchanged,
    Removed,
}

/// All there is to tell.
pub(super) struct Told<'a> {
    pub(super) deed: Deed,
    pub(super) place: &'a Place,
    pub(super) file: &'a Path,
    pub(super) name: &'a str,
    pub(super) backup: Option<PathBuf>,
    /// The command line of the entry, without secrets.
    pub(super) line: String,
    pub(super) warnings: Vec<String>,
}

impl Told<'_> {
    /// The deed on stdout, doubts on stderr.
    pub(super) fn tell(&self) -> Result<(), Failure> {
        let known = self.place.client.known();
        if self.place.json {
            let deed = match self.deed {
                Deed::Installed => "installed",
                Deed::Replaced => "replaced",
                Deed::Unchanged => "unchanged",
                Deed::Removed => "removed",
            };
            let told = json!({
                "action": deed,
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
        let mut text = match self.deed {
            Deed::Installed => format!("{title} has a new server '{name}', in {file}\n"),
            Deed::Replaced => format!("The server '{name}' of {title} was replaced, in {file}\n"),
            Deed::Unchanged => {
                format!("{title} has this very server '{name}' already, in {file}\n")
            }
            Deed::Removed => format!("{title} has no server '{name}' any more, in {file}\n"),
        };
        if self.deed != Deed::Removed {
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
        match self.deed {
            Deed::Unchanged => "",
            Deed::Removed => "Restart the client if it still shows the server.",
            Deed::Installed | Deed::Replaced => self.place.client.known().next,
        }
    }
}

/// `--print`: the entry alone, as a file that has nothing else would hold it.
pub(super) fn print(
    place: &Place,
    file: &Path,
    name: &str,
    entry: &Entry,
    warnings: &[String],
) -> Result<(), Failure> {
    let format: Format = place.client.known().format;
    let text = format.insert("", name, entry).unwrap_or_default();
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
