//! A server that is replaced by one of the other era while the program runs.
//!
//! An error that sounds like it is not believed before the server was asked: tools write errors, too.

use tokio::time::Instant;
use tracing::debug;

use super::calls::legacy_error;
use super::{Asked, Ids, LegacyClient, State, Step, Steps, Translation};
use crate::error::{Error, Kind};
use crate::limits;
use crate::message::{Head, Id, Message, reply};
use crate::revision::{Era, era_hints};

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
        if !era_hints::sounds_legacy(&answer) {
            return Some((asked, answer));
        }
        let doubt = &mut self.doubt;
        if doubt.asked.is_none() {
            if doubt.at.is_some_and(|at| now < at + limits::DOUBT_PAUSE) {
                return Some((asked, answer));
            }
            let id = ids.string();
            let question = reply::request(&id, "server/discover");
            out.push_back(Step::ToServer(self.envelope.put_around(&question, Some(&id)).own()));
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

    /// The client no longer wants the answer to `id`; `false` if it is not kept here.
    pub(super) fn withdraw_kept(&mut self, id: &Id) -> bool {
        let before = self.doubt.kept.len();
        self.doubt.kept.retain(|(asked, _)| !asked.is_for(id));
        self.doubt.kept.len() < before
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
        if answer.is_some_and(era_hints::denies_modern) {
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
        for (asked, answer) in translation.doubt.kept {
            out.extend(asked.refused_by_another(&answer, &changed));
        }
        for (id, asked) in translation.asked {
            // Whoever is at work on it need not go on.
            out.push_back(Step::ToServer(reply::cancelled(&id, &changed.message)));
            out.push_back(asked.lost(changed.clone()));
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
        let is_modern = era_hints::era_of(message) == Some(Era::Modern);
        if is_modern {
            self.alarmed = Some(now);
        }
        is_modern
    }
}

impl Asked {
    /// A server of the other era has refused it. If that was at the door it may go out again when
    /// there is a session; but a person's answers are not spent twice.
    fn refused_by_another(self, answer: &Message, changed: &Error) -> Option<Step> {
        if self.rounds == 0 && era_hints::was_turned_away(answer) {
            let error = Error { kind: Kind::Closed, ..changed.clone().not_delivered() };
            return Some(Step::Failed { message: self.request, error });
        }
        let id = self.request.id()?;
        Some(Step::ToClient(legacy_error(&self.request, answer, id)))
    }
}
