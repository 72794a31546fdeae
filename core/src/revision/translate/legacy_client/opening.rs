//! The handshake: `initialize` is passed on first, and only an answer that names the modern era
//! leads to `server/discover`, from whose result it is then answered.

use tracing::debug;

use super::calls::Envelope;
use super::changing::Doubt;
use super::inputs::Inputs;
use super::listening::Listening;
use super::offer::Offer;
use super::{LegacyClient, Protocol, State, Step, Steps, Translation};
use crate::error::Error;
use crate::message::{Head, Id, Message, edit, peek, reply};
use crate::revision::{Era, era_hints};

/// An `initialize` that has passed. What follows it waits in the engine until it is answered.
#[derive(Debug)]
pub(super) struct Watching {
    initialize: Message,
}

impl Watching {
    pub(super) fn is_answered_by(&self, id: Option<&Id>) -> bool {
        id.map(Id::canonical) == self.initialize.id().map(Id::canonical)
    }
}

/// A server that is being asked what it is.
#[derive(Debug)]
pub(super) struct Asking {
    initialize: Message,
    envelope: Envelope,
    /// The id of our question.
    id: Id,
    /// What the server said to `initialize`, if it was asked that first.
    refusal: Option<Message>,
}

impl Asking {
    pub(super) fn id(&self) -> &Id {
        &self.id
    }
}

impl LegacyClient {
    /// The client opens, or the engine does so again in its name.
    pub(super) fn open(&mut self, initialize: Message, out: &mut Steps) {
        if let State::Translating(translation) = &mut self.state {
            // What is in flight stays so; the server has said what it is.
            let answer = translation.offer.initialize_result(&initialize);
            out.push_back(Step::ToClient(answer));
            translation.envelope = Envelope::of(&initialize);
            return;
        }
        match self.known {
            Some(Era::Modern) => self.ask(initialize, None, out),
            Some(Era::Legacy) | None => self.pass(initialize, out),
        }
    }

    /// The client takes back its `initialize`: it gets no answer. `false`: another request is meant.
    pub(super) fn close(&mut self, notice: &Message, out: &mut Steps) -> bool {
        let (initialize, asked) = match &self.state {
            State::Watching(watching) => (&watching.initialize, watching.initialize.id()),
            State::Asking(asking) => (&asking.initialize, Some(&asking.id)),
            State::Through | State::Translating(_) => return false,
        };
        let cancelled = peek::cancelled_request(notice).map(|id| id.canonical());
        if cancelled.is_none() || cancelled != initialize.id().map(Id::canonical) {
            return false;
        }
        out.extend(asked.map(|id| Step::ToServer(reply::cancelled(id, "cancelled"))));
        self.state = State::Through;
        true
    }

    fn pass(&mut self, initialize: Message, out: &mut Steps) {
        out.push_back(Step::ToServer(initialize.clone()));
        self.state = State::Watching(Watching { initialize });
    }

    fn ask(&mut self, initialize: Message, refusal: Option<Message>, out: &mut Steps) {
        let envelope = Envelope::of(&initialize);
        let id = self.ids.string();
        let question = envelope.put_around(&reply::request(&id, "server/discover"), Some(&id));
        // It is not the client who probes: a login may come of it.
        out.push_back(Step::ToServer(question.own()));
        self.state = State::Asking(Asking { initialize, envelope, id, refusal });
    }

    /// The answer to `initialize` is what is watched for; all else passes.
    pub(super) fn watch(&mut self, message: Message, out: &mut Steps) {
        let watching = match (std::mem::replace(&mut self.state, State::Through), message.head()) {
            (State::Watching(watching), Head::Response { id, .. })
                if watching.is_answered_by(id.as_ref()) =>
            {
                watching
            }
            (other, _) => {
                self.state = other;
                return out.push_back(Step::ToClient(message));
            }
        };
        let is_error = matches!(message.head(), Head::Response { is_error: true, .. });
        if is_error && self.protocol != Protocol::Legacy && names_modern(&message) {
            debug!("the server refuses initialize as a modern one does");
            return self.ask(watching.initialize, Some(message), out);
        }
        out.push_back(Step::ToClient(message));
    }

    /// It did not get through; the engine decides about another try.
    pub(super) fn initialize_failed(&mut self, error: Error, out: &mut Steps) {
        let message = match std::mem::replace(&mut self.state, State::Through) {
            State::Watching(Watching { initialize }) | State::Asking(Asking { initialize, .. }) => {
                initialize
            }
            other => return self.state = other,
        };
        out.push_back(Step::Failed { message, error });
    }

    /// The server has said what it is.
    pub(super) fn discovered(&mut self, message: Message, out: &mut Steps) {
        let asking = match std::mem::replace(&mut self.state, State::Through) {
            State::Asking(asking) if message.id() == Some(&asking.id) => asking,
            other => {
                self.state = other;
                return out.push_back(Step::ToClient(message));
            }
        };
        let Some(offer) = Offer::of(&message) else {
            return self.not_modern(asking, &message, out);
        };
        if self.known != Some(Era::Modern) {
            self.finding = Some(Era::Modern);
        }
        self.known = Some(Era::Modern);
        let answer = offer.initialize_result(&asking.initialize);
        out.push_back(Step::ToClient(answer));
        let listening = Listening::new(offer.filter);
        let translation = Translation {
            offer,
            envelope: asking.envelope,
            asked: Default::default(),
            inputs: Inputs::default(),
            listening,
            wrapped: Default::default(),
            doubt: Doubt::default(),
        };
        self.state = State::Translating(Box::new(translation));
    }

    /// It does not know the question: what it said to `initialize` stands, or it is asked that.
    fn not_modern(&mut self, asking: Asking, answer: &Message, out: &mut Steps) {
        if self.known.take().is_some() && era_hints::denies_modern(answer) {
            self.finding = Some(Era::Legacy);
        }
        match asking.refusal {
            Some(refusal) => {
                let id = asking.initialize.id();
                let refusal = id.map_or_else(|| refusal.clone(), |id| edit::with_id(&refusal, id));
                out.push_back(Step::ToClient(refusal));
            }
            None => self.pass(asking.initialize, out),
        }
    }
}

/// Whether an error in answer to `initialize` can only come from a modern server, or is what one
/// says that knows neither the method nor a request without an envelope. `server/discover` then
/// tells for certain.
fn names_modern(answer: &Message) -> bool {
    match era_hints::era_of(answer) {
        Some(era) => era == Era::Modern,
        None => matches!(peek::error_code(answer), Some((-32601 | -32602, _))),
    }
}
