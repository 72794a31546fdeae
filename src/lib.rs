//! Joins any MCP client to any MCP server.
//!
//! The program `mcp-span` is a thin skin over this library: it opens a [`transport::Link`] to its
//! own stdin and stdout and another one to a server, and lets [`bridge::run`] join the two.
//!
//! # Layout
//!
//! A lower line never imports an upper one.
//!
//! - `cli`: the command line (feature `cli`, on by default); alone in reading the environment and
//!   writing to a terminal.
//! - [`bridge`]: joins two links; knows what is in flight, so that every request ends exactly once.
//!   [`config`]: servers by name, out of the configuration files that clients have. [`demo`]: a
//!   small MCP server to try it on.
//! - [`transport`]: a link to one peer: `stdio` for lines, `http` for a server over Streamable HTTP
//!   or the older HTTP+SSE, `memory` for another part of the same program.
//! - [`auth`]: credentials that change while the program runs, and logins.
//! - [`net`]: HTTP without any MCP: connections, proxies, TLS, cookies, redirects, pauses.
//!   [`revision`]: what differs between the revisions of the protocol, in one table. [`os`]: what
//!   differs between systems.
//! - [`traffic`]: what crosses, told to whoever listens.
//! - [`message`]: one JSON-RPC message as bytes, of which only the head is read. [`wire`]: bytes to
//!   frames: lines, events, headers.
//! - [`error`]: what went wrong. [`limits`]: every number, with its reason. [`secret`]: what must
//!   not be printed.
//!
//! # The way of one request
//!
//! 1. A line of stdin: [`wire::lines::Lines`] cuts it out of the buffer, uncopied.
//! 2. [`message::Message`]: kind, id and method are read; the bytes stay as they are.
//! 3. [`bridge`]: the id is noted as in flight. Where client and server have no era in common, what
//!    crosses is translated by [`revision::translate`], on the side of the modern one.
//! 4. [`transport::http`]: when its turn has come (the handshake goes in line), a task of its own
//!    POSTs those bytes, with headers by the rules of the revision.
//! 5. [`net::HttpClient`]: a pooled connection carries it.
//! 6. The answer is sorted once: JSON, events, an acknowledgement, a refusal. Events are decoded as
//!    they come ([`wire::sse::Decoder`]); the data of each is a message.
//! 7. [`bridge`]: the id is closed. An answer that nobody waits for goes no further; a request
//!    whose answer cannot come any more gets an error in its place.
//! 8. One line on stdout.
//!
//! # A bridge inside another program
//!
//! ```no_run
//! use mcp_span::transport::{http, stdio};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let settings = http::Settings::new("https://example.com/mcp".parse()?);
//! let client = stdio::open(tokio::io::stdin(), tokio::io::stdout(), settings.max_message);
//! let server = http::open(settings)?;
//! let (policy, eras) = Default::default();
//! mcp_span::bridge::run(client, server, policy, eras, std::future::pending()).await;
//! # Ok(())
//! # }
//! ```

pub mod auth;
pub mod bridge;
#[cfg(feature = "cli")]
pub mod cli;
pub mod client;
pub mod config;
pub mod demo;
pub mod error;
pub mod limits;
pub mod message;
pub mod net;
pub mod os;
pub mod revision;
pub mod secret;
pub mod traffic;
pub mod transport;
pub mod wire;
