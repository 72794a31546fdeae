//! Finds out which era the server speaks, at no cost where there is none to pay.

use tokio::time::Instant;

use super::changing::Introduction;
use super::passed::Kept;
use super::{ModernClient, Own, Phase, readdressed};
use crate::limits;
use crate::message::{Head, Message, Method, peek, reply};
use crate::revision::translate::{Protocol, Step, Steps};
use crate::revision::{Envelope, Era, era_hints};

/// What an answer says about the server that wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Modern,
    Legacy,
    /// The server refused, in words that belong to neither era.
    Refused,
    /// It was not the server who spoke, or it spoke of other things.
    Nothing,
}

impl Verdict {
    /// Of the answer to `server/discover`.
    pub(super) fn of_discover(answer: &Message) -> Self {
        if let Head::Response { is_error: false, .. } = answer.head() {
            // Whoever knows the question is modern, unless it says otherwise.
            return match peek::supported_versions(answer) {
                Some(revisions) if era_hints::are_legacy(&revisions) => Self::Legacy,
                // Some say yes to whatever they are asked.
                None if !peek::has_result_type(answer) => Self::Legacy,
                _ => Self::Modern,
            };
        }
        Self::of_error(answer)
    }

    /// Of the answer to any other request.
    pub(super) fn of_answer(answer: &Message) -> Self {
        match answer.head() {
            Head::Response { is_error: false, .. } if answer.is_own() => Self::Nothing,
            Head::Response { is_error: false, .. } if peek::has_result_type(answer) => Self::Modern,
            Head::Response { is_error: false, .. } => Self::Refused,
            _ => match Self::of_error(answer) {
                // The method may be unknown to a server of either era.
                Self::Legacy => Self::Refused,
                other => other,
            },
        }
    }

    fn of_error(answer: &Message) -> Self {
        match (answer.failure().map(|failure| failure.status), era_hints::era_of(answer)) {
            // Statuses that are about credentials, haste or the server's health are not about eras.
            (Some(Some(401 | 403 | 408 | 429)), _) => Self::Nothing,
            (Some(Some(400..=499)), _) => Self::Refused,
            (Some(_), _) => Self::Nothing,
            (None, Some(Era::Modern)) => Self::Modern,
            (None, Some(Era::Legacy)) => Self::Legacy,
            (None, None) if era_hints::denies_modern(answer) => Self::Legacy,
            (None, None) => Self::Refused,
        }
    }

    /// Whether the answer to `initialize` comes from a server that does not know it.
    ///
    /// A server that has said that it is legacy only has something against the parameters.
    pub(super) fn of_initialize(answer: &Message, is_certain: bool) -> Self {
        match (Self::of_error(answer), peek::error_code(answer)) {
            (Self::Modern, _) => Self::Modern,
            (Self::Legacy | Self::Refused, Some((-32601 | -32602, _)))
                if !is_certain && answer.failure().is_none() =>
            {
                Self::Modern
            }
            (other, _) => other,
        }
    }
}

impl ModernClient {
    /// Something is said while nothing is under way.
    pub(super) fn begin(&mut self, message: Message, now: Instant, out: &mut Steps) {
        let Head::Request { id, method } = message.head() else {
            return out.push_back(Step::ToServer(message));
        };
        let is_modern = *method == Method::Discover || Envelope::of(&message).is_some();
        if self.client.is_none() && !is_modern {
            return out.push_back(Step::ToServer(message));
        }
        self.client = Some(Era::Modern);
        if method.properties().is_legacy_only
            || (*method == Method::Discover && self.is_legacy_only())
        {
            return out.push_back(Step::ToClient(reply::method_not_found(id, method.name())));
        }
        if *method == Method::Discover {
            self.phase = Phase::Asked { discover: message.clone() };
            return out.push_back(Step::ToServer(message));
        }
        match self.server {
            _ if self.is_legacy_only() => self.open(message, out),
            Some(Era::Legacy) => self.open(message, out),
            Some(Era::Modern) => {
                self.phase = Phase::Trusting;
                self.pass_and_watch(message, out);
            }
            // What a legacy server refuses without a session, it has not carried out.
            None if *method != Method::Listen => {
                let until = now + limits::TRIAL_WAIT;
                self.phase = Phase::Trying { request: message.clone(), until };
                out.push_back(Step::ToServer(message));
            }
            None => {
                self.probe(&message, out);
                self.held.push_first(message);
            }
        }
    }

    fn is_legacy_only(&self) -> bool {
        self.protocol == Protocol::Legacy
    }

    /// The client's own question was answered.
    pub(super) fn discover_answered(&mut self, answer: Message, now: Instant, out: &mut Steps) {
        let verdict = Verdict::of_discover(&answer);
        let Phase::Asked { discover } = std::mem::replace(&mut self.phase, Phase::Fresh) else {
            return;
        };
        match verdict {
            Verdict::Modern => {
                self.is_modern();
                out.push_back(Step::ToClient(answer));
            }
            Verdict::Legacy => {
                self.is_legacy(true);
                if self.protocol == Protocol::Modern {
                    self.open(discover, out);
                } else {
                    out.push_back(Step::ToClient(plain_refusal(answer)));
                }
            }
            // A question opens no browser; a client that cannot go on without an answer does.
            Verdict::Nothing if wants_login(&answer) && self.protocol == Protocol::Modern => {
                self.open(discover, out);
            }
            Verdict::Refused | Verdict::Nothing => out.push_back(Step::ToClient(answer)),
        }
        self.release(now, out);
    }

    /// The request that was sent as it came was answered.
    pub(super) fn try_answered(&mut self, answer: Message, now: Instant, out: &mut Steps) {
        let verdict = Verdict::of_answer(&answer);
        let Phase::Trying { request, .. } = std::mem::replace(&mut self.phase, Phase::Fresh) else {
            return;
        };
        match verdict {
            Verdict::Modern => self.is_modern(),
            Verdict::Nothing => {}
            Verdict::Legacy | Verdict::Refused => {
                return self.probe_for(Kept { request, answer }, out);
            }
        }
        out.push_back(Step::ToClient(answer));
        self.release(now, out);
    }

    /// Asks the server before an answer of its is believed.
    pub(super) fn probe_for(&mut self, kept: Kept, out: &mut Steps) {
        self.probe(&kept.request, out);
        self.phase = Phase::Probing { kept: vec![kept] };
    }

    /// Asks the server in the client's place, with the envelope of a request of its.
    fn probe(&mut self, asker: &Message, out: &mut Steps) {
        self.phase = Phase::Probing { kept: Vec::new() };
        let introduction = Introduction::of(asker);
        self.ask(Own::Probe, "server/discover", |params| introduction.fill(params), out);
    }

    pub(super) fn probe_answered(&mut self, answer: &Message, now: Instant, out: &mut Steps) {
        let verdict = Verdict::of_discover(answer);
        let Phase::Probing { kept } = std::mem::replace(&mut self.phase, Phase::Fresh) else {
            return;
        };
        match verdict {
            Verdict::Legacy | Verdict::Refused => {
                self.is_legacy(verdict == Verdict::Legacy);
                // The first to be turned away is the first in line.
                for kept in kept.into_iter().rev() {
                    if kept.may_be_repeated() {
                        self.held.push_first(kept.request);
                    } else {
                        out.push_back(Step::ToClient(kept.answer));
                    }
                }
            }
            Verdict::Modern => {
                self.is_modern();
                out.extend(kept.into_iter().map(|kept| Step::ToClient(kept.answer)));
            }
            Verdict::Nothing if !kept.is_empty() => {
                out.extend(kept.into_iter().map(|kept| Step::ToClient(kept.answer)));
            }
            Verdict::Nothing if wants_login(answer) => {
                // The request itself may open a browser; its answer tells the era.
                self.phase = Phase::Trusting;
                if let Some(first) = self.held.pop() {
                    self.pass_and_watch(first, out);
                }
            }
            Verdict::Nothing => {
                // The one that the question was asked for.
                let first = self.held.pop();
                let id = first.as_ref().and_then(Message::id);
                out.extend(id.map(|id| readdressed(answer, id)));
            }
        }
        self.release(now, out);
    }

    /// `initialize` was refused. `true`: because the server is modern, and all is well.
    pub(super) fn refuses_legacy(&mut self, answer: &Message) -> bool {
        let is_modern = !self.is_legacy_only()
            && Verdict::of_initialize(answer, self.is_certain) == Verdict::Modern;
        if is_modern {
            self.is_modern();
        }
        is_modern
    }

    pub(super) fn is_modern(&mut self) {
        self.server = Some(Era::Modern);
        self.is_certain = true;
        self.finding = Some(Era::Modern);
        self.let_all_pass();
    }

    fn is_legacy(&mut self, is_certain: bool) {
        self.server = Some(Era::Legacy);
        self.is_certain = is_certain;
        if is_certain {
            self.finding = Some(Era::Legacy);
        }
    }
}

/// Whether the server, or whoever guards it, wants to know who asks.
fn wants_login(answer: &Message) -> bool {
    answer.failure().is_some_and(|failure| failure.status == Some(401))
}

/// Clients go on with `initialize` after this refusal; after one that lists legacy revisions, some
/// give up.
fn plain_refusal(answer: Message) -> Message {
    match (answer.head(), peek::error_code(&answer)) {
        (Head::Response { id: Some(id), .. }, Some((code, _))) if code != -32601 => {
            reply::method_not_found(id, "server/discover")
        }
        _ => answer,
    }
}
