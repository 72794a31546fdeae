//! What TLS is told: whom to trust, and who we are. All of it was checked when it was read.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::sign::CertifiedKey;
use serde::{Deserialize, Serialize};

use super::pem::{self, PemFault};
use crate::secret::Secret;

/// How https connections are secured. By default the platform decides whom to trust.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct TlsOptions {
    /// Every certificate is taken, whoever has issued it. Whoever sits between us and the server can
    /// read and change everything.
    pub insecure: bool,
    /// Whom to trust in addition to the platform's store.
    #[serde(skip)]
    pub roots: Roots,
    /// The same in files that are read with the store, on the first https connection; one that
    /// cannot be used is a warning.
    pub root_files: Vec<PathBuf>,
    /// What is shown to a server that asks who we are.
    #[serde(skip)]
    pub identity: Option<Identity>,
    /// Where the platform's store is in files: read the one file that holds all of it first, which
    /// is enough for nearly every server and takes a small part of the time. The store reads the
    /// variables `SSL_CERT_FILE` and `SSL_CERT_DIR`, but this file does not: only for programs that
    /// were started without them.
    pub system_bundle: bool,
}

impl TlsOptions {
    /// The same for an origin that the user has not named: neither what the user overlooks at one
    /// server nor who the user is to it counts at another.
    #[must_use]
    pub fn elsewhere(&self) -> Self {
        Self { insecure: false, identity: None, ..self.clone() }
    }
}

/// Certificates of authorities, or of single servers, that are trusted.
#[derive(Clone, Default)]
pub struct Roots(pub(super) Vec<CertificateDer<'static>>);

impl Roots {
    /// Adds all certificates of a PEM text. Of many, some may be of a sort that cannot be used:
    /// bundles hold what has gathered over decades.
    ///
    /// # Errors
    ///
    /// When there is no usable one.
    pub fn add_pem(&mut self, pem: &[u8]) -> Result<(), PemFault> {
        let mut found = pem::certificates(pem)?;
        found.retain(|root| RootCertStore::empty().add(root.clone()).is_ok());
        if found.is_empty() {
            return Err(PemFault::UnusableCertificate);
        }
        found.retain(|root| !self.0.contains(root));
        self.0.append(&mut found);
        Ok(())
    }

    /// The same for a file.
    ///
    /// # Errors
    ///
    /// When there is no usable certificate in it.
    pub fn add_file(&mut self, path: &Path) -> Result<(), PemFault> {
        self.add_pem(&pem::read_file(path)?)
    }
}

/// Their number: their bytes tell nobody anything.
impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Roots({})", self.0.len())
    }
}

/// A certificate and its key, by which a server knows us.
#[derive(Clone)]
pub struct Identity {
    pub(super) certified: Arc<CertifiedKey>,
    /// The texts that it was read from, for another process: certificates and key.
    pub(super) pem: Arc<(String, Secret)>,
}

impl Identity {
    /// Takes the certificate (with those between it and its authority behind it) and the key out of
    /// two PEM texts, which may be the same.
    ///
    /// # Errors
    ///
    /// When one of them is missing or cannot be used, or they do not belong together.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, PemFault> {
        let chain = pem::certificates(certificates)?;
        let certified = CertifiedKey::from_der(chain, pem::key(key)?, &ring::default_provider());
        let certified = certified.map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => PemFault::OtherKey,
            rustls::Error::InvalidCertificate(_) => PemFault::UnusableCertificate,
            _ => PemFault::UnusableKey,
        })?;
        let texts = (
            String::from_utf8_lossy(certificates).into_owned(),
            Secret::new(String::from_utf8_lossy(key)),
        );
        Ok(Self { certified: Arc::new(certified), pem: Arc::new(texts) })
    }
}

/// The key must not be printed, by nobody.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({} certificates, [secret])", self.certified.cert.len())
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P384_SHA384, PKCS_ED25519};

    use super::*;

    fn certificate(key: &KeyPair) -> String {
        CertificateParams::new(vec!["me".to_owned()]).unwrap().self_signed(key).unwrap().pem()
    }

    #[test]
    fn a_certificate_and_its_key_are_an_identity_that_shows_nothing() {
        for algorithm in [&rcgen::PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384, &PKCS_ED25519] {
            let key = KeyPair::generate_for(algorithm).unwrap();
            let (certificate, key) = (certificate(&key), key.serialize_pem());
            let both = format!("{key}{certificate}");
            Identity::from_pem(both.as_bytes(), both.as_bytes()).unwrap();
            let identity = Identity::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
            let options = TlsOptions { identity: Some(identity), ..TlsOptions::default() };
            let shown = format!("{options:?}");
            assert!(shown.contains("Identity(1 certificates, [secret])"), "{shown}");
            assert!(shown.len() < 150, "{shown}");
        }
    }

    #[test]
    fn what_does_not_belong_together_is_refused() {
        let (mine, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let certificate = certificate(&mine);
        let fault = |certificate: &str, key: &str| {
            Identity::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap_err()
        };
        assert!(matches!(fault(&certificate, &other.serialize_pem()), PemFault::OtherKey));
        assert!(matches!(fault(&certificate, &certificate), PemFault::NoKey));
        assert!(matches!(
            fault(&mine.serialize_pem(), &mine.serialize_pem()),
            PemFault::NoCertificate
        ));
        let nonsense = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        assert!(matches!(fault(&certificate, nonsense), PemFault::UnusableKey));
        let nonsense = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(matches!(fault(nonsense, &mine.serialize_pem()), PemFault::UnusableCertificate));
    }

    #[test]
    fn elsewhere_certificates_are_checked_and_none_is_shown() {
        let key = KeyPair::generate().unwrap();
        let (chain, key) = (certificate(&key), key.serialize_pem());
        let identity = Identity::from_pem(chain.as_bytes(), key.as_bytes()).ok();
        let lax = TlsOptions {
            insecure: true,
            root_files: vec!["ca.pem".into()],
            identity: identity.clone(),
            system_bundle: true,
            ..TlsOptions::default()
        };
        let lax = lax.elsewhere();
        assert!(lax.identity.is_none() && lax.system_bundle);
        assert!(!lax.insecure && lax.root_files.len() == 1);
        let mut roots = Roots::default();
        roots.add_pem(chain.as_bytes()).unwrap();
        let private = TlsOptions { roots, identity, ..TlsOptions::default() }.elsewhere();
        assert!(private.identity.is_none() && !private.system_bundle && !private.insecure);
        assert_eq!(private.roots.0.len(), 1, "authorities are trusted everywhere");
    }

    #[test]
    fn of_a_bundle_the_usable_certificates_are_taken_once() {
        let root = certificate(&KeyPair::generate().unwrap());
        let nonsense = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let mut roots = Roots::default();
        let refused = roots.add_pem(nonsense.as_bytes()).unwrap_err();
        assert!(matches!(refused, PemFault::UnusableCertificate));
        roots.add_pem(format!("{nonsense}{root}").as_bytes()).unwrap();
        roots.add_pem(root.as_bytes()).unwrap();
        assert_eq!(format!("{roots:?}"), "Roots(1)");
    }
}
