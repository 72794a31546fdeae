//! A server that is replaced by one of the other era while the program runs.
//!
//! An error that sounds like it is not believed before the server was asked: tools write errors, too.

use tokio::time::Instant;
use tracing::debug;

use super::offer::Offer;
use super::{Asked, Ids, LegacyClient, State, Step, Steps, Translation};
use crate::error::{Error, Kind};
use crate::limits;
use crate::message::{Head, Id, Message, peek, reply};
use crate::revision::{Era, Revision};

/// Whether the server is still what it was.
#[derive(Debug, Default)]
pub(super) struct Doubt {
    /// The question that is out.
    asked: Option<Id>,
    /// Answers that are not believed before it is answered.
    kept: Vec<(Asked, Message)>,
    /// When the last one was asked.
    at: Option<Instant>,
}

impl Translation {
    /// Whether the answer waits for what the server says of itself; if not, it comes back.
    pub(super) fn doubts(
        &mut self,
        asked: Asked,
        answer: Message,
        ids: &mut Ids,
        now: Instant,
        out: &mut Steps,
    ) -> Option<(Asked, Message)> {
        if !sounds_legacy(&answer) {
            return Some((asked, answer));
        }
        let doubt = &mut self.doubt;
        if doubt.asked.is_none() {
            if doubt.at.is_some_and(|at| now < at + limits::DOUBT_PAUSE) {
                return Some((asked, answer));
            }
            let id = ids.string();
            let question = reply::request(&id, "server/discover");
            out.push_back(Step::ToServer(self.envelope.put_around(&question, Some(&id))));
            doubt.asked = Some(id);
            doubt.at = Some(now);
        }
        doubt.kept.push((asked, answer));
        None
    }

    /// Whether `id` is the question.
    pub(super) fn is_doubt(&self, id: &Id) -> bool {
        self.doubt.asked.as_ref() == Some(id)
    }

    /// It is what it was, or nobody knows better: the answers stand.
    fn trust(&mut self, ids: &mut Ids, now: Instant, out: &mut Steps) {
        self.doubt.asked = None;
        for (asked, answer) in std::mem::take(&mut self.doubt.kept) {
            self.answered(asked, &answer, ids, now, out);
        }
    }
}

impl LegacyClient {
    /// The question was answered, or (`None`) was not.
    pub(super) fn resolve(&mut self, answer: Option<&Message>, now: Instant, out: &mut Steps) {
        let State::Translating(translation) = &mut self.state else { return };
        let is_legacy = answer.is_some_and(|answer| {
            Offer::of(answer).is_none() && peek::bridge_error(answer).is_none()
        });
        if is_legacy {
            self.turn_legacy(out);
        } else {
            translation.trust(&mut self.ids, now, out);
        }
    }

    /// The server that was modern is so no longer: the core opens a session with it.
    fn turn_legacy(&mut self, out: &mut Steps) {
        let State::Translating(translation) = std::mem::replace(&mut self.state, State::Through)
        else {
            return;
        };
        debug!("the server no longer speaks the modern era");
        self.known = None;
        self.finding = Some(Era::Legacy);
        out.push_back(Step::SessionLost);
        let changed = Error::new(Kind::NoResponse, "The server was replaced by another");
        translation.inputs.end_all(&changed, out);
        translation.listening.end_all(&changed, out);
        // These were turned away: they may go out again when there is a session.
        let turned_away = Error { kind: Kind::Closed, ..changed.clone().not_delivered() };
        for (asked, _) in translation.doubt.kept {
            out.push_back(Step::Failed { message: asked.request, error: turned_away.clone() });
        }
        for asked in translation.asked.into_values() {
            out.push_back(Step::Failed { message: asked.request, error: changed.clone() });
        }
    }

    /// Whether a server that was legacy speaks as only a modern one does: then it is opened anew,
    /// which finds out what it is. The client sees the error; what follows goes well.
    pub(crate) fn is_alarmed(&mut self, message: &Message, now: Instant) -> bool {
        if !matches!(message.head(), Head::Response { is_error: true, .. })
            || !matches!(self.state, State::Through)
            || !self.has_opened
            || self.alarmed.is_some_and(|at| now < at + limits::DOUBT_PAUSE)
        {
            return false;
        }
        let is_modern = match peek::error_code(message) {
            Some((-32022, names)) => names.iter().any(|name| Revision::is_modern(name)),
            Some((code, _)) => code == -32020,
            None => false,
        };
        if is_modern {
            self.alarmed = Some(now);
        }
        is_modern
    }
}

/// Whether this is how a legacy server refuses what comes without a session.
fn sounds_legacy(answer: &Message) -> bool {
    if !matches!(answer.head(), Head::Response { is_error: true, .. }) {
        return false;
    }
    match peek::error_code(answer) {
        Some((-32022, names)) => {
            !names.is_empty() && !names.iter().any(|name| Revision::is_modern(name))
        }
        Some((-32600 | -32000 | -32001, _)) => {
            let text = peek::error_message(answer).unwrap_or_default().to_lowercase();
            let words = ["not initialized", "session id", "session not found", "no session"];
            words.iter().any(|word| text.contains(word))
        }
        _ => false,
    }
}
