//! What went out as it came, and what becomes of it if a legacy server has turned it away.

use tokio::time::Instant;

use super::finding::Verdict;
use super::{ModernClient, Phase, is_request};
use crate::message::{Head, Id, InFlight, Message, Method};
use crate::revision::translate::{Step, Steps};
use crate::revision::{Era, era_hints};

/// An answer that is not believed before the server was asked.
pub(super) struct Kept {
    pub(super) request: Message,
    pub(super) answer: Message,
}

impl Kept {
    /// Whether sending the request again does no harm: it only looks, or was turned away at the
    /// door, by a status or by an error that no work comes before.
    pub(super) fn may_be_repeated(&self) -> bool {
        self.request.method().is_some_and(is_safe) || era_hints::was_turned_away(&self.answer)
    }

    pub(super) fn is_for(&self, id: &Id) -> bool {
        is_request(&self.request, id)
    }
}

/// Methods that only look: sending them twice does no harm.
fn is_safe(method: &Method) -> bool {
    method.properties().is_safe || *method == Method::Listen
}

impl ModernClient {
    /// The server is believed to be modern; the answers show whether it is.
    pub(super) fn pass_and_watch(&mut self, message: Message, out: &mut Steps) {
        match message.head() {
            Head::Request { method, .. } if *method == Method::Discover => {
                self.phase = Phase::Asked { discover: message.clone() };
            }
            Head::Request { id, .. } => {
                self.passed.open(id, message.clone());
            }
            _ => {}
        }
        out.push_back(Step::ToServer(message));
    }

    /// Nothing is looked at any more.
    pub(super) fn let_all_pass(&mut self) {
        self.phase = Phase::Through;
        self.passed = InFlight::default();
    }

    pub(super) fn passed_answered(
        &mut self,
        request: Message,
        answer: Message,
        now: Instant,
        out: &mut Steps,
    ) {
        match Verdict::of_answer(&answer) {
            Verdict::Modern if matches!(self.phase, Phase::Trusting) => self.let_all_pass(),
            Verdict::Modern | Verdict::Nothing => {}
            Verdict::Legacy | Verdict::Refused => {
                return self.turned_away(Kept { request, answer }, now, out);
            }
        }
        out.push_back(Step::ToClient(answer));
    }

    /// It takes part in whatever has been found out about the server since it was sent.
    fn turned_away(&mut self, kept: Kept, now: Instant, out: &mut Steps) {
        let may_be_repeated = kept.may_be_repeated();
        match &mut self.phase {
            Phase::Trusting => self.probe_for(kept, out),
            _ if !may_be_repeated => out.push_back(Step::ToClient(kept.answer)),
            Phase::Probing { kept: all } => all.push(kept),
            Phase::Fresh if self.server == Some(Era::Legacy) => {
                self.begin(kept.request, now, out);
            }
            Phase::Fresh => self.probe_for(kept, out),
            Phase::Asked { .. } | Phase::Trying { .. } | Phase::Opening => {
                self.held.push(kept.request);
            }
            Phase::Serving(_) => self.serve(kept.request, now, out),
            Phase::Through => out.push_back(Step::ToClient(kept.answer)),
        }
    }
}
