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

/// The rules of one revision, as a bridge meets them over HTTP.
#[derive(Debug, PartialEq, Eq)]
pub struct Revision {
    /// The date that names it.
    pub name: &'static str,
    /// Which kind of MCP it is.
    pub era: Era,
    /// Whether the server may give out a session id, which then goes with every request.
    pub sessions: bool,
    /// Whether a GET opens a stream for what the server has to say on its own account.
    pub server_stream: bool,
    /// Whether a cut answer can be resumed from the last event id.
    pub resumable: bool,
    /// How a request is cancelled.
    pub cancel: Cancel,
    /// Whether `Mcp-Method` and `Mcp-Name` repeat what the body says.
    pub routing_headers: bool,
}

/// How a server learns that a request is no longer wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancel {
    /// By `notifications/cancelled`; closing the connection means nothing.
    Notification,
    /// By closing the stream of its answer; the notification is not sent.
    ClosingTheStream,
}

const MODERN: Revision = Revision {
    name: "2026-07-28",
    era: Era::Modern,
    sessions: false,
    server_stream: false,
    resumable: false,
    cancel: Cancel::ClosingTheStream,
    routing_headers: true,
};

const LEGACY: Revision = Revision {
    name: "2025-11-25",
    era: Era::Legacy,
    sessions: true,
    server_stream: true,
    resumable: true,
    cancel: Cancel::Notification,
    routing_headers: false,
};

/// One row for each revision, oldest first. A row says only what is different.
///
/// The version header was defined in 2025-06-18; it is sent with the older ones, too: they ignore
/// it, and every SDK sends it.
const TABLE: &[Revision] = &[
    Revision { name: "2024-10-07", ..LEGACY },
    Revision { name: "2024-11-05", ..LEGACY },
    Revision { name: "2025-03-26", ..LEGACY },
    Revision { name: "2025-06-18", ..LEGACY },
    LEGACY,
    MODERN,
];

impl Revision {
    /// The rules for `name`; a revision of that era which we do not know is taken for its newest.
    #[must_use]
    pub fn of(name: &str, era: Era) -> &'static Self {
        let mut of_era = TABLE.iter().filter(|row| row.era == era);
        of_era.clone().find(|row| row.name == name).or(of_era.next_back()).unwrap_or(&LEGACY)
    }

    /// The newest of the legacy era.
    pub const LATEST_LEGACY: &str = LEGACY.name;

    /// The newest of the modern era.
    pub const LATEST_MODERN: &str = MODERN.name;

    /// Whether `name` is a revision of the legacy era that we know.
    #[must_use]
    pub fn is_legacy(name: &str) -> bool {
        TABLE.iter().any(|row| row.name == name && row.era == Era::Legacy)
    }

    /// The modern revision of `supported` to go on with where `asked` was refused: that one if it is
    /// among them after all, else the newest that we know.
    #[must_use]
    pub fn modern_in_common(asked: &str, supported: &[String]) -> Option<&'static str> {
        let has = |row: &&Self| row.era == Era::Modern && supported.iter().any(|s| s == row.name);
        let mut common = TABLE.iter().filter(has);
        let same = common.clone().find(|row| row.name == asked);
        same.or(common.next_back()).map(|row| row.name)
    }

    /// Whether `name` is a revision of the modern era that we know.
    #[must_use]
    pub fn is_modern(name: &str) -> bool {
        TABLE.iter().any(|row| row.name == name && row.era == Era::Modern)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_revisions_have_their_row_and_unknown_ones_the_newest_of_their_era() {
        assert_eq!(Revision::of("2025-03-26", Era::Legacy).name, "2025-03-26");
        assert_eq!(Revision::of("2099-01-01", Era::Legacy).name, "2025-11-25");
        assert_eq!(Revision::of("2099-01-01", Era::Modern).name, "2026-07-28");
        assert!(Revision::is_modern("2026-07-28"));
        assert!(!Revision::is_modern("2025-11-25"));
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
        let (sources, front) = (root.join("src"), root.join("../front/src"));
        let (mut folders, mut seen) = (vec![sources.clone(), front], 0);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() && !path.ends_with("tests") && path != sources.join("revision") {
                    folders.push(path);
                } else if path.extension().is_some_and(|end| end == "rs")
                    && !path.ends_with("tests.rs")
                {
                    let code = code(&std::fs::read_to_string(&path).unwrap());
                    let named = TABLE.iter().find(|row| code.contains(row.name));
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

    #[test]
    fn the_modern_row_has_neither_session_nor_streams_to_resume() {
        let modern = Revision::of("2026-07-28", Era::Modern);
        assert!(!modern.sessions && !modern.server_stream && !modern.resumable);
        assert_eq!(modern.cancel, Cancel::ClosingTheStream);
    }
}
