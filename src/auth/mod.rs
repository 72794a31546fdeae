//! Credentials that change while the program runs: kept as long as they are good, renewed once for
//! all who need them.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use tracing::debug;

use crate::error::Error;
use crate::limits;
use crate::secret::{Scrubber, Secret};

mod command;
mod file;
mod grant;
pub mod oauth;

pub use command::{Command, Prints};
pub use file::TokenFile;
#[cfg(feature = "cli")]
pub(crate) use grant::bare as bare_token;
use oauth::OAuth;

/// Where credentials come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A file that holds a token, replaced from time to time.
    File(TokenFile),
    /// A program that prints them.
    Command(Command),
    /// A login, once the server wants one.
    OAuth(Arc<OAuth>),
}

/// The headers that authorize requests, from a source that has new ones when they grow old.
pub struct Credentials {
    source: Source,
    /// How long they are used before the source is asked again.
    ttl: Duration,
    /// Learns of every value.
    scrubber: Scrubber,
    held: Mutex<Held>,
    /// One permit: whoever has it asks the source, the others wait for what comes of that.
    asking: Semaphore,
}

#[derive(Default)]
struct Held {
    granted: Option<Granted>,
    good_until: Option<Instant>,
    /// The source had nothing new for these; it is left alone until then.
    fruitless_until: Option<Instant>,
}

/// Headers, and how many times there were others before.
#[derive(Clone)]
pub struct Granted {
    headers: Arc<HeaderMap>,
    generation: u64,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("source", &self.source).finish_non_exhaustive()
    }
}

impl fmt::Debug for Granted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Granted({})", self.generation)
    }
}

impl Granted {
    /// Puts them in place of whatever `headers` has under their names.
    pub fn apply(&self, headers: &mut HeaderMap) {
        for name in self.headers.keys() {
            headers.remove(name);
        }
        for (name, value) in &*self.headers {
            headers.append(name.clone(), value.clone());
        }
    }
}

impl Credentials {
    /// Credentials of `source`, asked for on first use; `scrubber` learns them.
    #[must_use]
    pub fn new(source: Source, ttl: Duration, scrubber: Scrubber) -> Self {
        // A look at a file costs little: what a rotation brings should be used at once.
        let ttl = match source {
            Source::Command(_) => ttl,
            Source::File(_) | Source::OAuth(_) => limits::TOKEN_FILE_CHECK,
        };
        let held = Mutex::new(Held::default());
        Self { source, ttl, scrubber, held, asking: Semaphore::new(1) }
    }

    /// The headers to use now.
    ///
    /// # Errors
    ///
    /// When the source has none.
    pub async fn get(&self) -> Result<Granted, Error> {
        if let Some(granted) = self.good() {
            return Ok(granted);
        }
        let _permit = self.asking.acquire().await;
        match self.good() {
            // Somebody else has asked in the meantime.
            Some(granted) => Ok(granted),
            None => self.ask().await,
        }
    }

    /// The logins, if that is where they come from.
    #[must_use]
    pub fn oauth(&self) -> Option<&OAuth> {
        match &self.source {
            Source::OAuth(oauth) => Some(oauth),
            Source::File(_) | Source::Command(_) => None,
        }
    }

    /// Tells of logins that wait for a person, if there can be any.
    #[must_use]
    pub fn pending(&self) -> Option<watch::Receiver<Option<String>>> {
        self.oauth().map(|oauth| oauth.pending.subscribe())
    }

    /// Whether somebody may have to be asked, who takes minutes.
    #[must_use]
    pub fn may_ask_a_person(&self) -> bool {
        matches!(self.source, Source::OAuth(_))
    }

    /// The server refused `refused`, and said so: others, if there are any to be had.
    ///
    /// # Errors
    ///
    /// When the source failed.
    pub async fn after_refusal(
        &self,
        refused: &Granted,
        status: StatusCode,
        said: &HeaderMap,
    ) -> Result<Option<Granted>, Error> {
        let _permit = self.asking.acquire().await;
        if let Some(newer) = self.newer_than(refused) {
            return Ok(Some(newer));
        }
        if self.is_fruitless() {
            return Ok(None);
        }
        let granted = match &self.source {
            Source::OAuth(oauth) => self.take(oauth.after_refusal(status, said).await?),
            Source::File(_) | Source::Command(_) => self.ask().await?,
        };
        if granted.generation != refused.generation {
            return Ok(Some(granted));
        }
        debug!("the source of credentials has no other than those that were refused");
        if matches!(self.source, Source::Command(_)) {
            self.hold(|held| held.fruitless_until = Some(Instant::now() + limits::FRUITLESS_PAUSE));
        }
        Ok(None)
    }

    fn good(&self) -> Option<Granted> {
        let now = Instant::now();
        self.hold(|held| held.granted.clone().filter(|_| held.good_until.is_some_and(|t| t > now)))
    }

    fn newer_than(&self, old: &Granted) -> Option<Granted> {
        self.hold(|held| held.granted.clone().filter(|g| g.generation != old.generation))
    }

    fn is_fruitless(&self) -> bool {
        self.hold(|held| held.fruitless_until.is_some_and(|until| until > Instant::now()))
    }

    /// Asks the source; whoever calls has the permit.
    async fn ask(&self) -> Result<Granted, Error> {
        let asked = match &self.source {
            Source::File(file) => file.read().await,
            Source::Command(command) => command.run(&self.scrubber).await,
            Source::OAuth(oauth) => oauth.current().await,
        };
        let headers = match (asked, self.hold(|held| held.granted.clone())) {
            (Ok(headers), _) => headers,
            // In the middle of a rotation the file may be missing for a moment.
            (Err(error), Some(old)) if matches!(self.source, Source::File(_)) => {
                debug!("the old token is used on: {error}");
                (*old.headers).clone()
            }
            (Err(error), _) => return Err(error),
        };
        Ok(self.take(headers))
    }

    /// Uses these from now on.
    fn take(&self, headers: HeaderMap) -> Granted {
        for value in headers.values().filter_map(|value| value.to_str().ok()) {
            self.scrubber.add_passing(&Secret::new(value));
        }
        self.hold(|held| {
            held.good_until = Some(Instant::now() + self.ttl);
            let generation = match &held.granted {
                Some(old) if *old.headers == headers => old.generation,
                Some(old) => old.generation + 1,
                None => 0,
            };
            held.granted.insert(Granted { headers: Arc::new(headers), generation }).clone()
        })
    }

    fn hold<T>(&self, look: impl FnOnce(&mut Held) -> T) -> T {
        look(&mut self.held.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::error::Kind;

    fn of_file(path: &Path) -> Credentials {
        let source = Source::File(TokenFile::new(path.to_owned()));
        Credentials::new(source, Duration::from_secs(300), Scrubber::default())
    }

    fn of_command(words: &[&str], ttl: u64) -> Credentials {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        let command = Command::new(words, Prints::Token).expect("a command");
        let ttl = Duration::from_secs(ttl);
        Credentials::new(Source::Command(command), ttl, Scrubber::default())
    }

    fn authorization(granted: &Granted) -> String {
        granted.headers["authorization"].to_str().unwrap().to_owned()
    }

    #[tokio::test]
    async fn a_file_is_read_again_when_the_server_refuses_what_it_held() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "first-token\n").unwrap();
        let credentials = of_file(file.path());
        let first = credentials.get().await.unwrap();
        assert_eq!(authorization(&first), "Bearer first-token");
        assert!(
            credentials
                .after_refusal(&first, StatusCode::UNAUTHORIZED, &HeaderMap::new())
                .await
                .unwrap()
                .is_none(),
            "nothing new"
        );
        std::fs::write(file.path(), "second-token").unwrap();
        let second = credentials
            .after_refusal(&first, StatusCode::UNAUTHORIZED, &HeaderMap::new())
            .await
            .unwrap()
            .expect("a new one");
        assert_eq!(authorization(&second), "Bearer second-token");
        let again = credentials
            .after_refusal(&first, StatusCode::UNAUTHORIZED, &HeaderMap::new())
            .await
            .unwrap()
            .expect("the same for all");
        assert_eq!(authorization(&again), "Bearer second-token");
        std::fs::remove_file(file.path()).unwrap();
        assert_eq!(authorization(&credentials.ask().await.unwrap()), "Bearer second-token");
        assert_eq!(credentials.scrubber.clean("a second-token b"), "a [secret] b");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn many_who_need_a_token_cause_one_run_of_the_command() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("runs");
        let script = format!("echo x >> {}; echo t-$(wc -l < {0})", log.display());
        let credentials = of_command(&["sh", "-c", &script], 300);
        let all = (0..20).map(|_| credentials.get());
        let mut granted = Vec::new();
        for one in futures_in_order(all).await {
            granted.push(one.unwrap());
        }
        assert_eq!(std::fs::read_to_string(&log).unwrap().lines().count(), 1);
        let said = HeaderMap::new();
        let renewed = granted
            .iter()
            .map(|old| credentials.after_refusal(old, StatusCode::UNAUTHORIZED, &said));
        for one in futures_in_order(renewed).await {
            assert_eq!(authorization(&one.unwrap().unwrap()), "Bearer t-2");
        }
        assert_eq!(std::fs::read_to_string(&log).unwrap().lines().count(), 2);
    }

    /// All at once.
    async fn futures_in_order<F: Future>(all: impl Iterator<Item = F>) -> Vec<F::Output> {
        use std::pin::Pin;
        use std::task::Poll;
        let mut running: Vec<Pin<Box<F>>> = all.map(Box::pin).collect();
        let mut done: Vec<Option<F::Output>> = running.iter().map(|_| None).collect();
        std::future::poll_fn(|context| {
            for (future, slot) in running.iter_mut().zip(&mut done) {
                if slot.is_none()
                    && let Poll::Ready(output) = future.as_mut().poll(context)
                {
                    *slot = Some(output);
                }
            }
            if done.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        done.into_iter().flatten().collect()
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_command_that_has_nothing_new_is_left_alone_for_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("runs");
        let script = format!("echo x >> {}; echo same-token", log.display());
        let credentials = of_command(&["sh", "-c", &script], 300);
        let granted = credentials.get().await.unwrap();
        for _ in 0..3 {
            assert!(
                credentials
                    .after_refusal(&granted, StatusCode::UNAUTHORIZED, &HeaderMap::new())
                    .await
                    .unwrap()
                    .is_none()
            );
        }
        assert_eq!(std::fs::read_to_string(&log).unwrap().lines().count(), 2);
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_command_that_fails_says_why() {
        let credentials = of_command(&["sh", "-c", "echo no ticket >&2; exit 3"], 300);
        let error = credentials.get().await.unwrap_err();
        assert_eq!(error.kind, Kind::Credentials);
        assert!(error.reason.as_ref().unwrap().contains("no ticket"), "{error:?}");
        assert!(error.message.contains("exit status: 3"), "{error}");
    }
}
