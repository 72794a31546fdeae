//! The body of a request, which notes when the HTTP client begins to write it.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::Notify;

/// A switch that is thrown once.
#[derive(Clone, Debug, Default)]
pub struct Flag(Arc<AtomicBool>);

impl Flag {
    /// Throws it.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was thrown.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Whether a request has begun to leave: until then it cannot have reached the server.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<(AtomicBool, Notify)>);

impl Progress {
    /// Whether any of it may have been written.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.0.0.load(Ordering::Relaxed)
    }

    /// Completes when it begins to leave: there is a connection.
    pub async fn begun(&self) {
        loop {
            let begun = self.0.1.notified();
            if self.is_raised() {
                return;
            }
            begun.await;
        }
    }

    /// What was written has been turned away: it is as if nothing had been.
    pub fn reset(&self) {
        self.0.0.store(false, Ordering::Relaxed);
    }

    fn raise(&self) {
        self.0.0.store(true, Ordering::Relaxed);
        self.0.1.notify_waiters();
    }
}

/// One piece of bytes; hyper asks for it when head and body are about to go out.
#[derive(Debug)]
pub(super) struct Outbound {
    bytes: Bytes,
    progress: Progress,
}

impl Outbound {
    pub(super) fn new(bytes: Bytes, progress: Progress) -> Self {
        Self { bytes, progress }
    }
}

impl Body for Outbound {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.progress.raise();
        let bytes = std::mem::take(&mut self.bytes);
        Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}
