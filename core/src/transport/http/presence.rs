//! Whether the server is there: told when it goes, when it comes back, and when it first answers.

use std::pin::pin;
use std::sync::atomic::Ordering;

use super::Context;
use crate::error::Error;
use crate::message::{Head, Message};
use crate::traffic::{self, Recovery};
use crate::transport::Send;

impl Context {
    /// Notes that the server cannot be reached, if that is what `error` says.
    pub(super) fn note_absence(&self, error: &Error) {
        if !error.is_unreachable() {
            return;
        }
        if !self.is_away.swap(true, Ordering::Relaxed) {
            traffic::recovery(Recovery::ServerAway, Some(error));
        }
    }

    /// The server has answered in `revision`; the first time is worth a word.
    pub(super) fn note_connection(&self, transport: &str, revision: Option<&str>) {
        if !self.is_connected.swap(true, Ordering::Relaxed) {
            traffic::connected(transport, revision);
        }
    }

    /// The server is there. Gives back whether it was not.
    pub(super) fn note_presence(&self) -> bool {
        let was_away = self.is_away.swap(false, Ordering::Relaxed);
        if was_away {
            traffic::recovery(Recovery::ServerBack, None);
            self.wake_retries();
        }
        was_away
    }

    /// A request was answered. A modern server has no handshake: its first result is what shows that
    /// it is there.
    pub(super) fn note_answer(&self, asked: &Send, answer: &Message) {
        if let (Some(envelope), Head::Response { is_error: false, .. }) =
            (&asked.envelope, answer.head())
        {
            self.note_connection("Streamable HTTP", Some(&envelope.version));
        }
    }
}

/// What `sending` comes to. `notice` is done on the way if `sign` comes first.
pub(super) async fn with_notice<T>(
    sending: impl Future<Output = T>,
    sign: impl Future<Output = ()>,
    notice: impl Future<Output = ()>,
) -> T {
    let mut sending = pin!(sending);
    tokio::select! {
        biased;
        answer = &mut sending => return answer,
        () = sign => notice.await,
    }
    sending.await
}
