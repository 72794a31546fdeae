//! map to come
pub mod error;
pub mod limits;
pub mod message;
pub mod secret;
pub mod wire;
