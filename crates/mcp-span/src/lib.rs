//! Joins any MCP client to any MCP server.
//!
//! The program `mcp-span` (package `mcp-span-cli`) is a thin skin over this library: it opens a [`transport::Link`] to its
//! own stdin and stdout and another one to a server, and lets [`bridge::run`] join the two.
//!
//! # Layout
//!
//! A lower line never imports an upper one.
//!
//! - [`config`]: servers by name, out of the configuration files that clients have.
//!   [`manager`]: many servers by name, connected, watched and come back to.
//! - [`client`]: requests and their answers, for programs that use servers themselves.
//! - [`bridge`]: joins two links; knows what is in flight, so that every request ends exactly once.
//!   [`demo`]: a small MCP server to try it on. [`lenient`]: JSON that a tree cannot hold, to be
//!   looked at.
//! - [`transport`]: a link to one peer: `stdio` for lines, `child` for a process that is started,
//!   `http` for a server over Streamable HTTP or the older HTTP+SSE, `memory` for another part of
//!   the same program.
//! - [`auth`]: credentials that change while the program runs, and logins.
//! - [`net`]: HTTP without any MCP: connections, proxies, TLS, cookies, redirects, pauses.
//!   [`revision`]: what differs between the revisions of the protocol, in one table. [`os`]: what
//!   differs between systems.
//! - [`traffic`]: what crosses, told to whoever listens.
//! - [`message`]: one JSON-RPC message as bytes, of which only the head is read. [`wire`]: bytes to
//!   frames: lines, events, headers.
//! - [`error`]: what went wrong. [`limits`]: every number, with its reason. [`secret`]: what must
//!   not be printed. [`private_file`]: files that are the user's alone. [`environment`]: what processes
//!   inherit. [`runtime`]: the one thread of the program.
//!
//! # The way of one request
//!
//! 1. A line of stdin: [`wire::lines::Lines`] cuts it out of the buffer, uncopied.
//! 2. [`message::Message`]: kind, id and method are read; the bytes stay as they are.
//! 3. [`bridge`]: the id is noted as in flight. Where client and server have no era in common, what
//!    crosses is translated by [`revision::translate`], on the side of the modern one: a modern
//!    client before its message gets here, a modern server after it has left.
//! 4. [`transport::http`]: when its turn has come (the handshake goes in line), a task of its own
//!    POSTs those bytes, with headers by the rules of the revision.
//! 5. [`net::HttpClient`]: a pooled connection carries it.
//! 6. The answer is sorted once: JSON, events, an acknowledgement, a refusal. Events are decoded as
//!    they come ([`wire::sse::Decoder`]); the data of each is a message.
//! 7. [`bridge`]: the id is closed. An answer that nobody waits for goes no further; a request
//!    whose answer cannot come any more gets an error in its place.
//! 8. One line on stdout.
//!
//! # A client
//!
//! See [`client`] for a call to a URL, [`transport::child`] for a server that is started, and
//! [`manager`] for many servers at once.
//!
//! # A bridge inside another program
//!
//! Any two links can be joined: here a part of the same program speaks, and a server over HTTP
//! answers. `stdio::open` makes a link of any two streams.
//!
//! ```
//! use mcp_span::bridge;
//! use mcp_span::message::Message;
//! use mcp_span::transport::{Incoming, http, memory};
//!
//! # async fn example(url: &str) -> Result<(), Box<dyn std::error::Error>> {
//! let (mut near, far) = memory::pair();
//! let server = http::open(http::HttpSettings::new(url.parse()?))?;
//! let (policy, eras) = Default::default();
//! let bridge = tokio::spawn(bridge::run(far, server, policy, eras, std::future::pending()));
//!
//! let initialize = br#"{"jsonrpc":"2.0","id":"mine","method":"initialize","params":{
//!     "protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"me","version":"1"}}}"#;
//! near.outbox.send(Message::parse(initialize.as_slice().into())?).await?;
//! match near.inbox.recv().await {
//!     Some(Incoming::Message(answer)) => assert_eq!(answer.id().unwrap().as_json(), "\"mine\""),
//!     other => panic!("{other:?}"),
//! }
//! drop(near.outbox); // nothing more to say: the session is ended, and the bridge with it
//! bridge.await?;
//! # Ok(())
//! # }
//! # let demo = async {
//! #     let demo = mcp_span::demo::Demo::start().await.expect("a port");
//! #     example(demo.url().as_str()).await.expect("an answer");
//! # };
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(demo);
//! ```

// Not part of the interface: mcp-span-cli of the same version uses these, and nobody else should.
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
pub use bridge::BridgeEnd;
#[doc(inline)]
pub use client::{
    Bridge, CallResult, Client, ClientBuilder, Content, Item, Notification, Notifications, Progress,
    Prompt, PromptMessage, PromptResult, ReadResult, Request, Resource, ResourceContents,
    ResourceTemplate, ServerRequest, Target, Tool, call,
};
#[doc(inline)]
pub use demo::Demo;
#[doc(inline)]
pub use error::{Delivery, Error, ErrorKind, RpcError, Stage};
#[doc(inline)]
pub use secret::Secret;
#[doc(inline)]
pub use transport::Link;

/// The name of the program, wherever it gives one.
#[doc(hidden)]
pub const NAME: &str = "mcp-span";
