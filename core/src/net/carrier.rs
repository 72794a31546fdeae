//! What carries the bytes of a connection: TCP, or a way through a proxy.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::MaybeHttpsStream;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// A connection to a proxy.
pub(super) type ToProxy = MaybeHttpsStream<TokioIo<TcpStream>>;

/// Bytes to a server, or to a proxy that passes requests on.
#[derive(Debug)]
pub(super) enum Carrier {
    /// Straight to the server.
    Direct(TokioIo<TcpStream>),
    /// A proxy passes the bytes on. Boxed, so that the usual way does not carry its size.
    Tunnel(Box<ToProxy>),
    /// A proxy passes the requests on, and has to see the whole URL of each.
    Forwarder(Box<ToProxy>),
}

impl Connection for Carrier {
    fn connected(&self) -> Connected {
        match self {
            Self::Direct(tcp) => tcp.connected(),
            Self::Tunnel(stream) => stream.connected(),
            Self::Forwarder(stream) => stream.connected().proxy(true),
        }
    }
}

impl Read for Carrier {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Direct(tcp) => Pin::new(tcp).poll_read(cx, buffer),
            Self::Tunnel(stream) | Self::Forwarder(stream) => {
                Pin::new(stream).poll_read(cx, buffer)
            }
        }
    }
}

impl Write for Carrier {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Direct(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Self::Tunnel(stream) | Self::Forwarder(stream) => {
                Pin::new(stream).poll_write(cx, bytes)
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Direct(tcp) => Pin::new(tcp).poll_flush(cx),
            Self::Tunnel(stream) | Self::Forwarder(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Direct(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Self::Tunnel(stream) | Self::Forwarder(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Direct(tcp) => tcp.is_write_vectored(),
            Self::Tunnel(stream) | Self::Forwarder(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Direct(tcp) => Pin::new(tcp).poll_write_vectored(cx, pieces),
            Self::Tunnel(stream) | Self::Forwarder(stream) => {
                Pin::new(stream).poll_write_vectored(cx, pieces)
            }
        }
    }
}
