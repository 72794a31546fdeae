//! The older transport: a stream for each client, and an address for what it says.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio::sync::mpsc;

use super::body::{Answer, event};
use super::protocol::Said;
use super::{empty, events};

/// Where messages go; the query names the session.
pub(crate) const PATH: &str = "/messages";

/// Pieces that wait for a client that reads slowly.
const QUEUED: usize = 1024;

/// The open streams.
#[derive(Default)]
pub(crate) struct Sessions {
    streams: Mutex<HashMap<String, mpsc::Sender<Bytes>>>,
    opened: AtomicUsize,
}

impl Sessions {
    /// Opens a stream whose first event is the address.
    pub(crate) fn open(&self) -> Response<Answer> {
        let (stream, pieces) = mpsc::channel(QUEUED);
        let mut sessions = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, stream| !stream.is_closed());
        let name = format!("session={}", self.opened.fetch_add(1, Ordering::Relaxed));
        // There is room: nobody else has it yet.
        let _ = stream.try_send(format!("event: endpoint\ndata: {PATH}?{name}\n\n").into());
        sessions.insert(name, stream);
        events(Answer::Open(pieces))
    }

    /// Sends what is said over the stream of this session.
    pub(crate) async fn post(&self, session: String, said: Said) -> Response<Answer> {
        let sessions = || self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(stream) = sessions().get(&session).cloned() else {
            return empty(StatusCode::NOT_FOUND);
        };
        let pieces = match said {
            Said::Nothing => [].into(),
            Said::Welcome(message) | Said::Refusal(message) => event([message].into()),
            Said::Answer(pieces) => event(pieces),
            Said::Notifications { answer, .. } => event([answer].into()),
        };
        for piece in pieces {
            if stream.send(piece).await.is_err() {
                return empty(StatusCode::NOT_FOUND);
            }
        }
        empty(StatusCode::ACCEPTED)
    }
}

/// The session that a message is for.
pub(crate) fn named_by(request: &Request<Incoming>) -> String {
    request.uri().query().unwrap_or_default().to_owned()
}
