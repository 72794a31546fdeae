//! Certificates of every sort, good and bad, and servers and files to use them in.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use tempfile::TempDir;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{ALL_VERSIONS, RootCertStore, ServerConfig, SupportedProtocolVersion};

/// An authority that issues what a test asks for.
pub(crate) struct Ca {
    /// Its own certificate.
    pub(crate) pem: String,
    /// Its certificate and those above it, up to a root that is not among them.
    between: Vec<CertificateDer<'static>>,
    der: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key.
pub(crate) struct Leaf {
    chain: Vec<CertificateDer<'static>>,
    /// All of them, the own one first.
    pub(crate) pem: String,
    pub(crate) key: KeyPair,
}

/// What a server wants of its clients.
#[derive(Clone, Copy)]
pub(crate) struct Manners<'a> {
    pub(crate) protocols: &'a [&'a str],
    pub(crate) versions: &'a [&'static SupportedProtocolVersion],
    /// Whose clients it takes; `None` for everybody's.
    pub(crate) clients: Option<&'a Ca>,
}

impl Default for Manners<'_> {
    fn default() -> Self {
        Self { protocols: &["http/1.1"], versions: ALL_VERSIONS, clients: None }
    }
}

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn authority(name: &str) -> CertificateParams {
    let mut params = params(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

impl Ca {
    pub(crate) fn new(name: &str) -> Self {
        let (params, key) = (authority(name), KeyPair::generate().unwrap());
        let certificate = params.self_signed(&key).unwrap();
        Self {
            pem: certificate.pem(),
            between: Vec::new(),
            der: certificate.der().clone(),
            issuer: Issuer::new(params, key),
        }
    }

    /// An authority that this one vouches for.
    pub(crate) fn intermediate(&self, name: &str) -> Self {
        let (params, key) = (authority(name), KeyPair::generate().unwrap());
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let between = [&[certificate.der().clone()], &self.between[..]].concat();
        Self {
            pem: certificate.pem(),
            between,
            der: certificate.der().clone(),
            issuer: Issuer::new(params, key),
        }
    }

    /// A certificate for `localhost`, after `change`.
    pub(crate) fn server(&self, change: impl FnOnce(&mut CertificateParams)) -> Leaf {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        change(&mut params);
        self.issue(&params, KeyPair::generate().unwrap())
    }

    /// A certificate by which a client is known.
    pub(crate) fn client(&self, key: KeyPair) -> Leaf {
        let mut params = params("a client");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(&params, key)
    }

    fn issue(&self, params: &CertificateParams, key: KeyPair) -> Leaf {
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let chain = [&[certificate.der().clone()], &self.between[..]].concat();
        Leaf { chain, pem: certificate.pem(), key }
    }
}

impl Leaf {
    /// For `localhost`, as `openssl req -x509` makes it: an authority, by its own account.
    pub(crate) fn self_signed(change: impl FnOnce(&mut CertificateParams)) -> Self {
        let mut params = authority("alone");
        params.subject_alt_names =
            CertificateParams::new(vec!["localhost".to_owned()]).unwrap().subject_alt_names;
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self { chain: vec![certificate.der().clone()], pem: certificate.pem(), key }
    }

    /// Forgets the certificates between its own and the root.
    pub(crate) fn alone(mut self) -> Self {
        self.chain.truncate(1);
        self
    }

    /// A server that shows it.
    pub(crate) fn serve(&self, manners: Manners<'_>) -> ServerConfig {
        let provider = Arc::new(default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(manners.versions)
            .unwrap();
        let builder = match manners.clients {
            None => builder.with_no_client_auth(),
            Some(ca) => {
                let mut roots = RootCertStore::empty();
                roots.add(ca.der.clone()).unwrap();
                let clients =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(clients.build().unwrap())
            }
        };
        let key = PrivateKeyDer::try_from(self.key.serialize_der()).unwrap();
        let mut config = builder.with_single_cert(self.chain.clone(), key).unwrap();
        config.alpn_protocols =
            manners.protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        config
    }
}

/// Files that are gone when the test is over.
pub(crate) struct Files(TempDir);

impl Files {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// The path of a new file with this content.
    pub(crate) fn with(&self, name: &str, content: &str) -> String {
        let path = self.0.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }
}
