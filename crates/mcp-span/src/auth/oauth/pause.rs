//! The note of a login that came to nothing, beside the tokens: who waited for it learns why, and
//! after a refusal nobody is asked again for a while.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::grant::TokenRefusal;
use super::store::Store;
use super::words::login_error;
use crate::error::Error;
use crate::limits;

/// When it was, and why it came to nothing.
#[derive(Deserialize, Serialize)]
struct Note {
    /// Seconds since 1970.
    at: u64,
    /// The name of the login.
    id: String,
    how: How,
    message: String,
    reason: Option<String>,
    hint: Option<String>,
}

impl Note {
    fn error(self) -> Error {
        let error = login_error(self.message);
        Error { reason: self.reason.map(Into::into), hint: self.hint, ..error }
    }
}

/// A login that came to nothing.
#[derive(Clone, Debug)]
pub(super) struct Failed {
    pub(super) error: Box<Error>,
    pub(super) how: How,
}

/// How a login came to nothing.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(super) enum How {
    /// Nobody was asked.
    Unasked,
    /// A person was asked, or may have been by another process, and there is no token.
    Unfinished,
    /// The person or the provider said no: nobody is asked again for a while.
    Refused,
    /// The process that did it has ended: it may be begun again at once.
    BrokenOff,
}

impl Failed {
    pub(super) fn refused(error: Error) -> Self {
        Self { error: error.into(), how: How::Refused }
    }

    pub(super) fn unfinished(error: Error) -> Self {
        Self { error: error.into(), how: How::Unfinished }
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self { error: error.into(), how: How::Unasked }
    }
}

impl From<TokenRefusal> for Failed {
    fn from(refusal: TokenRefusal) -> Self {
        match refusal {
            TokenRefusal::Unanswered(error) => Self::unfinished(error),
            refusal => Self::refused(refusal.into_error()),
        }
    }
}

impl Store {
    /// Notes how the login of this name came to nothing.
    pub(super) async fn note_failure(&self, id: &str, failed: &Failed) {
        let note = Note {
            at: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
            id: id.to_owned(),
            how: failed.how,
            message: failed.error.message.clone(),
            reason: failed.error.reason.as_deref().map(str::to_owned),
            hint: failed.error.hint.clone(),
        };
        self.write_note("pause", &note).await;
    }

    /// Why the login of this name came to nothing, if it did.
    pub(super) fn failure_of(&self, id: &str) -> Option<Failed> {
        let note = self.failure_note().filter(|note| note.id == id && !id.is_empty())?;
        Some(Failed { how: note.how, error: note.error().into() })
    }

    /// Why the last login was refused, if that was a moment ago.
    pub(super) fn refusal(&self) -> Option<Error> {
        self.refusal_at(SystemTime::now())
    }

    fn refusal_at(&self, now: SystemTime) -> Option<Error> {
        let note = self.failure_note().filter(|note| note.how == How::Refused)?;
        let at = UNIX_EPOCH.checked_add(Duration::from_secs(note.at))?;
        // One of the future is of a clock that was set back; nobody waits for that.
        let slack = Duration::from_secs(1);
        let age = (now + slack).duration_since(at).ok()?;
        if age >= limits::LOGIN_PAUSE + slack {
            return None;
        }
        let error = note.error();
        let at_once = || {
            "To try again at once, run 'mcp-span login' with the arguments that your client has"
                .to_owned()
        };
        Some(Error { hint: Some(error.hint.clone().unwrap_or_else(at_once)), ..error })
    }

    fn failure_note(&self) -> Option<Note> {
        self.read_note("pause")
    }

    /// The next login need not wait.
    pub(super) fn forget_failure(&self) {
        self.remove_note("pause");
    }
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::*;
    use crate::auth::oauth::OAuthSettings;
    use crate::auth::oauth::tests::settings;

    fn store(folder: &tempfile::TempDir) -> Store {
        let server = Url::parse("https://h/mcp").unwrap();
        let folder = Some(folder.path().to_owned());
        Store::of(&server, &OAuthSettings { folder, ..settings() })
    }

    fn failed(how: How) -> Failed {
        let error = login_error("no").because("of this").hint("try that");
        Failed { error: error.into(), how }
    }

    #[tokio::test]
    async fn a_refusal_is_known_to_others_for_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let store = || store(&folder);
        assert!(store().refusal().is_none());
        store().note_failure("a", &failed(How::Refused)).await;
        let found = store().refusal().unwrap();
        assert_eq!((found.message.as_str(), found.hint.as_deref()), ("no", Some("try that")));
        assert!(found.reason.unwrap().contains("of this"));
        let now = SystemTime::now();
        assert!(store().refusal_at(now + Duration::from_secs(50)).is_some());
        assert!(store().refusal_at(now + Duration::from_secs(62)).is_none(), "long ago");
        assert!(store().refusal_at(now - Duration::from_secs(10)).is_none(), "another clock");
        store().forget_failure();
        assert!(store().refusal().is_none());
        std::fs::write(store().beside("pause").unwrap(), "{").unwrap();
        assert!(store().refusal().is_none());
    }

    #[tokio::test]
    async fn only_a_refusal_leads_to_a_pause_and_who_waited_learns_of_any_failure() {
        let folder = tempfile::tempdir().unwrap();
        store(&folder).note_failure("a", &failed(How::Unfinished)).await;
        assert!(store(&folder).refusal().is_none());
        let found = store(&folder).failure_of("a").unwrap();
        assert_eq!((&*found.error.message, found.how), ("no", How::Unfinished));
        assert!(store(&folder).failure_of("b").is_none(), "another login");
        assert!(store(&folder).failure_of("").is_none());
    }
}
