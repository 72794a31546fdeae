//! One debug line for each message that crosses to or from the server: its head, never its body.

use http::HeaderValue;
use tracing::debug;

use super::Context;
use crate::message::Message;
use crate::transport::Send;

impl Context {
    /// Notes that a message goes to the server.
    pub(super) fn log_sent(&self, send: &Send, session: Option<&HeaderValue>) {
        // What was sent before is not said by the client again.
        let is_ours = send.retry.is_some() || send.message.is_own();
        let direction = if is_ours { "bridge->server" } else { "client->server" };
        self.log(direction, &send.message, send.retry, session);
    }

    /// Notes that the server has said something. `answers`: the request that it answers, if that is
    /// known.
    pub(super) fn log_received(
        &self,
        message: &Message,
        answers: Option<&Send>,
        session: Option<&HeaderValue>,
    ) {
        let is_ours = answers.is_some_and(|request| request.message.is_own());
        let direction = if is_ours { "server->bridge" } else { "server->client" };
        self.log(direction, message, None, session);
    }

    /// `retry`: how often it has come back.
    fn log(
        &self,
        direction: &str,
        message: &Message,
        retry: Option<u32>,
        session: Option<&HeaderValue>,
    ) {
        if !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        let scrubber = &self.settings.scrubber;
        debug!(
            direction,
            retry,
            r#type = message.type_name(),
            method = message.method().map(|method| scrubber.clean(method.name())),
            id = message.id().map(|id| tracing::field::display(scrubber.clean(id.as_json()))),
            session = session.and_then(|id| id.to_str().ok()),
            bytes = message.bytes().len(),
        );
    }
}
