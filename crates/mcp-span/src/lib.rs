//! Clients of MCP servers, and bridges between any MCP client and any MCP server.
//!
//! A server is a URL (Streamable HTTP, or the older HTTP+SSE: which of them is found out) or a program
//! that is started and spoken to over its stdin and stdout. It may speak any revision of the
//! protocol. What goes wrong on the way is dealt with where it can be: lost sessions are opened
//! again, servers that are away are waited for, tokens are renewed, requests that were certainly not
//! carried out are sent again. Every request ends exactly once.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use mcp_span::{Client, Demo};
//! use serde_json::json;
//!
//! let demo = Demo::start().await?; // a server to try it on
//! let client = Client::builder(demo.url()).connect().await?;
//! let sum = client.call("add", json!({"a": 2, "b": 40})).await?;
//! println!("{}", sum.text());
//! client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! | To | use |
//! |---|---|
//! | call one tool once | [`call`] |
//! | talk to one server | [`Client`], made by a [`ClientBuilder`] from a URL, a command or [`ServerOptions`] |
//! | keep many servers, by name | [`Manager`] |
//! | read the servers of a configuration file | [`Config`] |
//! | join a client to a server | [`Bridge`], over a [`Link`] |
//! | know what went wrong | [`Error`], by its [`ErrorKind`] and [`Delivery`] |
//! | try any of it | [`Demo`] |
//!
//! The programs in `examples/` do each of these in less than forty lines.
//!
//! The library neither prints nor reads environment variables. It needs a Tokio runtime, and one
//! thread of it is enough. What happens can be seen as `tracing` events.

// The public modules are not part of the interface, and change without notice: they are public for
// mcp-span-cli of the same version alone. What they are for is in docs/architecture.md.
#[doc(hidden)]
pub mod auth;
#[doc(hidden)]
pub mod bridge;
#[doc(hidden)]
pub mod client;
#[doc(hidden)]
pub mod config;
#[doc(hidden)]
pub mod demo;
mod engine;
#[doc(hidden)]
pub mod environment;
#[doc(hidden)]
pub mod error;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
#[doc(hidden)]
pub mod lenient;
#[doc(hidden)]
pub mod limits;
mod lock;
#[doc(hidden)]
pub mod manager;
#[doc(hidden)]
pub mod message;
#[doc(hidden)]
pub mod net;
#[doc(hidden)]
pub mod options;
#[doc(hidden)]
pub mod os;
#[doc(hidden)]
pub mod private_file;
#[doc(hidden)]
pub mod revision;
#[doc(hidden)]
pub mod runtime;
#[doc(hidden)]
pub mod secret;
#[doc(hidden)]
pub mod traffic;
#[doc(hidden)]
pub mod transport;
#[doc(hidden)]
pub mod untrusted;
#[doc(hidden)]
pub mod wire;

#[doc(inline)]
pub use auth::oauth::{ClientAuthentication, Grant, TokenStore};
#[doc(inline)]
pub use bridge::BridgeEnd;
#[doc(inline)]
pub use client::{
    Bridge, CallResult, Client, ClientBuilder, Content, Notification, Notifications, Progress,
    Prompt, PromptMessage, PromptResult, ReadResult, Request, Resource, ResourceContents,
    ResourceTemplate, ServerRequest, Target, Tool, call,
};
#[doc(inline)]
pub use config::{Config, ConfigEntry, ConfigError, FilePlace};
#[doc(inline)]
pub use demo::Demo;
#[doc(inline)]
pub use error::{Delivery, Error, ErrorKind, RpcError, Stage};
#[doc(inline)]
pub use manager::{
    CachedLists, Lagged, ListKind, ManagedServer, ManagedTool, Manager, ManagerOptions,
    RetryPolicy, ServerChange, ServerEvent, ServerEvents, ServerList, ServerState, ToolFilter,
};
#[doc(inline)]
pub use options::{Context, Header, LogFormat, LogLevel, OptionError, ServerOptions, Variables};
#[doc(inline)]
pub use revision::translate::Protocol;
#[doc(inline)]
pub use secret::Secret;
#[doc(inline)]
pub use transport::Link;
#[doc(inline)]
pub use transport::http::Transport;

/// The name of the program, wherever it gives one.
#[doc(hidden)]
pub const NAME: &str = "mcp-span";
