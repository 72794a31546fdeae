//! The configuration file: defaults for all servers, under the names of the flags, and servers that
//! have names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, Args, Command};

use super::compat::oauth2_proxy::Theirs;
use super::config_place::{Found, read_file};
use super::credentials::SOURCES;
use super::report::Usage;
use super::servers::Servers;
use mcp_span::config::{self, Entry, Member, Node, Server, Value, flag_name};
use mcp_span::transport::http::Transport;

/// Read before all others; see `config_file`.
#[derive(Args, Debug)]
#[command(next_help_heading = "Configuration")]
pub(super) struct File {
    /// Read defaults and servers from this file
    ///
    /// In place of mcp-span/config.json in the configuration folder.
    #[arg(long, value_name = "FILE", env = "MCP_SPAN_CONFIG")]
    pub(super) config: Option<PathBuf>,

    /// Read no configuration file
    #[arg(long, conflicts_with = "config")]
    pub(super) no_config: bool,
}

/// What the file says: for each flag, by its long name, the texts that could have been typed.
#[derive(Clone, Default)]
pub(super) struct ConfigFile {
    pub(super) path: Option<PathBuf>,
    values: BTreeMap<String, Vec<String>>,
    /// Flags whose values are from another program's settings.
    theirs: BTreeSet<String>,
    /// The servers that have names.
    pub(super) servers: Arc<Servers>,
    /// The one of them that is meant.
    pub(super) server: Option<Arc<Entry>>,
    /// Flags whose values are from its entry.
    of_server: BTreeSet<String>,
    /// Keys at the top that are another program's.
    pub(super) passed_over: Vec<String>,
}

/// Flags that say something about one run, or about the file itself.
const NOT_IN_FILE: [&str; 4] = ["help", "version", "config", "no-config"];

impl ConfigFile {
    /// Reads the file. Every key at its top must be the name of a flag of `command`, unless it is
    /// another program's file with servers in it.
    pub(super) fn read(
        found: Found,
        command: &Command,
        lookup: config::Lookup<'_>,
    ) -> Result<Self, Usage> {
        let Found { path, is_own } = found;
        let shown = path.display().to_string();
        let text = read_file(&path)?;
        let config =
            config::read(&shown, &text, lookup).map_err(|fault| Usage::new(fault.to_string()))?;
        let is_another = |member: &Member| is_of_another_program(&member.key, command);
        if !is_own && config.has_servers && config.others.iter().any(is_another) {
            // It is there for its servers; what else it holds means something else.
            let passed_over = config.others.into_iter().map(|member| member.key).collect();
            let servers = Arc::new(Servers::new(config.entries));
            return Ok(Self { path: Some(path), servers, passed_over, ..Self::default() });
        }
        let mut file = Self {
            path: Some(path),
            servers: Arc::new(Servers::new(config.entries)),
            ..Self::default()
        };
        for member in config.others {
            file.add(&member, command)?;
        }
        Ok(file)
    }

    fn add(&mut self, member: &Member, command: &Command) -> Result<(), Usage> {
        let Member { key, place, value } = member;
        let name = flag_name(key);
        let arg = command
            .get_arguments()
            .find(|arg| arg.get_long() == Some(&name))
            .ok_or_else(|| Usage::new(format!("{place}: {}", unknown(key, command))))?;
        let texts = texts(&value.value, arg).ok_or_else(|| {
            Usage::new(format!("{place}: the value of '{key}' is of the wrong sort"))
        })?;
        self.values.insert(name, texts);
        Ok(())
    }

    /// The same with what a server's entry says in front of it. Its headers are not among that: they
    /// go with its URL alone.
    pub(super) fn under(&self, entry: &Arc<Entry>) -> Self {
        let mut file = self.clone();
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (flag, texts) in &entry.settings {
            let texts = texts.iter().map(|text| text.reveal().to_owned()).collect();
            values.insert((*flag).to_owned(), texts);
        }
        if let Some(limit) = entry.timeout {
            values.insert("timeout".to_owned(), vec![limit.as_secs_f64().to_string()]);
        }
        file.values.remove("mcp-hub");
        if let Server::Url { transport, headers, .. } = &entry.server {
            if let Some(name) = transport_name(*transport) {
                file.values.remove("mcp-hub-mode");
                values.insert("transport".to_owned(), vec![name.to_owned()]);
            }
            let has_source = SOURCES.iter().any(|source| values.contains_key(*source));
            // Of credentials there is one sort, and the entry's counts.
            if has_source || headers.contains_key(http::header::AUTHORIZATION) {
                file.forget_credentials();
            }
        }
        file.of_server.extend(values.keys().cloned());
        file.values.extend(values);
        file.server = Some(Arc::clone(entry));
        file
    }

    fn forget_credentials(&mut self) {
        SOURCES.iter().for_each(|source| drop(self.values.remove(*source)));
        let is_authorization = |line: &String| {
            let name = line.split(':').next().unwrap_or_default().trim();
            name.eq_ignore_ascii_case("authorization")
        };
        if let Some(lines) = self.values.get_mut("header") {
            lines.retain(|line| !is_authorization(line));
        }
    }

    /// Whether the parser complains about a value that stands in the file.
    pub(super) fn blame(&self, error: &clap::Error) -> Option<Usage> {
        let context = |kind| match error.get(kind) {
            Some(ContextValue::String(text)) => Some(text.as_str()),
            _ => None,
        };
        let flag = context(ContextKind::InvalidArg)?.split([' ', '=']).next()?;
        let value = context(ContextKind::InvalidValue)?;
        let long = flag.strip_prefix("--")?;
        if !self.values.get(long)?.iter().any(|text| text == value) {
            return None;
        }
        let why = std::error::Error::source(error).map_or(String::new(), |why| format!(": {why}"));
        let place = match &self.server {
            Some(entry) if self.of_server.contains(long) => {
                format!("{}: server '{}'", entry.place, entry.name)
            }
            _ => self.path.as_ref()?.display().to_string(),
        };
        Some(Usage::new(format!("{place}: the value of '{long}' is not one that it can have{why}")))
    }

    /// The same with settings of another program in front of it.
    pub(super) fn behind(mut self, theirs: &Theirs) -> Self {
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (flag, value) in &theirs.flags {
            values.entry((*flag).to_owned()).or_default().push(value.clone());
        }
        values.insert("url".to_owned(), vec![theirs.url.clone()]);
        self.theirs.extend(values.keys().cloned());
        self.values.extend(values);
        self
    }

    /// Whether that word is another program's.
    pub(super) fn is_theirs(&self, long: &str) -> bool {
        self.theirs.contains(long)
    }

    /// The name of the server whose entry that word is from.
    pub(super) fn server_of(&self, long: &str) -> Option<&str> {
        let entry = self.server.as_ref().filter(|_| self.of_server.contains(long))?;
        Some(&entry.name)
    }

    /// Whether it has a word on the flag.
    pub(super) fn has(&self, long: &str) -> bool {
        self.values.contains_key(long)
    }

    /// Puts its values in place of the built-in defaults: flags and variables beat both.
    pub(super) fn apply(&self, command: Command) -> Command {
        // Each argument would be made anew for nothing.
        if self.values.is_empty() {
            return command;
        }
        command
            .mut_args(|arg| match self.values.get(name(&arg)) {
                Some(texts) => arg.default_values(texts.clone()),
                None => arg,
            })
            .mut_subcommands(|command| self.apply(command))
    }
}

/// The name of a flag; the URL has none.
fn name(arg: &Arg) -> &str {
    arg.get_long().unwrap_or_else(|| arg.get_id().as_str())
}

fn transport_name(transport: Transport) -> Option<&'static str> {
    match transport {
        Transport::Auto => None,
        Transport::Http => Some("http"),
        Transport::Sse => Some("sse"),
    }
}

/// Whether a key is neither ours nor a slip for one of ours.
fn is_of_another_program(key: &str, command: &Command) -> bool {
    let name = flag_name(key);
    let mut flags = command.get_arguments().filter_map(Arg::get_long);
    !flags.any(|long| long == name || config::meant(key) == Some(long))
}

fn unknown(key: &str, command: &Command) -> String {
    let name = flag_name(key);
    let known =
        command.get_arguments().filter_map(Arg::get_long).filter(|l| !NOT_IN_FILE.contains(l));
    let near = |known: &str| strsim::jaro_winkler(&flag_name(known), &name);
    let nearest = known.chain(["mcpServers"]).max_by(|a, b| near(a).total_cmp(&near(b)));
    match nearest.filter(|known| near(known) > 0.75) {
        Some(nearest) => format!("nobody knows the key '{key}'; is it '{nearest}'?"),
        None => format!("nobody knows the key '{key}'; keys are the names of flags"),
    }
}

/// The value as it would have been typed.
fn texts(value: &Value, arg: &Arg) -> Option<Vec<String>> {
    if NOT_IN_FILE.contains(&arg.get_long()?) {
        return None;
    }
    let many = matches!(arg.get_action(), ArgAction::Append);
    match value {
        Value::Bool(flag) if !arg.get_action().takes_values() => Some(vec![flag.to_string()]),
        Value::Text(text) | Value::Number(text) if arg.get_action().takes_values() => {
            Some(vec![text.clone()])
        }
        Value::List(values) if many => values.iter().map(text).collect(),
        Value::Object(pairs) if many => pairs
            .iter()
            .map(|Member { key, value, .. }| {
                let between = if arg.get_long() == Some("header") { ": " } else { "=" };
                text(value).map(|value| format!("{key}{between}{value}"))
            })
            .collect(),
        _ => None,
    }
}

fn text(node: &Node) -> Option<String> {
    match &node.value {
        Value::Text(text) => Some(text.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::commands::Cli;

    fn read(text: &str) -> Result<ConfigFile, Usage> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        std::fs::write(&path, text).unwrap();
        ConfigFile::read(Found { path, is_own: true }, &Cli::command(), &|_| None)
    }

    #[test]
    fn keys_are_the_names_of_flags_in_any_spelling() {
        let file = read(
            r#"{"timeout": 7.5, "connectTimeout": "3", "away_wait": 1, "serial": true,
                "headers": {"X-A": "1", "X-B": "2"}, "log-level": "debug",
                "oauthParam": {"tenant": "t"}, "tokenStore": "file", "oauthGrant": "device-code"}"#,
        )
        .unwrap();
        let of = |name: &str| file.values[name].join("|");
        assert_eq!((of("timeout"), of("connect-timeout")), ("7.5".into(), "3".into()));
        assert_eq!((of("away-wait"), of("serial")), ("1".into(), "true".into()));
        assert_eq!(of("header"), "X-A: 1|X-B: 2");
        assert_eq!((of("oauth-param"), of("token-store")), ("tenant=t".into(), "file".into()));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let wrong = |text| read(text).err().unwrap().0;
        assert!(wrong("{\n  \"timeout\": 1,,\n}").contains("config.json, line 2, column 16"));
        assert!(wrong("[]").contains("not a JSON object"));
        assert!(wrong(r#"{"time-out": 1}"#).contains("is it 'timeout'?"));
        assert!(wrong(r#"{"mcpserver": {}}"#).contains("is it 'mcpServers'?"));
        assert!(wrong("{\n\"zzz\": 1}").contains("config.json, line 2, column 1: nobody knows"));
        assert!(wrong(r#"{"zzz": 1}"#).contains("names of flags"));
        assert!(wrong(r#"{"serial": "x"}"#).contains("'serial' is of the wrong sort"));
        assert!(wrong(r#"{"timeout": [1]}"#).contains("wrong sort"));
        assert!(wrong(r#"{"config": "x"}"#).contains("wrong sort"));
    }

    fn read_other(text: &str) -> Result<ConfigFile, Usage> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.json");
        std::fs::write(&path, text).unwrap();
        ConfigFile::read(Found { path, is_own: false }, &Cli::command(), &|_| None)
    }

    #[test]
    fn a_file_of_another_program_is_taken_for_its_servers() {
        let text = r#"{"theme": "One", "serial": "x", "timeout": 3, // mine
            "context_servers": {"a": {"command": "c"}},}"#;
        assert!(read(text).is_err(), "not in our own");
        let file = read_other(text).unwrap();
        assert_eq!(file.passed_over, ["theme", "serial", "timeout"]);
        assert!(file.servers.has("a") && !file.has("timeout"), "who knows what they mean there");
        let file = read_other(r#"{"timeout": 3, "servers": {}}"#).unwrap();
        assert_eq!(file.values["timeout"], ["3"], "all of it is ours");
        let wrong = |text| read_other(text).err().unwrap().0;
        assert!(wrong(r#"{"timout": 3, "servers": {}}"#).contains("is it 'timeout'?"));
        assert!(wrong(r#"{"theme": 3}"#).contains("nobody knows"), "there is nothing for us in it");
    }

    #[test]
    fn an_entry_stands_before_the_rest_of_the_file() {
        let file = read(
            r#"{"timeout": 3, "awayWait": 4, "bearerCommand": "x", "mcpHubMode": true,
                "headers": {"authorization": "a", "X-A": "1"},
                "mcpServers": {
                    "a": {"url": "http://h", "type": "http", "timeout": 5000, "bearerFile": "f"},
                    "b": {"url": "http://h", "headers": {"Authorization": "b"}},
                    "c": {"url": "http://h"}}}"#,
        )
        .unwrap();
        let under = |name: &str| file.under(&file.servers.find(name).unwrap().unwrap());
        let a = under("a");
        assert_eq!((&*a.values["timeout"][0], &*a.values["away-wait"][0]), ("5", "4"));
        assert_eq!(a.values["header"], ["X-A: 1"], "another Authorization");
        assert!(!a.has("bearer-command") && a.has("bearer-file") && !a.has("mcp-hub-mode"));
        assert_eq!((a.server_of("transport"), a.server_of("away-wait")), (Some("a"), None));
        assert!(!under("b").has("bearer-command"));
        let c = under("c");
        assert!(c.has("bearer-command") && c.has("mcp-hub-mode"));
        assert_eq!(c.values["header"].len(), 2);
    }
}
