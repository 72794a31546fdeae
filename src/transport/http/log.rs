//! One debug line for each message that crosses to or from the server: its head, never its body.

use http::HeaderValue;
use tracing::debug;

use crate::message::Message;

/// Which way a message goes, as logs say it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Direction {
    ToServer,
    FromServer,
}

/// Notes that `message` crosses.
pub(super) fn crossing(direction: Direction, message: &Message, session: Option<&HeaderValue>) {
    debug!(
        direction = match direction {
            Direction::ToServer => "client->server",
            Direction::FromServer => "server->client",
        },
        r#type = message.type_name(),
        method = message.method(),
        id = message.id().map(tracing::field::display),
        session = session.and_then(|id| id.to_str().ok()),
        bytes = message.bytes().len(),
    );
}
