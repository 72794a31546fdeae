//! The note of a login that is under way, by which other processes show its page or call it off.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Parties, Prompt};
use crate::limits;

/// A login that is under way, as other processes see it.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct PageNote {
    /// The name of the login.
    pub(super) id: String,
    /// The process that does it.
    pub(super) process: u32,
    /// Between whom it is.
    pub(super) parties: Parties,
    /// What a person has to do.
    pub(super) prompt: Prompt,
    /// Where that process can be asked to open its page again.
    pub(super) again: Option<String>,
}

/// Withdraws the note of a login when it is dropped.
#[derive(Debug)]
pub(super) struct Noted(pub(super) Option<PathBuf>);

impl Drop for Noted {
    fn drop(&mut self) {
        if let Some(file) = &self.0 {
            let _ = std::fs::remove_file(file);
        }
    }
}

impl Noted {
    /// Ends when somebody else has withdrawn the note: the login is not wanted any more.
    pub(super) async fn withdrawn(&self) {
        let Some(file) = &self.0 else { return std::future::pending().await };
        while std::fs::symlink_metadata(file).is_ok() {
            tokio::time::sleep(limits::LOGIN_RECALL_CHECK).await;
        }
    }
}
