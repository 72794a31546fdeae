//! One debug line for each message that crosses to or from the server: its head, never its body.

use http::HeaderValue;
use tracing::debug;

use super::Context;
use crate::message::Message;

/// Which way a message goes, as logs say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// `retry`: how often it has come back.
    ToServer {
        retry: Option<u32>,
    },
    FromServer,
    /// The answer to a request of the bridge's own.
    ToBridge,
}

impl Context {
    /// Notes that `message` crosses.
    pub(super) fn crossing(
        &self,
        direction: Direction,
        message: &Message,
        session: Option<&HeaderValue>,
    ) {
        if !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        let scrubber = &self.settings.scrubber;
        // What was sent before is not said by the client again.
        let retry = match direction {
            Direction::ToServer { retry } => retry,
            Direction::FromServer | Direction::ToBridge => None,
        };
        let is_own = retry.is_some() || message.is_own();
        debug!(
            direction = match direction {
                Direction::ToServer { .. } if is_own => "bridge->server",
                Direction::ToServer { .. } => "client->server",
                Direction::ToBridge => "server->bridge",
                Direction::FromServer => "server->client",
            },
            retry,
            r#type = message.type_name(),
            method = message.method().map(|method| scrubber.clean(method.name())),
            id = message.id().map(|id| tracing::field::display(scrubber.clean(id.as_json()))),
            session = session.and_then(|id| id.to_str().ok()),
            bytes = message.bytes().len(),
        );
    }
}
