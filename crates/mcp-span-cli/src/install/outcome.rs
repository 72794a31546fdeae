//! What was done, for people and for programs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;

use super::super::Failure;
use super::super::report::{self, plain};
use super::ClientArgs;
use super::server::StdioServer;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Printed,
    Installed,
    Replaced,
    Unchanged,
    Removed,
}

/// What was done.
pub(super) struct Outcome<'a> {
    pub(super) action: Action,
    pub(super) place: &'a ClientArgs,
    pub(super) file: &'a Path,
    pub(super) name: &'a str,
    /// Its command line without secrets, and itself; None once it is removed.
    pub(super) server: Option<(String, &'a StdioServer)>,
    pub(super) backup: Option<PathBuf>,
    pub(super) warnings: Vec<String>,
}

impl Outcome<'_> {
    /// The outcome on stdout, warnings on stderr.
    pub(super) fn print(&self) -> Result<ExitCode, Failure> {
        let (name, title, path) = (self.name, self.place.client.title, self.file.display());
        let client_next = self.place.client.next;
        let (action, sentence, next) = match self.action {
            Action::Printed => ("printed", format!("nothing was changed. Add this to {path}"), ""),
            Action::Installed => {
                ("installed", format!("Installed {name} in {title}: {path}"), client_next)
            }
            Action::Replaced => {
                ("replaced", format!("Replaced {name} in {title}: {path}"), client_next)
            }
            Action::Unchanged => {
                ("unchanged", format!("{name} is already installed in {title}: {path}"), "")
            }
            Action::Removed => {
                let next = "Restart the client if it still shows the server.";
                ("removed", format!("Removed {name} from {title}: {path}"), next)
            }
        };
        if self.place.json {
            report::print(&self.json(action, next))?;
            return Ok(ExitCode::SUCCESS);
        }
        self.warnings.iter().for_each(|warning| report::warning(warning));
        if self.action == Action::Printed {
            report::warning(&sentence);
            report::print(&self.text())?;
        } else {
            report::print(&self.summary(sentence, next))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn json(&self, action: &str, next: &str) -> String {
        let mut outcome = json!({
            "action": action,
            "client": self.place.client.name,
            // A path need not be UTF-8, as JSON has to be.
            "file": self.file.to_string_lossy(),
            "name": self.name,
            "warnings": self.warnings,
        });
        match (self.action, &self.server) {
            (Action::Printed, Some((_, StdioServer { command, args, env }))) => {
                outcome["entry"] = json!({ "command": command, "args": args, "env": env });
                outcome["text"] = self.text().into();
            }
            _ => {
                let backup = self.backup.as_ref().map(|path| path.to_string_lossy());
                outcome["backup"] = json!(backup);
                outcome["next"] = next.into();
            }
        }
        format!("{outcome}\n")
    }

    /// What a file that has nothing else would hold.
    fn text(&self) -> String {
        let format = self.place.client.format;
        let text = self.server.as_ref().map(|(_, server)| format.set("", self.name, server));
        text.and_then(Result::ok).unwrap_or_default()
    }

    fn summary(&self, sentence: String, next: &str) -> String {
        let mut lines = vec![sentence];
        if let Some((shown, server)) = &self.server {
            lines.push(format!("  command: {shown}"));
            let names: Vec<_> = server.env.keys().map(String::as_str).collect();
            lines.extend((!names.is_empty()).then(|| format!("  variables: {}", names.join(", "))));
        }
        lines.extend(self.backup.iter().map(|path| format!("  backup: {}", path.display())));
        lines.push(next.to_owned());
        format!("{}\n", plain(&lines.join("\n")).trim_end())
    }
}
