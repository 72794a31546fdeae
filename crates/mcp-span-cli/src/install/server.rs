//! What a client's configuration says of one server: a program, its arguments and its variables.

use std::collections::BTreeMap;

/// A stdio server, as all clients describe it.
#[derive(Clone, Default, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub(super) struct StdioServer {
    pub(super) command: String,
    pub(super) args: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
}

impl StdioServer {
    /// Whether it starts this program, from wherever it is installed.
    pub(super) fn is_ours(&self) -> bool {
        let file = self.command.rsplit(['/', '\\']).next().unwrap_or_default();
        let name = file.strip_suffix(".exe").unwrap_or(file);
        name == mcp_span::NAME
    }
}

/// A server that a file has, and where.
#[cfg_attr(test, derive(Debug))]
pub(super) struct ServerEntry {
    pub(super) name: String,
    pub(super) line: usize,
    /// None where it is something else than a program to start.
    pub(super) entry: Option<StdioServer>,
}

impl ServerEntry {
    pub(super) fn is_ours(&self) -> bool {
        self.entry.as_ref().is_some_and(StdioServer::is_ours)
    }
}

/// What clients want beside command, arguments and variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Plain,
    /// `"type": "stdio"` in front.
    Typed,
    /// As Copilot writes it itself: `"type": "local"`, and which tools may be used.
    Copilot,
}

/// A value to be written.
pub(super) enum Tree {
    Text(String),
    List(Vec<String>),
    Object(Vec<(String, Self)>),
}

impl StdioServer {
    /// The members in the order in which clients write them.
    pub(super) fn tree(&self, shape: Shape) -> Tree {
        let kind = match shape {
            Shape::Plain => None,
            Shape::Typed => Some("stdio"),
            Shape::Copilot => Some("local"),
        };
        let mut members = Vec::new();
        let mut add = |name: &str, value| members.push((name.to_owned(), value));
        if let Some(kind) = kind {
            add("type", Tree::Text(kind.to_owned()));
        }
        add("command", Tree::Text(self.command.clone()));
        add("args", Tree::List(self.args.clone()));
        if !self.env.is_empty() {
            let text =
                |(name, value): (&String, &String)| (name.clone(), Tree::Text(value.clone()));
            add("env", Tree::Object(self.env.iter().map(text).collect()));
        }
        if shape == Shape::Copilot {
            add("tools", Tree::List(vec!["*".to_owned()]));
        }
        Tree::Object(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_is_told_by_the_name_of_the_program() {
        let ours = |command: &str| {
            StdioServer { command: command.into(), ..StdioServer::default() }.is_ours()
        };
        for command in ["mcp-span", "/opt/bin/mcp-span", r"C:\bin\mcp-span.exe", "./mcp-span"] {
            assert!(ours(command), "{command}");
        }
        for command in ["npx", "/opt/mcp-span/other", "mcp-spanner", ""] {
            assert!(!ours(command), "{command}");
        }
    }
}
