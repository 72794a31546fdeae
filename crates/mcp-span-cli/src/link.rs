//! The flags for how a server is spoken to, whoever it is.

use std::time::Duration;

use clap::Args;
use clap::ValueEnum;
use clap::builder::FalseyValueParser;

use super::values::{bytes, bytes_text, seconds, seconds_text, some_seconds, tool_patterns};
use mcp_span::limits;

/// How to speak to the server.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Connection")]
pub(super) struct Link {
    /// Fail a request after this many silent seconds
    ///
    /// 0 is no limit. The default is 30, and 300 for tool calls and their like.
    #[arg(
        long,
        value_name = "SECONDS",
        env = "MCP_SPAN_TIMEOUT",
        allow_negative_numbers = true,
        value_parser = seconds
    )]
    pub(super) timeout: Option<Duration>,

    /// Seconds that connecting may take
    #[arg(
        long,
        value_name = "SECONDS",
        env = "MCP_SPAN_CONNECT_TIMEOUT",
        default_value = seconds_text(limits::CONNECT_TIMEOUT),
        value_parser = some_seconds
    )]
    pub(super) connect_timeout: Duration,

    /// Seconds that `initialize` waits for a server that cannot be reached
    #[arg(
        long,
        value_name = "SECONDS",
        env = "MCP_SPAN_CONNECT_WAIT",
        default_value = seconds_text(limits::CONNECT_WAIT),
        allow_negative_numbers = true,
        value_parser = seconds
    )]
    pub(super) connect_wait: Duration,

    /// Seconds that any later message waits for a server that cannot be reached
    #[arg(
        long,
        value_name = "SECONDS",
        env = "MCP_SPAN_AWAY_WAIT",
        default_value = seconds_text(limits::AWAY_WAIT),
        allow_negative_numbers = true,
        value_parser = seconds
    )]
    pub(super) away_wait: Duration,

    /// Ping inside the session after so many silent seconds [default: never]
    #[arg(
        long,
        value_name = "SECONDS",
        env = "MCP_SPAN_KEEP_ALIVE",
        allow_negative_numbers = true,
        value_parser = some_seconds
    )]
    pub(super) keep_alive: Option<Duration>,

    /// The largest single message, in bytes; K, M and G count in 1024s
    #[arg(
        long,
        value_name = "BYTES",
        env = "MCP_SPAN_MAX_MESSAGE_SIZE",
        default_value = bytes_text(limits::MESSAGE_SIZE),
        value_parser = bytes
    )]
    pub(super) max_message_size: usize,

    /// How many requests run at once; more wait for their turn
    #[arg(
        long,
        value_name = "N",
        env = "MCP_SPAN_MAX_PARALLEL",
        default_value_t = limits::PARALLEL_POSTS as u32,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(super) max_parallel: u32,

    /// Forward one request or notification at a time, in strict order
    #[arg(long, env = "MCP_SPAN_SERIAL", value_parser = FalseyValueParser::new())]
    pub(super) serial: bool,

    /// Do not open the stream for messages that the server sends on its own account
    #[arg(long, env = "MCP_SPAN_NO_SERVER_STREAM", value_parser = FalseyValueParser::new())]
    pub(super) no_server_stream: bool,

    /// Do not keep and send back the server's cookies
    #[arg(
        long,
        visible_alias = "disable-cookies",
        env = "MCP_SPAN_NO_COOKIES",
        value_parser = FalseyValueParser::new()
    )]
    pub(super) no_cookies: bool,

    /// Connect to IPv4 addresses only: a name that has none is an error
    #[arg(long, env = "MCP_SPAN_IPV4", value_parser = FalseyValueParser::new())]
    pub(super) ipv4: bool,

    /// Hide tools with this name
    ///
    /// Calls of them are refused. '*' stands for anything. May be given several times, or hold one name a line.
    #[arg(
        long,
        value_name = "PATTERN",
        env = "MCP_SPAN_IGNORE_TOOL",
        value_parser = tool_patterns
    )]
    pub(super) ignore_tool: Vec<String>,

    /// Send this MCP-Protocol-Version in place of the negotiated one
    #[arg(long, value_name = "REVISION", env = "MCP_SPAN_PROTOCOL_VERSION")]
    pub(super) protocol_version: Option<String>,

    /// Which era of the protocol is offered to the client and tried with the server
    #[arg(long, value_name = "ERA", env = "MCP_SPAN_PROTOCOL", default_value = "auto")]
    pub(super) protocol: ProtocolName,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ProtocolName {
    /// Whatever the two speak, translated where they have nothing in common
    Auto,
    /// The server is never spoken to in the stateless way of 2026-07-28
    Legacy,
    /// The client is offered 2026-07-28, whatever the server speaks
    Modern,
}
