//! Translation between the two eras: a legacy client at a modern server, and the reverse.
//!
//! Each direction is a state and two functions over messages, one for each side; neither knows a
//! transport, waits for anything or reads a clock. What must change is spliced; payloads stay the
//! bytes that they were.

use std::collections::VecDeque;

use crate::error::Error;
use crate::message::Message;

pub(crate) mod legacy_client;
mod memory;
pub(crate) mod modern_client;
mod tasks;
#[cfg(test)]
mod tests;

pub use memory::Memory;

/// The member of `_meta` that says which revision a request speaks.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The member of `_meta` that says what the client can do.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The member of `_meta` that says who the client is.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// The member of `_meta` by which a request asks for log messages.
pub(crate) const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// The member of a result's `_meta` that says who the server is.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// The member of `_meta` that says which subscription a notification belongs to.
pub(crate) const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// Which eras a bridge offers and tries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Whatever the two sides speak; translated where they have nothing in common.
    #[default]
    Auto,
    /// The server is never spoken to in the modern way.
    Legacy,
    /// The client is offered the modern era, whatever the server speaks.
    Modern,
}

/// What a translation leads to, in order.
pub(crate) type Steps = VecDeque<Step>;

/// One thing that a translation leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// This goes on towards the server.
    ToServer(Message),
    /// This goes on towards the client.
    ToClient(Message),
    /// This message, as it came from the client's side, did not arrive or gets no answer.
    Failed {
        /// As it came.
        message: Message,
        /// Why.
        error: Error,
    },
    /// The server knows nothing of what was settled with it: it is to be opened anew.
    SessionLost,
}
