//! Who is measured.

/// A way from a client to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Who {
    /// An HTTP client with nothing in between.
    Direct,
    /// A pass-through that does nothing else.
    Floor,
    Span,
    McpStdioProxy,
    McpStdio,
    McpRemote,
    Supergateway,
    McpProxy,
}

impl Who {
    /// Who is there without anything to install.
    pub(crate) const OURS: [Self; 3] = [Self::Direct, Self::Floor, Self::Span];

    /// The programs of others, in the order in which they are shown.
    pub(crate) const PEERS: [Self; 5] =
        [Self::McpStdioProxy, Self::McpStdio, Self::McpRemote, Self::Supergateway, Self::McpProxy];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Floor => "floor",
            Self::Span => "mcp-span",
            Self::McpStdioProxy => "mcp-stdio-proxy",
            Self::McpStdio => "mcp-stdio",
            Self::McpRemote => "mcp-remote",
            Self::Supergateway => "supergateway",
            Self::McpProxy => "mcp-proxy",
        }
    }

    /// Whether somebody else has written it.
    pub(crate) fn is_peer(self) -> bool {
        Self::PEERS.contains(&self)
    }
}
