//! The bodies of answers: known before, made on the way, or handed over by others.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

use crate::messages::PROGRESS;

const BEGIN: &[u8] = b"event: message\ndata: ";
const END: &[u8] = b"\n\n";

/// What is sent, piece by piece.
pub(crate) enum Answer {
    /// Of a length that is told before, or not: that is how servers stream.
    Pieces { pieces: VecDeque<Bytes>, length: Option<u64> },
    /// As many notifications, then the last event.
    Notifications { made: usize, count: usize, token: String, last: VecDeque<Bytes> },
    /// Whatever comes, until the other end is dropped.
    Open(mpsc::Receiver<Bytes>),
}

impl Answer {
    pub(crate) fn whole(bytes: Bytes) -> Self {
        Self::sized(if bytes.is_empty() { VecDeque::new() } else { VecDeque::from([bytes]) })
    }

    pub(crate) fn sized(pieces: VecDeque<Bytes>) -> Self {
        let length = pieces.iter().map(|piece| piece.len() as u64).sum();
        Self::Pieces { pieces, length: Some(length) }
    }

    pub(crate) fn notifications(count: usize, token: &str, answer: Bytes) -> Self {
        let last = event(VecDeque::from([answer]));
        Self::Notifications { made: 0, count, token: token.to_owned(), last }
    }

    /// The same as one event.
    pub(crate) fn into_event(self) -> Self {
        match self {
            Self::Pieces { pieces, .. } => Self::Pieces { pieces: event(pieces), length: None },
            already => already,
        }
    }
}

/// These pieces as one event; small ones stay one piece.
pub(crate) fn event(mut pieces: VecDeque<Bytes>) -> VecDeque<Bytes> {
    if let (Some(only), 1) = (pieces.front(), pieces.len()) {
        return VecDeque::from([[BEGIN, only, END].concat().into()]);
    }
    pieces.push_front(Bytes::from_static(BEGIN));
    pieces.push_back(Bytes::from_static(END));
    pieces
}

fn notification(number: usize, count: usize, token: &str) -> Bytes {
    format!(
        "event: message\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"{PROGRESS}\",\"params\":\
         {{\"progressToken\":{token},\"progress\":{number},\"total\":{count}}}}}\n\n"
    )
    .into()
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match &mut *self {
            Self::Pieces { pieces, .. } => pieces.pop_front(),
            Self::Notifications { made, count, token, .. } if *made < *count => {
                *made += 1;
                Some(notification(*made, *count, token))
            }
            Self::Notifications { last, .. } => last.pop_front(),
            Self::Open(pieces) => match pieces.poll_recv(context) {
                Poll::Ready(piece) => piece,
                Poll::Pending => return Poll::Pending,
            },
        };
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Pieces { pieces, .. } if pieces.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Pieces { length: Some(length), .. } => SizeHint::with_exact(*length),
            _ => SizeHint::default(),
        }
    }
}
