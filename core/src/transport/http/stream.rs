//! The GET streams: the one for what the server says on its own account, and cut ones resumed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::debug;

use super::answer::{Answer, Refusal};
use super::command::Event;
use super::events::{Events, Position, timeout};
use super::log::Direction;
use super::report::Report;
use super::session_loss::{self, Proof, Verdict};
use super::{Context, SendOptions, ping};
use crate::error::Error;
use crate::limits;
use crate::net::backoff::Backoff;
use crate::net::{Call, Content, Lane};
use crate::traffic::{self, Recovery};
use crate::wire::header;

/// What a GET for a stream led to.
enum Opened {
    Stream(Content),
    /// The server has none, in this session (C8).
    Never,
    /// It may be that there is no stream, or that there is no session any more.
    Suspicious,
    /// Not now; what failed will not be mended in seconds.
    Later,
    /// Not now; soon, perhaps.
    Soon,
    /// Not now, because too much is asked of the server already; it may say for how long.
    Busy(Option<Duration>),
    /// Somebody is there and says nothing. So does a proxy that keeps the head of an answer back
    /// until there is something to send with it: nginx, if it buffers.
    Silent,
    /// There is nobody.
    Unreachable,
}

/// Why a stream is read no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// By the server, or by the network.
    Elsewhere,
    /// The machine has slept: it may look open and be dead.
    Slept,
}

/// Keeps the server's own stream open until the task is dropped, or the server has none.
pub(super) async fn keep_open(
    context: Arc<Context>,
    headers: HeaderMap,
    post_headers: Arc<HeaderMap>,
) {
    let mut position = Position::default();
    let mut backoff = Backoff::default();
    let mut hasty = 0;
    let mut was_open = false;
    let mut stirs = context.stirs.subscribe();
    let session = headers.get(header::SESSION_ID).cloned();
    loop {
        let since = Instant::now();
        let sleeps = context.client.sleeps();
        stirs.mark_unchanged();
        position.moved = false;
        let mut can_be_hastened = true;
        let mut wanted = None;
        match open(&context, resuming(&headers, &position), session.is_some(), Lane::Lasting).await
        {
            Opened::Stream(body) => {
                if std::mem::replace(&mut was_open, true) {
                    traffic::recovery(Recovery::StreamReopened, None);
                }
                let slept = slept(&context, sleeps, &mut stirs);
                let session = session.as_ref();
                if read(&context, body, &mut position, session, slept).await == Ended::Slept {
                    continue;
                }
                if since.elapsed() > limits::STREAM_STEADY {
                    backoff.reset();
                    hasty = 0;
                }
                hasty += 1;
                // A server that ends its stream again and again is not asked as often as it says.
                position.moved &= hasty <= limits::HASTY_REOPENINGS;
            }
            Opened::Never => return debug!("the server has no stream of its own"),
            Opened::Suspicious => {
                if is_in_vain(&context, &post_headers, session.as_ref()).await {
                    return;
                }
            }
            Opened::Later => {
                backoff.slow_down();
                can_be_hastened = false;
            }
            Opened::Busy(pause) => {
                can_be_hastened = false;
                wanted = pause;
            }
            // It may have been open all the time: nothing grows that delays the next one.
            Opened::Silent => backoff.reset(),
            Opened::Soon | Opened::Unreachable => {}
        }
        let earliest = can_be_hastened.then(|| since + least_pause(&position));
        let pause = pause(&position, &mut backoff).max(wanted.unwrap_or_default());
        rest(pause, earliest, &mut stirs).await;
    }
}

/// Whether there is no stream to be had in this session, or no session any more, which is told.
async fn is_in_vain(
    context: &Arc<Context>,
    headers: &Arc<HeaderMap>,
    session: Option<&HeaderValue>,
) -> bool {
    match ping::prove(context, Arc::clone(&context.endpoint), Arc::clone(headers)).await {
        Proof::Lives | Proof::Refused => debug!("the server has no stream in this session"),
        Proof::Lost => {
            if let Some(session) = session.cloned() {
                context.report(Report::SessionGone { session });
            }
        }
        Proof::Silence => return false,
    }
    true
}

/// Waits for the next try; from `earliest` on, only until there is a reason to try now.
async fn rest(pause: Duration, earliest: Option<Instant>, stirs: &mut watch::Receiver<()>) {
    let stirred = async {
        sleep_until(earliest.unwrap_or_else(Instant::now)).await;
        stirs.changed().await.is_ok()
    };
    tokio::select! {
        () = sleep(pause) => {}
        true = stirred, if earliest.is_some() => {}
    }
}

/// Completes when the machine has slept since `before`. The stream may look open for minutes after
/// that; whatever the client says is the occasion to find out.
async fn slept(context: &Context, before: u64, stirs: &mut watch::Receiver<()>) {
    while context.client.sleeps() == before {
        if stirs.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// How soon after a try the next may follow if the client says something, or if the server is
/// reached by other means (C7): the server's own delay is kept even then.
fn least_pause(position: &Position) -> Duration {
    position.retry.unwrap_or_default().max(limits::AWAY_CAP)
}

/// How long to wait before a stream is asked for again (C29): what the server said, exactly, if
/// it brought anything (and it is no invitation to a storm); else the longer of that and our own
/// backoff.
pub(super) fn pause(position: &Position, backoff: &mut Backoff) -> Duration {
    match position.retry.map(|retry| retry.max(limits::RETRY_FLOOR)) {
        Some(retry) if position.moved => retry,
        Some(retry) => retry.max(backoff.next_pause()),
        None => backoff.next_pause(),
    }
}

/// What asking for the rest of a stream led to; anything else is final.
pub(super) enum Resumed {
    Stream(Content),
    /// Not now, but trying again makes sense; the server may say when.
    Busy(Option<Duration>),
    /// There is nobody.
    Unreachable,
}

/// Goes on with a stream that was cut.
pub(super) async fn reopen(
    context: &Context,
    headers: HeaderMap,
    limit: Option<Duration>,
) -> Result<Resumed, Error> {
    let opening = open(context, headers, false, Lane::Calls);
    let opened = match limit {
        None => opening.await,
        Some(limit) => tokio::time::timeout(limit, opening)
            .await
            .map_err(|_| timeout("SSE response timeout", limit))?,
    };
    match opened {
        Opened::Stream(body) => Ok(Resumed::Stream(body)),
        Opened::Busy(pause) => Ok(Resumed::Busy(pause)),
        Opened::Soon | Opened::Silent => Ok(Resumed::Busy(None)),
        Opened::Unreachable => Ok(Resumed::Unreachable),
        Opened::Never | Opened::Suspicious | Opened::Later => Err(Error::new(
            crate::error::Kind::NoResponse,
            "the server did not go on with the stream that was cut",
        )),
    }
}

fn resuming(headers: &HeaderMap, position: &Position) -> HeaderMap {
    let mut headers = headers.clone();
    if let Some(id) = &position.last_id {
        headers.insert(header::LAST_EVENT_ID, id.clone());
    }
    headers
}

async fn open(context: &Context, headers: HeaderMap, in_session: bool, lane: Lane) -> Opened {
    let url = context.endpoint.url();
    let session = ping::session(&context.endpoint, &headers);
    let call = Call { lane, ..context.call(Method::GET, headers, Bytes::new()) };
    let sending = context.send(call, SendOptions::aside());
    let answer = match context.settings.timeouts.quick {
        None => sending.await,
        Some(limit) => match tokio::time::timeout(limit, sending).await {
            Ok(answer) => answer,
            Err(_) => {
                debug!("no stream: {}", timeout("Stream timeout", limit));
                return Opened::Silent;
            }
        },
    };
    let response = match answer {
        Ok(response) => response,
        Err(error) => {
            debug!("no stream: {}", context.scrubbed(error));
            return Opened::Unreachable;
        }
    };
    match Answer::sort(response, false, url) {
        Answer::Events(body) => Opened::Stream(body),
        Answer::Refused(response) => {
            let refusal = Refusal::read(response, context).await;
            debug!("no stream: {}", refusal.error());
            match session_loss::of_stream(&refusal.complaint(None, session.as_deref())) {
                Verdict::Suspected if in_session => Opened::Suspicious,
                _ => by_status(refusal.status(), refusal.retry_after()),
            }
        }
        _ => Opened::Never,
    }
}

fn by_status(status: StatusCode, retry_after: Option<Duration>) -> Opened {
    let pause = retry_after.map(|pause| pause.min(limits::BACKOFF_QUIET));
    match status.as_u16() {
        404 | 405 => Opened::Never,
        429 => Opened::Busy(pause),
        _ if pause.is_some() => Opened::Busy(pause),
        500.. => Opened::Soon,
        _ => Opened::Later,
    }
}

async fn read(
    context: &Context,
    body: Content,
    position: &mut Position,
    session: Option<&HeaderValue>,
    slept: impl Future<Output = ()>,
) -> Ended {
    tokio::pin!(slept);
    let max_message = context.settings.max_message;
    let mut events = Events::new(body, max_message, Arc::clone(&context.endpoint));
    loop {
        // No idle limit: a server may have nothing to say for days.
        let next = tokio::select! {
            biased;
            next = events.next_payload(position, None) => next,
            () = &mut slept => {
                debug!("the machine has slept: the server's stream is opened anew");
                return Ended::Slept;
            }
        };
        let payload = match next {
            Ok(Some(payload)) => payload,
            Ok(None) => {
                traffic::stream_cut(traffic::Stream::Own, None, position.last_id.as_ref());
                return Ended::Elsewhere;
            }
            Err(error) => {
                let error = context.scrubbed(error);
                traffic::stream_cut(traffic::Stream::Own, Some(&error), position.last_id.as_ref());
                return Ended::Elsewhere;
            }
        };
        let mut messages = payload.messages();
        while let Some(message) = messages.next().await {
            context.crossing(Direction::FromServer, &message, session);
            context.events.send(Event::Message { message, answers: None }).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_own_delay_is_kept_exactly() {
        // C29
        let mut position = Position { moved: true, ..Position::default() };
        position.retry = Some(Duration::from_millis(1234));
        assert_eq!(pause(&position, &mut Backoff::default()), Duration::from_millis(1234));
        position.moved = false;
        assert_eq!(pause(&position, &mut Backoff::default()), Duration::from_millis(1234));
        position.moved = true;
        position.retry = Some(Duration::ZERO);
        assert_eq!(pause(&position, &mut Backoff::default()), limits::RETRY_FLOOR);
        position.moved = false;
        assert!(pause(&position, &mut Backoff::default()) >= limits::BACKOFF_BASE / 2);
        position.retry = None;
        assert!(pause(&position, &mut Backoff::default()) >= limits::BACKOFF_BASE / 2);
    }

    #[test]
    fn statuses_decide_whether_there_is_a_stream() {
        // C8, S1-41, S4-23
        let by = |status| by_status(StatusCode::from_u16(status).unwrap(), None);
        assert!(matches!(by(405), Opened::Never));
        assert!(matches!(by(404), Opened::Never));
        for status in [400, 401, 403, 409] {
            assert!(matches!(by(status), Opened::Later), "{status}");
        }
        for status in [500, 503] {
            assert!(matches!(by(status), Opened::Soon), "{status}");
        }
        assert!(matches!(by(429), Opened::Busy(None)));
    }

    #[test]
    fn a_pause_that_the_server_asks_for_is_kept_but_not_for_ever() {
        let asked = |status, seconds| {
            by_status(StatusCode::from_u16(status).unwrap(), Some(Duration::from_secs(seconds)))
        };
        for status in [429, 503] {
            let kept = Duration::from_secs(30);
            assert!(matches!(asked(status, 30), Opened::Busy(Some(pause)) if pause == kept));
            let most = limits::BACKOFF_QUIET;
            assert!(matches!(asked(status, 86_400), Opened::Busy(Some(pause)) if pause == most));
        }
    }
}
