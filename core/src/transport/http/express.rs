//! What overtakes the line, and how much of it at once: answers of the client's, refusals and
//! cancellations wait for nothing but their like.
//!
//! Each takes a connection of its own over HTTP/1.1, and a server decides how many there are.

use std::collections::VecDeque;
use std::time::Duration;

use super::gate::Outgoing;
use crate::limits::{self, Timeouts};
use crate::message::{Head, Message, Method};

/// Counts those that are out, and keeps those that may not leave yet.
#[derive(Debug, Default)]
pub(super) struct Express {
    out: usize,
    waiting: VecDeque<Outgoing>,
}

impl Express {
    /// Gives the message back if it may leave now. Requests may: others count these.
    pub(super) fn offer(&mut self, outgoing: Outgoing) -> Option<Outgoing> {
        if is_request(&outgoing) {
            return Some(outgoing);
        }
        if self.out >= limits::OVERTAKING {
            self.waiting.push_back(outgoing);
            return None;
        }
        self.out += 1;
        Some(outgoing)
    }

    /// One that was given back is no longer out: the next that may leave.
    pub(super) fn arrived(&mut self, outgoing: &Outgoing) -> Option<Outgoing> {
        if is_request(outgoing) {
            return None;
        }
        self.out = self.out.saturating_sub(1);
        let next = self.waiting.pop_front()?;
        self.out += 1;
        Some(next)
    }

    /// Their session is no more: nobody wants to hear them.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Whether none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// How long `message` may take. Those that overtake are never waited for without end, or they would
/// hold up all others of their kind.
pub(super) fn limit(message: &Message, timeouts: &Timeouts) -> Option<Duration> {
    match (message.method(), timeouts.of(message.clock())) {
        (None | Some(Method::Cancelled), None) => Some(limits::QUICK_TIMEOUT),
        (_, limit) => limit,
    }
}

fn is_request(outgoing: &Outgoing) -> bool {
    matches!(outgoing.message.head(), Head::Request { .. })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::message::Message;

    fn outgoing(order: u64, text: &'static str) -> Outgoing {
        let message = Message::parse(Bytes::from_static(text.as_bytes())).expect("a message");
        Outgoing { message, envelope: None, order, losses: 0, _share: None }
    }

    fn answer(order: u64) -> Outgoing {
        outgoing(order, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)
    }

    #[test]
    fn so_many_leave_and_each_that_arrives_makes_room_for_the_next() {
        let mut express = Express::default();
        let most = limits::OVERTAKING as u64;
        let left = (0..most + 2).filter_map(|order| express.offer(answer(order))).count();
        assert_eq!(left as u64, most);
        let ping = outgoing(0, r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
        assert!(express.offer(ping.clone()).is_some(), "it is counted elsewhere");
        assert!(express.arrived(&ping).is_none());
        let orders: Vec<u64> =
            (0..3).filter_map(|_| express.arrived(&answer(0))).map(|next| next.order).collect();
        assert_eq!(orders, [most, most + 1]);
        assert!(express.is_empty());
        assert!(express.offer(answer(9)).is_some(), "there is room again");
    }

    #[test]
    fn those_of_a_lost_session_never_leave() {
        let mut express = Express::default();
        let waits = (0..200).filter(|order| express.offer(answer(*order)).is_none()).count();
        assert!(waits > 0 && !express.is_empty());
        express.clear();
        assert!(express.arrived(&answer(0)).is_none());
    }
}
