//! OAuth 2.1 as MCP has it.

mod address;
pub mod challenge;
mod metadata;
