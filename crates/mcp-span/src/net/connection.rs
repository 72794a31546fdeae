//! An open connection, ready for requests.

use std::net::IpAddr;

use http::Extensions;
use hyper::client::conn::{http1, http2};
use hyper_util::client::legacy::connect::{Connection as _, HttpInfo};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tracing::debug;

use super::body::Outbound;
use super::connect::{Connector, NetStream};
use super::fault::RequestFailure;
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
    /// One on `stream`, in the protocol that was negotiated there.
    pub(super) async fn on(
        stream: NetStream,
        is_direct: bool,
        connector: &Connector,
    ) -> Result<Self, RequestFailure> {
        let (connected, mut extras) = (stream.connected(), Extensions::new());
        connected.get_extras(&mut extras);
        let other_end = extras.get::<HttpInfo>().map(|info| info.remote_addr().ip());
        let peer = other_end.filter(|_| is_direct);
        // Without TLS nothing is negotiated, and HTTP/1.1 is what everybody speaks.
        if connected.is_negotiated_h2() {
            let sender = over_http2(connector, stream).await.map_err(RequestFailure::Http2)?;
            Ok(Self::Http2(Http2 { sender, peer }))
        } else {
            let sender = over_http1(stream).await.map_err(RequestFailure::Http1)?;
            Ok(Self::Http1(Http1 { sender, peer, was_used: false }))
        }
    }
}

async fn over_http1(stream: NetStream) -> hyper::Result<http1::SendRequest<Outbound>> {
    let mut http1 = http1::Builder::new();
    http1.max_buf_size(limits::HTTP1_BUFFER).max_headers(limits::HTTP1_HEADERS);
    let (mut sender, connection) = http1.handshake(stream).await?;
    let running = tokio::spawn(run(connection));
    match sender.ready().await {
        Ok(()) => Ok(sender),
        // The connection itself knows more of why it has ended.
        Err(error) => Err(running.await.ok().and_then(Result::err).unwrap_or(error)),
    }
}

async fn over_http2(
    connector: &Connector,
    stream: NetStream,
) -> hyper::Result<http2::SendRequest<Outbound>> {
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
    let (sender, connection) = http2.handshake(stream).await?;
    tokio::spawn(run(connection));
    Ok(sender)
}

/// Runs a connection to its end.
async fn run(connection: impl Future<Output = hyper::Result<()>>) -> hyper::Result<()> {
    connection.await.inspect_err(|error| debug!("a connection has ended: {error}"))
}
