//! Which version of HTTP a server speaks: learnt from its connections, remembered for the next.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use http::Uri;
use http::uri::{Authority, Scheme};
use hyper_rustls::MaybeHttpsStream;

use super::carrier::Carrier;
use crate::limits;

/// A connection, ready for its first request.
pub(super) type Stream = MaybeHttpsStream<Carrier>;

/// A version of HTTP, as far as it makes a difference to a pool of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// One request at a time on a connection.
    Http1,
    /// Many.
    Http2,
}

impl Protocol {
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
    pub(super) fn of(stream: &Stream) -> Self {
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

/// What was learnt; shared by all pools of a client.
#[derive(Clone, Debug, Default)]
pub(super) struct Known(Arc<Mutex<Learnt>>);

#[derive(Debug, Default)]
struct Learnt {
    servers: HashMap<Authority, Server>,
    /// A connection that the pool which opened it has no use for: one round trip and more saved.
    parked: Option<Parked>,
}

#[derive(Clone, Copy, Debug)]
struct Server {
    protocol: Protocol,
    refuses_http2: bool,
}

#[derive(Debug)]
struct Parked {
    authority: Authority,
    stream: Stream,
    since: Instant,
}

impl Known {
    /// What the server of `uri` spoke last; HTTP/1.1 if it is not known.
    pub(super) fn of(&self, uri: &Uri) -> Protocol {
        if uri.scheme() != Some(&Scheme::HTTPS) {
            return Protocol::Http1;
        }
        let learnt = self.lock();
        let server = uri.authority().and_then(|authority| learnt.servers.get(authority));
        server.map_or(Protocol::Http1, |server| server.protocol)
    }

    /// What to offer it.
    pub(super) fn offer(&self, authority: &Authority) -> &'static [Protocol] {
        let refused = self.lock().servers.get(authority).is_some_and(|s| s.refuses_http2);
        if refused { &[Protocol::Http1] } else { &Protocol::ALL }
    }

    /// It has said that it wants HTTP/1.1, after all.
    pub(super) fn refuses_http2(&self, uri: &Uri) {
        if let Some(authority) = uri.authority().cloned() {
            let server = Server { protocol: Protocol::Http1, refuses_http2: true };
            self.lock().servers.insert(authority, server);
        }
    }

    /// Notes what `stream` speaks. The one that brought the news is kept for the pool that can use
    /// it; others that were opened at the same time are not needed.
    pub(super) fn park(&self, authority: Authority, stream: Stream) {
        let mut learnt = self.lock();
        let protocol = Protocol::of(&stream);
        let unknown = Server { protocol: Protocol::Http1, refuses_http2: false };
        let server = learnt.servers.entry(authority.clone()).or_insert(unknown);
        if std::mem::replace(&mut server.protocol, protocol) != protocol {
            learnt.parked = Some(Parked { authority, stream, since: Instant::now() });
        }
    }

    /// A parked connection to the server, if there is one and it is fresh.
    pub(super) fn take(&self, authority: &Authority, protocol: Protocol) -> Option<Stream> {
        let parked = &mut self.lock().parked;
        parked.take_if(|parked| parked.since.elapsed() > limits::POOL_IDLE);
        let fits =
            |p: &mut Parked| p.authority == *authority && Protocol::of(&p.stream) == protocol;
        parked.take_if(fits).map(|parked| parked.stream)
    }

    fn lock(&self) -> MutexGuard<'_, Learnt> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
