//! The client will say nothing more: what is ours ends, and what it still waits for goes on.

use tokio::time::Instant;
use tracing::debug;

use super::parked::LEFT;
use super::{ModernClient, Own, Phase};
use crate::message::{Id, Message, Method, reply};
use crate::revision::translate::{Step, Steps};

impl ModernClient {
    /// The client will say nothing more: subscriptions end, and calls that wait for it do, too.
    pub(crate) fn on_client_closed(&mut self, _now: Instant, out: &mut Steps) {
        self.has_left = true;
        self.end_listens(out);
        self.end_parked(LEFT, out);
        self.let_go(out);
    }

    /// Once the client has left, nothing of ours is waited for that helps none of its requests.
    pub(super) fn let_go(&mut self, out: &mut Steps) {
        if !self.has_left {
            return;
        }
        self.end_waiting_listens(out);
        let is_asked_for = match &self.phase {
            Phase::Probing { kept } => !kept.is_empty() || self.held.has_request(),
            _ => self.held.has_request(),
        };
        let is_idle = !is_asked_for && self.calls.is_empty() && !self.levels.is_holding();
        let is_useless = |own: &Own| match own {
            Own::Subscribe(_) | Own::Unsubscribe(_) => true,
            // It decides what is heard of calls that are under way.
            Own::LogLevel(_) => is_idle,
            Own::Doubt => true,
            Own::Probe | Own::Opening => !is_asked_for,
        };
        let useless = self.own.iter().filter(|(_, own)| is_useless(own));
        let useless: Vec<Id> = useless.map(|(id, _)| id.clone()).collect();
        for id in useless {
            self.own.remove(&id);
            out.push_back(Step::ToServer(reply::cancelled(&id, LEFT)));
        }
        if !is_asked_for && matches!(self.phase, Phase::Probing { .. } | Phase::Opening) {
            self.phase = Phase::Fresh;
            while let Some(message) = self.held.pop() {
                debug!(what = ?message, "dropped: there is no session for it");
            }
        }
    }

    /// Subscriptions that were not served yet.
    fn end_waiting_listens(&mut self, out: &mut Steps) {
        let mut ended = self.held.take_out(is_listen);
        if let Phase::Probing { kept } = &mut self.phase {
            let listens = kept.iter().map(|kept| &kept.request).filter(|r| is_listen(r));
            ended.extend(listens.cloned());
            kept.retain(|kept| !is_listen(&kept.request));
        }
        for id in ended.iter().filter_map(Message::id) {
            out.push_back(Step::ToClient(self.listened(id)));
        }
    }
}

fn is_listen(message: &Message) -> bool {
    message.id().is_some() && message.method() == Some(&Method::Listen)
}
