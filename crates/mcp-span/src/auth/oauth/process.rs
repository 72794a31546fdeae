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

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdout, Command};
use tokio::time::{Instant, timeout};
use tracing::debug;
use url::Url;

use super::address::Reach;
use super::callback_server::Opener;
use super::flow::{LoginRun, Plan};
use super::kept::StoredLogin;
use super::pause::{Failed, How};
use super::renewal::{Cause, is_renewed};
use super::settings::{LoginCommand, OAuthSettings, Open, Show};
use super::store::Stamp;
use super::store_lock::Lock;
use super::words::login_error;
use super::{OAuth, PrivateKey};
use crate::error::{Error, ErrorKind};
use crate::secret::{self, Scrubber, Secret, shown};
use crate::{limits, net, os};

/// What a process for a login says when it has the lock of logins, or knows that another has it or
/// has been quicker: a line of one word.
const READY: &[u8] = b"ready\n";
/// There is a page to be shown.
const PAGE: &[u8] = b"page\n";

impl LoginRun<'_> {
    /// Asks a person: in a process of its own, or here where there can be none.
    pub(super) async fn ask_person(&self, lock: Lock) -> Result<(), Failed> {
        let oauth = self.oauth;
        // Without locks or a place for tokens nobody would learn what came of it.
        let can_be_told = lock.is_shared() && oauth.check_place().is_ok();
        let command = oauth.settings.process.as_ref().filter(|_| can_be_told);
        let Some(command) = command else {
            let _lock = lock;
            return self.ask_here().await;
        };
        let before = oauth.kept().await;
        // It is the process that needs it.
        drop(lock);
        match self.start_process(command).await {
            Ok(news) => self.follow(&before, news).await,
            Err(error) => {
                debug!("no process could be had for the login, which is done here: {error}");
                let locking = oauth.lock_for_login(Some(Opener::Program)).await;
                let (_lock, _) = locking.map_err(Failed::unfinished)?;
                if oauth.reread(&before).await {
                    return Ok(());
                }
                self.ask_here().await
            }
        }
    }

    /// Starts the process, and waits until it has the lock or knows who has. What it returns can be
    /// read from when there is something new.
    async fn start_process(&self, command: &LoginCommand) -> io::Result<ChildStdout> {
        let job = serde_json::to_vec(&LoginJob::of(self))?;
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
    async fn follow(&self, before: &StoredLogin, news: ChildStdout) -> Result<(), Failed> {
        let OAuth { settings, store, server, .. } = self.oauth;
        let until = Instant::now() + settings.login_wait + limits::LOGIN_QUESTION * 3;
        let (mut watched, mut stamp) = (None, store.stamp());
        let mut news = Some(news);
        while store.is_login_held() {
            if watched.is_none() {
                watched = self.oauth.watch_page(None);
            }
            let now = store.stamp();
            if now != stamp && self.has_brought(before).await {
                return Ok(());
            }
            stamp = now;
            if Instant::now() >= until {
                return Err(Failed::unfinished(self.oauth.not_in_time("logged in to")));
            }
            wait_for_news(&mut news).await;
        }
        if self.has_brought(before).await {
            return Ok(());
        }
        let id = watched.as_ref().map_or(&self.plan.id, |(id, _)| id);
        let refused = || store.refusal().map(Failed::refused);
        Err(store.failure_of(id).or_else(refused).unwrap_or_else(|| {
            let error = login_error(format!("The login to {} was broken off", shown(server)))
                .hint("The process that did it has ended; try again");
            Failed { error: error.into(), how: How::BrokenOff }
        }))
    }

    /// Whether the login has brought what it was begun for. A renewal changes the store as well, but
    /// brings no more scope.
    async fn has_brought(&self, before: &StoredLogin) -> bool {
        let is_other = self.oauth.reread(before).await;
        let is_step_up = self.plan.is_step_up;
        is_other && (!is_step_up || is_renewed(before, &self.oauth.kept().await, Cause::Scope))
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

/// A login that is handed to another process: all that it needs, in one document for its stdin. It holds
/// secrets, and is never shown.
#[derive(Deserialize, Serialize)]
struct LoginJob {
    server: Url,
    plan: Plan,
    net: net::Portable,
    settings: OAuthSettings,
    #[serde(serialize_with = "secret::revealed")]
    client_secret: Option<Secret>,
    /// PEM.
    #[serde(serialize_with = "secret::revealed")]
    private_key: Option<Secret>,
    /// How near the server is.
    near: Reach,
    without_resource: bool,
    /// By which it is seen whether another process has stored a token since.
    stamp: Option<Stamp>,
}

impl LoginJob {
    fn of(run: &LoginRun<'_>) -> Self {
        let LoginRun { oauth, plan } = run;
        let settings = OAuthSettings::clone(&oauth.settings);
        Self {
            server: oauth.server.clone(),
            plan: plan.clone(),
            net: net::Portable::from(&oauth.web.options),
            client_secret: settings.client_secret.clone(),
            private_key: settings.private_key.as_ref().map(|key| key.pem().clone()),
            settings,
            near: oauth.web.near(),
            without_resource: oauth.refuses_resource(),
            stamp: oauth.store.stamp(),
        }
    }

    /// The login that is to be done here. `None` if it is not what a process of the same program
    /// wrote.
    fn read(job: &[u8], show: Show, open: Open) -> Option<(OAuth, Plan, Option<Stamp>)> {
        let job: Self = serde_json::from_slice(job).ok()?;
        let key = job.private_key.map(|pem| PrivateKey::from_pem(pem.reveal().as_bytes()));
        let settings = OAuthSettings {
            client_secret: job.client_secret,
            private_key: key.transpose().ok()?,
            show: Some(show),
            open: Some(open),
            ..job.settings
        };
        let oauth = OAuth::new(&job.server, settings, job.net.into_options()?);
        oauth.web.set_near(job.near);
        oauth.set_refuses_resource(job.without_resource);
        Some((oauth, job.plan, job.stamp))
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
        return Err(Error::new(ErrorKind::Login, "The job of this login cannot be read"));
    };
    oauth.settings.client_secret.iter().for_each(|secret| scrubber.add(secret));
    let lock = oauth.store.lock_logins(limits::LOCK_WAIT).await;
    say(READY);
    if lock.is_none() || oauth.store.stamp() != stamp || oauth.store.refusal().is_some() {
        // Somebody else is at it, or was quicker: what comes of that is as good.
        return Ok(());
    }
    let longest = oauth.settings.login_wait + limits::LOGIN_QUESTION * 3;
    let run = LoginRun { oauth: &oauth, plan };
    let late = |_| Err(Failed::unfinished(oauth.not_in_time("logged in to")));
    timeout(longest, run.ask_here()).await.unwrap_or_else(late).map_err(|failed| *failed.error)
}
