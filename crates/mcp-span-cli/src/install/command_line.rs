//! What the client is to pass to this program: the server and the flags, as they were typed, and
//! variables.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, Subcommand, ValueHint};
use url::Url;

use super::super::args::{Connect, Parsed, TWO_SERVERS};
use super::super::commands::Command;
use super::super::report::Usage;
use super::super::{config, settings};
use super::server_name;
use mcp_span::secret::{self, is_key, is_secret_name};

/// The words behind our program's name.
#[derive(Default)]
pub(super) struct CommandLine {
    parts: Vec<Part>,
    /// The name for the server that suggests itself.
    pub(super) name: String,
    pub(super) warnings: Vec<String>,
}

/// A flag with its value, the server, or the program behind `--`.
#[derive(Default)]
struct Part {
    args: Vec<String>,
    /// The same without secrets.
    shown: String,
    /// Of a flag: its name and its value.
    flag: String,
    value: Option<String>,
}

/// Flags of `install` that say nothing about the server.
const OWN: [&str; 12] = [
    "client", "url", "program", "name", "env", "scope", "force", "json", "print", "help", "color",
    "quiet",
];

/// The variable that holds headers, one a line.
const HEADERS: &str = "MCP_SPAN_HEADER";

impl CommandLine {
    /// Takes over every flag that was typed for the connection; what is in the environment or in the
    /// configuration file holds for the client's process as well, or not, as the user wants it.
    pub(super) fn from_args(parsed: &Parsed, typed: &Connect) -> Result<Self, Usage> {
        let mut line = Self::default();
        // An entry may have a command of its own.
        let program = typed.options.command.as_ref().filter(|_| typed.entry.is_none());
        let program = program.into_iter().flatten().map(|word| word.to_str().map(str::to_owned));
        let program: Vec<_> = program
            .collect::<Option<_>>()
            .ok_or_else(|| Usage::new("the command behind '--' is not valid UTF-8"))?;
        line.add_server(typed, &program)?;
        let Some((name, matches)) = parsed.matches.subcommand() else { return Ok(line) };
        let Some(command) = parsed.command.find_subcommand(name) else { return Ok(line) };
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
            line.parts.push(Part::for_flag(arg, value)?);
        }
        let warnings: Vec<_> = line.headers().filter_map(warn_of_header).collect();
        line.warnings.extend(warnings);
        if let [first, rest @ ..] = program.as_slice() {
            let shown = format!("-- {first}{}", if rest.is_empty() { "" } else { " …" });
            let args = ["--".to_owned()].into_iter().chain(program).collect();
            line.parts.push(Part { args, shown, ..Part::default() });
        }
        Ok(line)
    }

    /// Takes over how the server is named, unless a flag does that, or there is a program.
    fn add_server(&mut self, typed: &Connect, program: &[String]) -> Result<(), Usage> {
        let Connect { options, entry, .. } = typed;
        if !program.is_empty() {
            if options.url.is_some() {
                return Err(Usage::new(TWO_SERVERS));
            }
            self.name = server_name::from_program(program);
        } else if let Some(entry) = entry {
            // Spelled out, where the name alone would be a command (C36).
            let connect = Command::has_subcommand(&entry.name).then(|| "connect".to_owned());
            let args: Vec<_> = connect.into_iter().chain([entry.name.clone()]).collect();
            self.parts.push(Part { shown: args.join(" "), args, ..Part::default() });
            self.name = entry.name.clone();
        } else if options.url.is_none() && options.mcp_hub.is_some() {
            self.name = "mcp-hub".to_owned();
        } else {
            let url = settings::typed_url(typed)?;
            let args = options.url.iter().cloned().collect();
            self.parts.push(Part { args, shown: secret::shown(&url), ..Part::default() });
            self.name = server_name::from_url(&url);
            self.warnings.extend(warn_of_url(&url));
        }
        Ok(())
    }

    pub(super) fn args(&self) -> Vec<String> {
        self.parts.iter().flat_map(|part| part.args.clone()).collect()
    }

    /// The same without secrets, in a line.
    pub(super) fn shown(&self) -> String {
        let shown: Vec<_> = self.parts.iter().map(|part| part.shown.as_str()).collect();
        shown.join(" ")
    }

    fn headers(&self) -> impl Iterator<Item = &str> {
        let headers = self.parts.iter().filter(|part| part.flag == "header");
        headers.filter_map(|part| part.value.as_deref())
    }

    /// The names of variables that flags refer to, and whether one can do without a value.
    fn references(&self) -> impl Iterator<Item = (&str, bool)> {
        let in_headers = self.headers().flat_map(references_in);
        let named = self.parts.iter().filter(|part| part.flag.ends_with("-env"));
        in_headers.chain(named.filter_map(|part| Some((part.value.as_deref()?, false))))
    }

    /// Warns of each variable that is needed and not set in the entry.
    pub(super) fn warn_of_missing(&mut self, env: &BTreeMap<String, String>, client: &str) {
        let needed = self.references().filter(|(_, has_default)| !has_default);
        let missing = needed.map(|(name, _)| name).filter(|name| !env.contains_key(*name));
        let missing: BTreeSet<_> = missing.map(str::to_owned).collect();
        self.warnings.extend(missing.iter().map(|name| {
            format!(
                "{name} must be set in the environment of {client}, and many clients pass on little \
                 of theirs. Store it with the server: --env {name}=VALUE"
            )
        }));
    }

    /// The variables of the entry that hold secrets.
    pub(super) fn secrets(&self, env: &BTreeMap<String, String>) -> Vec<String> {
        let is_used = |name: &str| self.references().any(|(known, _)| known == name);
        let is_secret = |name: &&String| is_secret_name(&name.to_lowercase()) || is_used(name);
        env.keys().filter(is_secret).cloned().collect()
    }

    /// Moves the headers to the variables of the entry, with the values of those that it sets put in,
    /// for a client that would replace them by what the shell has under the same name.
    pub(super) fn move_headers(&mut self, env: &mut BTreeMap<String, String>, client: &str) {
        let filled: Vec<_> = self.headers().map(|header| with_values(header, env)).collect();
        if filled.iter().map(String::as_str).eq(self.headers()) {
            return;
        }
        let has_dollar = |name: &str| env.get(name).is_some_and(|value| value.contains('$'));
        let names = self.headers().flat_map(references_in).map(|(name, _)| name);
        let warnings: Vec<_> = names
            .filter(|name| has_dollar(name))
            .map(|name| format!("{client} may expand the '$' in the value of {name}"))
            .collect();
        self.warnings.extend(warnings);
        self.parts.retain(|part| part.flag != "header");
        env.insert(HEADERS.to_owned(), filled.join("\n"));
    }
}

impl Part {
    fn for_flag(arg: &Arg, value: &OsStr) -> Result<Self, Usage> {
        let name = arg.get_long().unwrap_or_default();
        let flag = format!("--{name}");
        if !arg.get_action().takes_values() {
            return Ok(Self { args: vec![flag.clone()], shown: flag, ..Self::default() });
        }
        let value = value
            .to_str()
            .ok_or_else(|| Usage::new(format!("the value of {flag} is not valid UTF-8")))?;
        let value = match arg.get_value_hint() {
            ValueHint::AnyPath => absolute(name, value)?,
            _ => value.to_owned(),
        };
        let shown = config::shown_value(name, std::slice::from_ref(&value));
        let shown = shlex::try_quote(&shown).unwrap_or(Cow::Borrowed(&shown));
        let shown = format!("{flag} {shown}");
        let can_be_missing = arg.get_num_args().is_some_and(|range| range.min_values() == 0);
        let args = if can_be_missing || value.starts_with('-') {
            vec![format!("{flag}={value}")]
        } else {
            vec![flag, value.clone()]
        };
        Ok(Self { args, shown, flag: name.to_owned(), value: Some(value) })
    }
}

/// The variables of the entry.
pub(super) fn variables(typed: &[String]) -> Result<BTreeMap<String, String>, Usage> {
    let pair = |text: &String| match text.split_once('=') {
        Some((name, _)) if name.contains(char::is_whitespace) => {
            Err(Usage::new("--env: the name of a variable contains white space"))
        }
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        // What was typed may be the value alone.
        _ => Err(Usage::new("--env needs a name and a value: --env NAME=VALUE")),
    };
    typed.iter().map(pair).collect()
}

/// Flags whose files the server makes itself.
const WRITTEN: [&str; 3] = ["log-file", "trace-file", "state-dir"];

/// The client starts in another folder. What is to be read has to be there: else the server could
/// never start, and nobody would see why.
fn absolute(long: &str, value: &str) -> Result<String, Usage> {
    let path = std::path::absolute(value).unwrap_or_else(|_| PathBuf::from(value));
    if !WRITTEN.contains(&long) && !path.exists() {
        return Err(Usage::new(format!("--{long}: {} does not exist", path.display())));
    }
    let not_utf8 = |path: &Path| Usage::new(format!("{} is not valid UTF-8", path.display()));
    path.into_os_string().into_string().map_err(|path| not_utf8(Path::new(&path)))
}

fn warn_of_url(url: &Url) -> Option<String> {
    let has_key = url.password().is_some()
        || url.query_pairs().any(|(name, _)| is_secret_name(&name.to_ascii_lowercase()))
        || url.path_segments().is_some_and(|mut parts| parts.any(is_key));
    has_key.then(|| "the URL seems to contain a secret, which is stored in plain text".to_owned())
}

fn warn_of_header(header: &str) -> Option<String> {
    let (name, value) = header.split_once(':')?;
    let name = name.trim();
    let is_secret = is_secret_name(&name.to_ascii_lowercase()) && !value.contains("${");
    is_secret.then(|| {
        format!(
            "the value of '{name}' is stored in plain text, where every program of yours can read \
             it. Use --header '{name}: ${{TOKEN}}', with --env TOKEN=… or a variable of the client"
        )
    })
}

/// `text` with the values of those variables that the entry sets; the others stay as they are.
fn with_values(text: &str, env: &BTreeMap<String, String>) -> String {
    let mut parts = text.split("${");
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let reference = part.split_once('}');
        let value = reference.and_then(|(inner, _)| env.get(reference_of(inner).0));
        match (reference, value.filter(|value| !value.is_empty())) {
            (Some((_, rest)), Some(value)) => filled.extend([value, rest]),
            _ => filled.extend(["${", part]),
        }
    }
    filled
}

/// The names in `${NAME}`, `${env:NAME}` and `${NAME:-default}`, and whether each has a default.
fn references_in(text: &str) -> impl Iterator<Item = (&str, bool)> {
    text.split("${").skip(1).filter_map(|rest| Some(reference_of(rest.split_once('}')?.0)))
}

fn reference_of(inner: &str) -> (&str, bool) {
    let (name, has_default) = match inner.split_once(":-") {
        Some((name, _)) => (name, true),
        None => (inner, false),
    };
    (name.strip_prefix("env:").unwrap_or(name), has_default)
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
        assert_eq!(filled("X: ${B:-${A}}"), "X: ${B:-1}");
        assert_eq!(filled("X: $A {A}"), "X: $A {A}");
    }
}
