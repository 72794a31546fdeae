//! What ends before it is answered: cancelled requests, and what waits for a client that will say
//! nothing more.

use tokio::time::Instant;
use tracing::debug;

use super::session::{LEFT, Own};
use super::{EraPhase, ModernClient};
use crate::message::{Id, Message, Method, reply};

impl ModernClient {
    pub(super) fn client_cancels(&mut self, id: &Id, notice: Message) {
        match self.session.waiting.close_exactly(id) {
            Some(Some(upstream)) => return self.session.cancel_call(&upstream, &notice),
            Some(None) => return self.session.end_listen(id),
            None => {}
        }
        let canonical = id.canonical();
        let is_it =
            |held: &Message| held.request_id().is_some_and(|id| id.canonical() == canonical);
        let waiting = self.held.len() + self.kept.len();
        self.held.retain(|(held, _)| !is_it(held));
        self.kept.retain(|kept| !is_it(&kept.request));
        if self.held.len() + self.kept.len() < waiting {
            return debug!(%id, "cancelled before it was sent, or its answer believed");
        }
        let was_passed = self.passed.close_exactly(id).is_some();
        if matches!(self.phase, EraPhase::Serving) && !was_passed {
            return debug!(%id, "nobody waits for what was cancelled");
        }
        self.session.cx.send_to_server(notice);
        if self.is_tried(id) {
            // No answer will come to learn from: the next in line is tried.
            self.phase = EraPhase::Fresh;
            self.release();
        }
    }

    /// The client will say nothing more: subscriptions end, and calls that wait for it do, too.
    pub(crate) fn on_client_closed(&mut self, now: Instant) {
        self.session.cx.now = now;
        self.session.has_left = true;
        self.session.end(LEFT);
        self.let_go();
    }

    /// Once the client has left, nothing of ours is waited for that helps none of its requests.
    pub(super) fn let_go(&mut self) {
        if !self.session.has_left {
            return;
        }
        self.end_waiting_listens();
        let is_waited_for =
            !self.kept.is_empty() || self.held.iter().any(|(held, _)| held.request_id().is_some());
        let has_calls = !self.session.calls.is_empty();
        let is_serving = matches!(self.phase, EraPhase::Serving);
        let useless = self.session.own.extract_if(|_, own| match own {
            Own::Resource(_) => true,
            // It decides what is heard of calls that are under way.
            Own::LogLevel(_) => !is_waited_for && !has_calls,
            Own::Discover | Own::Opening => is_serving || !is_waited_for,
        });
        for (id, _) in useless {
            self.session.cx.send_to_server(reply::cancelled(&id, LEFT));
        }
        if !is_waited_for && matches!(self.phase, EraPhase::Probing | EraPhase::Opening) {
            // What was only told is told to nobody: there is no session for it.
            self.held.clear();
            self.phase = EraPhase::Fresh;
        }
    }

    /// Subscriptions that were not served yet.
    fn end_waiting_listens(&mut self) {
        let is_listen = |message: &Message| message.is_request(&Method::Listen);
        let held = self.held.iter().map(|(held, _)| held);
        let requests = held.chain(self.kept.iter().map(|kept| &kept.request));
        for id in requests.filter(|request| is_listen(request)).filter_map(Message::id) {
            self.session.cx.send_to_client(self.session.listened(id));
        }
        self.held.retain(|(message, _)| !is_listen(message));
        self.kept.retain(|kept| !is_listen(&kept.request));
    }
}
