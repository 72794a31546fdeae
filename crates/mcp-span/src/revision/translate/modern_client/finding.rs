//! Finds out which era the server speaks, at no cost where there is none to pay, and again when it
//! answers as one of the other era.

use tracing::debug;

use super::{EraPhase, ModernClient, readdressed};
use crate::limits;
use crate::message::{Head, Id, InFlight, Message, Method, peek, reply};
use crate::revision::era_hints::{self, EraVerdict};
use crate::revision::translate::{Introduction, Protocol};
use crate::revision::{Envelope, Era};

/// An answer that is not believed before the server was asked.
pub(super) struct HeldAnswer {
    pub(super) request: Message,
    answer: Message,
}

impl HeldAnswer {
    /// Whether sending the request again to a legacy server does no harm: it only looks, or was
    /// turned away at the door, by a status or by an error that no work comes before.
    fn may_be_repeated(&self) -> bool {
        let is_safe = |method: &Method| method.properties().is_safe || *method == Method::Listen;
        self.request.method().is_some_and(is_safe) || era_hints::was_turned_away(&self.answer)
    }
}

impl ModernClient {
    /// Something is said while nothing is under way.
    pub(super) fn begin(&mut self, message: Message) {
        let Head::Request { id, method } = message.head() else {
            return self.session.cx.send_to_server(message);
        };
        let is_discover = *method == Method::Discover;
        if self.client.is_none() && !is_discover && Envelope::of(&message).is_none() {
            return self.session.cx.send_to_server(message);
        }
        self.client = Some(Era::Modern);
        if self.refuses(method) {
            return self.session.cx.send_to_client(reply::method_not_found(id, method.name()));
        }
        match self.server {
            _ if is_discover => self.pass_and_watch(message),
            Some(Era::Legacy) => self.open(message),
            Some(Era::Modern) => {
                self.phase = EraPhase::Trusting;
                self.pass_and_watch(message);
            }
            None if *method == Method::Listen => {
                self.probe(&message);
                self.hold_first(message);
            }
            // What a legacy server refuses without a session, it has not carried out.
            None => {
                let until = Some(self.session.cx.now + limits::TRIAL_WAIT);
                self.phase = EraPhase::Trying { id: id.clone(), until };
                self.pass_and_watch(message);
            }
        }
    }

    /// Whether the answer to the client's request `id` is to tell the server's era.
    pub(super) fn is_tried(&self, id: &Id) -> bool {
        matches!(&self.phase, EraPhase::Trying { id: tried, .. } if tried.canonical() == id.canonical())
    }

    /// A message goes out as it came; the answer shows whether the server is modern.
    pub(super) fn pass_and_watch(&mut self, message: Message) {
        if let Head::Request { id, method } = message.head() {
            if *method == Method::Discover {
                self.phase = EraPhase::Trying { id: id.clone(), until: None };
            }
            self.passed.open(id, message.clone());
        }
        self.session.cx.send_to_server(message);
    }

    /// Nothing is looked at any more.
    pub(super) fn let_all_pass(&mut self) {
        self.phase = EraPhase::Through;
        self.passed = InFlight::default();
    }

    /// A request that went out as it came was answered.
    pub(super) fn passed_answered(&mut self, request: Message, answer: Message) {
        let is_tried = request.id().is_some_and(|id| self.is_tried(id));
        let is_telling = is_tried || matches!(self.phase, EraPhase::Trusting);
        if is_tried {
            self.phase = EraPhase::Fresh;
        }
        if request.method() == Some(&Method::Discover) {
            return self.discover_answered(request, answer);
        }
        match EraVerdict::of_answer(&answer) {
            EraVerdict::Modern if is_telling => self.is_modern(),
            EraVerdict::Modern | EraVerdict::Nothing => {}
            EraVerdict::Legacy | EraVerdict::Refused => {
                return self.turned_away(HeldAnswer { request, answer }, is_telling);
            }
        }
        self.session.cx.send_to_client(answer);
        self.release();
    }

    /// The server has refused a request. Unless the answer tells of itself, it takes part in whatever
    /// has been found out about the server since the request was sent.
    fn turned_away(&mut self, kept: HeldAnswer, is_telling: bool) {
        match &self.phase {
            _ if is_telling => self.probe_for(kept),
            _ if !kept.may_be_repeated() => self.session.cx.send_to_client(kept.answer),
            EraPhase::Through => self.session.cx.send_to_client(kept.answer),
            EraPhase::Probing => self.kept.push(kept),
            EraPhase::Fresh if self.server != Some(Era::Legacy) => self.probe_for(kept),
            _ => self.accept(kept.request),
        }
    }

    /// The client's own question was answered.
    fn discover_answered(&mut self, discover: Message, answer: Message) {
        let is_to_be_offered = self.protocol == Protocol::Modern;
        match EraVerdict::of_discover(&answer) {
            EraVerdict::Modern => {
                self.is_modern();
                self.session.cx.send_to_client(answer);
            }
            EraVerdict::Legacy => {
                self.is_legacy(true);
                if is_to_be_offered {
                    self.open(discover);
                } else {
                    self.session.cx.send_to_client(plain_refusal(answer));
                }
            }
            // A question opens no browser; a client that cannot go on without an answer does.
            EraVerdict::Nothing if wants_login(&answer) && is_to_be_offered => self.open(discover),
            EraVerdict::Refused | EraVerdict::Nothing => self.session.cx.send_to_client(answer),
        }
        self.release();
    }

    /// Asks the server before an answer of its is believed.
    fn probe_for(&mut self, kept: HeldAnswer) {
        self.probe(&kept.request);
        self.kept.push(kept);
    }

    /// Asks the server in the client's place, with the envelope of a request of its.
    fn probe(&mut self, asker: &Message) {
        self.phase = EraPhase::Probing;
        self.session.cx.introduction = Introduction::of_modern(asker);
        self.session.discover();
    }

    pub(super) fn probe_answered(&mut self, answer: &Message) {
        self.phase = EraPhase::Fresh;
        match EraVerdict::of_discover(answer) {
            verdict @ (EraVerdict::Legacy | EraVerdict::Refused) => {
                self.is_legacy(verdict == EraVerdict::Legacy);
                // The first to be turned away is the first in line.
                for kept in std::mem::take(&mut self.kept).into_iter().rev() {
                    if kept.may_be_repeated() {
                        self.hold_first(kept.request);
                    } else {
                        self.session.cx.send_to_client(kept.answer);
                    }
                }
            }
            EraVerdict::Modern => {
                self.is_modern();
                self.tell_kept();
            }
            EraVerdict::Nothing if !self.kept.is_empty() => self.tell_kept(),
            EraVerdict::Nothing => {
                // The one that the question was asked for.
                let first = self.held.pop_front().map(|(first, _)| first);
                if wants_login(answer) {
                    // The request itself may open a browser; its answer tells the era.
                    self.phase = EraPhase::Trusting;
                    first.into_iter().for_each(|first| self.pass_and_watch(first));
                } else if let Some(id) = first.as_ref().and_then(Message::id) {
                    self.session.cx.send_to_client(readdressed(answer, id));
                }
            }
        }
        self.release();
    }

    /// Opens a session with what `request` says of the client; it follows when there is one.
    fn open(&mut self, request: Message) {
        self.phase = EraPhase::Opening;
        self.session.open(&request);
        self.hold_first(request);
    }

    pub(super) fn opening_answered(&mut self, answer: &Message) {
        if !answer.is_error() {
            self.phase = EraPhase::Serving;
            self.session.opened(answer);
        } else if self.protocol != Protocol::Legacy
            && era_hints::refuses_initialize(answer, self.is_certain)
        {
            self.is_modern();
        } else {
            self.phase = EraPhase::Fresh;
            // All who wait for a session hear why there is none. The next one tries again.
            for (held, _) in self.held.drain(..) {
                if let Some(id) = held.request_id() {
                    self.session.cx.send_to_client(readdressed(answer, id));
                }
            }
        }
        self.release();
    }

    /// What was kept is believed.
    pub(super) fn tell_kept(&mut self) {
        for kept in std::mem::take(&mut self.kept) {
            self.session.cx.send_to_client(kept.answer);
        }
    }

    /// The server is modern, and all is well.
    pub(super) fn is_modern(&mut self) {
        if self.server.replace(Era::Modern) != Some(Era::Modern) {
            self.session.cx.found(Era::Modern);
        }
        self.let_all_pass();
    }

    fn is_legacy(&mut self, is_certain: bool) {
        self.server = Some(Era::Legacy);
        self.is_certain = is_certain;
        if is_certain {
            self.session.cx.found(Era::Legacy);
        }
    }

    /// The client hears this from a server that was modern. If it sounds like a legacy server, the
    /// next answers are looked at; the client sees this one as it is.
    pub(crate) fn on_message_to_client(&mut self, message: &Message) {
        if matches!(self.phase, EraPhase::Through)
            && self.client == Some(Era::Modern)
            && era_hints::sounds_legacy(message)
        {
            debug!("the server may speak the modern era no longer");
            self.phase = EraPhase::Trusting;
        }
    }

    /// A server that was legacy has refused a call as only a modern one does: it is asked, since
    /// tools write errors, too. The client sees this one as it is.
    pub(super) fn check_era(&mut self, answer: &Message) {
        if self.protocol != Protocol::Legacy
            && matches!(self.phase, EraPhase::Serving)
            && answer.failure().is_none()
            && era_hints::era_of(answer) == Some(Era::Modern)
            && self.session.cx.may_suspect()
        {
            debug!("the server may speak the legacy era no longer");
            self.session.discover();
        }
    }

    /// It was asked. Only one that knows the question is another than it was.
    pub(super) fn doubt_answered(&mut self, answer: &Message) {
        if EraVerdict::of_discover(answer) == EraVerdict::Modern {
            debug!("the server speaks the legacy era no longer");
            self.session.end("The server was replaced by another");
            self.is_modern();
            self.release();
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
