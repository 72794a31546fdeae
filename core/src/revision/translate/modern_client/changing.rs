//! A server that is replaced by one of the other era while the program runs: its errors tell, and
//! what follows them is looked at again.

use tokio::time::Instant;
use tracing::debug;

use super::finding::Verdict;
use super::{ModernClient, Own, Phase};
use crate::limits;
use crate::message::{Head, Members, Message};
use crate::revision::translate::{
    CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION, Protocol, Steps,
};
use crate::revision::{Era, era_hints};

impl ModernClient {
    /// The client hears this from a server that was modern. If it sounds like a legacy server, the
    /// next answers are looked at; the client sees this one as it is.
    pub(crate) fn on_message_to_client(&mut self, message: &Message) {
        let is_error = matches!(message.head(), Head::Response { is_error: true, .. });
        if !is_error || !matches!(self.phase, Phase::Through) || self.client != Some(Era::Modern) {
            return;
        }
        if era_hints::sounds_legacy(message) {
            debug!("the server may speak the modern era no longer");
            self.is_certain = false;
            self.phase = Phase::Trusting;
        }
    }

    /// A server that was legacy has refused a call as only a modern one does: it is asked, since
    /// tools write errors, too. The client sees this one as it is.
    pub(super) fn heed_era(&mut self, answer: &Message, now: Instant, out: &mut Steps) {
        let is_error = matches!(answer.head(), Head::Response { is_error: true, .. });
        if !is_error
            || self.protocol == Protocol::Legacy
            || !matches!(self.phase, Phase::Serving(_))
            || answer.failure().is_some()
        {
            return;
        }
        let was_asked = self.doubted.is_some_and(|at| now < at + limits::DOUBT_PAUSE);
        if era_hints::era_of(answer) == Some(Era::Modern) && !was_asked {
            debug!("the server may speak the legacy era no longer");
            self.doubted = Some(now);
            let introduction = self.introduction.clone();
            self.ask(Own::Doubt, "server/discover", |params| introduction.fill(params), out);
        }
    }

    /// It was asked. Only one that knows the question is another than it was.
    pub(super) fn doubt_answered(&mut self, answer: &Message, now: Instant, out: &mut Steps) {
        let is_modern = Verdict::of_discover(answer) == Verdict::Modern;
        if !is_modern || !matches!(self.phase, Phase::Serving(_)) {
            return;
        }
        debug!("the server speaks the legacy era no longer");
        self.end_listens(out);
        self.end_parked("The server was replaced by another", out);
        self.forget_level();
        self.is_modern();
        self.release(now, out);
    }
}

/// What a client says of itself in the envelope of a request, as JSON.
#[derive(Clone, Debug, Default)]
pub(super) struct Introduction(Vec<(&'static str, String)>);

impl Introduction {
    /// Out of the `_meta` of a request.
    pub(super) fn of(request: &Message) -> Self {
        let names = [PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO];
        let said = names.into_iter().filter_map(|name| {
            Some((name, request.get(&["params", "_meta", name])?.as_str().to_owned()))
        });
        Self(said.collect())
    }

    /// Into the parameters of a request of our own.
    pub(super) fn fill(&self, params: &mut Members<'_>) {
        for (name, value) in &self.0 {
            params.object("_meta").set(*name, value.clone());
        }
    }
}
