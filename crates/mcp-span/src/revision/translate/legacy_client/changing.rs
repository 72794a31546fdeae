//! A server that is replaced by one of the other era while the program runs.
//!
//! An error that sounds like it is not believed before the server was asked: tools write errors, too.

use tokio::time::Instant;
use tracing::debug;

use super::calls::legacy_error;
use super::{Asked, LegacyClient, Step, Translation, TranslatorContext, TranslatorState};
use crate::error::{Error, ErrorKind};
use crate::message::{Message, reply};
use crate::revision::Era;
use crate::revision::era_hints::{self, EraVerdict};

impl Translation {
    /// Whether an answer waits for what the server says of itself.
    pub(super) fn doubts(&mut self, answer: &Message, cx: &mut TranslatorContext) -> bool {
        if !era_hints::sounds_legacy(answer) {
            return false;
        }
        if self.question.is_none() && cx.may_suspect() {
            self.question = Some(cx.discover());
        }
        self.question.is_some()
    }

    /// It is what it was, or nobody knows better: the answers stand.
    pub(super) fn believe(&mut self, cx: &mut TranslatorContext) {
        self.question = None;
        for (asked, answer) in std::mem::take(&mut self.kept) {
            self.answered(asked, &answer, cx);
        }
    }
}

impl LegacyClient {
    /// The server was asked whether it is still modern.
    pub(super) fn asked_again(&mut self, mut translation: Box<Translation>, answer: &Message) {
        if EraVerdict::of_discover(answer) == EraVerdict::Legacy {
            return self.turn_legacy(*translation);
        }
        translation.believe(&mut self.cx);
        self.state = TranslatorState::Translating(translation);
    }

    /// The server that was modern is so no longer: the engine opens a session with it.
    fn turn_legacy(&mut self, translation: Translation) {
        debug!("the server no longer speaks the modern era");
        self.known = None;
        let cx = &mut self.cx;
        cx.found(Era::Legacy);
        cx.steps.push_back(Step::SessionLost);
        let changed = Error::new(ErrorKind::NoResponse, "The server was replaced by another");
        for round in translation.rounds {
            round.fail(&changed, cx);
        }
        translation.listening.end_all(&changed, cx);
        for (asked, answer) in translation.kept {
            cx.steps.extend(asked.refused_by_another(&answer, &changed));
        }
        for (id, asked) in translation.asked {
            // Whoever is at work on it need not go on.
            cx.send_to_server(reply::cancelled(&id, &changed.message));
            cx.steps.push_back(asked.lost(changed.clone()));
        }
    }

    /// Whether a server that was legacy speaks as only a modern one does: then it is opened anew,
    /// which finds out what it is. The client sees the error; what follows goes well.
    pub(crate) fn suspects_modern(&mut self, message: &Message, now: Instant) -> bool {
        self.cx.now = now;
        self.is_through()
            // The client has opened by `initialize`.
            && !self.cx.introduction.0.is_empty()
            && era_hints::era_of(message) == Some(Era::Modern)
            && self.cx.may_suspect()
    }
}

impl Asked {
    /// A server of the other era has refused it. If that was at the door it may go out again when
    /// there is a session; but a person's answers are not spent twice.
    fn refused_by_another(self, answer: &Message, changed: &Error) -> Option<Step> {
        if self.rounds == 0 && era_hints::was_turned_away(answer) {
            let error = Error { kind: ErrorKind::Closed, ..changed.clone().not_delivered() };
            return Some(Step::Failed { message: self.request, error });
        }
        let id = self.request.id()?;
        Some(Step::ToClient(legacy_error(&self.request, answer, id)))
    }
}
