//! Logins that outlive their client: a process of its own does one and ends, and everybody else waits
//! for what it leaves in the store.
//!
//! All that processes share are files beside the tokens. The lock of logins says whether somebody is
//! at it, and goes with the process that holds it, however that ends; the page says what a person has
//! to do; what comes of it is the token, or the note of a failure under the login's name. The pipe
//! from the process to whoever started it says nothing but that it is worth looking at them.

use std::io;
use std::process::Stdio;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdout, Command};
use tokio::time::{Instant, timeout};
use tracing::debug;

use super::OAuth;
use super::callback_server::Opener;
use super::flow::Plan;
use super::job::LoginJob;
use super::kept::StoredLogin;
use super::pause::{Failed, How};
use super::renewal::{Cause, is_renewed};
use super::settings::{LoginCommand, Open, Show};
use super::store_lock::Lock;
use super::words::login_error;
use crate::error::{Error, Kind};
use crate::secret::{Scrubber, shown};
use crate::{limits, os};

/// What a process for a login says when it has the lock of logins, or knows that another has it or
/// has been quicker: a line of one word.
const READY: &[u8] = b"ready\n";
/// There is a page to be shown.
const PAGE: &[u8] = b"page\n";

impl OAuth {
    /// Asks a person: in a process of its own, or here where there can be none.
    pub(super) async fn ask_person(&self, plan: &Plan, lock: Lock) -> Result<(), Failed> {
        // Without locks or a place for tokens nobody would learn what came of it.
        let can_be_told = lock.is_shared() && self.check_place().is_ok();
        let command = self.settings.process.as_ref().filter(|_| can_be_told);
        let Some(command) = command else {
            let _lock = lock;
            return self.log_in_here(plan).await;
        };
        let before = self.held.kept().await;
        // It is the process that needs it.
        drop(lock);
        match self.start_process(command, plan).await {
            Ok(news) => self.follow(plan, &before, news).await,
            Err(error) => {
                debug!("no process could be had for the login, which is done here: {error}");
                let locking = self.lock_for_login(Some(Opener::Program)).await;
                let (_lock, _) = locking.map_err(Failed::unfinished)?;
                if self.held.reread(&before).await {
                    return Ok(());
                }
                self.log_in_here(plan).await
            }
        }
    }

    /// Starts the process, and waits until it has the lock or knows who has. What it returns can be
    /// read from when there is something new.
    async fn start_process(&self, command: &LoginCommand, plan: &Plan) -> io::Result<ChildStdout> {
        let job = serde_json::to_vec(&LoginJob::new(self, plan))?;
        let mut command = Command::from(command()?);
        // Nothing of ours: clients wait until nobody has their pipes any more.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = os::spawn_detached(&mut command)?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let introducing = async {
            let (mut stdin, mut stdout) = stdin.zip(stdout).ok_or(io::ErrorKind::BrokenPipe)?;
            stdin.write_all(&job).await?;
            drop(stdin);
            let mut said = Vec::new();
            (&mut stdout).take(READY.len() as u64).read_to_end(&mut said).await?;
            (said == READY).then_some(stdout).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
        };
        let introduced = timeout(limits::LOGIN_PROCESS_START, introducing).await;
        introduced.unwrap_or_else(|_| {
            let _ = child.start_kill();
            Err(io::ErrorKind::TimedOut.into())
        })
    }

    /// Waits for the end of the login that another process does.
    async fn follow(
        &self,
        plan: &Plan,
        before: &StoredLogin,
        news: ChildStdout,
    ) -> Result<(), Failed> {
        let until = Instant::now() + self.settings.login_wait + limits::LOGIN_QUESTION * 3;
        let (mut watched, mut stamp) = (None, self.store.stamp());
        let mut news = Some(news);
        while self.store.is_login_held() {
            if watched.is_none() {
                watched = self.watch_page(None);
            }
            let now = self.store.stamp();
            if now != stamp && self.has_brought(plan, before).await {
                return Ok(());
            }
            stamp = now;
            if Instant::now() >= until {
                return Err(Failed::unfinished(self.not_in_time("logged in to")));
            }
            wait_for_news(&mut news).await;
        }
        if self.has_brought(plan, before).await {
            return Ok(());
        }
        let id = watched.as_ref().map_or(&plan.id, |(id, _)| id);
        let refused = || self.store.refusal().map(Failed::refused);
        Err(self.store.failure_of(id).or_else(refused).unwrap_or_else(|| {
            let error = login_error(format!("The login to {} was broken off", shown(&self.server)))
                .hint("The process that did it has ended; try again");
            Failed { error: error.into(), how: How::BrokenOff }
        }))
    }

    /// Whether the login has brought what it was begun for. A renewal changes the store as well, but
    /// brings no more scope.
    async fn has_brought(&self, plan: &Plan, before: &StoredLogin) -> bool {
        let is_other = self.held.reread(before).await;
        is_other && (!plan.is_step_up || is_renewed(before, &self.held.kept().await, Cause::Scope))
    }
}

/// Waits until it is time for another look, or there is a reason for one.
async fn wait_for_news(news: &mut Option<ChildStdout>) {
    let reading = async {
        match news {
            Some(stdout) => stdout.read(&mut [0; 16]).await.unwrap_or(0),
            None => std::future::pending().await,
        }
    };
    if let Ok(0) = timeout(limits::PAGE_CHECK, reading).await {
        *news = None;
    }
}

/// Does the login that another process of this program has written down in `job`: holds the callback
/// address, shows the pages, exchanges the code and stores the token. `say` gets what goes to that
/// process, `open` opens a browser, `scrubber` learns what must not be logged.
///
/// # Errors
///
/// When there is no token in the end. Who waits for it learns that from the store.
pub async fn login_process(
    job: &[u8],
    scrubber: &Scrubber,
    open: Open,
    say: impl Fn(&[u8]) + Clone + Send + Sync + 'static,
) -> Result<(), Error> {
    let show: Show = Arc::new({
        let say = say.clone();
        move |_, _| say(PAGE)
    });
    let Some((oauth, plan, stamp)) = LoginJob::read(job, show, open) else {
        return Err(Error::new(Kind::Login, "The job of this login cannot be read"));
    };
    oauth.settings.client_secret.iter().for_each(|secret| scrubber.add(secret));
    let lock = oauth.store.lock_logins(limits::LOCK_WAIT).await;
    say(READY);
    if lock.is_none() || oauth.store.stamp() != stamp || oauth.store.refusal().is_some() {
        // Somebody else is at it, or was quicker: what comes of that is as good.
        return Ok(());
    }
    let longest = oauth.settings.login_wait + limits::LOGIN_QUESTION * 3;
    match timeout(longest, oauth.log_in_here(&plan)).await {
        Ok(outcome) => outcome.map_err(|failed| *failed.error),
        Err(_) => Err(oauth.not_in_time("logged in to")),
    }
}
