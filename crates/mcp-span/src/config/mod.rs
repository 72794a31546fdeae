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
//! let variables = mcp_span::Variables::new([("KEY", "k3y")]);
//! let config = mcp_span::Config::read("servers.json", text, &variables)?;
//! let names: Vec<_> = config.servers().map(|entry| &*entry.name).collect();
//! assert_eq!(names, ["docs", "files"]);
//! let error = config.errors().next().unwrap().to_string();
//! assert_eq!(
//!     error,
//!     "servers.json, line 6, column 9: server 'wrong': \
//!      stdio server requires \"command\" field, and a remote one \"url\"",
//! );
//! # Ok::<(), mcp_span::ConfigError>(())
//! ```

use std::collections::HashMap;
use std::fmt;

use crate::options::{ServerOptions, Variables};

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
pub use place::{ConfigError, FilePlace};

/// The servers of a configuration file, as MCP clients write them.
#[derive(Default)]
#[non_exhaustive]
pub struct Config {
    /// The servers in the order of the file, each one good, or with what is wrong with it.
    pub entries: Vec<Result<ConfigEntry, ConfigError>>,
    /// The other members at the top, in the order of the file.
    #[doc(hidden)]
    pub others: Vec<Member>,
    /// Whether there is a place for servers in it, be it empty.
    #[doc(hidden)]
    pub has_servers: bool,
}

impl Config {
    /// Reads all servers of a file, whose name is for errors. `${NAME}` in its texts stands for a
    /// variable.
    ///
    /// ```
    /// use mcp_span::{Config, Variables};
    ///
    /// let text = r#"{"mcpServers": {"docs": {"url": "https://example.com/mcp", "timeout": 20}}}"#;
    /// let config = Config::read("servers.json", text, &Variables::default())?;
    /// let docs = config.servers().next().unwrap();
    /// assert_eq!((&*docs.name, docs.options.timeout.unwrap().as_secs()), ("docs", 20));
    /// # Ok::<(), mcp_span::ConfigError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When the text as a whole is not JSON, or not an object. What is wrong with one server stands
    /// in its place.
    pub fn read(file: &str, text: &str, variables: &Variables) -> Result<Self, ConfigError> {
        read(file, text, &|name| variables.text(name))
    }

    /// The good ones.
    pub fn servers(&self) -> impl Iterator<Item = &ConfigEntry> {
        self.entries.iter().filter_map(|entry| entry.as_ref().ok())
    }

    /// What is wrong with the others.
    pub fn errors(&self) -> impl Iterator<Item = &ConfigError> {
        self.entries.iter().filter_map(|entry| entry.as_ref().err())
    }
}

/// A server that has a name.
#[derive(Clone)]
#[non_exhaustive]
pub struct ConfigEntry {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub place: FilePlace,
    /// False where `disabled` or `enabled` says so: such a server is not used unasked.
    pub enabled: bool,
    /// What and where it is, and all that is said about it.
    pub options: ServerOptions,
    /// Keys that are other programs' business, or that mean nothing for a server of this sort.
    pub ignored: Vec<String>,
}

impl fmt::Debug for ConfigEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigEntry")
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
pub fn read(file: &str, text: &str, lookup: Lookup<'_>) -> Result<Config, ConfigError> {
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
    ) -> Result<(), ConfigError> {
        let Some(members) = servers.value.members() else {
            let message = format!("\"{}\" must be an object, with a member a server", servers.key);
            return Err(whole(servers.value.place.clone(), Some(&servers.key), &message));
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

fn whole(place: FilePlace, key: Option<&str>, message: &str) -> ConfigError {
    let key = key.map(str::to_owned);
    ConfigError { place, server: None, key, message: message.to_owned(), is_off: false }
}

#[cfg(test)]
mod tests;
