//! Tokens in the keychain of the operating system: one entry for each server and profile.
//!
//! A keychain may ask a person to unlock it and be silent meanwhile: whoever asks it here is kept.

use std::io;
use std::sync::Arc;

#[cfg(target_os = "macos")]
use apple_native_keyring_store::keychain as system;
use keyring_core::{CredentialStore, Error as Fault};
#[cfg(windows)]
use windows_native_keyring_store as system;
#[cfg(all(unix, not(any(target_os = "macos", target_os = "ios", target_os = "android"))))]
use zbus_secret_service_keyring_store as system;

use super::words::login_error;
use crate::error::Error;

/// Opens the keychain.
type OpenKeychain = Arc<dyn Fn() -> keyring_core::Result<Arc<CredentialStore>> + Send + Sync>;

/// One entry.
#[derive(Clone)]
pub(super) struct KeychainEntry {
    open: OpenKeychain,
    name: String,
}

/// The name under which people find our entries.
const SERVICE: &str = "mcp-span";

impl KeychainEntry {
    /// The entry `name` in the keychain of this system.
    pub(super) fn new(name: &str) -> Self {
        Self { open: Arc::new(platform), name: name.to_owned() }
    }

    pub(super) fn read(&self) -> io::Result<Vec<u8>> {
        self.ask(keyring_core::Entry::get_secret)
    }

    pub(super) fn write(&self, text: &[u8]) -> io::Result<()> {
        self.ask(|entry| entry.set_secret(text))
    }

    pub(super) fn remove(&self) -> io::Result<()> {
        self.ask(keyring_core::Entry::delete_credential)
    }

    /// Finds out whether it works at all, with an entry that is of no use for anything else. A person
    /// may have to unlock it.
    pub(super) fn probe(&self) -> io::Result<()> {
        let probe = Self { name: format!("{}-probe", self.name), ..self.clone() };
        probe.write(b"probe")?;
        let read = probe.read()?;
        probe.remove()?;
        match read == b"probe" {
            true => Ok(()),
            false => Err(io::Error::other("it does not give back what it was given")),
        }
    }

    fn ask<T>(
        &self,
        question: impl FnOnce(&keyring_core::Entry) -> keyring_core::Result<T>,
    ) -> io::Result<T> {
        let asking = || question(&(self.open)()?.build(SERVICE, &self.name, None)?);
        asking().map_err(|fault| match fault {
            Fault::NoEntry => io::ErrorKind::NotFound.into(),
            fault => io::Error::other(described(&fault)),
        })
    }
}

/// A probe that has failed, or has not come to its end.
pub(super) fn unusable(why: io::Error) -> Error {
    let error =
        login_error("The keychain of this system cannot be used").hint("Use --token-store file");
    match why.kind() {
        io::ErrorKind::TimedOut => error.because("it does not answer; is it locked?"),
        _ => error.because(why),
    }
}

/// A fault without what it is about: some carry the secret.
fn described(fault: &Fault) -> String {
    match fault {
        Fault::BadEncoding(_) => "what it gives is no text".to_owned(),
        fault => fault.to_string(),
    }
}

fn platform() -> keyring_core::Result<Arc<CredentialStore>> {
    let store = system::Store::new()?;
    Ok(store)
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::auth::oauth::blocking::OneAtATime;

    /// An entry in a keychain that forgets everything at the end.
    pub(in crate::auth::oauth) fn in_memory() -> KeychainEntry {
        let store = keyring_core::mock::Store::new().unwrap();
        KeychainEntry { open: Arc::new(move || Ok(store.clone())), name: "n".to_owned() }
    }

    /// The same in one that answers no question before it was unlocked for it.
    pub(in crate::auth::oauth) fn locked() -> (KeychainEntry, mpsc::Sender<()>) {
        let store = keyring_core::mock::Store::new().unwrap();
        let (unlock, unlocked) = mpsc::channel();
        let unlocked = std::sync::Mutex::new(unlocked);
        let open: OpenKeychain = Arc::new(move || {
            let _ = unlocked.lock().unwrap().recv();
            Ok(store.clone())
        });
        (KeychainEntry { open, name: "n".to_owned() }, unlock)
    }

    #[test]
    fn what_is_written_is_read_until_it_is_removed() {
        let entry = in_memory();
        assert_eq!(entry.read().unwrap_err().kind(), io::ErrorKind::NotFound);
        entry.write(b"one").unwrap();
        entry.write(b"two").unwrap();
        assert_eq!(entry.read().unwrap(), b"two");
        entry.remove().unwrap();
        assert_eq!(entry.remove().unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_probe_leaves_nothing_behind() {
        let entry = in_memory();
        entry.probe().unwrap();
        assert_eq!(entry.read().unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_keychain_that_is_not_there_is_an_error_that_says_what_helps() {
        let open: OpenKeychain = Arc::new(|| Err(Fault::NoDefaultStore));
        let entry = KeychainEntry { open, name: "n".to_owned() };
        let error = unusable(entry.probe().unwrap_err());
        assert_eq!(error.hint.as_deref(), Some("Use --token-store file"));
        assert!(entry.read().is_err() && entry.write(b"x").is_err());
    }

    #[tokio::test]
    async fn one_that_is_silent_is_not_waited_for() {
        let open: OpenKeychain = Arc::new(|| {
            std::thread::sleep(Duration::from_secs(60));
            Err(Fault::NoEntry)
        });
        let entry = KeychainEntry { open, name: "n".to_owned() };
        let (thread, limit) = (OneAtATime::default(), Duration::from_millis(20));
        let error = thread.run(limit, move || entry.read()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let why = unusable(error).reason;
        assert_eq!(why.as_deref(), Some("it does not answer; is it locked?"));
    }
}
