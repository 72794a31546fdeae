//! A lost session takes along the calls that have asked the client something: the answer reaches
//! nobody any more, so they end at once.

use tokio::time::Instant;

use super::ModernClient;
use super::calls::Waiter;
use super::parked::Upstream;
use crate::error::{Error, Kind};
use crate::message::{Id, Message, reply};
use crate::revision::translate::{Step, Steps};

impl ModernClient {
    /// The server no longer knows the session that it has asked its questions in.
    pub(crate) fn session_lost(&mut self, now: Instant, out: &mut Steps) {
        let asked = self.calls.iter().filter(|(_, call)| call.has_asked);
        let asked: Vec<Id> = asked.map(|(upstream, _)| upstream.clone()).collect();
        for upstream in asked {
            let Some(call) = self.drop_call(&upstream) else { continue };
            out.push_back(Step::ToServer(reply::cancelled(&upstream, LOST)));
            match &call.waiter {
                Waiter::Client(id) => self.finish(&call.what, id, &over(id), now, out),
                Waiter::Parked(handle) => self.void(handle, &upstream),
            }
        }
    }

    /// Nothing is asked any more for a parked call; whoever goes on with it hears why.
    fn void(&mut self, handle: &str, upstream: &Id) {
        if let Some(parked) = self.parked.get_mut(handle) {
            parked.questions.clear();
            parked.upstream = Upstream::Answered(over(upstream));
        }
    }
}

const LOST: &str = "The session was lost";

fn over(id: &Id) -> Message {
    let text = "The server has lost the session in which it had asked something for this call";
    let error = Error::new(Kind::SessionLost, text).hint("Make the call again");
    reply::error(Some(id), &error)
}
