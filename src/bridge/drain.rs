//! The client has left: what it asked may still be answered, within its time.

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::up::Up;
use crate::error::{Error, Kind};
use crate::message::{Id, reply};

/// Waits for what is in flight, answers the server in the client's place, and ends the rest.
///
/// Dropping `up` at the end tells the server's link that nothing more will be sent.
pub(super) async fn finish(up: Up, mut orphaned: mpsc::Receiver<Id>) {
    let (left_alone, limit) = {
        let mut state = up.shared.lock();
        state.client_left = true;
        let limit = state.from_client.notes().max().copied().unwrap_or_default();
        (state.from_server.close_all(), limit)
    };
    let gone = Error::new(Kind::Closed, "The client has closed its input and answers no more");
    for id in left_alone {
        let _ = up.server.send(reply::error(Some(&id), &gone)).await;
    }
    let deadline = Instant::now() + limit;
    while up.shared.lock().from_client.notes().any(|limit| !limit.is_zero()) {
        let next = async {
            tokio::select! {
                () = up.shared.ended.notified() => None,
                id = orphaned.recv() => id,
            }
        };
        match timeout_at(deadline, next).await {
            Ok(Some(id)) => up.answer_for_client(&id, &gone).await,
            Ok(None) => {}
            Err(_) => break,
        }
    }
    let late = Error::new(Kind::Shutdown, "The client has closed its input, and time is up");
    let unanswered = up.shared.lock().from_client.close_all();
    for id in unanswered {
        let _ = up.replies.send(reply::error(Some(&id), &late)).await;
    }
}
