//! The clients whose configuration we know: where it is, and how it is written. Pure.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::edit::{Format, Shape};

/// A client by the name that is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Client {
    ClaudeCode,
    ClaudeDesktop,
    Cursor,
    #[value(alias = "vs-code")]
    Vscode,
    Zed,
    Windsurf,
    Codex,
    GeminiCli,
    CopilotCli,
    Kiro,
    Roo,
    LmStudio,
}

/// For whom an entry is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scope {
    /// For you, everywhere
    #[default]
    User,
    /// For the project in the current directory
    Project,
}

/// What is known of a client.
pub(super) struct Known {
    pub(super) title: &'static str,
    pub(super) format: Format,
    /// A variable that names another folder, and the file in it.
    folder: Option<(&'static str, &'static str)>,
    /// On Linux, macOS and Windows. `~` is the home directory, `@` the folder for configuration.
    places: [&'static str; 3],
    /// Below the root of a project.
    project: Option<&'static str>,
    /// Whether it is started in a shell, where PATH is what the user sees.
    pub(super) is_for_terminals: bool,
    /// Whether it replaces `${NAME}` in arguments and variables itself, by what its own environment
    /// has; nothing can be written that it would leave alone.
    pub(super) expands_variables: bool,
    /// What makes it read the file again.
    pub(super) next: &'static str,
}

/// The operating systems that differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum System {
    Linux,
    Macos,
    Windows,
}

impl System {
    pub(super) const fn this() -> Self {
        if cfg!(windows) {
            Self::Windows
        } else if cfg!(target_os = "macos") {
            Self::Macos
        } else {
            Self::Linux
        }
    }
}

const MCP_SERVERS: Format = Format::Json { key: "mcpServers", shape: Shape::Plain };

const CURSOR: Known = Known {
    title: "Cursor",
    format: MCP_SERVERS,
    folder: None,
    places: ["~/.cursor/mcp.json"; 3],
    project: Some(".cursor/mcp.json"),
    is_for_terminals: false,
    expands_variables: false,
    next: "Restart Cursor, or switch the server on in its settings under MCP.",
};

impl Client {
    /// The table.
    pub(super) fn known(self) -> Known {
        match self {
            Self::Cursor => CURSOR,
            Self::ClaudeCode | Self::Codex | Self::GeminiCli | Self::CopilotCli => self.terminal(),
            Self::ClaudeDesktop | Self::LmStudio => self.desktop(),
            Self::Vscode | Self::Zed | Self::Windsurf | Self::Kiro | Self::Roo => self.editor(),
        }
    }

    fn terminal(self) -> Known {
        let base = Known { is_for_terminals: true, ..CURSOR };
        match self {
            Self::Codex => Known {
                title: "Codex",
                format: Format::Toml,
                folder: Some(("CODEX_HOME", "config.toml")),
                places: ["~/.codex/config.toml"; 3],
                project: Some(".codex/config.toml"),
                next: "Start Codex anew; /mcp in it shows its servers.",
                ..base
            },
            Self::GeminiCli => Known {
                title: "Gemini CLI",
                places: ["~/.gemini/settings.json"; 3],
                project: Some(".gemini/settings.json"),
                expands_variables: true,
                next: "Start Gemini CLI anew; /mcp in it shows its servers.",
                ..base
            },
            Self::CopilotCli => Known {
                title: "Copilot CLI",
                format: Format::Json { key: "mcpServers", shape: Shape::Copilot },
                folder: Some(("COPILOT_HOME", "mcp-config.json")),
                places: ["~/.copilot/mcp-config.json"; 3],
                project: None,
                next: "Start Copilot CLI anew; /mcp show in it shows its servers.",
                ..base
            },
            _ => Known {
                title: "Claude Code",
                format: Format::Json { key: "mcpServers", shape: Shape::Typed },
                folder: Some(("CLAUDE_CONFIG_DIR", ".claude.json")),
                places: ["~/.claude.json"; 3],
                project: Some(".mcp.json"),
                expands_variables: true,
                next: "Start Claude Code anew; /mcp in it shows its servers.",
                ..base
            },
        }
    }

    fn desktop(self) -> Known {
        match self {
            Self::LmStudio => Known {
                title: "LM Studio",
                places: ["~/.lmstudio/mcp.json"; 3],
                project: None,
                next: "Switch the server on in LM Studio's list of integrations.",
                ..CURSOR
            },
            _ => Known {
                title: "Claude Desktop",
                places: ["@/Claude/claude_desktop_config.json"; 3],
                project: None,
                next: "Quit Claude Desktop and start it again; closing its window is not enough.",
                ..CURSOR
            },
        }
    }

    fn editor(self) -> Known {
        match self {
            Self::Zed => Known {
                title: "Zed",
                format: Format::Json { key: "context_servers", shape: Shape::Plain },
                places: [
                    "@/zed/settings.json",
                    "~/.config/zed/settings.json",
                    "@/Zed/settings.json",
                ],
                project: None,
                next: "Zed starts the server by itself; its agent settings show it.",
                ..CURSOR
            },
            Self::Windsurf => Known {
                title: "Windsurf",
                places: ["~/.codeium/windsurf/mcp_config.json"; 3],
                project: None,
                next: "Press the refresh button of Windsurf's list of MCP servers.",
                ..CURSOR
            },
            Self::Kiro => Known {
                title: "Kiro",
                places: ["~/.kiro/settings/mcp.json"; 3],
                project: Some(".kiro/settings/mcp.json"),
                next: "Kiro starts the server by itself; its panel of MCP servers shows it.",
                ..CURSOR
            },
            Self::Roo => Known {
                title: "Roo Code",
                places: ["@/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json";
                    3],
                project: Some(".roo/mcp.json"),
                next: "Roo Code starts the server by itself; its MCP settings show it.",
                ..CURSOR
            },
            _ => Known {
                title: "VS Code",
                format: Format::Json { key: "servers", shape: Shape::Typed },
                places: ["@/Code/User/mcp.json"; 3],
                project: Some(".vscode/mcp.json"),
                next: "In VS Code, run 'MCP: List Servers' from the command palette and start it.",
                ..CURSOR
            },
        }
    }
}

impl Known {
    /// The file for the user. None if it is not known where the home directory is.
    pub(super) fn user_file(
        &self,
        system: System,
        lookup: impl Fn(&str) -> Option<OsString>,
    ) -> Option<PathBuf> {
        let folder =
            |name: &str| lookup(name).map(PathBuf::from).filter(|path| is_absolute(path, system));
        let moved = self.folder.and_then(|(name, file)| Some(folder(name)?.join(file)));
        if moved.is_some() {
            return moved;
        }
        let home = folder(if system == System::Windows { "USERPROFILE" } else { "HOME" });
        let config = || match system {
            System::Linux => {
                folder("XDG_CONFIG_HOME").or_else(|| Some(home.clone()?.join(".config")))
            }
            System::Macos => Some(home.clone()?.join("Library/Application Support")),
            System::Windows => {
                folder("APPDATA").or_else(|| Some(home.clone()?.join("AppData/Roaming")))
            }
        };
        let [linux, macos, windows] = self.places;
        let place = match system {
            System::Linux => linux,
            System::Macos => macos,
            System::Windows => windows,
        };
        let (base, rest) = place.split_once('/')?;
        Some(if base == "~" { home? } else { config()? }.join(rest))
    }

    /// The file for a project, where the client has such.
    pub(super) fn project_file(&self, root: &Path) -> Option<PathBuf> {
        self.project.map(|file| root.join(file))
    }
}

/// A relative folder would depend on where one happens to be.
fn is_absolute(path: &Path, system: System) -> bool {
    path.is_absolute() || system == System::Windows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(client: Client, system: System, variables: &[(&str, &str)]) -> String {
        let lookup = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, v)| OsString::from(v))
        };
        let file = client.known().user_file(system, lookup);
        file.map_or("nowhere".to_owned(), |file| file.to_str().unwrap().to_owned())
    }

    #[test]
    fn each_system_has_its_own_places() {
        let unix = [("HOME", "/home/me")];
        let moved = [("HOME", "/home/me"), ("XDG_CONFIG_HOME", "/cfg")];
        let windows = [("USERPROFILE", "C:/me"), ("APPDATA", "C:/me/AppData/Roaming")];
        for (client, linux, macos, on_windows) in [
            (
                Client::ClaudeDesktop,
                "/cfg/Claude/claude_desktop_config.json",
                "/home/me/Library/Application Support/Claude/claude_desktop_config.json",
                "C:/me/AppData/Roaming/Claude/claude_desktop_config.json",
            ),
            (
                Client::Zed,
                "/cfg/zed/settings.json",
                "/home/me/.config/zed/settings.json",
                "C:/me/AppData/Roaming/Zed/settings.json",
            ),
            (
                Client::Vscode,
                "/cfg/Code/User/mcp.json",
                "/home/me/Library/Application Support/Code/User/mcp.json",
                "C:/me/AppData/Roaming/Code/User/mcp.json",
            ),
            (
                Client::Cursor,
                "/home/me/.cursor/mcp.json",
                "/home/me/.cursor/mcp.json",
                "C:/me/.cursor/mcp.json",
            ),
        ] {
            assert_eq!(file(client, System::Linux, &moved), linux);
            assert_eq!(file(client, System::Macos, &unix), macos);
            assert_eq!(file(client, System::Windows, &windows), on_windows);
        }
        assert_eq!(file(Client::Zed, System::Linux, &unix), "/home/me/.config/zed/settings.json");
    }

    #[test]
    fn variables_of_the_clients_are_respected_unless_they_lead_nowhere() {
        let home = ("HOME", "/home/me");
        let codex = |folder| file(Client::Codex, System::Linux, &[home, ("CODEX_HOME", folder)]);
        assert_eq!(codex("/x"), "/x/config.toml");
        assert_eq!(codex("relative"), "/home/me/.codex/config.toml");
        let claude = [home, ("CLAUDE_CONFIG_DIR", "/c")];
        assert_eq!(file(Client::ClaudeCode, System::Macos, &claude), "/c/.claude.json");
        assert_eq!(file(Client::Cursor, System::Linux, &[]), "nowhere");
    }

    #[test]
    fn every_client_has_a_file_on_every_system() {
        for client in Client::value_variants() {
            for system in [System::Linux, System::Macos, System::Windows] {
                let variables = [("HOME", "/h"), ("USERPROFILE", "/h")];
                assert!(file(*client, system, &variables).starts_with("/h/"), "{client:?}");
            }
        }
    }
}
