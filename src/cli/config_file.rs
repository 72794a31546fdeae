//! The configuration file: defaults for all servers, under the names of the flags.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, Args, Command};
use serde_json::Value;

use super::compat_proxy::Theirs;
use super::report::Usage;

/// Read before all others; see `config_file`.
#[derive(Args, Debug)]
#[command(next_help_heading = "Configuration")]
pub(super) struct File {
    /// Read defaults from this file, in place of mcp-span/config.json in the configuration folder
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
}

/// Flags that say something about one run, or about the file itself.
const NOT_IN_FILE: [&str; 4] = ["help", "version", "config", "no-config"];

/// Which file to read: the one that was named, else the usual one if it is there.
pub(super) fn find(
    args: &[OsString],
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Option<PathBuf>, Usage> {
    let own = args.iter().take_while(|arg| *arg != "--");
    let mut own = own.filter_map(|arg| arg.to_str());
    let mut named = None;
    while let Some(arg) = own.next() {
        match arg.split_once('=') {
            Some(("--config", path)) => named = Some(PathBuf::from(path)),
            None if arg == "--config" => named = own.next().map(PathBuf::from),
            None if arg == "--no-config" => return Ok(None),
            _ => {}
        }
    }
    let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
    if let Some(path) = named.or_else(|| variable("MCP_SPAN_CONFIG").map(PathBuf::from)) {
        return match path.is_file() {
            true => Ok(Some(path)),
            false => Err(Usage::new(format!("there is no file {}", path.display()))),
        };
    }
    let folder = variable("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = folder
        .or_else(|| variable("APPDATA").map(PathBuf::from).filter(|_| cfg!(windows)))
        .or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".config")));
    Ok(folder.map(|folder| folder.join("mcp-span/config.json")).filter(|path| path.is_file()))
}

impl ConfigFile {
    /// Reads the file; every key must be the name of a flag of `command`.
    pub(super) fn read(path: PathBuf, command: &Command) -> Result<Self, Usage> {
        let shown = path.display().to_string();
        check_owner(&path)?;
        let text = std::fs::read_to_string(&path)
            .map_err(|error| Usage::new(format!("{shown} cannot be read: {error}")))?;
        let entries: BTreeMap<String, Value> = serde_json::from_str(&text).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            let what = if error.is_data() { "is not a JSON object" } else { "is not JSON" };
            Usage::new(format!("{shown}, line {line}, column {column}: this {what}: {error}"))
        })?;
        let mut values = BTreeMap::new();
        for (key, value) in entries {
            let name = flag_name(&key);
            let Some(arg) = command.get_arguments().find(|arg| arg.get_long() == Some(&name))
            else {
                return Err(Usage::new(format!("{shown}: {}", unknown(&key, command))));
            };
            let texts = texts(&value, arg).ok_or_else(|| {
                Usage::new(format!("{shown}: the value of '{key}' is of the wrong sort"))
            })?;
            values.insert(name, texts);
        }
        Ok(Self { path: Some(path), values, theirs: BTreeSet::new() })
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
        let path = self.path.as_ref()?.display();
        let why = std::error::Error::source(error).map_or(String::new(), |why| format!(": {why}"));
        Some(Usage::new(format!("{path}: the value of '{long}' is not one that it can have{why}")))
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

/// A file that others can write could name a program for us to run.
#[cfg(unix)]
fn check_owner(path: &Path) -> Result<(), Usage> {
    use std::os::unix::fs::PermissionsExt;
    let Ok(meta) = std::fs::metadata(path) else { return Ok(()) };
    if meta.permissions().mode() & 0o022 == 0 {
        return Ok(());
    }
    let shown = path.display();
    Err(Usage::new(format!("others can write to {shown}: make it yours alone with chmod 600")))
}

#[cfg(not(unix))]
fn check_owner(_: &Path) -> Result<(), Usage> {
    Ok(())
}

/// `connectTimeout`, `connect_timeout` and `connect-timeout` are the same; headers may be a list.
fn flag_name(key: &str) -> String {
    let mut name = String::new();
    for letter in key.chars() {
        match letter {
            '_' => name.push('-'),
            'A'..='Z' => {
                name.push('-');
                name.push(letter.to_ascii_lowercase());
            }
            letter => name.push(letter),
        }
    }
    if name == "headers" { "header".to_owned() } else { name }
}

fn unknown(key: &str, command: &Command) -> String {
    let name = flag_name(key);
    let known =
        command.get_arguments().filter_map(Arg::get_long).filter(|l| !NOT_IN_FILE.contains(l));
    let nearest = known.max_by(|a, b| {
        let near = |long: &str| strsim::jaro_winkler(long, &name);
        near(a).total_cmp(&near(b))
    });
    match nearest.filter(|long| strsim::jaro_winkler(long, &name) > 0.75) {
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
        Value::String(text) if arg.get_action().takes_values() => Some(vec![text.clone()]),
        Value::Number(number) if arg.get_action().takes_values() => Some(vec![number.to_string()]),
        Value::Array(values) if many => {
            values.iter().map(|value| value.as_str().map(str::to_owned)).collect()
        }
        Value::Object(pairs) if many => pairs
            .iter()
            .map(|(name, value)| {
                let between = if arg.get_long() == Some("header") { ": " } else { "=" };
                value.as_str().map(|value| format!("{name}{between}{value}"))
            })
            .collect(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::args::Cli;

    fn read(text: &str) -> Result<ConfigFile, Usage> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        std::fs::write(&path, text).unwrap();
        ConfigFile::read(path, &Cli::command())
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
        assert!(wrong(r#"{"zzz": 1}"#).contains("names of flags"));
        assert!(wrong(r#"{"serial": "x"}"#).contains("'serial' is of the wrong sort"));
        assert!(wrong(r#"{"timeout": [1]}"#).contains("wrong sort"));
        assert!(wrong(r#"{"config": "x"}"#).contains("wrong sort"));
    }

    #[test]
    fn the_file_is_looked_for_where_people_expect_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".config/mcp-span/config.json");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "{}").unwrap();
        let home = folder.path().as_os_str().to_owned();
        let variable = move |name: &str| (name == "HOME").then(|| home.clone());
        let args = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(find(&args(&["x"]), &variable).unwrap(), Some(path.clone()));
        assert_eq!(find(&args(&["x", "--no-config"]), &variable).unwrap(), None);
        assert_eq!(find(&args(&["x"]), |_| None).unwrap(), None);
        let named = args(&["x", "--config", path.to_str().unwrap()]);
        assert_eq!(find(&named, |_| None).unwrap(), Some(path));
        assert!(find(&args(&["x", "--config=/no/such"]), |_| None).is_err());
    }
}
