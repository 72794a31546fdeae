//! What ends before it is answered: cancelled requests, a session that is lost, and a client that
//! will say nothing more.

use tokio::time::Instant;
use tracing::debug;

use super::calls::Waiter;
use super::levels::Level;
use super::parked::{LEFT, Upstream};
use super::{EraPhase, ModernClient, Own, Waits, is_request};
use crate::error::{Error, Kind};
use crate::message::{Head, Id, Message, Method, reply};

impl ModernClient {
    pub(super) fn client_cancels(&mut self, id: &Id, notice: Message) {
        match self.waiting.close_exactly(id) {
            Some(Waits::Call(upstream)) => return self.cancel_call(&upstream, &notice),
            Some(Waits::Listen) => return self.end_listen(id),
            None => {}
        }
        let is_it = |message: &Message| message.method().is_some() && is_request(message, id);
        if let Some(at) = self.held.iter().position(|(held, _)| is_it(held)) {
            self.held.remove(at);
            return debug!(%id, "cancelled before it was sent");
        }
        if let Some(at) = self.kept.iter().position(|kept| is_it(&kept.request)) {
            self.kept.remove(at);
            return;
        }
        let was_passed = self.passed.close_exactly(id).is_some();
        if matches!(self.phase, EraPhase::Serving(_)) && !was_passed {
            return debug!(%id, "nobody waits for what was cancelled");
        }
        self.cx.send_to_server(notice);
        if self.is_tried(id) {
            // No answer will come to learn from: the next in line is tried.
            self.phase = EraPhase::Fresh;
            self.release();
        }
    }

    /// The server no longer knows the session in which it has asked its questions: the answers
    /// reach nobody any more, so the calls that they are for end at once.
    pub(crate) fn session_lost(&mut self, now: Instant) {
        self.cx.now = now;
        let asked = self.calls.iter().filter(|(_, call)| call.has_asked);
        let asked: Vec<Id> = asked.map(|(upstream, _)| upstream.clone()).collect();
        for upstream in asked {
            let Some(call) = self.drop_call(&upstream) else { continue };
            self.cx.send_to_server(reply::cancelled(&upstream, "The session was lost"));
            match &call.waiter {
                Waiter::Client(id) => self.finish(&call.what, id, &lost_with_session(id)),
                // Whoever goes on with it hears why.
                Waiter::Parked(handle) => {
                    if let Some(parked) = self.parked.get_mut(handle) {
                        parked.questions.clear();
                        parked.upstream = Upstream::Answered(lost_with_session(&upstream));
                    }
                }
            }
        }
    }

    /// There will be no session of ours any more, for this reason.
    pub(super) fn end_session(&mut self, reason: &str) {
        self.end_listens();
        self.end_parked(reason);
        self.level = Level::default();
    }

    /// The client will say nothing more: subscriptions end, and calls that wait for it do, too.
    pub(crate) fn on_client_closed(&mut self, now: Instant) {
        self.cx.now = now;
        self.has_left = true;
        self.end_listens();
        self.end_parked(LEFT);
        self.let_go();
    }

    /// Once the client has left, nothing of ours is waited for that helps none of its requests.
    pub(super) fn let_go(&mut self) {
        if !self.has_left {
            return;
        }
        self.end_waiting_listens();
        let is_request = |message: &Message| matches!(message.head(), Head::Request { .. });
        let is_waited_for =
            !self.kept.is_empty() || self.held.iter().any(|(held, _)| is_request(held));
        let is_useless = |own: &Own| match own {
            Own::Resource(_) | Own::Doubt => true,
            // It decides what is heard of calls that are under way.
            Own::LogLevel(_) => !is_waited_for && self.calls.is_empty(),
            Own::Probe | Own::Opening => !is_waited_for,
        };
        let useless = self.own.iter().filter(|(_, own)| is_useless(own));
        let useless: Vec<Id> = useless.map(|(id, _)| id.clone()).collect();
        for id in useless {
            self.own.remove(&id);
            self.cx.send_to_server(reply::cancelled(&id, LEFT));
        }
        if !is_waited_for && matches!(self.phase, EraPhase::Probing | EraPhase::Opening) {
            self.phase = EraPhase::Fresh;
            for (message, _) in self.held.drain(..) {
                debug!(what = ?message, "dropped: there is no session for it");
            }
        }
    }

    /// Subscriptions that were not served yet.
    fn end_waiting_listens(&mut self) {
        let held = self.held.iter().map(|(held, _)| held);
        let requests = held.chain(self.kept.iter().map(|kept| &kept.request));
        let listens = requests.filter(|request| is_listen(request));
        let ended: Vec<Id> = listens.filter_map(Message::id).cloned().collect();
        self.held.retain(|(message, _)| !is_listen(message));
        self.kept.retain(|kept| !is_listen(&kept.request));
        for id in ended {
            self.cx.send_to_client(self.listened(&id));
        }
    }
}

fn is_listen(message: &Message) -> bool {
    message.id().is_some() && message.method() == Some(&Method::Listen)
}

fn lost_with_session(id: &Id) -> Message {
    let text = "The server has lost the session in which it had asked something for this call";
    let error = Error::new(Kind::SessionLost, text).hint("Make the call again");
    reply::error(Some(id), &error)
}
