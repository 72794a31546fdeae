//! A server in a client's configuration: a program, its arguments and its variables.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A stdio server, as all clients describe it.
#[derive(Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(Debug))]
pub(super) struct StdioServer {
    pub(super) command: String,
    #[serde(default)]
    pub(super) args: Vec<String>,
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
}

/// A server that a file has, and where.
#[cfg_attr(test, derive(Debug))]
pub(super) struct ServerEntry {
    pub(super) name: String,
    pub(super) line: usize,
    /// None where it is something else than a program to start.
    pub(super) server: Option<StdioServer>,
}

impl ServerEntry {
    /// Whether it starts this program, from wherever it is installed.
    pub(super) fn is_ours(&self) -> bool {
        self.server.as_ref().is_some_and(|server| {
            let file = server.command.rsplit(['/', '\\']).next().unwrap_or_default();
            file.strip_suffix(".exe").unwrap_or(file) == mcp_span::NAME
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_is_told_by_the_name_of_the_program() {
        let ours = |command: &str| {
            let server = StdioServer { command: command.into(), ..StdioServer::default() };
            ServerEntry { name: "x".into(), line: 1, server: Some(server) }.is_ours()
        };
        for command in ["mcp-span", "/opt/bin/mcp-span", r"C:\bin\mcp-span.exe", "./mcp-span"] {
            assert!(ours(command), "{command}");
        }
        for command in ["npx", "/opt/mcp-span/other", "mcp-spanner", ""] {
            assert!(!ours(command), "{command}");
        }
    }
}
