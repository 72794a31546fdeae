//! Credentials that change while the program runs: kept as long as they are good, renewed once for
//! all who need them.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use tracing::debug;

use crate::error::{Error, ErrorKind};
use crate::limits;
use crate::lock::lock;
use crate::secret::Scrubber;

mod command;
mod file;
mod grant;
pub mod oauth;

pub use command::{CredentialCommand, Prints};
pub use file::read_token_file;
pub use grant::bare as bare_token;
use oauth::challenge::Challenge;
use oauth::{Cause, OAuth};

/// Where credentials come from.
#[derive(Clone)]
pub enum Source {
    /// A file that holds a token, replaced from time to time.
    File(PathBuf),
    /// A program that prints them.
    Command(CredentialCommand),
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
    held: Mutex<TokenState>,
    /// One permit: whoever has it asks the source, the others wait for what comes of that.
    asking: Semaphore,
    /// The same for logins, which take minutes: nobody waits for one who does not need it.
    logging_in: Arc<Semaphore>,
}

/// Whether a person may be asked to log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Login {
    /// If nothing else helps.
    Allowed,
    /// Nobody is bothered for this.
    Never,
    /// The same, and nothing is begun: there is no time to see its end, and a refresh token that was
    /// used without an answer is lost.
    Leaving,
}

#[derive(Default)]
struct TokenState {
    granted: Option<Granted>,
    good_until: Option<Instant>,
    /// The source had nothing new for these; it is left alone until then.
    fruitless_until: Option<Instant>,
    /// How many times the source was asked.
    asked: u64,
    /// Why it had nothing the last time.
    failure: Option<Error>,
}

/// The headers that were granted. All of them are marked as sensitive, so that none is shown.
#[derive(Clone, Debug)]
pub struct Granted {
    headers: Arc<HeaderMap>,
}

impl Granted {
    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }

    /// Puts them in place of whatever `headers` has under their names.
    pub fn apply(&self, headers: &mut Arc<HeaderMap>) {
        if self.headers.is_empty() {
            return;
        }
        let headers = Arc::make_mut(headers);
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
        let held = Mutex::new(TokenState::default());
        let (asking, logging_in) = (Semaphore::new(1), Arc::new(Semaphore::new(1)));
        Self { source, ttl, scrubber, held, asking, logging_in }
    }

    /// The headers to use now.
    ///
    /// # Errors
    ///
    /// When the source has none.
    pub async fn get(&self, login: Login) -> Result<Granted, Error> {
        if let Some(granted) = self.good() {
            return Ok(granted);
        }
        if let (Some(oauth), Login::Leaving) = (self.oauth(), login) {
            return Ok(self.take(oauth.header().await));
        }
        let arrived = self.hold(|held| held.asked);
        let _permit = self.asking.acquire().await;
        // Somebody else may have asked in the meantime.
        if let Some(granted) = self.good() {
            return Ok(granted);
        }
        self.failure_since(arrived)?;
        Box::pin(self.ask()).await
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

    /// The server refused `refused`, and said so: others, if there are any to be had. `is_second`:
    /// these came in place of others that it had refused; a login may bring what it takes, if there
    /// is a reason to think so.
    ///
    /// # Errors
    ///
    /// When the source failed.
    pub async fn after_refusal(
        &self,
        refused: &Granted,
        status: StatusCode,
        said: &HeaderMap,
        is_second: bool,
        login: Login,
    ) -> Result<Option<Granted>, Error> {
        let Source::OAuth(oauth) = &self.source else {
            return if is_second { Ok(None) } else { self.ask_again(refused).await };
        };
        if login == Login::Leaving {
            oauth.look().await;
            return Ok(self.newer_than(refused).await);
        }
        let permit = self.asking.acquire().await;
        if let Some(newer) = self.newer_than(refused).await {
            return Ok(Some(newer));
        }
        let challenge = Challenge::of(said);
        let may_log_in = login == Login::Allowed || !oauth.asks_a_person();
        let (cause, may_help) = if is_second {
            let may_help = may_log_in && oauth.refresh_was_rejected(challenge.as_ref()).await;
            (Cause::RefreshedTokenRejected, may_help)
        } else {
            let may_help = oauth.needs_login(status, challenge.as_ref()).await?;
            (Cause::of(challenge.as_ref()), may_help)
        };
        drop(permit);
        if may_help && may_log_in {
            return self.log_in(oauth, refused, cause, challenge).await;
        }
        Ok(self.newer_than(refused).await)
    }

    /// Asks a file or a command for others than `refused`, once for all who need them.
    async fn ask_again(&self, refused: &Granted) -> Result<Option<Granted>, Error> {
        let arrived = self.hold(|held| held.asked);
        let _permit = self.asking.acquire().await;
        if let Some(newer) = self.newer_than(refused).await {
            return Ok(Some(newer));
        }
        let fruitless_until = self.hold(|held| held.fruitless_until);
        if fruitless_until.is_some_and(|until| until > Instant::now()) {
            return Ok(None);
        }
        self.failure_since(arrived)?;
        let granted = self.ask().await?;
        if granted.headers != refused.headers {
            return Ok(Some(granted));
        }
        debug!("the source of credentials has no other than those that were refused");
        if matches!(self.source, Source::Command(_)) {
            let until = Instant::now() + limits::FRUITLESS_PAUSE;
            self.hold(|held| held.fruitless_until = Some(until));
        }
        Ok(None)
    }

    /// Logs in, once for all who want that. As a task: whoever asked first may not wait for the end,
    /// but the person has the page before them.
    async fn log_in(
        &self,
        oauth: &Arc<OAuth>,
        refused: &Granted,
        cause: Cause,
        challenge: Option<Challenge>,
    ) -> Result<Option<Granted>, Error> {
        let permit = Arc::clone(&self.logging_in).acquire_owned().await;
        if let Some(newer) = self.newer_than(refused).await {
            return Ok(Some(newer));
        }
        let task = tokio::spawn({
            let oauth = Arc::clone(oauth);
            async move {
                let outcome = oauth.log_in_after(cause, challenge.as_ref()).await;
                drop(permit);
                outcome
            }
        });
        task.await.unwrap_or_else(|error| {
            Err(Error::new(ErrorKind::Login, "The login broke off").because(error).not_delivered())
        })?;
        Ok(self.newer_than(refused).await)
    }

    fn good(&self) -> Option<Granted> {
        let now = Instant::now();
        self.hold(|held| held.granted.clone().filter(|_| held.good_until.is_some_and(|t| t > now)))
    }

    async fn newer_than(&self, old: &Granted) -> Option<Granted> {
        if let Some(oauth) = self.oauth() {
            // It may have been renewed, or logged in to, behind our back.
            let headers = oauth.header().await;
            return (!headers.is_empty() && headers != *old.headers).then(|| self.take(headers));
        }
        self.hold(|held| held.granted.clone().filter(|granted| granted.headers != old.headers))
    }

    /// The failure of a question that was answered while somebody waited who came after `arrived`
    /// questions: asking again would bring the same.
    fn failure_since(&self, arrived: u64) -> Result<(), Error> {
        let failure = self.hold(|held| held.failure.clone().filter(|_| held.asked > arrived));
        failure.map_or(Ok(()), Err)
    }

    /// Asks the source; whoever calls has the permit.
    async fn ask(&self) -> Result<Granted, Error> {
        let asked = match &self.source {
            Source::File(path) => file::read(path).await,
            Source::Command(command) => command.run(&self.scrubber).await,
            Source::OAuth(oauth) => Ok(oauth.current().await),
        };
        let old = self.hold(|held| {
            held.asked += 1;
            held.failure = asked.as_ref().err().cloned();
            held.granted.clone()
        });
        let headers = match (asked, old) {
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
        self.scrubber.add_granted(headers.values().filter_map(|value| value.to_str().ok()));
        self.hold(|held| {
            held.good_until = Some(Instant::now() + self.ttl);
            held.granted.insert(Granted { headers: Arc::new(headers) }).clone()
        })
    }

    fn hold<T>(&self, look: impl FnOnce(&mut TokenState) -> T) -> T {
        look(&mut lock(&self.held))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::environment::Environment;

    fn of_file(path: &Path) -> Credentials {
        let source = Source::File(path.to_owned());
        Credentials::new(source, Duration::from_secs(300), Scrubber::default())
    }

    fn of_command(words: &[&str], ttl: u64) -> Credentials {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        let command = CredentialCommand::new(words, Prints::Token, Environment::default())
            .expect("a command");
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
        let first = credentials.get(Login::Never).await.unwrap();
        assert_eq!(authorization(&first), "Bearer first-token");
        assert!(
            credentials
                .after_refusal(
                    &first,
                    StatusCode::UNAUTHORIZED,
                    &HeaderMap::new(),
                    false,
                    Login::Never
                )
                .await
                .unwrap()
                .is_none(),
            "nothing new"
        );
        std::fs::write(file.path(), "second-token").unwrap();
        let second = credentials
            .after_refusal(&first, StatusCode::UNAUTHORIZED, &HeaderMap::new(), false, Login::Never)
            .await
            .unwrap()
            .expect("a new one");
        assert_eq!(authorization(&second), "Bearer second-token");
        let again = credentials
            .after_refusal(&first, StatusCode::UNAUTHORIZED, &HeaderMap::new(), false, Login::Never)
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
        let all = (0..20).map(|_| credentials.get(Login::Never));
        let mut granted = Vec::new();
        for one in futures_in_order(all).await {
            granted.push(one.unwrap());
        }
        assert_eq!(std::fs::read_to_string(&log).unwrap().lines().count(), 1);
        let said = HeaderMap::new();
        let renewed = granted.iter().map(|old| {
            credentials.after_refusal(old, StatusCode::UNAUTHORIZED, &said, false, Login::Never)
        });
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
        let granted = credentials.get(Login::Never).await.unwrap();
        for _ in 0..3 {
            assert!(
                credentials
                    .after_refusal(
                        &granted,
                        StatusCode::UNAUTHORIZED,
                        &HeaderMap::new(),
                        false,
                        Login::Never
                    )
                    .await
                    .unwrap()
                    .is_none()
            );
        }
        assert_eq!(std::fs::read_to_string(&log).unwrap().lines().count(), 2);
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn many_who_wait_for_a_command_that_fails_cause_one_run_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("runs");
        let script = format!("echo x >> {}; exit 1", log.display());
        let credentials = of_command(&["sh", "-c", &script], 300);
        for one in futures_in_order((0..20).map(|_| credentials.get(Login::Never))).await {
            assert_eq!(one.unwrap_err().kind, ErrorKind::Credentials);
        }
        let runs = || std::fs::read_to_string(&log).unwrap().lines().count();
        assert_eq!(runs(), 1);
        assert!(credentials.get(Login::Never).await.is_err());
        assert_eq!(runs(), 2, "whoever comes later asks again");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_command_that_fails_says_why() {
        let credentials = of_command(&["sh", "-c", "echo no ticket >&2; exit 3"], 300);
        let error = credentials.get(Login::Never).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Credentials);
        assert!(error.reason.as_ref().unwrap().contains("no ticket"), "{error:?}");
        assert!(error.message.contains("exit status: 3"), "{error}");
    }
}
