//! Named servers out of the configuration files that MCP clients have: `mcpServers` of Claude,
//! Cursor and others, VS Code's `servers`, Zed's `context_servers`.
//!
//! A text comes in, with a function that knows variables; which file it is from, and which
//! environment the variables are of, is the caller's business.
//!
//! ```
//! let text = r#"{
//!     // Comments are allowed, and commas behind the last member.
//!     "mcpServers": {
//!         "docs": {"url": "https://example.com/mcp", "headers": {"X-Key": "${KEY}"}},
//!         "files": {"command": "files-server", "args": ["${ROOT:-/srv}"]},
//!         "wrong": {"args": []},
//!     },
//! }"#;
//! let lookup = |name: &str| (name == "KEY").then(|| "k3y".to_owned());
//! let config = mcp_span::config::read("servers.json", text, &lookup)?;
//! let names: Vec<_> = config.servers().map(|entry| &*entry.name).collect();
//! assert_eq!(names, ["docs", "files"]);
//! let fault = config.faults().next().unwrap().to_string();
//! assert_eq!(
//!     fault,
//!     "servers.json, line 6, column 9: server 'wrong': \
//!      stdio server requires \"command\" field, and a remote one \"url\"",
//! );
//! # Ok::<(), mcp_span::config::Fault>(())
//! ```

use std::collections::HashMap;
use std::fmt;

use crate::options::ServerOptions;

mod document;
mod entry;
mod entry_values;
mod expand;
mod keys;
mod place;
mod scalar;

pub use document::{Member, Node, Value};
pub use document::{lower, strict};
pub use expand::{Expanded, Lookup, expand};
pub use keys::{flag_name, meant};
pub use place::{Fault, Place};

/// What stands in a file.
#[derive(Default)]
pub struct Config {
    /// The servers in the order of the file, each one good, or with what is wrong with it.
    pub entries: Vec<Result<Entry, Fault>>,
    /// The other members at the top, in the order of the file.
    pub others: Vec<Member>,
    /// Whether there is a place for servers in it, be it empty.
    pub has_servers: bool,
}

impl Config {
    /// The good ones.
    pub fn servers(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter_map(|entry| entry.as_ref().ok())
    }

    /// What is wrong with the others.
    pub fn faults(&self) -> impl Iterator<Item = &Fault> {
        self.entries.iter().filter_map(|entry| entry.as_ref().err())
    }
}

/// A server that has a name.
#[derive(Clone)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub place: Place,
    /// False where `disabled` or `enabled` says so: such a server is not used unasked.
    pub enabled: bool,
    /// What and where it is, and all that is said about it.
    pub options: ServerOptions,
    /// Keys that are other programs' business, or that mean nothing for a server of this sort.
    pub ignored: Vec<String>,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("name", &self.name)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// Members that hold servers.
const SERVERS: [&str; 3] = ["mcpServers", "servers", "context_servers"];

/// Reads all servers of a file. `file` is its name, for faults; `lookup` knows variables.
///
/// # Errors
///
/// When the text as a whole is not JSON, or not an object. What is wrong with one server stands in
/// its place.
pub fn read(file: &str, text: &str, lookup: Lookup<'_>) -> Result<Config, Fault> {
    let root = Node::read(file, text)?;
    let Value::Object(members) = root.value else {
        return Err(whole(root.place, None, "this is not a JSON object"));
    };
    let mut config = Config::default();
    let mut names = HashMap::new();
    for member in members {
        let servers = servers_in(&member);
        match servers {
            None => config.others.push(member),
            Some(servers) => {
                config.has_servers = true;
                config.add(servers, &mut names, lookup)?;
            }
        }
    }
    Ok(config)
}

/// The servers that a member at the top holds; VS Code's settings have them one floor below.
fn servers_in(member: &Member) -> Option<&Member> {
    if SERVERS.contains(&&*member.key) {
        return Some(member);
    }
    let below = member.value.members().filter(|_| member.key == "mcp")?;
    below.iter().find(|member| member.key == "servers")
}

impl Config {
    fn add(
        &mut self,
        servers: &Member,
        names: &mut HashMap<String, usize>,
        lookup: Lookup<'_>,
    ) -> Result<(), Fault> {
        let Some(members) = servers.value.members() else {
            let sentence = format!("\"{}\" must be an object, with a member a server", servers.key);
            return Err(whole(servers.value.place.clone(), Some(&servers.key), &sentence));
        };
        for member in members {
            let entry = entry::read(member, lookup);
            // The first one stays: what comes later must not replace it unnoticed.
            self.entries.push(match names.get(&member.key) {
                Some(line) => Err(entry::twice(member, *line)),
                None => entry,
            });
            names.entry(member.key.clone()).or_insert(member.place.line);
        }
        Ok(())
    }
}

fn whole(place: Place, key: Option<&str>, sentence: &str) -> Fault {
    let key = key.map(str::to_owned);
    Fault { place, server: None, key, sentence: sentence.to_owned(), is_off: false }
}

#[cfg(test)]
mod tests;
