//! The versions of HTTP that make a difference to connections.

use hyper_rustls::MaybeHttpsStream;

use super::connect::NetStream;

/// A version of HTTP, as far as it makes a difference to a pool of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum HttpVersion {
    /// One request at a time on a connection.
    #[default]
    Http1,
    /// Many.
    Http2,
}

impl HttpVersion {
    /// All of them, the most wanted first.
    pub(super) const ALL: [Self; 2] = [Self::Http2, Self::Http1];

    /// The name by which TLS negotiates it.
    pub(super) fn alpn(self) -> &'static [u8] {
        match self {
            Self::Http1 => b"http/1.1",
            Self::Http2 => b"h2",
        }
    }

    /// What was negotiated. Without TLS nothing is, and HTTP/1.1 is what everybody speaks.
    pub(super) fn of(stream: &NetStream) -> Self {
        match stream {
            MaybeHttpsStream::Https(tls)
                if tls.inner().get_ref().1.alpn_protocol() == Some(Self::Http2.alpn()) =>
            {
                Self::Http2
            }
            _ => Self::Http1,
        }
    }
}
