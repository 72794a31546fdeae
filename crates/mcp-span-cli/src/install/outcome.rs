//! What was done, for people and for programs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use serde_json::json;

use super::super::Failure;
use super::super::report::{self, plain};
use super::ClientArgs;
use super::server::StdioServer;

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
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
        if self.place.json {
            report::print(&self.json())?;
            return Ok(ExitCode::SUCCESS);
        }
        self.warnings.iter().for_each(|warning| report::warning(warning));
        if self.action == Action::Printed {
            let file = self.file.display();
            report::warning(&format!("nothing was changed. Add this to {file}"));
            report::print(&self.text())?;
        } else {
            report::print(&self.summary())?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// What is to be done now.
    fn next(&self) -> &'static str {
        match self.action {
            Action::Printed | Action::Unchanged => "",
            Action::Removed => "Restart the client if it still shows the server.",
            Action::Installed | Action::Replaced => self.place.client.next,
        }
    }

    fn json(&self) -> String {
        let mut outcome = json!({
            "action": self.action,
            "client": self.place.client.name,
            // A path need not be UTF-8, as JSON has to be.
            "file": self.file.to_string_lossy(),
            "name": self.name,
            "warnings": self.warnings,
        });
        if self.action == Action::Printed {
            outcome["entry"] = json!(self.server.as_ref().map(|(_, server)| server));
            outcome["text"] = self.text().into();
        } else {
            let backup = self.backup.as_ref().map(|path| path.to_string_lossy());
            outcome["backup"] = json!(backup);
            outcome["next"] = self.next().into();
        }
        format!("{outcome}\n")
    }

    /// What a file that has nothing else would hold.
    fn text(&self) -> String {
        let format = self.place.client.format;
        let text = self.server.as_ref().map(|(_, server)| format.set("", self.name, server));
        text.and_then(Result::ok).unwrap_or_default()
    }

    fn summary(&self) -> String {
        let (name, title) = (self.name, self.place.client.title);
        let sentence = match self.action {
            Action::Printed | Action::Installed => format!("Installed {name} in {title}"),
            Action::Replaced => format!("Replaced {name} in {title}"),
            Action::Unchanged => format!("{name} is already installed in {title}"),
            Action::Removed => format!("Removed {name} from {title}"),
        };
        let mut lines = vec![format!("{sentence}: {}", self.file.display())];
        if let Some((shown, server)) = &self.server {
            lines.push(format!("  command: {shown}"));
            let names: Vec<_> = server.env.keys().map(String::as_str).collect();
            lines.extend((!names.is_empty()).then(|| format!("  variables: {}", names.join(", "))));
        }
        lines.extend(self.backup.iter().map(|path| format!("  backup: {}", path.display())));
        lines.push(self.next().to_owned());
        format!("{}\n", plain(&lines.join("\n")).trim_end())
    }
}
