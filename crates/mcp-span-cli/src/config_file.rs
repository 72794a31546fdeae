//! The configuration file: options for all servers, under the names of the flags, and servers that
//! have names.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::config_place::{Found, read_file};
use super::nearest::did_you_mean;
use super::report::Usage;
use super::servers::Servers;
use mcp_span::ServerOptions;
use mcp_span::config::{self, ConfigError, Member, Value, flag_name};
use mcp_span::options::{self, OPTIONS, Origin};

/// Read before all others; see `config_file`.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Configuration")]
pub(super) struct File {
    /// Read defaults and servers from this file
    ///
    /// In place of mcp-span/config.json in the configuration directory.
    #[arg(long, value_name = "FILE", env = "MCP_SPAN_CONFIG")]
    pub(super) config: Option<PathBuf>,

    /// Read no configuration file
    #[arg(long, conflicts_with = "config")]
    pub(super) no_config: bool,
}

/// What the file says.
#[derive(Clone, Default)]
pub(super) struct ConfigFile {
    pub(super) path: Option<PathBuf>,
    /// Options for all servers.
    pub(super) options: ServerOptions,
    /// The servers that have names.
    pub(super) servers: Arc<Servers>,
    /// Keys at the top that are another program's.
    pub(super) passed_over: Vec<String>,
}

impl ConfigFile {
    /// Reads the file. Every key at its top must be the name of an option, unless it is another
    /// program's file with servers in it.
    pub(super) fn read(found: Found, lookup: config::Lookup<'_>) -> Result<Self, Usage> {
        let Found { path, is_own } = found;
        let shown = path.display().to_string();
        let text = read_file(&path)?;
        let usage = |fault: ConfigError| Usage::new(fault.to_string());
        let config = config::read(&shown, &text, lookup).map_err(usage)?;
        let is_another = |member: &Member| is_of_another_program(&member.key);
        let mut file = Self {
            path: Some(path),
            servers: Arc::new(Servers::new(config.entries)),
            ..Self::default()
        };
        if !is_own && config.has_servers && config.others.iter().any(is_another) {
            // It is there for its servers; what else it holds means something else.
            file.passed_over = config.others.into_iter().map(|member| member.key).collect();
            return Ok(file);
        }
        for member in &config.others {
            file.set(member)?;
        }
        Ok(file)
    }

    fn set(&mut self, member: &Member) -> Result<(), Usage> {
        let Member { key, place, value } = member;
        let option = option(key).ok_or_else(|| Usage::new(format!("{place}: {}", unknown(key))))?;
        let text = |node: &config::Node| match &node.value {
            Value::Text(text) | Value::Number(text) => Ok(text.clone()),
            _ => Err("it must be a list of texts".to_owned()),
        };
        let origin = Origin::File(place.clone());
        let set = value.set(&mut self.options, option, origin, text).and_then(|set| set);
        set.map_err(|why| Usage::new(format!("{}: \"{key}\": {why}", value.place)))
    }
}

/// The option that a key at the top of the file sets; which server is meant is said elsewhere.
fn option(key: &str) -> Option<&'static options::OptionInfo> {
    options::find(&flag_name(key)).filter(|option| option.name != "url")
}

/// Whether a key is neither ours nor a slip for one of ours.
fn is_of_another_program(key: &str) -> bool {
    let is_meant = || config::meant(key).is_some_and(|meant| option(meant).is_some());
    option(key).is_none() && !is_meant()
}

fn unknown(key: &str) -> String {
    let known = OPTIONS.iter().map(|option| option.name).filter(|name| *name != "url");
    match did_you_mean(&flag_name(key), known.chain(["mcpServers"])) {
        Some(question) => format!("unknown key '{key}', {question}"),
        None => format!("unknown key '{key}': keys are the names of flags"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ConfigFile, Usage> {
        read_as(text, true)
    }

    fn read_as(text: &str, is_own: bool) -> Result<ConfigFile, Usage> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        std::fs::write(&path, text).unwrap();
        ConfigFile::read(Found { path, is_own }, &|_| None)
    }

    fn texts(options: &ServerOptions, name: &str) -> Option<String> {
        Some(options.texts(options::find(name).unwrap())?.join("|"))
    }

    #[test]
    fn keys_are_the_names_of_flags_in_any_spelling() {
        let file = read(
            r#"{"timeout": 7.5, "connectTimeout": "3", "away_wait": 1, "serial": true,
                "headers": {"X-A": "1", "X-B": "2"}, "log-level": "debug",
                "oauthParam": {"tenant": "t"}, "tokenStore": "file", "oauthGrant": "device-code"}"#,
        )
        .unwrap();
        let of = |name: &str| texts(&file.options, name).unwrap();
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
        assert!(wrong(r#"{"time-out": 1}"#).contains("did you mean 'timeout'?"));
        assert!(wrong(r#"{"mcpserver": {}}"#).contains("did you mean 'mcpServers'?"));
        assert!(wrong("{\n\"zzz\": 1}").contains("config.json, line 2, column 1: unknown key"));
        assert!(wrong(r#"{"zzz": 1}"#).contains("names of flags"));
        assert!(wrong(r#"{"serial": "x"}"#).contains("column 12: \"serial\": it must be true"));
        assert!(wrong(r#"{"timeout": [1]}"#).contains("a text or a number"));
        assert!(wrong(r#"{"caCert": [true]}"#).contains("a list of texts"));
        assert!(wrong(r#"{"config": "x"}"#).contains("unknown key"));
    }

    #[test]
    fn a_file_of_another_program_is_taken_for_its_servers() {
        let text = r#"{"theme": "One", "serial": "x", "timeout": 3, // mine
            "context_servers": {"a": {"command": "c"}},}"#;
        assert!(read(text).is_err(), "not in our own");
        let file = read_as(text, false).unwrap();
        assert_eq!(file.passed_over, ["theme", "serial", "timeout"]);
        assert!(file.servers.has("a") && file.options.timeout.is_none(), "who knows what it means");
        let file = read_as(r#"{"timeout": 3, "servers": {}}"#, false).unwrap();
        assert_eq!(texts(&file.options, "timeout").unwrap(), "3", "all of it is ours");
        let wrong = |text| read_as(text, false).err().unwrap().0;
        assert!(wrong(r#"{"timout": 3, "servers": {}}"#).contains("did you mean 'timeout'?"));
        assert!(wrong(r#"{"theme": 3}"#).contains("unknown key"), "there is nothing for us in it");
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
        let under = |name: &str| {
            let mut options = file.servers.find(name).unwrap().unwrap().options.clone();
            options.merge(file.options.clone());
            options
        };
        let a = under("a");
        let is = |name: &str, value: &str| assert_eq!(texts(&a, name).unwrap(), value);
        is("timeout", "5");
        is("away-wait", "4");
        is("header", "X-A: 1");
        is("bearer-file", "f");
        assert!(a.bearer_command.is_none() && a.mcp_hub_mode.is_none());
        assert!(matches!(a.origin("transport"), Some(Origin::Server(name, _)) if name == "a"));
        assert!(matches!(a.origin("away-wait"), Some(Origin::File(_))));
        assert!(under("b").bearer_command.is_none());
        let c = under("c");
        assert!(c.bearer_command.is_some() && c.mcp_hub_mode == Some(true));
        assert_eq!(c.headers.unwrap().len(), 2);
    }
}
