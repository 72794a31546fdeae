//! HTTP plumbing that knows nothing of MCP.

#[cfg(test)]
#[path = "../../tests/it/support/tls.rs"]
mod authority;
pub mod backoff;
mod body;
pub mod client;
mod connect;
mod content;
mod cookies;
mod endpoint;
mod fault;
mod loopback;
mod options;
mod pools;
mod protocol;
mod redirect;
mod tls;

pub use body::{Flag, Progress};
pub use client::{Call, HttpClient, final_endpoint};
pub use content::Content;
pub use cookies::Jar;
pub use endpoint::Endpoint;
pub use loopback::{is_localhost, is_loopback};
pub use options::Options;
