//! The bodies of requests, which note when they begin to leave, and those of answers.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::sync::Notify;

use super::host::Lease;
use super::recorder::ExchangeRecording;

/// What becomes of a request: whether it has begun to leave, since until then it cannot have reached
/// the server, and whether anybody wants its answer.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Course>);

#[derive(Debug, Default)]
struct Course {
    stage: AtomicU8,
    is_unwanted: AtomicBool,
    begun: Notify,
}

const WAITING: u8 = 0;
const BEGUN: u8 = 1;
const WITHDRAWN: u8 = 2;

impl Progress {
    /// Whether any of it may have been written.
    #[must_use]
    pub fn has_started(&self) -> bool {
        self.0.stage.load(Ordering::Relaxed) == BEGUN
    }

    /// Completes when it begins to leave: there is a connection.
    pub async fn begun(&self) {
        loop {
            let begun = self.0.begun.notified();
            if self.has_started() {
                return;
            }
            begun.await;
        }
    }

    /// Nobody wants the answer any more.
    pub fn abandon(&self) {
        self.0.is_unwanted.store(true, Ordering::Relaxed);
    }

    /// Whether nobody wants the answer any more.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.0.is_unwanted.load(Ordering::Relaxed)
    }

    pub(crate) fn mark_started(&self) {
        if !self.has_started() {
            self.0.stage.store(BEGUN, Ordering::Relaxed);
            self.0.begun.notify_waiters();
        }
    }

    /// The server has not looked at what was written, or has turned it away: it is as if nothing
    /// had been.
    pub fn reset(&self) {
        self.0.stage.store(WAITING, Ordering::Relaxed);
    }

    /// Holds it back for good, unless it has begun to leave already; then `false`.
    ///
    /// Giving up whoever waits for the answer is not enough: that is noticed later, and in between
    /// the connection may take it.
    #[must_use]
    pub fn withdraw(&self) -> bool {
        let (stage, relaxed) = (&self.0.stage, Ordering::Relaxed);
        stage.compare_exchange(WAITING, WITHDRAWN, relaxed, relaxed) != Err(BEGUN)
    }

    fn is_withdrawn(&self) -> bool {
        self.0.stage.load(Ordering::Relaxed) == WITHDRAWN
    }
}

/// Withdraws what has not begun to leave, when dropped: whoever counts on its not having been sent
/// must not be proved wrong later. A request that waits for a place on an HTTP/2 connection is
/// hyper's, and would go out even though nobody waits for its answer.
#[derive(Debug)]
pub(super) struct Withdrawal(pub(super) Progress);

impl Drop for Withdrawal {
    fn drop(&mut self) {
        let _ = self.0.withdraw();
    }
}

/// The body of a request: one piece of bytes, which notes being looked at, since it is about to be
/// written then. Being asked for by hyper says less: over HTTP/2 it may wait for a place on the
/// connection after that.
#[derive(Debug)]
pub(super) struct Outbound {
    pub(super) bytes: Bytes,
    pub(super) progress: Progress,
}

impl Body for Outbound {
    type Data = Self;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Self>>>> {
        if self.progress.is_withdrawn() {
            return Poll::Ready(Some(Err(io::Error::other("the request was withdrawn"))));
        }
        let bytes = std::mem::take(&mut self.bytes);
        let piece = (!bytes.is_empty()).then(|| Self { bytes, progress: self.progress.clone() });
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}

impl Buf for Outbound {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.progress.mark_started();
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }
}

/// The body of an answer, with the connection that it comes on, which others can have behind it.
#[derive(Debug)]
pub struct Inbound {
    pub(super) body: Incoming,
    /// The address of whoever has answered; `None` if a proxy stands in between.
    pub peer: Option<IpAddr>,
    pub(super) _lease: Option<Lease>,
    /// Hears of what is read. A rare case: it is boxed, so that the others do not carry it.
    pub(super) recording: Option<Box<ExchangeRecording>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn frame(body: &mut Outbound) -> Option<io::Result<Outbound>> {
        use http_body_util::BodyExt;
        let frame = body.frame().await?;
        Some(frame.map(|frame| frame.into_data().expect("data")))
    }

    #[tokio::test]
    async fn asking_for_the_bytes_is_not_writing_them() {
        let progress = Progress::default();
        let mut body = Outbound { bytes: Bytes::from_static(b"abc"), progress: progress.clone() };
        let mut data = frame(&mut body).await.unwrap().unwrap();
        assert_eq!(data.remaining(), 3);
        assert!(body.is_end_stream() && !progress.has_started());
        assert_eq!(data.copy_to_bytes(3), "abc");
        assert!(progress.has_started());
        progress.begun().await;
        progress.reset();
        assert!(!progress.has_started());
    }

    #[tokio::test]
    async fn what_was_withdrawn_does_not_leave_later() {
        let progress = Progress::default();
        let mut body = Outbound { bytes: Bytes::from_static(b"abc"), progress: progress.clone() };
        drop(Withdrawal(progress.clone()));
        assert!(frame(&mut body).await.unwrap().is_err());
        assert!(!progress.has_started());
        assert!(progress.withdraw(), "it still holds");
        let begun = Progress::default();
        begun.mark_started();
        assert!(!begun.withdraw(), "too late");
        drop(Withdrawal(begun.clone()));
        assert!(begun.has_started(), "what has begun cannot be withdrawn");
    }
}
