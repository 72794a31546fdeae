//! HTTP plumbing that knows nothing of MCP.

#[cfg(test)]
#[path = "../../tests/it/support/tls.rs"]
mod authority;
pub mod backoff;
mod body;
mod certificate;
pub mod client;
mod connect;
mod content;
mod cookies;
mod endpoint;
mod fault;
mod options;
mod pem;
mod pools;
mod protocol;
mod redirect;
mod tls;
mod tls_fault;
mod tls_options;
mod trust;

pub use body::{Flag, Progress};
pub use client::{Call, HttpClient, final_endpoint};
pub use connect::is_localhost;
pub use content::Content;
pub use cookies::Jar;
pub use endpoint::Endpoint;
pub use options::Options;
pub use pem::{PemFault, read_file};
pub use tls_options::{Identity, Roots, TlsOptions, Trust};
