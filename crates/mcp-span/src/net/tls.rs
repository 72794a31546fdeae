//! TLS on a connection. Its configuration is built by the first one: http:// pays nothing for it.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use http::Uri;
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use rustls::client::ResolvesClientCert;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, HandshakeKind, ProtocolVersion, SignatureScheme};
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite};
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::connect::bare_host;
use super::tls_fault::{CertificateShown, TlsFault};
use super::tls_options::{Identity, TlsOptions};
use super::trust::{RejectedCertificate, with_trust};
use crate::limits;

/// The protocols that are offered to a server, the most wanted first.
pub(super) type Alpn = &'static [&'static [u8]];

pub(super) const HTTP_2_OR_1: Alpn = &[b"h2", b"http/1.1"];
pub(super) const HTTP_1_ONLY: Alpn = &[b"http/1.1"];

/// Reading the system's certificates takes milliseconds, so nobody does it before the first need.
#[derive(Debug, Default)]
pub(super) struct LazyTls {
    options: TlsOptions,
    config: OnceCell<ClientConfig>,
    refused: RejectedCertificate,
    /// Some server has asked for a client certificate.
    asked: Arc<AtomicBool>,
}

impl LazyTls {
    pub(super) fn new(options: TlsOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// Secures `stream` to the host of `uri`.
    pub(super) async fn handshake<T: Read + Write + Unpin>(
        &self,
        uri: &Uri,
        offer: Alpn,
        stream: T,
    ) -> Result<TlsStream<TokioIo<T>>, TlsFault> {
        let config = self.config.get_or_try_init(async || self.build()).await;
        let mut config = config.map_err(TlsFault::NoStore)?.clone();
        config.alpn_protocols = offer.iter().map(|name| name.to_vec()).collect();
        let name = ServerName::try_from(bare_host(uri).to_owned()).map_err(TlsFault::Name)?;
        let begun = Instant::now();
        let connector = TlsConnector::from(Arc::new(config));
        let secured = match connector.connect(name.clone(), TokioIo::new(stream)).await {
            Ok(stream) => self.await_verdict(stream, begun.elapsed()).await,
            Err(error) => Err(error),
        };
        secured.map_err(|cause| TlsFault::Handshake {
            cause,
            peer: self.refused.take(&name),
            introduction: self.introduction(),
        })
    }

    /// In TLS 1.3 a server looks at a client certificate when the handshake is over for the client.
    /// Its refusal would meet a request that is already written, and that nobody could tell from one
    /// that was carried out.
    async fn await_verdict<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        mut stream: TlsStream<S>,
        handshake: Duration,
    ) -> io::Result<TlsStream<S>> {
        let tls = stream.get_ref().1;
        if !self.asked.load(Ordering::Relaxed)
            || tls.protocol_version() != Some(ProtocolVersion::TLSv1_3)
            || tls.handshake_kind() == Some(HandshakeKind::Resumed)
        {
            return Ok(stream);
        }
        let verdict = poll_fn(|context| {
            let heard = Pin::new(&mut stream).poll_fill_buf(context).map_ok(<[u8]>::is_empty);
            match heard {
                Poll::Ready(Ok(true)) => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                Poll::Pending if stream.get_ref().1.tls13_tickets_received() == 0 => Poll::Pending,
                Poll::Pending | Poll::Ready(Ok(false)) => Poll::Ready(Ok(())),
                Poll::Ready(Err(refused)) => Poll::Ready(Err(refused)),
            }
        });
        let limit = limits::CLIENT_CERTIFICATE_VERDICT.max(handshake * 2);
        match tokio::time::timeout(limit, verdict).await {
            Ok(Err(refused)) => Err(refused),
            _ => Ok(stream),
        }
    }

    /// How far the server and we have come with who we are.
    fn introduction(&self) -> CertificateShown {
        match (self.asked.load(Ordering::Relaxed), &self.options.identity) {
            (false, _) => CertificateShown::NotAsked,
            (true, None) => CertificateShown::Nothing,
            (true, Some(_)) => CertificateShown::Certificate,
        }
    }

    fn build(&self) -> Result<ClientConfig, rustls::Error> {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?;
        let (identity, asked) = (self.options.identity.clone(), Arc::clone(&self.asked));
        let builder = with_trust(builder, &self.options, &self.refused)?;
        Ok(builder.with_client_cert_resolver(Arc::new(Introducer { identity, asked })))
    }
}

/// Shows who we are to those who ask, and notes that somebody did.
#[derive(Debug)]
struct Introducer {
    identity: Option<Identity>,
    asked: Arc<AtomicBool>,
}

impl ResolvesClientCert for Introducer {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.asked.store(true, Ordering::Relaxed);
        self.identity.as_ref().map(|identity| Arc::clone(&identity.certified))
    }

    fn has_certs(&self) -> bool {
        self.identity.is_some()
    }
}
