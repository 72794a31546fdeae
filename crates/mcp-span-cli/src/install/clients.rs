//! The clients whose configuration we know: where it is, and how it is written. Pure.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use clap::builder::PossibleValue;

use super::edit::{Format, Shape};

/// Which configuration of a client is edited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scope {
    /// For you, everywhere
    #[default]
    User,
    /// For the project in the current directory
    Project,
}

/// What is known of a client.
#[derive(Clone, Copy)]
pub(crate) struct Client {
    /// What is typed.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) format: Format,
    /// On Linux, macOS and Windows. `~` is the home directory, `@` the folder for configuration.
    user_files: [&'static str; 3],
    /// A variable that names another folder, and the file in it.
    folder: Option<(&'static str, &'static str)>,
    /// Below the root of a project.
    project_file: Option<&'static str>,
    /// Whether it is started in a shell, where PATH is what the user sees.
    pub(super) is_for_terminals: bool,
    /// Whether it replaces `${NAME}` in arguments and variables itself, by what its own environment
    /// has; nothing can be written that it would leave alone.
    pub(super) expands_variables: bool,
    /// What makes it read the file again.
    pub(super) next: &'static str,
}

const CLIENTS: &[Client] = &[
    client("claude-code", "Claude Code", "~/.claude.json")
        .format(Format::Json { key: "mcpServers", shape: Shape::Typed })
        .moved_by("CLAUDE_CONFIG_DIR", ".claude.json")
        .project(".mcp.json")
        .in_terminal()
        .expanding_variables()
        .next("Restart Claude Code; /mcp in it lists its servers."),
    client("claude-desktop", "Claude Desktop", "@/Claude/claude_desktop_config.json")
        .next("Quit Claude Desktop and start it again; closing its window is not enough."),
    client("cursor", "Cursor", "~/.cursor/mcp.json")
        .project(".cursor/mcp.json")
        .next("Restart Cursor, or enable the server in its settings under MCP."),
    client("vscode", "VS Code", "@/Code/User/mcp.json")
        .format(Format::Json { key: "servers", shape: Shape::Typed })
        .project(".vscode/mcp.json")
        .next("In VS Code, run 'MCP: List Servers' from the command palette and start it."),
    Client {
        user_files: ["@/zed/settings.json", "~/.config/zed/settings.json", "@/Zed/settings.json"],
        ..client("zed", "Zed", "")
    }
    .format(Format::Json { key: "context_servers", shape: Shape::Plain })
    .next("Zed starts the server by itself; its agent settings show it."),
    client("windsurf", "Windsurf", "~/.codeium/windsurf/mcp_config.json")
        .next("Press the refresh button of Windsurf's list of MCP servers."),
    client("codex", "Codex", "~/.codex/config.toml")
        .format(Format::Toml)
        .moved_by("CODEX_HOME", "config.toml")
        .project(".codex/config.toml")
        .in_terminal()
        .next("Restart Codex; /mcp in it lists its servers."),
    client("gemini-cli", "Gemini CLI", "~/.gemini/settings.json")
        .project(".gemini/settings.json")
        .in_terminal()
        .expanding_variables()
        .next("Restart Gemini CLI; /mcp in it lists its servers."),
    client("copilot-cli", "Copilot CLI", "~/.copilot/mcp-config.json")
        .format(Format::Json { key: "mcpServers", shape: Shape::Copilot })
        .moved_by("COPILOT_HOME", "mcp-config.json")
        .in_terminal()
        .next("Restart Copilot CLI; /mcp show in it lists its servers."),
    client("kiro", "Kiro", "~/.kiro/settings/mcp.json")
        .project(".kiro/settings/mcp.json")
        .next("Kiro starts the server by itself; its panel of MCP servers shows it."),
    client("roo", "Roo Code", ROO)
        .project(".roo/mcp.json")
        .next("Roo Code starts the server by itself; its MCP settings show it."),
    client("lm-studio", "LM Studio", "~/.lmstudio/mcp.json")
        .next("Enable the server in LM Studio's list of integrations."),
];

const ROO: &str = "@/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json";

const fn client(name: &'static str, title: &'static str, user_file: &'static str) -> Client {
    Client {
        name,
        title,
        format: Format::Json { key: "mcpServers", shape: Shape::Plain },
        user_files: [user_file; 3],
        folder: None,
        project_file: None,
        is_for_terminals: false,
        expands_variables: false,
        next: "",
    }
}

/// What differs from one to the next.
impl Client {
    const fn format(self, format: Format) -> Self {
        Self { format, ..self }
    }

    const fn moved_by(self, variable: &'static str, file: &'static str) -> Self {
        Self { folder: Some((variable, file)), ..self }
    }

    const fn project(self, file: &'static str) -> Self {
        Self { project_file: Some(file), ..self }
    }

    const fn in_terminal(self) -> Self {
        Self { is_for_terminals: true, ..self }
    }

    const fn expanding_variables(self) -> Self {
        Self { expands_variables: true, ..self }
    }

    const fn next(self, next: &'static str) -> Self {
        Self { next, ..self }
    }
}

impl ValueEnum for Client {
    fn value_variants<'a>() -> &'a [Self] {
        CLIENTS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let value = PossibleValue::new(self.name);
        Some(if self.name == "vscode" { value.alias("vs-code") } else { value })
    }
}

impl Client {
    /// The file for the user on a system, by its name in `std::env::consts::OS`. None if it is not known where the home directory is.
    pub(super) fn user_file(
        &self,
        system: &str,
        lookup: impl Fn(&str) -> Option<OsString>,
    ) -> Option<PathBuf> {
        // A relative folder would depend on where one happens to be.
        let is_absolute = |path: &PathBuf| path.is_absolute() || system == "windows";
        let folder = |name: &str| lookup(name).map(PathBuf::from).filter(is_absolute);
        if let Some((folder, file)) =
            self.folder.and_then(|(name, file)| Some((folder(name)?, file)))
        {
            return Some(folder.join(file));
        }
        let home = folder(if system == "windows" { "USERPROFILE" } else { "HOME" });
        let (file, moved, usual) = match system {
            "macos" => (self.user_files[1], None, "Library/Application Support"),
            "windows" => (self.user_files[2], folder("APPDATA"), "AppData/Roaming"),
            _ => (self.user_files[0], folder("XDG_CONFIG_HOME"), ".config"),
        };
        let (base, rest) = file.split_once('/')?;
        let config = || moved.or_else(|| Some(home.as_ref()?.join(usual)));
        let base = if base == "~" { home.clone()? } else { config()? };
        Some(base.join(rest))
    }

    /// The file for a project, where the client has such.
    pub(super) fn project_file(&self, root: &Path) -> Option<PathBuf> {
        self.project_file.map(|file| root.join(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(client: &str, system: &str, variables: &[(&str, &str)]) -> String {
        let lookup = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, v)| OsString::from(v))
        };
        let client = Client::from_str(client, false).unwrap();
        let file = client.user_file(system, lookup);
        file.map_or("nowhere".to_owned(), |file| file.to_str().unwrap().to_owned())
    }

    #[test]
    fn each_system_has_its_own_places() {
        let unix = [("HOME", "/home/me")];
        let moved = [("HOME", "/home/me"), ("XDG_CONFIG_HOME", "/cfg")];
        let windows = [("USERPROFILE", "C:/me"), ("APPDATA", "C:/me/AppData/Roaming")];
        for (client, linux, macos, on_windows) in [
            (
                "claude-desktop",
                "/cfg/Claude/claude_desktop_config.json",
                "/home/me/Library/Application Support/Claude/claude_desktop_config.json",
                "C:/me/AppData/Roaming/Claude/claude_desktop_config.json",
            ),
            (
                "zed",
                "/cfg/zed/settings.json",
                "/home/me/.config/zed/settings.json",
                "C:/me/AppData/Roaming/Zed/settings.json",
            ),
            (
                "vscode",
                "/cfg/Code/User/mcp.json",
                "/home/me/Library/Application Support/Code/User/mcp.json",
                "C:/me/AppData/Roaming/Code/User/mcp.json",
            ),
            (
                "cursor",
                "/home/me/.cursor/mcp.json",
                "/home/me/.cursor/mcp.json",
                "C:/me/.cursor/mcp.json",
            ),
        ] {
            assert_eq!(file(client, "linux", &moved), linux);
            assert_eq!(file(client, "macos", &unix), macos);
            assert_eq!(file(client, "windows", &windows), on_windows);
        }
        assert_eq!(file("zed", "linux", &unix), "/home/me/.config/zed/settings.json");
    }

    #[test]
    fn variables_of_the_clients_are_respected_unless_they_lead_nowhere() {
        let home = ("HOME", "/home/me");
        let codex = |folder| file("codex", "linux", &[home, ("CODEX_HOME", folder)]);
        assert_eq!(codex("/x"), "/x/config.toml");
        assert_eq!(codex("relative"), "/home/me/.codex/config.toml");
        let claude = [home, ("CLAUDE_CONFIG_DIR", "/c")];
        assert_eq!(file("claude-code", "macos", &claude), "/c/.claude.json");
        assert_eq!(file("cursor", "linux", &[]), "nowhere");
    }

    #[test]
    fn every_client_has_a_file_on_every_system() {
        for client in Client::value_variants() {
            for system in ["linux", "macos", "windows"] {
                let variables = [("HOME", "/h"), ("USERPROFILE", "/h")];
                assert!(
                    file(client.name, system, &variables).starts_with("/h/"),
                    "{}",
                    client.name
                );
            }
        }
    }
}
