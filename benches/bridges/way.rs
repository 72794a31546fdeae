//! The ways in which the server can be spoken to; each has a path of its own.

/// A transport, with the form of its answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Streamable HTTP, answers as JSON.
    Json,
    /// Streamable HTTP, answers as events.
    Events,
    /// HTTP+SSE, the older transport with two endpoints.
    Old,
    /// Like `Json`, for a server that speaks the modern era alone.
    Modern,
    /// Like `Json`, for messages larger than the usual limits.
    Huge,
    /// Like `Json`, over https.
    Secure,
}

impl Way {
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Json | Self::Huge | Self::Secure => "/mcp",
            Self::Events => "/events",
            Self::Old => "/sse",
            Self::Modern => "/modern",
        }
    }
}
