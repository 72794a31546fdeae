//! Remembers for a day which era a server speaks, so that the next start need not find out.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tracing::debug;
use url::Url;

use crate::limits;
use crate::private_file;
use crate::revision::Era;

/// The place of one server's verdict.
#[derive(Clone, Debug)]
pub struct Memory {
    file: PathBuf,
}

/// What stands in it. Not the address: it may hold secrets.
#[derive(Debug, Deserialize, Serialize)]
struct StoredEra {
    era: Era,
    /// Seconds since 1970.
    found: u64,
}

impl Memory {
    /// The verdict on the server at `url`, under the directory `state`.
    #[must_use]
    pub fn new(state: &Path, url: &Url) -> Self {
        let name = private_file::hashed_name(url.as_str());
        Self { file: state.join("eras").join(format!("{name}.json")) }
    }

    /// What was found out, unless it is too old to be trusted.
    #[must_use]
    pub fn recall(&self) -> Option<Era> {
        let text = private_file::read(&self.file).ok()?;
        let verdict: StoredEra = serde_json::from_slice(&text).ok()?;
        let age = seconds_now().checked_sub(verdict.found)?;
        (age <= limits::VERDICT_LIFE.as_secs()).then_some(verdict.era)
    }

    /// Writes it down. This waits for the disk; what fails is no loss.
    pub fn keep(&self, era: Era) {
        let verdict = StoredEra { era, found: seconds_now() };
        let written = private_file::make_folder_of(&self.file)
            // Another process may be writing as well: whoever is last has replaced it whole.
            .and_then(|()| private_file::replace(&self.file, &serde_json::to_vec(&verdict)?));
        if let Err(error) = written {
            debug!("the server's era was not written down: {error}");
        }
    }
}

fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_verdict_is_remembered_for_a_day_and_for_its_server_alone() {
        let directory = tempfile::tempdir().unwrap();
        let url = Url::parse("https://example.com/mcp?key=s3cret").unwrap();
        let memory = Memory::new(directory.path(), &url);
        assert_eq!(memory.recall(), None);
        memory.keep(Era::Modern);
        assert_eq!(memory.recall(), Some(Era::Modern));
        memory.keep(Era::Legacy);
        assert_eq!(memory.recall(), Some(Era::Legacy));
        let text = fs::read_to_string(&memory.file).unwrap();
        assert!(!text.contains("example") && !text.contains("s3cret"), "{text}");
        let other = Memory::new(directory.path(), &Url::parse("https://example.com/b").unwrap());
        assert_eq!(other.recall(), None);
        let old = seconds_now() - limits::VERDICT_LIFE.as_secs() - 1;
        fs::write(&memory.file, format!(r#"{{"era":"modern","found":{old}}}"#)).unwrap();
        assert_eq!(memory.recall(), None, "too old");
        let future = seconds_now() + 1000;
        fs::write(&memory.file, format!(r#"{{"era":"modern","found":{future}}}"#)).unwrap();
        assert_eq!(memory.recall(), None, "a clock was wrong");
        fs::write(&memory.file, "{").unwrap();
        assert_eq!(memory.recall(), None, "damaged");
    }
}
