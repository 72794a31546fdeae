//! The end of a bridge: what was said last is passed on, what is in flight ends, and both sides are
//! told goodbye, each wait with a limit.

use std::sync::OnceLock;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use super::server::Said;
use super::{Bridge, Policy, reserve};
use crate::engine::Dispatcher;
use crate::error::{Error, Kind};
use crate::limits;
use crate::transport::channel::Weighed;
use crate::transport::{Written, until};

/// Waits until the client has taken everything, as long as it takes anything.
pub(super) async fn all_read(done: &mut JoinHandle<()>, written: &Written) {
    loop {
        let before = written.count();
        let waited = timeout(limits::LAST_READ, &mut *done).await;
        if waited.is_ok() || written.count() == before {
            return;
        }
    }
}

impl Bridge {
    /// The server's link has ended by itself: nobody will answer what is in flight.
    pub(super) async fn server_is_gone(&mut self, told: &OnceLock<Error>) {
        // It may have said more before it went, and why it goes; the link has its own limits.
        while let Ok(Some(incoming)) =
            timeout(limits::SERVER_LAST_WORDS, self.server.inbox.recv()).await
        {
            self.take_in(incoming, Instant::now());
            self.settle(Instant::now());
            if !self.deliver().await {
                return;
            }
        }
        let why = self.crossing.why_it_ended();
        if let Some(why) = &why {
            let _ = told.set(why.clone());
        }
        let error = why.unwrap_or_else(|| Error::new(Kind::Closed, "Transport closed"));
        self.crossing.end_all(&error);
        // What the client has asked meanwhile, or is about to ask, ends as well: that is how it
        // learns why.
        let patience = if self.has_heard { Duration::ZERO } else { limits::FIRST_QUESTION };
        let until = Instant::now() + patience;
        while Instant::now() < until + limits::FLUSH
            && let Ok(Some(incoming)) = timeout_at(until, self.from_client.recv()).await
        {
            self.crossing.client_says(incoming, Instant::now());
            self.crossing.end_all(&error.clone().not_delivered());
        }
        self.deliver().await;
    }

    /// Waits until the client has taken everything, as long as it takes anything; `false` if it
    /// does not.
    async fn deliver(&mut self) -> bool {
        while !self.crossing.for_client.is_empty() {
            let before = self.written.count();
            match timeout(limits::LAST_READ, self.deliver_one()).await {
                Ok(true) => {}
                Err(_) if self.written.count() != before => {}
                Ok(false) | Err(_) => return false,
            }
        }
        true
    }

    /// The first of what waits for the client stays where it is until there is room for it.
    async fn deliver_one(&mut self) -> bool {
        let size = self.crossing.for_client.front().map_or(0, Weighed::size);
        let permit = loop {
            let said = tokio::select! {
                biased;
                permit = self.to_client.reserve(size) => break permit,
                said = self.server.inbox.recv_if(false) => said,
            };
            if let (Some(Said::Event(event)), Some(dispatcher)) =
                (said, &mut self.server.dispatcher)
            {
                dispatcher.on_event(event, Instant::now());
            }
        };
        let Ok(permit) = permit else { return false };
        if let Some(message) = self.crossing.for_client.pop_front() {
            permit.send(message);
        }
        true
    }

    /// The client has left and has its answers: the server's link finishes what needs none and says
    /// goodbye; what it still brings goes to the client. `false`: the client does not listen.
    pub(super) async fn last_words(&mut self, policy: Policy) -> bool {
        // One bound for all of it, counted from when the client left (C27).
        let quick = policy.timeouts.quick.unwrap_or(limits::DRAIN_WITHOUT_TIMEOUT);
        let left = self.left_at.unwrap_or_else(Instant::now);
        // Nothing of what waits for a person comes in time.
        let rest = if self.crossing.waits_for_person() { Duration::ZERO } else { quick };
        let deadline = (left + rest).max(Instant::now()) + limits::GOODBYE;
        let finishing = self.finish_sending();
        match timeout_at(deadline, finishing).await {
            Ok(is_heard) => is_heard,
            // The time of the server is up; a client that reads, however slowly, has all it takes.
            Err(_) => self.deliver().await,
        }
    }
    /// Sends what gets no answer, then closes the server's link and hears it out. `false`: the client
    /// does not listen.
    async fn finish_sending(&mut self) -> bool {
        // What has come already may lead to a notification that has to be sent.
        while let Some(said) = self.server.inbox.recv_now().await {
            self.take_in(said, Instant::now());
        }
        if let Some(dispatcher) = &mut self.server.dispatcher {
            dispatcher.close();
        }
        loop {
            self.settle(Instant::now());
            while !self.crossing.for_client.is_empty() {
                if !self.deliver_one().await {
                    return false;
                }
            }
            self.write_all().await;
            match &self.server.dispatcher {
                // The server's stream ends when all was written.
                None => self.server.outbox = None,
                // Goodbye is said where no signal can break it off.
                Some(dispatcher) if dispatcher.is_idle() => return true,
                Some(_) => {}
            }
            let overdue = self.server.dispatcher.as_ref().and_then(Dispatcher::deadline);
            let said = tokio::select! {
                biased;
                said = self.server.inbox.recv() => said,
                () = until(overdue) => {
                    self.tick(Instant::now());
                    continue;
                }
            };
            match said {
                Some(said) => self.take_in(said, Instant::now()),
                None => return true,
            }
        }
    }

    /// Waits until a server's stream has taken all there is for it, or takes no more.
    async fn write_all(&mut self) {
        while let Some(permit) = reserve(self.server.outbox.as_ref(), self.backlog()).await {
            if let Some(message) = self.crossing.next_for_server() {
                permit.send(message);
            }
        }
    }
}
