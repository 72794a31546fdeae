//! The servers that have names, as the command line looks for them.

use std::path::Path;
use std::sync::Arc;

use super::nearest::did_you_mean;
use super::report::Usage;
use mcp_span::config::{ConfigEntry, ConfigError};

/// All servers of the configuration file, in its order.
#[derive(Default)]
pub(super) struct Servers {
    pub(super) entries: Vec<Result<Arc<ConfigEntry>, ConfigError>>,
}

/// More names than this are not listed in an error.
const LISTED: usize = 20;

impl Servers {
    pub(super) fn new(entries: Vec<Result<ConfigEntry, ConfigError>>) -> Self {
        Self { entries: entries.into_iter().map(|entry| entry.map(Arc::new)).collect() }
    }

    /// The server with this name; an error if there is one that cannot be used.
    pub(super) fn find(&self, name: &str) -> Result<Option<Arc<ConfigEntry>>, Usage> {
        let good = self.entries.iter().flatten().find(|entry| entry.name == name);
        if let Some(entry) = good {
            return Ok(Some(Arc::clone(entry)));
        }
        let mut faults = self.entries.iter().filter_map(|entry| entry.as_ref().err());
        match faults.find(|fault| fault.server.as_deref() == Some(name)) {
            Some(fault) => Err(Usage::new(fault.to_string())),
            None => Ok(None),
        }
    }

    /// Whether a server has this name, be it one that cannot be used.
    pub(super) fn has(&self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter_map(|entry| match entry {
            Ok(entry) => Some(&*entry.name),
            Err(fault) => fault.server.as_deref(),
        })
    }

    /// What to say of a word that is none of the names.
    pub(super) fn without(&self, word: &str, file: Option<&Path>) -> String {
        let names: Vec<&str> = self.names().collect();
        let Some(file) = file.filter(|_| !names.is_empty()) else {
            return "no configuration file with names of servers was found".to_owned();
        };
        let meant = did_you_mean(word, names.iter().copied());
        let meant = meant.map_or(String::new(), |question| format!("; {question}"));
        let more = if names.len() > LISTED { ", …" } else { "" };
        let listed = names.iter().take(LISTED).copied().collect::<Vec<_>>().join(", ");
        format!("the servers in {} are {listed}{more}{meant}", file.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(text: &str) -> Servers {
        Servers::new(mcp_span::config::read("f.json", text, &|_| None).unwrap().entries)
    }

    #[test]
    fn a_name_is_found_and_a_wrong_entry_is_explained() {
        let servers =
            servers(r#"{"servers": {"a": {"command": "c"}, "b": {}, "a": {"command": "d"}}}"#);
        assert_eq!(servers.find("a").unwrap().unwrap().name, "a");
        assert!(servers.find("b").unwrap_err().0.contains("server 'b': stdio server requires"));
        assert!(servers.find("c").unwrap().is_none());
        assert!(servers.has("b") && !servers.has("c"));
    }

    #[test]
    fn a_word_that_is_no_name_gets_the_names_and_the_nearest_of_them() {
        let some = servers(r#"{"servers": {"notion": {"command": "c"}, "docs": {}}}"#);
        let file = Some(Path::new("/f.json"));
        let text = "the servers in /f.json are notion, docs; did you mean 'notion'?";
        assert_eq!(some.without("Notoin", file), text);
        assert_eq!(some.without("zzz", file), "the servers in /f.json are notion, docs");
        assert!(servers("{}").without("a", file).contains("no configuration file"));
        let all: Vec<_> = (0..30).map(|n| format!("\"s{n}\": {{\"command\": \"c\"}}")).collect();
        let many = servers(&format!("{{\"servers\": {{{}}}}}", all.join(",")));
        assert!(many.without("zzz", file).ends_with("s19, …"));
    }
}
