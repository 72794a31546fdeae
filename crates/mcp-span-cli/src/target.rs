//! Which server is meant: a URL, a name from the configuration file, or a command after `--`.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

use url::Url;

use super::args::{self, Parsed};
use super::commands::Command;
use super::config_file::ConfigFile;
use super::report::Usage;
use super::secrets::Secrets;
use super::{Failure, settings};
use mcp_span::client::Spec;
use mcp_span::config::{Entry, Fault};
use mcp_span::secret::{is_key, shown};

/// A server, under the name by which a person knows it.
pub(super) struct Target {
    pub(super) name: String,
    /// How it is reached, or what is wrong with it in the configuration.
    pub(super) spec: Result<Spec, Wrong>,
}

/// Why a server cannot be used.
pub(super) enum Wrong {
    /// Its entry is wrong.
    Entry(Fault),
    /// What its settings ask for is not there, or makes no sense.
    Settings(Usage),
    /// The word that was typed for it means nothing that can be used.
    Word(Usage),
}

/// The command line with the file behind it: for each server it means something of its own, since
/// the server's entry has defaults for flags.
pub(super) struct Line {
    /// Our own words, whatever was typed.
    pub(super) args: Vec<OsString>,
    pub(super) file: ConfigFile,
    pub(super) secrets: Secrets,
}

impl Line {
    /// What was typed, for the server that it names.
    pub(super) fn parse(&self, command: clap::Command) -> Result<(Parsed, ConfigFile), Failure> {
        let mut parsed = self.read(command, &self.file)?;
        let connect = parsed.cli.connect_mut();
        let word = connect.url.as_deref().filter(|_| connect.mcp_hub.is_none());
        let entry = word.map_or(Ok(None), |word| self.find(word));
        // One word of several may be wrong without harm to the others: each is looked at by itself.
        let is_one_of_many = matches!(parsed.cli.command, Some(Command::Check(_)));
        let entry = if is_one_of_many { entry.unwrap_or_default() } else { entry? };
        let Some(entry) = entry else { return Ok((parsed, self.file.clone())) };
        let file = self.file.under(&entry);
        // Once more, with other defaults.
        match self.read(args::command(&self.args), &file) {
            Err(Failure::Usage(_)) if is_one_of_many => Ok((parsed, self.file.clone())),
            read => Ok((read?, file)),
        }
    }

    /// The servers that `words` stand for; the one that `program` starts; where there is neither,
    /// all servers of the file that are not switched off.
    pub(super) fn resolve(
        &self,
        words: &[String],
        program: &[OsString],
    ) -> Result<Vec<Target>, Failure> {
        match (words, program) {
            ([], []) => self.all(),
            ([], program) => Ok(vec![self.program(program)?]),
            (words, []) => {
                words.iter().enumerate().map(|(n, word)| self.word(n + 1, word)).collect()
            }
            _ => Err(Usage::new(args::TWO_SERVERS).into()),
        }
    }

    fn all(&self) -> Result<Vec<Target>, Failure> {
        let mut targets = Vec::new();
        for entry in &self.file.servers.entries {
            match entry {
                Ok(entry) if entry.enabled => targets.push(self.entry(entry)?),
                Err(fault) if !fault.is_off => targets.push(Target {
                    name: fault.server.clone().unwrap_or_default(),
                    spec: Err(Wrong::Entry(fault.clone())),
                }),
                _ => {}
            }
        }
        Ok(targets)
    }

    /// The server that the `n`th word stands for. One that is wrong does not harm the others.
    fn word(&self, n: usize, word: &str) -> Result<Target, Failure> {
        let spec = match self.find(word) {
            Ok(Some(entry)) => return self.entry(&entry),
            Ok(None) => {
                let mut parsed = self.parsed(&self.file)?;
                let connect = parsed.cli.connect_mut();
                connect.no_name = no_name(word, &self.file);
                connect.url = Some(word.to_owned());
                connect.program.clear();
                settings::spec(connect)
            }
            Err(usage) => Err(usage),
        };
        Ok(match spec {
            Ok(spec) => Target { name: settings::server_name(&spec), spec: Ok(spec) },
            Err(usage) => Target { name: named(n, word), spec: Err(Wrong::Word(usage)) },
        })
    }

    fn program(&self, program: &[OsString]) -> Result<Target, Failure> {
        let mut parsed = self.parsed(&self.file)?;
        let connect = parsed.cli.connect_mut();
        connect.url = None;
        connect.program = program.to_vec();
        let spec = settings::spec(connect)?;
        Ok(Target { name: settings::server_name(&spec), spec: Ok(spec) })
    }

    fn entry(&self, entry: &Arc<Entry>) -> Result<Target, Failure> {
        let file = self.file.under(entry);
        let spec = match self.parsed(&file) {
            Ok(mut parsed) => settings::spec(parsed.cli.connect_mut()),
            // A value in the entry; one that was typed would have been refused before.
            Err(Failure::Usage(usage)) => Err(usage),
            Err(other) => return Err(other),
        };
        Ok(Target { name: entry.name.clone(), spec: spec.map_err(Wrong::Settings) })
    }

    /// The server of that name, unless it is a URL.
    fn find(&self, word: &str) -> Result<Option<Arc<Entry>>, Usage> {
        if is_url(word) { Ok(None) } else { self.file.servers.find(word) }
    }

    /// The flags for a server.
    fn parsed(&self, file: &ConfigFile) -> Result<Parsed, Failure> {
        self.read(args::command(&self.args), file)
    }

    fn read(&self, command: clap::Command, file: &ConfigFile) -> Result<Parsed, Failure> {
        let lookup = |name: &OsStr| std::env::var_os(name);
        let mut parsed =
            args::parse(self.args.iter().cloned(), command, file, lookup).map_err(|error| {
                file.blame(&error).map_or(Failure::Arguments(error), Failure::Usage)
            })?;
        let connect = parsed.cli.connect_mut();
        connect.oauth.secrets = self.secrets.clone();
        connect.server = file.server.clone();
        if connect.server.is_none()
            && let Some(word) = connect.url.as_deref()
        {
            connect.no_name = no_name(word, file);
        }
        Ok(parsed)
    }
}

/// What to say of a word that should have been a name.
fn no_name(word: &str, file: &ConfigFile) -> Option<String> {
    let path = file.path.as_deref().map(Path::new);
    (!is_url(word)).then(|| file.servers.without(word, path))
}

/// A word that stands for no server, as it may be shown: it may be a header with a token in it.
fn named(n: usize, word: &str) -> String {
    let is_harmless = |word: &str| {
        !is_key(word) && word.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c))
    };
    match Url::parse(word) {
        Ok(url) if url.has_host() => shown(&url),
        _ if is_harmless(word) => word.to_owned(),
        _ => format!("target {n}"),
    }
}

/// Whether a word is meant as a URL; names have no `://` in them.
pub(super) fn is_url(word: &str) -> bool {
    word.contains("://")
}
