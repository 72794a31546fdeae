//! What differs between the revisions of the protocol: one table, asked by everybody else.

pub mod envelope;
pub(crate) mod era_hints;
pub mod params;
pub mod subscription;
pub mod tools;
pub mod translate;

pub use envelope::Envelope;
use serde::{Deserialize, Serialize};

/// The two kinds of MCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Era {
    /// Opens with `initialize`, has sessions.
    Legacy,
    /// Stateless: every request carries its envelope.
    Modern,
}

/// The revisions of the protocol.
#[derive(Debug)]
pub enum Revision {}

/// The revisions that we know, oldest first. For a bridge over HTTP all of an era are alike.
///
/// The version header was defined in 2025-06-18; it is sent with the older ones, too: they ignore
/// it, and every SDK sends it.
const TABLE: &[(&str, Era)] = &[
    ("2024-10-07", Era::Legacy),
    ("2024-11-05", Era::Legacy),
    ("2025-03-26", Era::Legacy),
    ("2025-06-18", Era::Legacy),
    (Revision::LATEST_LEGACY, Era::Legacy),
    (Revision::LATEST_MODERN, Era::Modern),
];

impl Revision {
    /// The newest of the legacy era.
    pub const LATEST_LEGACY: &str = "2025-11-25";

    /// The newest of the modern era.
    pub const LATEST_MODERN: &str = "2026-07-28";

    /// Whether `name` is a revision of the legacy era that we know.
    #[must_use]
    pub fn is_legacy(name: &str) -> bool {
        TABLE.contains(&(name, Era::Legacy))
    }

    /// The modern revision of `supported` to go on with where `asked` was refused: that one if it is
    /// among them after all, else the newest that we know.
    #[must_use]
    pub fn modern_in_common(asked: &str, supported: &[String]) -> Option<&'static str> {
        let names = TABLE.iter().map(|(name, _)| *name);
        let common =
            names.filter(|name| Self::is_modern(name) && supported.iter().any(|s| s == name));
        common.max_by_key(|name| *name == asked)
    }

    /// Whether `name` is a revision of the modern era that we know.
    #[must_use]
    pub fn is_modern(name: &str) -> bool {
        TABLE.contains(&(name, Era::Modern))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_known_revision_belongs_to_one_era() {
        assert!(Revision::is_legacy("2025-03-26") && !Revision::is_modern("2025-03-26"));
        assert!(Revision::is_modern("2026-07-28") && !Revision::is_legacy("2026-07-28"));
        assert!(!Revision::is_legacy("2099-01-01") && !Revision::is_modern("2099-01-01"));
    }

    /// What stands in a source file besides comments and tests.
    fn code(text: &str) -> String {
        let is_test = text.starts_with("//! Tests");
        let before_tests = text.split("#[cfg(test)]\nmod tests").next().filter(|_| !is_test);
        let lines = before_tests.unwrap_or_default().lines();
        lines.filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn no_revision_is_named_outside_of_the_table() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let (sources, command) = (root.join("src"), root.join("../mcp-span-cli/src"));
        let (mut folders, mut seen) = (vec![sources.clone(), command], 0);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() && !path.ends_with("tests") && path != sources.join("revision") {
                    folders.push(path);
                } else if path.extension().is_some_and(|end| end == "rs")
                    && !path.ends_with("tests.rs")
                {
                    let code = code(&std::fs::read_to_string(&path).unwrap());
                    let named = TABLE.iter().find(|(name, _)| code.contains(name));
                    assert_eq!(named, None, "in {}", path.display());
                    seen += 1;
                }
            }
        }
        assert!(seen > 250, "the sources were looked at: {seen}");
    }

    #[test]
    fn a_revision_in_common_is_a_modern_one_that_both_know() {
        let common = |asked, supported: &[&str]| {
            let supported: Vec<String> = supported.iter().map(|&s| s.to_owned()).collect();
            Revision::modern_in_common(asked, &supported)
        };
        assert_eq!(common("2099-01-01", &["2025-11-25", "2026-07-28"]), Some("2026-07-28"));
        assert_eq!(common("2026-07-28", &["2026-07-28"]), Some("2026-07-28"));
        assert_eq!(common("2026-07-28", &["2025-11-25", "2099-01-01"]), None);
    }
}
