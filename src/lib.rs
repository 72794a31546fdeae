//! map to come
pub mod bridge;
#[cfg(feature = "cli")]
pub mod cli;
pub mod demo;
pub mod error;
pub mod limits;
pub mod message;
pub mod net;
pub mod os;
pub mod revision;
pub mod secret;
pub mod transport;
pub mod wire;
