//! Streams that are asked for: the server's own, kept open by GET, and when one is asked for again.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::debug;

use super::answer::{Answer, Refusal};
use super::events::{Events, Item, Position, timeout};
use super::report::Report;
use super::session::SessionHeaders;
use super::session_loss::{self, Proof};
use super::streamable::session_gone;
use super::{Context, SendOptions, ping};
use crate::limits;
use crate::net::{Call, Content, Lane};
use crate::traffic::{self, Recovery};
use crate::transport::{Event, within};
use crate::wire::header;

/// What asking for a stream led to.
pub(super) enum Opened {
    Stream(Content),
    /// There is none to be had (C8).
    Never,
    /// It may be that there is no stream, or that there is no session any more.
    Suspicious,
    NotNow(NotNow),
}

/// Why there is no stream yet.
#[derive(Debug)]
pub(super) enum NotNow {
    /// What failed will not be mended in seconds.
    Later,
    /// Soon, perhaps: it was open, or may be.
    Soon,
    /// Too much is asked of the server already; it may say for how long.
    Busy(Option<Duration>),
    /// Somebody is there and says nothing. So does a proxy that keeps the head of an answer back
    /// until there is something to send with it: nginx, if it buffers.
    Silent,
    /// There is nobody.
    Unreachable,
}

/// Keeps the server's own stream open until the task is dropped, or the server has none.
pub(super) async fn keep_open(context: Arc<Context>, session: Arc<SessionHeaders>) {
    let mut reopening = Reopening::new(&context);
    let mut was_open = false;
    loop {
        let sleeps = context.client.sleeps();
        reopening.begin();
        let last_id = reopening.position.last_id.as_ref();
        let not_now = match open(&context, session.stream_headers(), last_id, Lane::Lasting).await {
            Opened::Stream(body) => {
                if std::mem::replace(&mut was_open, true) {
                    traffic::recovery(Recovery::StreamReopened, None);
                }
                let position = std::mem::take(&mut reopening.position);
                let mut events = Events::new(body, &context, position);
                // The stream may look open for minutes after a sleep; whatever the client says is the
                // occasion to find out.
                let slept = reopening.wakeups.wait_for(|()| context.client.sleeps() != sleeps);
                let has_slept = read(&context, &mut events, session.id(), slept).await;
                reopening.position = events.position;
                if has_slept {
                    reopening.position.moved = false;
                    continue;
                }
                reopening.ended();
                NotNow::Soon
            }
            Opened::Never => return debug!("the server has no stream of its own"),
            Opened::Suspicious if is_in_vain(&context, &session).await => return,
            Opened::Suspicious => NotNow::Soon,
            Opened::NotNow(not_now) => not_now,
        };
        reopening.rest(not_now).await;
    }
}

/// When a stream that is to stay open is asked for again.
pub(super) struct Reopening {
    /// Behind which it goes on.
    pub(super) position: Position,
    /// How many times in a row it has ended soon after it was opened.
    hasty: u32,
    /// When it was last asked for.
    since: Instant,
    /// Reasons to ask for it now.
    wakeups: watch::Receiver<()>,
}

impl Reopening {
    pub(super) fn new(context: &Context) -> Self {
        let wakeups = context.wakeups.subscribe();
        Self { position: Position::default(), hasty: 0, since: Instant::now(), wakeups }
    }

    /// It is asked for now.
    pub(super) fn begin(&mut self) {
        self.since = Instant::now();
        self.wakeups.mark_unchanged();
    }

    /// It was open, and has ended.
    pub(super) fn ended(&mut self) {
        if self.since.elapsed() > limits::STREAM_STEADY {
            self.position.backoff.reset();
            self.hasty = 0;
        }
        self.hasty += 1;
        // A server that ends its stream again and again is not asked as often as it says.
        self.position.moved &= self.hasty <= limits::HASTY_REOPENINGS;
    }

    /// Waits for the next try: for a while, or until the client says something or the server is
    /// reached by other means (C7). The server's own delay is kept even then.
    pub(super) async fn rest(&mut self, not_now: NotNow) {
        let can_be_hastened = !matches!(not_now, NotNow::Later | NotNow::Busy(_));
        let earliest = self.since + self.position.retry.unwrap_or_default().max(limits::AWAY_CAP);
        let mut wanted = None;
        match not_now {
            NotNow::Later => self.position.backoff.slow_down(),
            // It may have been open all the time: nothing grows that delays the next one.
            NotNow::Silent => self.position.backoff.reset(),
            NotNow::Busy(pause) => wanted = pause,
            NotNow::Soon | NotNow::Unreachable => {}
        }
        let pause = self.position.pause().max(wanted.unwrap_or_default());
        let woken_up = async {
            sleep_until(earliest).await;
            self.wakeups.changed().await.is_ok()
        };
        tokio::select! {
            () = sleep(pause) => {}
            true = woken_up, if can_be_hastened => {}
        }
    }
}

/// Whether there is no stream to be had in this session, or no session any more, which is told.
async fn is_in_vain(context: &Context, session: &SessionHeaders) -> bool {
    match ping::ask(context, &context.post_in(session)).await.0 {
        Proof::Lives | Proof::Refused => debug!("the server has no stream in this session"),
        Proof::Lost => {
            if let Some(session) = session.id().cloned() {
                context.report(Report::SessionGone { session, error: session_gone() });
            }
        }
        Proof::Silence => return false,
    }
    true
}

/// Asks for a stream by GET, or for the rest of one, behind the event `last_id`.
pub(super) async fn open(
    context: &Context,
    mut headers: HeaderMap,
    last_id: Option<&HeaderValue>,
    lane: Lane,
) -> Opened {
    if let Some(id) = last_id {
        headers.insert(header::LAST_EVENT_ID, id.clone());
    }
    let in_session = headers.contains_key(header::SESSION_ID);
    let call = Call { lane, ..context.call(Method::GET, headers, Bytes::new()) };
    let session = ping::session(&call);
    let sending = context.send(call, SendOptions::aside());
    let response = match within(context.settings.timeouts.quick, sending).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => {
            debug!("no stream: {}", context.scrubbed(error));
            return Opened::NotNow(NotNow::Unreachable);
        }
        Err(limit) => {
            debug!("no stream: {}", timeout("Stream timeout", limit));
            return Opened::NotNow(NotNow::Silent);
        }
    };
    match Answer::of(&response) {
        Answer::Events => Opened::Stream(response.into_body()),
        Answer::Refused => {
            let refusal = Refusal::read(response, context, None).await;
            debug!("no stream: {}", refusal.error);
            match in_session && session_loss::is_suspicious(&refusal.complaint(session.as_deref()))
            {
                true => Opened::Suspicious,
                false => by_status(refusal.status, refusal.error.retry_after),
            }
        }
        Answer::Json | Answer::Other => Opened::Never,
    }
}

fn by_status(status: StatusCode, retry_after: Option<Duration>) -> Opened {
    let pause = retry_after.map(|pause| pause.min(limits::BACKOFF_QUIET));
    Opened::NotNow(match status.as_u16() {
        404 | 405 => return Opened::Never,
        429 => NotNow::Busy(pause),
        _ if pause.is_some() => NotNow::Busy(pause),
        500.. => NotNow::Soon,
        _ => NotNow::Later,
    })
}

/// Passes on what the server's own stream brings, until it ends, or looks open and may be dead since
/// the machine has `slept`; then `true`.
async fn read(
    context: &Context,
    events: &mut Events,
    session: Option<&HeaderValue>,
    slept: impl Future,
) -> bool {
    tokio::pin!(slept);
    let why = loop {
        // No idle limit: a server may have nothing to say for days.
        let next = tokio::select! {
            biased;
            next = events.next(None) => next,
            _ = &mut slept => {
                debug!("the machine has slept: the server's stream is opened anew");
                return true;
            }
        };
        match next {
            Ok(Some(Item::Message(message))) => {
                context.log_received(&message, None, session);
                context.events.send(Event::Message { message, answers: None }).await;
            }
            Ok(_) => break None,
            Err(error) => break Some(context.scrubbed(error)),
        }
    };
    traffic::stream_cut(traffic::StreamKind::Own, why.as_ref(), events.position.last_id.as_ref());
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_decide_whether_there_is_a_stream() {
        // C8, S1-41, S4-23
        let by = |status| by_status(StatusCode::from_u16(status).unwrap(), None);
        assert!(matches!(by(405), Opened::Never));
        assert!(matches!(by(404), Opened::Never));
        for status in [400, 401, 403, 409] {
            assert!(matches!(by(status), Opened::NotNow(NotNow::Later)), "{status}");
        }
        for status in [500, 503] {
            assert!(matches!(by(status), Opened::NotNow(NotNow::Soon)), "{status}");
        }
        assert!(matches!(by(429), Opened::NotNow(NotNow::Busy(None))));
    }

    #[test]
    fn a_pause_that_the_server_asks_for_is_kept_but_not_for_ever() {
        let asked = |status, seconds| {
            let pause = Some(Duration::from_secs(seconds));
            match by_status(StatusCode::from_u16(status).unwrap(), pause) {
                Opened::NotNow(NotNow::Busy(pause)) => pause,
                _ => None,
            }
        };
        for status in [429, 503] {
            assert_eq!(asked(status, 30), Some(Duration::from_secs(30)));
            assert_eq!(asked(status, 86_400), Some(limits::BACKOFF_QUIET));
        }
    }
}
