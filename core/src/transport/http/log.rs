//! One debug line for each message that crosses to or from the server: its head, never its body.

use http::HeaderValue;
use tracing::debug;

use super::Context;
use crate::message::Message;

/// Which way a message goes, as logs say it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Direction {
    ToServer,
    FromServer,
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
        debug!(
            direction = match direction {
                Direction::ToServer => "client->server",
                Direction::FromServer => "server->client",
            },
            r#type = message.type_name(),
            method = message.method().map(|method| scrubber.clean(method)),
            id = message.id().map(|id| tracing::field::display(scrubber.clean(id.as_json()))),
            session = session.and_then(|id| id.to_str().ok()),
            bytes = message.bytes().len(),
        );
    }
}
