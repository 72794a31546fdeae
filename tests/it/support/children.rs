//! Servers that are child processes: shell scripts that speak as little MCP as a test needs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mcp_span::client::{Client, Spec};
use mcp_span::transport::child;

use super::soon;

/// A client counts its requests from 1; `hello` answers the first.
const PRELUDE: &str = r#"
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$1" "$2"; }
hello() {
    read -r line
    answer 1 '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"0"}}'
    read -r line
}
note() { printf '%s\n' "$2" > "$1.part"; mv "$1.part" "$1"; }
"#;

/// A folder in which scripts leave word.
pub(crate) struct Nursery {
    folder: tempfile::TempDir,
}

impl Nursery {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// What `script` runs as; it finds the folder as its working directory.
    pub(crate) fn settings(&self, script: &str) -> child::ChildSettings {
        let mut settings =
            child::ChildSettings::new("sh").args(["-c", &format!("{PRELUDE}{script}")]);
        settings.cwd = Some(self.path().to_owned());
        settings
    }

    pub(crate) async fn client(&self, script: &str) -> Client {
        self.try_client(script).await.expect("a client")
    }

    pub(crate) async fn try_client(&self, script: &str) -> Result<Client, mcp_span::Error> {
        let spec = Spec::child(self.settings(script));
        soon("a connection", Client::builder(spec).connect()).await
    }

    /// What a script has left under this name.
    pub(crate) async fn note(&self, name: &str) -> String {
        let path = self.path().join(name);
        let appearing = async {
            loop {
                if let Ok(text) = std::fs::read_to_string(&path) {
                    return text.trim().to_owned();
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        soon(name, appearing).await
    }
}

/// Whether a process is there, be it as a zombie.
pub(crate) fn is_there(pid: &str) -> bool {
    PathBuf::from("/proc").join(pid).exists()
}

/// Waits for the end of a process, and of all that is left of it.
pub(crate) async fn gone(pid: &str) {
    let going = async {
        while is_there(pid) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon("the end of a process", going).await;
}
