//! Which server is meant: a URL, a name from the configuration file, or a command after `--`; and
//! what all places together say about it.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use url::Url;

use super::args::{self, Connect};
use super::config_file::ConfigFile;
use super::report::Usage;
use super::{Failure, settings};
use mcp_span::ServerOptions;
use mcp_span::client::Spec;
use mcp_span::config::{ConfigEntry, ConfigError};
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
    Entry(ConfigError),
    /// What its settings ask for is not there, or makes no sense.
    Settings(Usage),
    /// The word that was typed for it means nothing that can be used.
    Word(Usage),
}

/// What was typed, with the places behind it: for each server they come to something of their own,
/// since the server's entry stands between them.
pub(super) struct Line {
    /// What was typed, is in variables, or in the settings of another program.
    pub(super) typed: Connect,
    pub(super) file: ConfigFile,
    /// What the command has in place of the usual defaults.
    pub(super) defaults: ServerOptions,
}

impl Line {
    /// All that is said about the server that was typed.
    pub(super) fn connect(&self) -> Result<Connect, Usage> {
        let options = &self.typed.options;
        let word = options.url.as_deref().filter(|_| options.mcp_hub.is_none());
        let entry = word.map_or(Ok(None), |word| self.find(word))?;
        Ok(self.with_entry(self.typed.clone(), entry))
    }

    /// Puts what the entry and the file say behind what was typed.
    fn with_entry(&self, mut connect: Connect, entry: Option<Arc<ConfigEntry>>) -> Connect {
        let options = &mut connect.options;
        if let Some(entry) = &entry {
            (options.url, options.mcp_hub, options.command) = (None, None, None);
            options.merge(entry.options.clone());
        }
        options.merge(self.file.options.clone());
        options.merge(self.defaults.clone());
        connect.no_name = match (&entry, &options.url) {
            (None, Some(word)) => self.no_name(word),
            _ => None,
        };
        Connect { entry, ..connect }
    }

    /// The servers that `words` stand for; the one that `program` starts; where there is neither,
    /// all servers of the file that are not switched off.
    pub(super) fn resolve(
        &self,
        words: &[String],
        program: &[OsString],
    ) -> Result<Vec<Target>, Failure> {
        match (words, program) {
            ([], []) => Ok(self.all()),
            ([], program) => {
                let mut connect = self.typed.clone();
                connect.options.url = None;
                connect.options.command = Some(program.to_vec());
                let spec = settings::spec(&self.with_entry(connect, None))?;
                Ok(vec![Target { name: settings::server_name(&spec), spec: Ok(spec) }])
            }
            (words, []) => {
                Ok(words.iter().enumerate().map(|(n, word)| self.word(n + 1, word)).collect())
            }
            _ => Err(Usage::new(args::TWO_SERVERS).into()),
        }
    }

    fn all(&self) -> Vec<Target> {
        let target = |entry: &Result<Arc<ConfigEntry>, ConfigError>| match entry {
            Ok(entry) if entry.enabled => Some(self.entry(entry)),
            Err(fault) if !fault.is_off => Some(Target {
                name: fault.server.clone().unwrap_or_default(),
                spec: Err(Wrong::Entry(fault.clone())),
            }),
            _ => None,
        };
        self.file.servers.entries.iter().filter_map(target).collect()
    }

    /// The server that the `n`th word stands for. One that is wrong does not harm the others.
    fn word(&self, n: usize, word: &str) -> Target {
        let spec = match self.find(word) {
            Ok(Some(entry)) => return self.entry(&entry),
            Ok(None) => {
                let mut connect = self.typed.clone();
                connect.options.url = Some(word.to_owned());
                connect.options.command = None;
                settings::spec(&self.with_entry(connect, None))
            }
            Err(usage) => Err(usage),
        };
        match spec {
            Ok(spec) => Target { name: settings::server_name(&spec), spec: Ok(spec) },
            Err(usage) => Target { name: named(n, word), spec: Err(Wrong::Word(usage)) },
        }
    }

    fn entry(&self, entry: &Arc<ConfigEntry>) -> Target {
        let connect = self.with_entry(self.typed.clone(), Some(Arc::clone(entry)));
        let spec = settings::spec(&connect).map_err(Wrong::Settings);
        Target { name: entry.name.clone(), spec }
    }

    /// The server of that name, unless it is a URL.
    fn find(&self, word: &str) -> Result<Option<Arc<ConfigEntry>>, Usage> {
        if is_url(word) { Ok(None) } else { self.file.servers.find(word) }
    }

    /// What to say of a word that should have been a name.
    fn no_name(&self, word: &str) -> Option<String> {
        let path = self.file.path.as_deref().map(Path::new);
        (!is_url(word)).then(|| self.file.servers.without(word, path))
    }
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
