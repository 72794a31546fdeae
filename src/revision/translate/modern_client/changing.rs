//! A server that is replaced by one of the other era while the program runs: its errors tell, and
//! what follows them is looked at again.

use tracing::debug;

use super::{ModernClient, Phase};
use crate::message::{Head, Message, peek};
use crate::revision::translate::{Protocol, Steps};
use crate::revision::{Era, signs};

impl ModernClient {
    /// The client hears this from a server that was modern. If it sounds like a legacy server, the
    /// next answers are looked at; the client sees this one as it is.
    pub(crate) fn client_hears(&mut self, message: &Message) {
        let is_error = matches!(message.head(), Head::Response { is_error: true, .. });
        if !is_error || !matches!(self.phase, Phase::Through) || self.client != Some(Era::Modern) {
            return;
        }
        if signs::sounds_legacy(message) {
            debug!("the server may speak the modern era no longer");
            self.is_certain = false;
            self.phase = Phase::Trusting;
        }
    }

    /// A server that was legacy has refused a call as only a modern one does: what follows is sent
    /// as it comes.
    pub(super) fn heed_era(&mut self, answer: &Message, out: &mut Steps) {
        let is_error = matches!(answer.head(), Head::Response { is_error: true, .. });
        if !is_error
            || self.protocol == Protocol::Legacy
            || !matches!(self.phase, Phase::Serving(_))
            || peek::bridge_error(answer).is_some()
        {
            return;
        }
        if signs::era_of(answer) == Some(Era::Modern) {
            debug!("the server may speak the legacy era no longer");
            self.end_listens(out);
            self.end_parked(out);
            self.server = Some(Era::Modern);
            self.is_certain = false;
            self.phase = Phase::Trusting;
        }
    }
}
