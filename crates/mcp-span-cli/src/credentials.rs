//! Which source of credentials was asked for, checked as far as that is possible before it is used.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::FalseyValueParser;
use clap::{ArgMatches, Args};

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};

use super::args::{Connect, is_explicit};
use super::environment;
use super::report::Usage;
use super::values::{seconds_text, some_seconds};
use mcp_span::auth::{CredentialCommand, Credentials, Prints, Source, bare_token, read_token_file};
use mcp_span::environment::Environment;
use mcp_span::limits;
use mcp_span::secret::{Scrubber, Secret};
use mcp_span::wire::header;

/// Tokens that need not stand on the command line.
#[derive(Args)]
#[cfg_attr(test, derive(Debug))]
#[command(next_help_heading = "Credentials")]
pub(super) struct Flags {
    /// Send the value of this variable as a bearer token
    #[arg(long, value_name = "VAR", env = "MCP_SPAN_BEARER_ENV", group = "credential")]
    pub(super) bearer_env: Option<String>,

    /// Send what is in this file as a bearer token; it is read again when it changes
    #[arg(long, value_name = "FILE", env = "MCP_SPAN_BEARER_FILE", group = "credential")]
    pub(super) bearer_file: Option<PathBuf>,

    /// Send what this command prints as a bearer token; it is run again on 401 and 403
    #[arg(
        long,
        value_name = "CMD",
        env = "MCP_SPAN_BEARER_COMMAND",
        hide_env_values = true,
        group = "credential"
    )]
    pub(super) bearer_command: Option<String>,

    /// Send the headers that this command prints, as lines or as a JSON object
    #[arg(
        long,
        value_name = "CMD",
        env = "MCP_SPAN_HEADER_COMMAND",
        hide_env_values = true,
        group = "credential"
    )]
    pub(super) header_command: Option<String>,

    /// Give the command to the shell, in place of splitting it into words
    #[arg(long, env = "MCP_SPAN_CREDENTIAL_SHELL", value_parser = FalseyValueParser::new())]
    pub(super) credential_shell: bool,

    /// Seconds for which the output of the command is used
    #[arg(
        long,
        value_name = "SECONDS",
        env = "MCP_SPAN_CREDENTIAL_TTL",
        default_value = seconds_text(limits::CREDENTIAL_TTL),
        value_parser = some_seconds
    )]
    pub(super) credential_ttl: Duration,
}

impl Flags {
    /// Where one source was typed or is in the environment, those from the file do not count.
    /// Whether there is such a source.
    pub(super) fn keep_explicit(&mut self, matches: &ArgMatches) -> bool {
        let is_explicit = |id: &str| is_explicit(matches, id);
        let ids = ["bearer_env", "bearer_file", "bearer_command", "header_command"];
        if !ids.iter().any(|id| is_explicit(id)) {
            return false;
        }
        self.bearer_env.take_if(|_| !is_explicit("bearer_env"));
        self.bearer_file.take_if(|_| !is_explicit("bearer_file"));
        self.bearer_command.take_if(|_| !is_explicit("bearer_command"));
        self.header_command.take_if(|_| !is_explicit("header_command"));
        true
    }

    /// The flag of the source that there is.
    pub(super) fn source(&self) -> Option<&'static str> {
        let given = [
            self.bearer_env.is_some(),
            self.bearer_file.is_some(),
            self.bearer_command.is_some(),
            self.header_command.is_some(),
        ];
        SOURCES.into_iter().zip(given).find_map(|(flag, is_given)| is_given.then_some(flag))
    }

    /// Whether the token of a source goes into the header that `Authorization` is.
    pub(super) fn is_bearer(&self) -> bool {
        self.bearer_env.is_some() || self.bearer_file.is_some() || self.bearer_command.is_some()
    }
}

/// The flags of which one is enough.
pub(super) const SOURCES: [&str; 4] =
    ["bearer-env", "bearer-file", "bearer-command", "header-command"];

/// The source for what changes; what does not change goes into `headers`.
pub(super) fn of(
    typed: &Connect,
    headers: &mut HeaderMap,
    scrubber: &Scrubber,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<Option<Credentials>, Usage> {
    let environment = || environment::for_program(typed);
    let typed = &typed.credentials;
    if typed.is_bearer() && headers.contains_key(AUTHORIZATION) {
        return Err(Usage::new(
            "there is a header 'Authorization' and a bearer token as well: leave one of them out",
        ));
    }
    if let Some(name) = &typed.bearer_env {
        let value = bearer(name, lookup(name))?;
        scrubber.add(&Secret::new(value.to_str().unwrap_or_default()));
        headers.insert(AUTHORIZATION, value);
        return Ok(None);
    }
    let path = lookup("PATH");
    let Some(source) = source(typed, path.as_deref(), environment)? else { return Ok(None) };
    Ok(Some(Credentials::new(source, typed.credential_ttl, scrubber.clone())))
}

fn bearer(name: &str, value: Option<String>) -> Result<HeaderValue, Usage> {
    let wrong = |why: &str| Usage::new(format!("--bearer-env: the variable {name} {why}"));
    let value = value.ok_or_else(|| wrong("is not set"))?;
    let token = bare_token(&value);
    if token.is_empty() {
        return Err(wrong("is empty"));
    }
    header::secret(&format!("Bearer {token}"))
        .map_err(|_| wrong("holds characters that no header can carry"))
}

fn source(
    typed: &Flags,
    path: Option<&str>,
    environment: impl Fn() -> Environment,
) -> Result<Option<Source>, Usage> {
    if let Some(file) = &typed.bearer_file {
        read_token_file(file).map_err(|error| {
            let reason = error.reason.map_or(String::new(), |reason| format!(": {reason}"));
            Usage::new(format!("--bearer-file: {}{reason}", error.message))
        })?;
        return Ok(Some(Source::File(file.clone())));
    }
    let commands = [
        (&typed.bearer_command, Prints::Token, "--bearer-command"),
        (&typed.header_command, Prints::Headers, "--header-command"),
    ];
    for (text, prints, flag) in commands {
        if let Some(text) = text {
            let words = words(text, typed.credential_shell);
            let command = words
                .and_then(|words| CredentialCommand::new(words, prints, environment()))
                .ok_or_else(|| {
                    Usage::new(format!(
                        "{flag}: there is no command in it, or a quote is not closed"
                    ))
                })?;
            if !can_be_found(command.program(), path) {
                let name = command.program();
                return Err(Usage::new(format!("{flag}: there is no program '{name}' to be run")));
            }
            return Ok(Some(Source::Command(command)));
        }
    }
    Ok(None)
}

fn words(text: &str, by_shell: bool) -> Option<Vec<String>> {
    if by_shell {
        let shell = if cfg!(windows) { ["cmd", "/C"] } else { ["/bin/sh", "-c"] };
        let words = shell.into_iter().chain([text]);
        return (!text.trim().is_empty()).then(|| words.map(str::to_owned).collect());
    }
    shlex::split(text)
}

/// Whether the system will find the program; better now than in the middle of the first call.
fn can_be_found(program: &str, path: Option<&str>) -> bool {
    if Path::new(program).components().count() > 1 {
        return Path::new(program).exists();
    }
    let Some(path) = path else { return true };
    let endings: &[&str] = if cfg!(windows) { &["", ".exe", ".cmd", ".bat"] } else { &[""] };
    let exists = |folder: PathBuf| {
        endings.iter().any(|end| folder.join(format!("{program}{end}")).is_file())
    };
    std::env::split_paths(path).any(exists)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_split_into_words_unless_a_shell_is_asked_for() {
        let split = |text| words(text, false);
        assert_eq!(split("a 'b c' d\\ e").unwrap(), ["a", "b c", "d e"]);
        assert_eq!(split("a 'b"), None);
        assert_eq!(split("  ").unwrap(), Vec::<String>::new());
        assert_eq!(words("a | b", true).unwrap().last().unwrap(), "a | b");
        assert_eq!(words(" ", true), None);
    }

    #[test]
    fn programs_are_looked_for_before_they_are_needed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        assert!(!can_be_found("tool", Some(path)));
        std::fs::write(folder.path().join("tool"), "").unwrap();
        assert!(can_be_found("tool", Some(path)));
        assert!(can_be_found("tool", None), "nobody knows");
        assert!(!can_be_found("/no/such/tool", None));
    }

    #[test]
    fn a_token_in_a_variable_must_be_one() {
        for text in [" abc\n", "Bearer abc", " Bearer  abc\n"] {
            assert_eq!(bearer("T", Some(text.into())).unwrap(), "Bearer abc", "{text:?}");
        }
        for value in [None, Some(""), Some("Bearer "), Some("a\u{7f}")] {
            let value = value.map(str::to_owned);
            let text = bearer("T", value).unwrap_err().0;
            assert!(text.contains("variable T "), "{text}");
        }
    }
}
