//! The older transport with two endpoints: one stream for all that the server says, POSTs for all
//! that it is told.
//!
//! The session is the stream: when it ends, the session is lost. How another one is opened is the
//! business of whoever holds the link, exactly as with a Streamable HTTP server.

mod address;
mod post;
mod session;
mod stream;

pub(super) use address::session;
pub(super) use post::RefusedPost;
pub(super) use session::HttpSse;
pub(super) use stream::{EventStream, First, open};
