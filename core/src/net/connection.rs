//! An open connection, ready for requests.

use std::net::IpAddr;

use http::{Extensions, Uri};
use hyper::client::conn::{http1, http2};
use hyper_util::client::legacy::connect::{Connection as _, HttpInfo};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tracing::debug;

use super::body::Outbound;
use super::connect::{Connector, NetStream};
use super::fault::RequestFailure;
use super::tls::Alpn;
use crate::limits;

/// A connection for one request.
#[derive(Debug)]
pub(super) enum Connection {
    /// Nobody else has it meanwhile.
    Http1(Http1),
    /// Others may have it, too.
    Http2(Http2),
}

/// One request at a time.
#[derive(Debug)]
pub(super) struct Http1 {
    pub(super) sender: http1::SendRequest<Outbound>,
    /// Whoever is at the other end, unless that is a proxy.
    pub(super) peer: Option<IpAddr>,
    pub(super) was_used: bool,
}

/// Many requests at once. The connection ends with its last clone and the last answer on it.
#[derive(Clone, Debug)]
pub(super) struct Http2 {
    pub(super) sender: http2::SendRequest<Outbound>,
    pub(super) peer: Option<IpAddr>,
}

impl Connection {
    /// Opens one to the server of `origin`, in one of the protocols that are offered.
    pub(super) async fn open(
        connector: &Connector,
        origin: &Uri,
        offer: Alpn,
    ) -> Result<Self, RequestFailure> {
        let stream = connector.connect(origin, offer).await?;
        let is_direct = connector.options.proxies.of(origin).is_none();
        let (connected, mut extras) = (stream.connected(), Extensions::new());
        connected.get_extras(&mut extras);
        let peer = extras.get::<HttpInfo>().map(|info| info.remote_addr().ip());
        let peer = peer.filter(|_| is_direct);
        // Without TLS nothing is negotiated, and HTTP/1.1 is what everybody speaks.
        if connected.is_negotiated_h2() {
            Http2::handshake(connector, stream, peer).await.map(Self::Http2)
        } else {
            Http1::handshake(stream, peer).await.map(Self::Http1)
        }
    }
}

impl Http1 {
    async fn handshake(stream: NetStream, peer: Option<IpAddr>) -> Result<Self, RequestFailure> {
        let mut http1 = http1::Builder::new();
        http1.max_buf_size(limits::HTTP1_BUFFER).max_headers(limits::HTTP1_HEADERS);
        let (mut sender, connection) =
            http1.handshake(stream).await.map_err(RequestFailure::Http1)?;
        let running = tokio::spawn(async move {
            connection.await.inspect_err(|error| debug!("a connection has ended: {error}"))
        });
        match sender.ready().await {
            Ok(()) => Ok(Self { sender, peer, was_used: false }),
            // The connection itself knows more of why it has ended.
            Err(error) => {
                let ended = running.await.ok().and_then(Result::err);
                Err(RequestFailure::Http1(ended.unwrap_or(error)))
            }
        }
    }
}

impl Http2 {
    async fn handshake(
        connector: &Connector,
        stream: NetStream,
        peer: Option<IpAddr>,
    ) -> Result<Self, RequestFailure> {
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            .keep_alive_interval(connector.ping_interval)
            .keep_alive_timeout(connector.ping_timeout)
            // An idle one that died must not be found out by the next call.
            .keep_alive_while_idle(true)
            .initial_max_send_streams(limits::HTTP2_FIRST_STREAMS)
            .initial_stream_window_size(limits::HTTP2_STREAM_WINDOW)
            .initial_connection_window_size(limits::HTTP2_CONNECTION_WINDOW)
            .max_header_list_size(limits::HTTP2_HEAD);
        let (sender, connection) = http2.handshake(stream).await.map_err(RequestFailure::Http2)?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                debug!("a connection has ended: {error}");
            }
        });
        Ok(Self { sender, peer })
    }
}
