//! What `mcp-span` is made of, up to the bridge: messages, transports, logins.
//!
//! Use it by way of the crate `mcp-span`, which has these modules under the same names, explains how
//! they belong together, and adds clients and configuration files. It is a package of its own since
//! every message passes through it, and it is compiled with that in mind.

pub mod auth;
pub mod bridge;
mod engine;
pub mod environment;
pub mod error;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod limits;
mod lock;
pub mod message;
pub mod net;
pub mod os;
pub mod private_file;
pub mod revision;
pub mod runtime;
pub mod secret;
pub mod traffic;
pub mod transport;
pub mod untrusted;
pub mod wire;

/// The name of the program, wherever it gives one.
pub const NAME: &str = "mcp-span";
