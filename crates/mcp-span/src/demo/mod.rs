//! A small MCP server over Streamable HTTP, inside the program: something to try a bridge on.
//!
//! It speaks the newest legacy revision, keeps sessions, answers in JSON or in an event stream as
//! the tool needs it, and listens on loopback only.

mod http;
mod protocol;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpListener;
use url::Url;

/// A demo server that runs as long as the runtime does: something to try a client or a bridge on.
///
/// It has the tools `echo`, `add` and `countdown`, and `greet` for clients that answer elicitations.
#[derive(Debug)]
pub struct Demo {
    url: Url,
}

impl Demo {
    /// Starts one on a free port.
    ///
    /// # Errors
    ///
    /// When no port of the loopback interface can be had.
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        let url = format!("http://{}/mcp", listener.local_addr()?);
        let url = Url::parse(&url).map_err(io::Error::other)?;
        tokio::spawn(http::serve(listener));
        Ok(Self { url })
    }

    /// Its endpoint.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }
}
