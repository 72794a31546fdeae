//! A certificate for the server, and whoever vouches for it.

use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;

use crate::exchange::Fault;

/// Accepts connections; the root certificate is left at `root`, as PEM.
pub(crate) fn acceptor(root: &Path) -> Result<TlsAcceptor, Fault> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate()?;
    std::fs::write(root, params.self_signed(&key)?.pem())?;
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate()?;
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()])?;
    let certificate = params.signed_by(&key, &issuer)?.der().clone();
    let key = PrivateKeyDer::try_from(key.serialize_der())?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
