//! Bytes to frames and back: pure, without I/O, and the first to meet what others send.

pub mod body_buffer;
pub mod header;
pub mod lines;
pub mod media;
pub mod page;
pub mod sse;
pub mod tls_refusal;
