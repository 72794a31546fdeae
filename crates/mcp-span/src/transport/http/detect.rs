//! Finds out, in the handshake that happens anyway, which of the two HTTP transports a server
//! speaks (C9): POST first, and only a refusal of a certain sort leads to a GET.

use super::answer::{Refusal, is_about_else};
use super::legacy_sse::{self, First};
use super::post::Exchange;
use super::report::Report;
use crate::auth::Login;
use crate::error::{Error, ErrorKind};
use crate::message::Message;

/// Which transport to speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// Whichever the server answers to; remembered for the run.
    #[default]
    Auto,
    /// Streamable HTTP only.
    Http,
    /// The two-endpoint HTTP+SSE of 2024-11-05 only.
    Sse,
}

impl Exchange {
    /// Whether a refused `initialize` may come from a server of the older transport.
    ///
    /// A JSON-RPC error is an answer, and some statuses and pages are about something else.
    pub(super) fn may_be_older(&self, refusal: &Refusal) -> bool {
        self.context.settings.transport == Transport::Auto
            && !self.session.has_begun
            && refusal.status.is_client_error()
            && !is_about_else(refusal.status.as_u16())
            && !refusal.answer.as_ref().is_some_and(Message::is_error)
            && !refusal.is_about_tls
    }

    /// `initialize` was refused: perhaps the server wants to be asked in the older way.
    pub(super) async fn try_older_transport(&mut self, refusal: Refusal) -> Result<(), Error> {
        match legacy_sse::open(&self.context, First::Address, Login::Allowed).await {
            Ok(stream) => {
                let send = Box::new(self.send.clone());
                self.context.report(Report::IsLegacySse { send, stream });
                self.is_settled = true;
                Ok(())
            }
            Err(error) if says_more(&error) => Err(error),
            Err(error) => Err(refusal.error.because(error).hint(
                "Neither Streamable HTTP nor HTTP+SSE is spoken there: check the URL's path",
            )),
        }
    }
}

/// Whether the refusal of the stream is the one to be shown: it is about credentials, or about a
/// server that is not there yet, and not about what the server speaks.
fn says_more(error: &Error) -> bool {
    let is_about_else = error.status.is_some_and(is_about_else);
    let is_on_the_way = matches!(error.kind, ErrorKind::Redirect | ErrorKind::ProxyAuth);
    error.is_unreachable() || is_about_else || is_on_the_way
}
