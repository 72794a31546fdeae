//! The TLS configuration, built on the first https connection: http:// pays nothing for it.

use std::sync::{Arc, OnceLock};

use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls_platform_verifier::BuilderVerifierExt;

/// Reading the system's certificates takes milliseconds, so nobody does it before the first need.
#[derive(Debug, Default)]
pub(super) struct LazyTls(OnceLock<Result<Arc<ClientConfig>, rustls::Error>>);

impl LazyTls {
    pub(super) fn config(&self) -> Result<Arc<ClientConfig>, rustls::Error> {
        self.0.get_or_init(build).clone()
    }
}

fn build() -> Result<Arc<ClientConfig>, rustls::Error> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_platform_verifier()?
        .with_no_client_auth();
    Ok(Arc::new(config))
}
