//! What `mcp-span` is to its users: the command line, clients, many servers at once, their
//! configuration.
//!
//! Use it by way of the crate `mcp-span`, which has these modules under the same names and explains
//! how they belong together. It is a package of its own since no message passes through it: it is
//! compiled for its size.

pub use mcp_span_core::*;

#[cfg(feature = "cli")]
pub mod cli;
pub mod client;
pub mod config;
pub mod demo;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod lenient;
pub mod manager;
