//! HTTP plumbing that knows nothing of MCP.

#[cfg(test)]
#[path = "../../../../tests/it/support/tls.rs"]
mod authority;
pub mod backoff;
mod body;
mod bundle;
mod certificate;
pub mod client;
mod connect;
mod connection;
mod content;
mod cookies;
mod endpoint;
mod exceptions;
mod fault;
mod host;
mod loopback;
mod options;
mod pem;
mod portable;
mod proxy;
mod proxy_fault;
mod recorder;
mod redirect;
mod request;
mod sleeps;
mod socks;
mod tls;
mod tls_fault;
mod tls_options;
mod trust;
mod tunnel;

pub use body::{Inbound, Progress};
pub use certificate::Certificate;
pub use client::{Call, HttpClient, Lane, final_endpoint};
pub use content::Content;
pub use cookies::Jar;
pub use endpoint::Endpoint;
pub use exceptions::Exceptions;
pub use loopback::{is_localhost, is_loopback};
pub use options::{Addresses, Options};
pub use pem::{PemFault, read_file};
pub(crate) use portable::Portable;
pub use proxy::{Proxies, Proxy};
pub use recorder::{RecordedConnection, RecordedExchange, RecordedResponse, Recorder};
pub use tls_options::{Identity, Roots, TlsOptions};
