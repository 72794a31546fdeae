//! The TLS configuration, built on the first https connection: http:// pays nothing for it.

use std::sync::{Arc, OnceLock};

use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls_platform_verifier::BuilderVerifierExt;

use super::protocol::Protocol;

/// Reading the system's certificates takes milliseconds, so nobody does it before the first need.
#[derive(Debug, Default)]
pub(super) struct LazyTls(OnceLock<Result<Arc<ClientConfig>, rustls::Error>>);

impl LazyTls {
    /// A configuration of the test's own in place of the platform's.
    #[cfg(test)]
    pub(super) fn ready(config: ClientConfig) -> Self {
        Self(OnceLock::from(Ok(Arc::new(config))))
    }

    /// The configuration that offers `protocols`, the most wanted first.
    pub(super) fn config(
        &self,
        protocols: &[Protocol],
    ) -> Result<Arc<ClientConfig>, rustls::Error> {
        let mut config = self.0.get_or_init(build).clone()?;
        let offer: Vec<Vec<u8>> = protocols.iter().map(|p| p.alpn().to_vec()).collect();
        if config.alpn_protocols != offer {
            Arc::make_mut(&mut config).alpn_protocols = offer;
        }
        Ok(config)
    }
}

fn build() -> Result<Arc<ClientConfig>, rustls::Error> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_platform_verifier()?
        .with_no_client_auth();
    config.alpn_protocols = Protocol::ALL.iter().map(|p| p.alpn().to_vec()).collect();
    Ok(Arc::new(config))
}
