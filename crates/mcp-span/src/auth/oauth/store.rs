//! Where tokens rest: one file for each login at a server, for the owner alone, one process at a
//! time.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Once};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::{debug, warn};
use url::Url;

use super::OAuthSettings;
#[cfg(feature = "keychain")]
use super::TokenStore;
use super::apart::Apart;
use super::blocking::OneAtATime;
use super::kept::StoredLogin;
#[cfg(feature = "keychain")]
use super::keychain;
use super::page_note::{Noted, PageNote};
use super::places::{self, Places};
use super::store_lock::{Lock, is_login_held_beside, try_lock};
use crate::error::Error;
use crate::limits;
use crate::private_file;
use crate::secret::shown;

/// The files of one server and profile.
#[derive(Clone)]
pub(super) struct Store {
    /// `None`: nothing is kept. Its lock is used wherever the tokens are.
    places: Option<Places>,
    /// In place of the file.
    #[cfg(feature = "keychain")]
    keychain: Option<keychain::KeychainEntry>,
    apart: Apart,
    /// Where earlier versions kept all logins at the server, if that is not here.
    earlier: Option<Box<Self>>,
    /// It was told that what is kept is damaged: it is read several times in a run.
    told_damage: Arc<Once>,
    /// For what may take a while: a disk that is to have written, a keychain that is locked.
    thread: OneAtATime,
}

/// When the file of tokens was changed, and how long it is.
pub(super) type Stamp = (SystemTime, u64);

impl Store {
    /// In how many places there may be tokens.
    pub(super) const PLACES: usize = Places::COUNT;

    /// For the login at `server` that these settings mean.
    pub(super) fn of(server: &Url, settings: &OAuthSettings) -> Self {
        let apart = Apart::new(server, settings);
        let key = format!("{server}\n{}", apart.owner);
        let earlier = Self::of_name(settings, apart.clone(), &file_name(&key));
        if apart.asked.is_empty() {
            return earlier;
        }
        let own = file_name(&format!("{key}\n\n{}", apart.asked));
        Self { earlier: Some(Box::new(earlier)), ..Self::of_name(settings, apart, &own) }
    }

    /// The login whose file has this name, whatever it is kept apart by.
    pub(super) fn of_name(settings: &OAuthSettings, apart: Apart, name: &str) -> Self {
        let usual = settings.usual_folder.as_deref();
        let folder = settings.folder.as_deref();
        let places = folder.map(|folder| Places::new(folder, usual, name));
        Self {
            #[cfg(feature = "keychain")]
            keychain: (settings.token_store == TokenStore::Keychain && places.is_some())
                .then(|| keychain::KeychainEntry::new(name)),
            places,
            apart,
            earlier: None,
            told_damage: Arc::new(Once::new()),
            thread: OneAtATime::default(),
        }
    }

    /// Finds out whether tokens can be kept before anybody is asked to log in. `true`: what could not
    /// be read before may be read now.
    pub(super) async fn probe(&self) -> Result<bool, Error> {
        #[cfg(feature = "keychain")]
        if let Some(keychain) = self.keychain.clone() {
            let probing = self.thread.run(limits::KEYCHAIN_UNLOCK, move || keychain.probe());
            return probing.await.map(|()| true).map_err(keychain::unusable);
        }
        Ok(false)
    }

    /// Does what may take a while, and waits for its end for as long as that is worth it.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let store = self.clone();
        let limit = if self.is_in_keychain() { limits::KEYCHAIN_WAIT } else { limits::STORE_WAIT };
        self.thread.run(limit, move || work(&store)).await
    }

    fn load(&self) -> io::Result<Vec<u8>> {
        #[cfg(feature = "keychain")]
        if let Some(keychain) = &self.keychain {
            return keychain.read();
        }
        private_file::read(&self.file().ok_or(io::ErrorKind::NotFound)?)
    }

    fn save(&self, kept: StoredLogin) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(&self.own(kept))?;
        #[cfg(feature = "keychain")]
        if let Some(keychain) = &self.keychain {
            return keychain.write(&text);
        }
        let places = self.places.as_ref().ok_or(io::ErrorKind::NotFound)?;
        places::replace(&places.current(), &text)?;
        if let Err(error) = places.note() {
            debug!("runs in other environments will not find the tokens: {error}");
        }
        Ok(())
    }

    fn erase(&self) -> io::Result<()> {
        #[cfg(feature = "keychain")]
        if let Some(keychain) = &self.keychain {
            return keychain.remove();
        }
        std::fs::remove_file(self.file().ok_or(io::ErrorKind::NotFound)?)
    }

    /// Waits until no other process renews or replaces the tokens; `None` if one still does.
    pub(super) async fn lock(&self, patience: Duration) -> Option<Lock> {
        Lock::wait(self.beside("lock"), patience).await
    }

    /// Waits until no other process logs in. A lock of its own: a person takes minutes, and what
    /// there is may be renewed meanwhile.
    pub(super) async fn lock_logins(&self, patience: Duration) -> Option<Lock> {
        let lock = Lock::wait(self.beside("login"), patience).await?;
        // Of a process that did not come to its end.
        self.withdraw_page();
        Some(lock)
    }

    /// Shows other processes where a person has to log in. Only for whoever has the lock of logins.
    pub(super) async fn note_page(&self, note: &PageNote) -> Noted {
        // Before it is written: nobody may wait for the end of that.
        let noted = Noted(self.beside("page"));
        if self.write_note("page", note).await { noted } else { Noted(None) }
    }

    /// Where a person has to log in, if the process that has the lock says so.
    pub(super) fn page(&self) -> Option<PageNote> {
        self.read_note("page")
    }

    /// Calls off the login of another process.
    pub(super) fn withdraw_page(&self) {
        self.remove_note("page");
    }

    /// Tells other processes something of this sort, if there is a place for that. Gives back whether
    /// that was done.
    pub(super) async fn write_note(&self, sort: &str, note: &impl Serialize) -> bool {
        let (Some(file), Ok(text)) = (self.beside(sort), serde_json::to_vec(note)) else {
            return false;
        };
        let written = self.run(move |_| places::replace(&file, &text)).await;
        written
            .inspect_err(|error| debug!("other processes will know of no {sort} of ours: {error}"))
            .is_ok()
    }

    /// What a process has told others.
    pub(super) fn read_note<T: DeserializeOwned>(&self, sort: &str) -> Option<T> {
        serde_json::from_slice(&private_file::read(&self.beside(sort)?).ok()?).ok()
    }

    /// What it has told is so no more.
    pub(super) fn remove_note(&self, sort: &str) {
        if let Some(file) = self.beside(sort) {
            let _ = std::fs::remove_file(file);
        }
    }

    /// Changes when another process has stored something. `None`: it cannot be told that cheaply.
    pub(super) fn stamp(&self) -> Option<Stamp> {
        let file = self.file().filter(|_| !self.is_in_keychain())?;
        let metadata = std::fs::metadata(file).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    }

    /// Whether another process is logging in.
    pub(super) fn is_login_held(&self) -> bool {
        self.file().is_some_and(|file| is_login_held_beside(&file))
    }

    /// The login that is pending, if there is one.
    pub(super) fn pending(&self) -> Option<PageNote> {
        self.page().filter(|_| self.is_login_held())
    }

    /// What it is kept apart by, in words.
    pub(super) fn apart_by(&self) -> &[String] {
        &self.apart.words
    }

    /// The name of its file.
    pub(super) fn name(&self) -> Option<&str> {
        self.places.as_ref().and_then(Places::name)
    }

    /// Whether there is a file of tokens.
    pub(super) fn has_file(&self) -> bool {
        self.file().is_some_and(|file| private_file::check(&file).is_ok())
    }

    /// The file of another sort beside the tokens.
    pub(super) fn beside(&self, extension: &str) -> Option<PathBuf> {
        self.file().map(|file| file.with_extension(extension))
    }

    /// What is kept; a damaged file is as good as none.
    pub(super) async fn read(&self) -> StoredLogin {
        self.look().await.unwrap_or_default()
    }

    /// The same; `None` if it cannot be known.
    pub(super) async fn look(&self) -> Option<StoredLogin> {
        self.known(self.run(Self::look_now).await)
    }

    /// What was read; else says why it cannot be known.
    fn known<T>(&self, read: io::Result<T>) -> Option<T> {
        let place = self.in_place();
        read.inspect_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => self.told_damage.call_once(|| {
                warn!("the tokens{place} are damaged ({error}) and not used");
            }),
            _ => warn!("the tokens{place} cannot be read: {error}"),
        })
        .ok()
    }

    fn look_now(&self) -> io::Result<StoredLogin> {
        let Some(stored) = self.stored()? else {
            return Ok(self.take_over().unwrap_or_default());
        };
        if stored.is_apart {
            return Ok(self.own(stored));
        }
        // An earlier version has stored it, when logins were not kept apart.
        if !self.apart.allows(&stored) {
            debug!("the login that is kept is that of another resource, and not used");
            return Ok(StoredLogin::default());
        }
        if let Some(_lock) = self.try_lock()
            && let Err(error) = self.save(stored.clone())
        {
            warn!("a login of an earlier version cannot be kept: {error}");
        }
        Ok(self.own(stored))
    }

    /// What is there, whomever it is for.
    fn stored(&self) -> io::Result<Option<StoredLogin>> {
        let text = match self.load() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            loaded => loaded?,
        };
        let damaged = |why| io::Error::new(io::ErrorKind::InvalidData, why);
        StoredLogin::read(&text).map(Some).map_err(damaged)
    }

    /// Moves a login here that an earlier version has stored for all. It is never copied: two who
    /// renew with the same refresh token lose it.
    fn take_over(&self) -> Option<StoredLogin> {
        let earlier = self.earlier.as_ref()?;
        let is_such = |stored: &StoredLogin| {
            !stored.is_apart && stored.token.is_some() && self.apart.allows(stored)
        };
        earlier.known(earlier.stored())?.filter(is_such)?;
        // Whoever has the lock may be renewing it.
        let _lock = earlier.try_lock()?;
        let stored = earlier.known(earlier.stored())?.filter(is_such)?;
        match self.save(stored.clone()).and_then(|()| earlier.erase()) {
            Ok(()) => debug!("a login that an earlier version has stored was taken over"),
            Err(error) => warn!("a login of an earlier version cannot be moved: {error}"),
        }
        Some(self.own(stored))
    }

    /// The same as the login that this store is for.
    fn own(&self, kept: StoredLogin) -> StoredLogin {
        let Apart { server, profile, words, .. } = &self.apart;
        let (server, profile) = (shown(server), profile.clone());
        StoredLogin { server, is_apart: true, profile, apart_by: words.clone(), ..kept }
    }

    fn try_lock(&self) -> Option<File> {
        try_lock(&self.beside("lock")?, File::try_lock).ok()
    }

    /// Replaces what is kept, at once or not at all. Gives back whether that was done.
    pub(super) async fn write(&self, kept: StoredLogin) -> bool {
        let Some(place) = self.place() else { return false };
        let saved = self.run(move |store| store.save(kept)).await;
        saved.inspect_err(|e| warn!("tokens cannot be kept in {place}: {e}")).is_ok()
    }

    /// Forgets everything.
    pub(super) async fn remove(&self) -> io::Result<bool> {
        match self.run(Self::erase).await {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Where it is kept, in words.
    pub(super) fn place(&self) -> Option<String> {
        match self.is_in_keychain() {
            true => Some("the keychain of this system".to_owned()),
            false => self.file().map(|file| file.display().to_string()),
        }
    }

    fn is_in_keychain(&self) -> bool {
        #[cfg(feature = "keychain")]
        return self.keychain.is_some();
        #[cfg(not(feature = "keychain"))]
        false
    }

    /// The same to go behind another word.
    pub(super) fn in_place(&self) -> String {
        self.place().map_or_else(String::new, |place| format!(" in {place}"))
    }

    fn file(&self) -> Option<PathBuf> {
        self.places.as_ref().map(Places::current)
    }
}

/// The name of the file of the login that `key` stands for.
fn file_name(key: &str) -> String {
    let mut name = private_file::hashed_name(key);
    name.truncate(24);
    name
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::auth::oauth::address::Reach;
    use crate::auth::oauth::identity::{ClientAuthentication, ClientIdentity};
    use crate::auth::oauth::kept::Holder;
    use crate::auth::oauth::tests::settings;
    use crate::auth::oauth::token::Token;
    use crate::auth::oauth::{CallbackPlace, Parties, Prompt};
    use crate::secret::Secret;

    fn server() -> Url {
        Url::parse("https://h/mcp").unwrap()
    }

    /// The login of this account below a folder, apart from nothing.
    fn at(folder: &Path, profile: &str) -> Store {
        let (folder, profile) = (Some(folder.to_owned()), profile.to_owned());
        Store::of(&server(), &OAuthSettings { folder, profile, ..settings() })
    }

    fn kept() -> StoredLogin {
        let answer = json!({"access_token": "a", "refresh_token": "r"});
        let secret = Some(Secret::new("s"));
        let identity = ClientIdentity {
            id: "i".into(),
            secret,
            proof: ClientAuthentication::Post,
            port: Some(4000),
            place: Some(CallbackPlace::default()),
            scope: Some("x".into()),
            only: None,
        };
        StoredLogin {
            issuer: Some("https://as".into()),
            identity: Some(identity),
            holder: Some(Holder { id: "i".into(), proof: ClientAuthentication::Post }),
            token: Token::read(&answer, Some("x"), SystemTime::now()),
            without_resource: true,
            near: Some(Reach::Private),
            ..StoredLogin::default()
        }
    }

    #[tokio::test]
    async fn what_is_kept_is_kept_apart_and_for_the_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let store = at(folder.path(), "");
        store.write(kept()).await;
        let read = store.read().await;
        assert_eq!(read.token, kept().token);
        assert_eq!(read.identity, kept().identity);
        assert_eq!(read.holder, kept().holder);
        assert!(read.without_resource);
        assert_eq!(read.near, Some(Reach::Private));
        let other = at(folder.path(), "work");
        assert!(other.read().await.token.is_none(), "another account");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(&store.file().unwrap()), 0o600);
            assert_eq!(mode(store.file().unwrap().parent().unwrap()), 0o700);
        }
        assert!(store.remove().await.unwrap() && !store.remove().await.unwrap());
    }

    #[cfg(feature = "keychain")]
    #[tokio::test]
    async fn a_keychain_is_as_good_as_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let keychain = Some(keychain::tests::in_memory());
        let store = Store { keychain, ..at(folder.path(), "") };
        assert!(store.read().await.token.is_none());
        store.write(kept()).await;
        assert_eq!(store.read().await.token, kept().token);
        assert!(!store.file().unwrap().exists(), "nothing of it is in the file");
        assert!(store.remove().await.unwrap() && !store.remove().await.unwrap());
    }

    /// The runtime has one thread: whoever blocks it keeps everybody from going on.
    #[cfg(feature = "keychain")]
    #[tokio::test]
    async fn others_go_on_while_a_keychain_is_silent() {
        let folder = tempfile::tempdir().unwrap();
        let (keychain, unlock) = keychain::tests::locked();
        let keychain = Some(keychain);
        let store = Store { keychain, ..at(folder.path(), "") };
        let kept = kept();
        let writing = store.write(kept.clone());
        let (is_written, ()) = tokio::join!(writing, async { unlock.send(()).unwrap() });
        assert!(is_written);
        let (read, ()) = tokio::join!(store.read(), async { unlock.send(()).unwrap() });
        assert_eq!(read.token, kept.token);
        let (is_removed, ()) = tokio::join!(store.remove(), async { unlock.send(()).unwrap() });
        assert!(is_removed.unwrap());
    }

    #[tokio::test]
    async fn a_damaged_file_is_as_good_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let store = at(folder.path(), "");
        store.write(kept()).await;
        std::fs::write(store.file().unwrap(), "{\"token\": 7").unwrap();
        assert!(store.read().await.token.is_none());
        assert!(Store::of(&server(), &settings()).read().await.token.is_none());
    }

    #[tokio::test]
    async fn two_do_not_hold_it_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let store = at(folder.path(), "");
        let first = store.lock(Duration::from_secs(5)).await.unwrap();
        let soon = Duration::from_millis(120);
        assert!(store.lock(soon).await.is_none());
        assert!(first.is_shared());
        drop(first);
        assert!(store.lock(soon).await.unwrap().is_shared());
    }

    #[tokio::test]
    async fn whoever_logs_in_keeps_nobody_from_renewing() {
        let folder = tempfile::tempdir().unwrap();
        let store = at(folder.path(), "");
        let soon = Duration::from_millis(120);
        let _login = store.lock_logins(soon).await.unwrap();
        let page = store.note_page(&note("https://as/login")).await;
        assert!(store.lock(soon).await.unwrap().is_shared());
        assert!(store.page().is_some(), "and the page is still there");
        assert!(store.lock_logins(soon).await.is_none());
        drop(page);
    }

    #[tokio::test]
    async fn where_there_are_no_locks_nobody_waits_for_one() {
        let blocked = tempfile::NamedTempFile::new().unwrap();
        let store = at(blocked.path(), "");
        let lock = tokio::time::timeout(Duration::from_secs(5), store.lock(Duration::MAX)).await;
        assert!(!lock.expect("at once").unwrap().is_shared());
    }

    fn note(prompt: &str) -> PageNote {
        let prompt = Prompt::Browser(Url::parse(prompt).unwrap());
        let parties = Parties::new(&server(), "https://as", &Url::parse("https://as/").unwrap());
        let (id, server, profile) = ("i".to_owned(), String::new(), String::new());
        let apart_by = Vec::new();
        PageNote { id, process: 1, server, profile, apart_by, parties, prompt, again: None }
    }

    #[tokio::test]
    async fn a_login_that_is_called_off_learns_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = at(folder.path(), "");
        let noted = store.note_page(&note("https://as/login")).await;
        let soon = Duration::from_millis(50);
        assert!(tokio::time::timeout(soon, noted.withdrawn()).await.is_err());
        store.withdraw_page();
        let long = Duration::from_secs(10);
        assert!(tokio::time::timeout(long, noted.withdrawn()).await.is_ok());
    }

    #[tokio::test]
    async fn whoever_only_looks_whether_there_is_a_login_does_not_take_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let store = at(folder.path(), "");
        assert!(!store.is_login_held());
        let lock = store.lock_logins(Duration::from_secs(5)).await.unwrap();
        assert!(store.is_login_held());
        drop(lock);
        assert!(!store.is_login_held());
    }

    #[tokio::test]
    async fn others_see_the_page_while_the_login_lasts() {
        let folder = tempfile::tempdir().unwrap();
        let store = at(folder.path(), "");
        store.write(kept()).await;
        let page = note("https://as/login?x=1");
        let noted = store.note_page(&page).await;
        let other = at(folder.path(), "");
        assert_eq!(other.page(), Some(page));
        drop(noted);
        assert_eq!(store.page(), None);
    }
}
