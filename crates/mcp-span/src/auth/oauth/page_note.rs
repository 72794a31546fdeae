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
    /// The server, without anything secret.
    #[serde(default)]
    pub(super) server: String,
    /// The user's name for the account.
    #[serde(default)]
    pub(super) profile: String,
    /// What it is kept apart by, in words.
    #[serde(default)]
    pub(super) apart_by: Vec<String>,
    /// Between whom it is.
    pub(super) parties: Parties,
    /// What a person has to do.
    pub(super) prompt: Prompt,
    /// Where that process can be asked to open its page again.
    pub(super) again: Option<String>,
}

impl PageNote {
    /// The same for a person; `name` is that of the file of its tokens.
    pub(super) fn pending(self, name: Option<&str>) -> Pending {
        let text = |text: String| Some(text).filter(|text| !text.is_empty());
        Pending {
            server: text(self.server),
            profile: text(self.profile),
            apart_by: self.apart_by,
            name: name.map(str::to_owned),
            open: self.prompt.to_string(),
        }
    }
}

/// A login that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The server that it is for.
    pub server: Option<String>,
    /// The user's name for it, if there is one.
    pub profile: Option<String>,
    /// What else it is kept apart by, in words.
    pub apart_by: Vec<String>,
    /// The name of the file that its tokens will be in.
    pub name: Option<String>,
    /// What the person has to do: goes behind "open".
    pub open: String,
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
