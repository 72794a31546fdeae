//! What an entry is to hold: the words behind our name, as they were typed, and its variables.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, Subcommand, ValueHint};
use url::Url;

use super::super::args::{Connect, TWO_SERVERS};
use super::super::commands::Command as Commands;
use super::super::report::Usage;
use super::super::{config, settings};
use super::naming::{name_for, name_for_program};
use mcp_span::secret::{is_key, is_secret_name};

/// The server that the entry leads to.
pub(super) struct Target {
    /// How it is named on our command line; nothing if a flag does that.
    words: Vec<String>,
    /// The name that suggests itself.
    pub(super) name: String,
    url: Option<Url>,
}

/// The command behind `--`, as texts: no client's file can hold anything else.
pub(super) fn program(typed: &[OsString]) -> Result<Vec<String>, Usage> {
    let texts = typed.iter().map(|word| word.to_str().map(str::to_owned));
    texts.collect::<Option<_>>().ok_or_else(|| {
        Usage::new("the command behind -- is not UTF-8, and has no place in the file")
    })
}

/// Which server is meant.
pub(super) fn target(typed: &Connect, program: &[String]) -> Result<Target, Usage> {
    let by_flag = |name: String| Target { words: Vec::new(), name, url: None };
    if !program.is_empty() {
        if typed.options.url.is_some() {
            return Err(Usage::new(TWO_SERVERS));
        }
        return Ok(by_flag(name_for_program(program)));
    }
    if let Some(entry) = &typed.entry {
        // Spelled out, where the name alone would be a command (C36).
        let connect = Commands::has_subcommand(&entry.name).then(|| "connect".to_owned());
        let words = connect.into_iter().chain([entry.name.clone()]).collect();
        return Ok(Target { words, name: entry.name.clone(), url: None });
    }
    if typed.options.url.is_none() && typed.options.mcp_hub.is_some() {
        return Ok(by_flag("mcp-hub".to_owned()));
    }
    let url = settings::typed_url(typed)?;
    let words = typed.options.url.iter().cloned().collect();
    Ok(Target { words, name: name_for(&url), url: Some(url) })
}

/// The words behind our program's name.
pub(super) struct Words {
    pub(super) args: Vec<String>,
    /// The same without secrets.
    pub(super) shown: Vec<String>,
    /// What somebody should know who has typed them.
    pub(super) warnings: Vec<String>,
    /// Variables that are read when the server is started.
    variables: Vec<String>,
    /// Variables whose values now stand in `MCP_SPAN_HEADER` as well.
    moved: Vec<String>,
    /// Headers, with their places in `args` and `shown`.
    headers: Vec<(Range<usize>, usize, String)>,
}

/// Flags of `install` that say nothing about the server.
const OWN: [&str; 10] =
    ["client", "url", "program", "name", "env", "scope", "force", "json", "print", "help"];

/// Takes over every flag that was typed for the connection; what is in the environment or in the
/// configuration file holds for the client's process as well, or not, as the user wants it.
pub(super) fn words(
    command: &Command,
    matches: &ArgMatches,
    target: &Target,
    program: &[String],
) -> Result<Words, Usage> {
    let mut words = Words {
        args: target.words.clone(),
        shown: match &target.url {
            Some(url) => vec![mcp_span::secret::shown(url)],
            None => target.words.clone(),
        },
        warnings: target.url.iter().filter_map(warn_of_url).collect(),
        variables: Vec::new(),
        moved: Vec::new(),
        headers: Vec::new(),
    };
    let is_ours = |arg: &&Arg| !OWN.contains(&arg.get_id().as_str());
    let mut flags = Vec::new();
    for arg in command.get_arguments().filter(is_ours) {
        let id = arg.get_id().as_str();
        if matches.value_source(id) == Some(ValueSource::CommandLine) {
            let values = matches.get_raw(id).into_iter().flatten();
            let places = matches.indices_of(id).into_iter().flatten();
            flags.extend(places.zip(values).map(|(place, value)| (place, arg, value)));
        }
    }
    flags.sort_unstable_by_key(|(place, ..)| *place);
    for (_, arg, value) in flags {
        let long = arg.get_long().unwrap_or_default();
        let value = value.to_str().ok_or_else(|| {
            Usage::new(format!("the value of --{long} is not UTF-8, and has no place in the file"))
        })?;
        words.add(arg, long, value)?;
    }
    if let [first, ..] = program {
        words.args.push("--".to_owned());
        words.args.extend(program.iter().cloned());
        let more = if program.len() > 1 { " …" } else { "" };
        words.shown.push(format!("-- {first}{more}"));
    }
    Ok(words)
}

impl Words {
    fn add(&mut self, arg: &Arg, long: &str, value: &str) -> Result<(), Usage> {
        if !arg.get_action().takes_values() {
            self.args.push(format!("--{long}"));
            self.shown.push(format!("--{long}"));
            return Ok(());
        }
        let value = match arg.get_value_hint() {
            ValueHint::AnyPath => absolute(long, value)?,
            _ => value.to_owned(),
        };
        let begin = self.args.len();
        let can_be_missing = arg.get_num_args().is_some_and(|range| range.min_values() == 0);
        if can_be_missing || value.starts_with('-') {
            self.args.push(format!("--{long}={value}"));
        } else {
            self.args.extend([format!("--{long}"), value.clone()]);
        }
        let shown = config::shown_value(long, std::slice::from_ref(&value));
        let shown = shlex::try_quote(&shown).map_or(shown.clone(), Cow::into_owned);
        self.shown.push(format!("--{long} {shown}"));
        if long.ends_with("-env") {
            self.variables.push(value.clone());
        }
        if long == "header" {
            self.variables.extend(names_in(&value));
            self.warnings.extend(warn_of_header(&value));
            self.headers.push((begin..self.args.len(), self.shown.len() - 1, value));
        }
        Ok(())
    }

    /// Moves the headers to the variables of the entry, with the values of those that it sets put in,
    /// for a client that would replace them by what the shell has under the same name.
    pub(super) fn move_headers(&mut self, env: &mut BTreeMap<String, String>, client: &str) {
        let filled: Vec<String> =
            self.headers.iter().map(|(.., header)| with_values(header, env)).collect();
        if filled.iter().zip(&self.headers).all(|(filled, (.., header))| filled == header) {
            return;
        }
        for (place, shown, header) in self.headers.drain(..).rev() {
            self.moved.extend(references_in(&header).map(|(name, _)| name.to_owned()));
            self.args.drain(place);
            self.shown.remove(shown);
            let has_dollar = |name: &String| env.get(name).is_some_and(|v| v.contains('$'));
            self.warnings.extend(names_in(&header).filter(has_dollar).map(|name| {
                format!("{client} may replace what stands behind a '$' in the value of {name}")
            }));
        }
        self.shown.push(format!("({HEADERS} in its environment)"));
        env.insert(HEADERS.to_owned(), filled.join("\n"));
        self.variables.push(HEADERS.to_owned());
    }

    /// A word on each variable that the entry does not set itself.
    pub(super) fn warn_of_variables(&mut self, env: &BTreeMap<String, String>, client: &str) {
        let mut missing: Vec<&str> = Vec::new();
        for name in &self.variables {
            if !env.contains_key(name) && !missing.contains(&name.as_str()) {
                missing.push(name);
            }
        }
        self.warnings.extend(missing.iter().map(|name| {
            format!(
                "{name} has to be in the environment that {client} gives its servers, and many \
                 clients pass on little of their own: --env {name}=VALUE writes it into the entry"
            )
        }));
    }
}

impl Words {
    /// A word on each secret that stands in a file which others can read.
    pub(super) fn warn_of_readers(&mut self, env: &BTreeMap<String, String>, file: &Path) {
        let is_used = |name: &String| self.variables.contains(name) || self.moved.contains(name);
        let is_secret = |name: &&String| is_secret_name(&name.to_lowercase()) || is_used(name);
        // Nobody has typed what the headers were moved to: it holds the values of the others.
        let is_typed = |name: &&String| self.moved.is_empty() || *name != HEADERS;
        let names = env.keys().filter(is_secret).filter(is_typed);
        let names: Vec<_> = names.map(String::as_str).collect();
        if !names.is_empty() {
            let stand = if names.len() == 1 { "stands" } else { "stand" };
            let (names, file) = (names.join(", "), file.display());
            self.warnings.push(format!("others can read {file}, where {names} {stand} as typed"));
        }
    }
}

/// The variables of the entry.
pub(super) fn variables(typed: &[String]) -> Result<BTreeMap<String, String>, Usage> {
    let pair = |text: &String| match text.split_once('=') {
        Some((name, _)) if name.contains(char::is_whitespace) => {
            Err(Usage::new("--env: there is white space in the name of a variable"))
        }
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        // What was typed may be the value alone.
        _ => Err(Usage::new("--env needs a name and a value: --env NAME=VALUE")),
    };
    typed.iter().map(pair).collect()
}

/// Flags whose files the server makes itself.
const WRITTEN: [&str; 3] = ["log-file", "trace-file", "state-dir"];

/// The client starts in another folder. What is to be read has to be there: else the entry could
/// never start, and nobody would see why.
fn absolute(long: &str, value: &str) -> Result<String, Usage> {
    let path = std::path::absolute(value).unwrap_or_else(|_| PathBuf::from(value));
    if !WRITTEN.contains(&long) && !path.exists() {
        return Err(Usage::new(format!("--{long}: there is no file {}", path.display())));
    }
    let path = path.into_os_string().into_string();
    path.map_err(|_| Usage::new(format!("the path of '{value}' is not UTF-8")))
}

fn warn_of_url(url: &Url) -> Option<String> {
    let has_key = url.password().is_some()
        || url.query_pairs().any(|(name, _)| is_secret_name(&name.to_ascii_lowercase()))
        || url.path_segments().is_some_and(|mut parts| parts.any(is_key));
    has_key.then(|| "what looks like a secret in the URL stands in the file as typed".to_owned())
}

fn warn_of_header(header: &str) -> Option<String> {
    let (name, value) = header.split_once(':')?;
    let is_secret = is_secret_name(&name.trim().to_ascii_lowercase()) && !value.contains("${");
    is_secret.then(|| {
        let name = name.trim();
        format!(
            "the value of '{name}' stands in the file as typed, where every program of yours can \
             read it: better write '{name}: ${{TOKEN}}', and --env TOKEN=… or a variable of the \
             client's own"
        )
    })
}

/// The variable that holds headers, one a line.
const HEADERS: &str = "MCP_SPAN_HEADER";

/// `text` with the values of those variables that the entry sets; the others stay as they are.
fn with_values(text: &str, env: &BTreeMap<String, String>) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, reference)) = rest.split_once("${") {
        let Some((inner, behind)) = reference.split_once('}') else { break };
        filled.push_str(before);
        let name = inner.split(":-").next().unwrap_or_default();
        let value = env.get(name.strip_prefix("env:").unwrap_or(name));
        match value.filter(|value| !value.is_empty() && !inner.contains("${")) {
            Some(value) => filled.push_str(value),
            None => filled.extend(["${", inner, "}"]),
        }
        rest = behind;
    }
    filled + rest
}

/// The names in `${NAME}` and `${env:NAME}`; not those that can do without a value.
fn names_in(text: &str) -> impl Iterator<Item = String> + '_ {
    references_in(text).filter(|(_, has_default)| !has_default).map(|(name, _)| name.to_owned())
}

/// The same with all of them, and whether each can do without a value.
fn references_in(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let references = text.split("${").skip(1).filter_map(|rest| Some(rest.split_once('}')?.0));
    references.map(|reference| {
        let (name, default) = match reference.split_once(":-") {
            Some((name, _)) => (name, true),
            None => (reference, false),
        };
        (name.strip_prefix("env:").unwrap_or(name), default)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_entry_are_put_in_and_other_variables_stay() {
        let env =
            BTreeMap::from([("A".to_owned(), "1".to_owned()), ("E".to_owned(), String::new())]);
        let filled = |text: &str| with_values(text, &env);
        assert_eq!(filled("X: a${A}b${env:A}${A:-2}"), "X: a1b11");
        assert_eq!(filled("X: ${B} ${E:-2} ${A"), "X: ${B} ${E:-2} ${A");
        assert_eq!(filled("X: ${B:-${A}}"), "X: ${B:-${A}}");
        assert_eq!(filled("X: $A {A}"), "X: $A {A}");
    }
}
