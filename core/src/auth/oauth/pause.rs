//! The pause after a login that came to nothing, as a note beside the tokens: it holds for other
//! processes and for those that are started anew, or each of them would open another page.

use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tracing::debug;

use super::store::Store;
use crate::error::{Error, Kind};
use crate::limits;
use crate::private_file;

/// When it was, and why it came to nothing.
#[derive(Deserialize, Serialize)]
struct Note {
    /// Seconds since 1970.
    at: u64,
    /// How long the pause is, in seconds.
    pause: u64,
    message: String,
    reason: Option<String>,
    hint: Option<String>,
}

impl Store {
    /// A person was asked, and it came to nothing; nobody is asked again for so long.
    pub(super) fn note_failure(&self, error: &Error, pause: Duration) {
        let Some(file) = self.beside("pause") else { return };
        let note = Note {
            at: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
            pause: pause.as_secs(),
            message: error.message.clone(),
            reason: error.reason.as_deref().map(str::to_owned),
            hint: error.hint.clone(),
        };
        self.forget_failure();
        let written = serde_json::to_vec(&note)
            .map_err(std::io::Error::from)
            .and_then(|text| private_file::create_new(&file)?.write_all(&text));
        if let Err(error) = written {
            debug!("other processes will not know that a login came to nothing: {error}");
        }
    }

    /// Why the last login came to nothing, if that was a moment ago.
    pub(super) fn failure(&self) -> Option<Error> {
        self.failure_at(SystemTime::now())
    }

    fn failure_at(&self, now: SystemTime) -> Option<Error> {
        let text = private_file::read(&self.beside("pause")?).ok()?;
        let note: Note = serde_json::from_slice(&text).ok()?;
        let at = UNIX_EPOCH.checked_add(Duration::from_secs(note.at))?;
        // One of the future is of a clock that was set back; nobody waits for that.
        let age = (now + Duration::from_secs(1)).duration_since(at).ok()?;
        if age >= Duration::from_secs(note.pause).min(limits::LOGIN_PAUSE) + Duration::from_secs(1)
        {
            return None;
        }
        let error = Error::new(Kind::Login, note.message).not_delivered();
        let at_once = "Run 'mcp-span login' to try again at once";
        let hint = note.hint.unwrap_or_else(|| at_once.to_owned());
        Some(Error { reason: note.reason.map(Into::into), hint: Some(hint), ..error })
    }

    /// The next login need not wait.
    pub(super) fn forget_failure(&self) {
        if let Some(file) = self.beside("pause") {
            let _ = std::fs::remove_file(file);
        }
    }
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::*;

    #[test]
    fn a_failure_is_known_to_others_for_a_while() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("tokens")).unwrap();
        let server = Url::parse("https://h/mcp").unwrap();
        let store = || Store::new((Some(folder.path()), None), &server, "");
        assert!(store().failure().is_none());
        let error = Error::new(Kind::Login, "no").because("of this").hint("try that");
        store().note_failure(&error, limits::LOGIN_PAUSE);
        let found = store().failure().unwrap();
        assert_eq!((found.message.as_str(), found.hint.as_deref()), ("no", Some("try that")));
        assert!(found.reason.unwrap().contains("of this"));
        let now = SystemTime::now();
        assert!(store().failure_at(now + Duration::from_secs(50)).is_some());
        assert!(store().failure_at(now + Duration::from_secs(62)).is_none(), "long ago");
        assert!(store().failure_at(now - Duration::from_secs(10)).is_none(), "another clock");
        store().forget_failure();
        assert!(store().failure().is_none());
        std::fs::write(store().beside("pause").unwrap(), "{").unwrap();
        assert!(store().failure().is_none());
    }
}
