//! Credentials that the user has: a token in a variable or a file, or a command that prints it.

use std::path::{Path, PathBuf};

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};

use super::{Context, OptionError, ServerOptions, find};
use crate::auth::{CredentialCommand, Credentials, Prints, Source, bare_token, read_token_file};
use crate::secret::{Scrubber, Secret};
use crate::wire::header;

/// The options that say where credentials come from; one of them is enough.
pub const CREDENTIAL_SOURCES: [&str; 4] =
    ["bearer-env", "bearer-file", "bearer-command", "header-command"];

impl ServerOptions {
    /// The source for what changes; what does not change goes into `headers`.
    pub(super) fn resolve_credentials(
        &self,
        context: &Context,
        headers: &mut HeaderMap,
        scrubber: &Scrubber,
    ) -> Result<Option<Credentials>, OptionError> {
        let is_given = |name: &&str| find(name).is_some_and(|source| self.texts(source).is_some());
        let given: Vec<&str> = CREDENTIAL_SOURCES.into_iter().filter(is_given).collect();
        if let [first, second, ..] = given[..] {
            let (first, second) = (self.label(first), self.label(second));
            return Err(OptionError::new(format!(
                "{first} and {second} exclude each other: one of them is enough"
            )));
        }
        let is_bearer = self.credential_source().is_some_and(|name| name != "header-command");
        if is_bearer && headers.contains_key(AUTHORIZATION) {
            return Err(OptionError::new(
                "there is a header 'Authorization' and a bearer token as well: leave one of them out",
            ));
        }
        let token = match (&self.bearer_token, &self.bearer_env) {
            (Some(token), _) => bearer(token.reveal()).map_err(|why| format!("the token {why}")),
            (None, Some(name)) => {
                let value = context.variables.text(name).ok_or("is not set");
                value.and_then(|value| bearer(&value)).map_err(|why| {
                    format!("{}: the variable {name} {why}", self.label("bearer-env"))
                })
            }
            (None, None) => {
                let source = self.source(context)?;
                let ttl = self.credential_ttl();
                return Ok(source.map(|source| Credentials::new(source, ttl, scrubber.clone())));
            }
        };
        let value = token.map_err(OptionError::new)?;
        scrubber.add(&Secret::new(value.to_str().unwrap_or_default()));
        headers.insert(AUTHORIZATION, value);
        Ok(None)
    }

    fn source(&self, context: &Context) -> Result<Option<Source>, OptionError> {
        if let Some(file) = &self.bearer_file {
            read_token_file(file).map_err(|error| {
                let reason = error.reason.map_or(String::new(), |reason| format!(": {reason}"));
                self.wrong("bearer-file", format!("{}{reason}", error.message))
            })?;
            return Ok(Some(Source::File(file.clone())));
        }
        let (text, prints, name) = match (&self.bearer_command, &self.header_command) {
            (Some(text), _) => (text, Prints::Token, "bearer-command"),
            (None, Some(text)) => (text, Prints::Headers, "header-command"),
            (None, None) => return Ok(None),
        };
        let words = words(text, self.credential_shell == Some(true));
        let environment = self.environment(context);
        let command =
            words.and_then(|words| CredentialCommand::new(words, prints, environment)).ok_or_else(
                || self.wrong(name, "there is no command in it, or a quote is not closed"),
            )?;
        let program = command.program();
        if !can_be_found(program, context.variables.text("PATH").as_deref()) {
            return Err(self.wrong(name, format!("there is no program '{program}' to be run")));
        }
        Ok(Some(Source::Command(command)))
    }
}

fn bearer(value: &str) -> Result<HeaderValue, &'static str> {
    let token = bare_token(value);
    if token.is_empty() {
        return Err("is empty");
    }
    header::secret(&format!("Bearer {token}"))
        .map_err(|_| "holds characters that no header can carry")
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
    fn two_sources_exclude_each_other_whoever_has_set_them() {
        let options = ServerOptions {
            url: Some("https://h/".to_owned()),
            bearer_env: Some("A".to_owned()),
            bearer_file: Some("f".into()),
            ..ServerOptions::default()
        };
        let error = options.resolve(&Context::default()).unwrap_err();
        let sentence = "--bearer-env and --bearer-file exclude each other: one of them is enough";
        assert_eq!(error.message, sentence);
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
    fn a_token_must_be_one() {
        for text in [" abc\n", "Bearer abc", " Bearer  abc\n"] {
            assert_eq!(bearer(text).unwrap(), "Bearer abc", "{text:?}");
        }
        for text in ["", "Bearer ", "a\u{7f}"] {
            assert!(bearer(text).is_err(), "{text:?}");
        }
    }
}
