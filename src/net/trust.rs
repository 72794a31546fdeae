//! Who decides on a server's certificate: the platform, with a witness to what it refuses; or nobody.
//!
//! rustls calls it dangerous to bring a verifier of one's own, and all that does so is in this file.
//! The witness is one only because errors do not say who issued the certificate that was refused.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WantsClientCert, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, Error, SignatureScheme,
    WantsVerifier,
};
use rustls_platform_verifier::Verifier;
use tracing::warn;

use super::certificate::Certificate;
use super::tls_options::{Roots, Trust};

/// Gives the configuration its verifier. Certificates that are refused are noted in `refused`.
pub(super) fn with_trust(
    builder: ConfigBuilder<ClientConfig, WantsVerifier>,
    trust: &Trust,
    refused: &Refused,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, Error> {
    let provider = builder.crypto_provider();
    let verifier: Arc<dyn ServerCertVerifier> = match trust {
        Trust::Platform { roots, files } => {
            let mut own = roots.clone();
            for path in files {
                if let Err(fault) = own.add_file(path) {
                    warn!("the certificates in {} are not used: {fault}", path.display());
                }
            }
            let extra = own.certificates().to_vec();
            let platform = Verifier::new_with_extra_roots(extra, Arc::clone(provider))?;
            Arc::new(Witness { platform, own, refused: refused.clone() })
        }
        Trust::Anybody => {
            Arc::new(Anybody(provider.signature_verification_algorithms.supported_schemes()))
        }
    };
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier))
}

/// The last server certificate that was refused. Handshakes run side by side on one configuration,
/// so it is kept under the name of its server.
#[derive(Clone, Debug, Default)]
pub(super) struct Refused(Arc<Mutex<Option<(ServerName<'static>, Peer)>>>);

/// What a server that was refused has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    /// Its own certificate, if that can be read. Boxed, so that no fault carries its size.
    pub(super) certificate: Option<Box<Certificate>>,
    /// There was no other certificate with it.
    pub(super) is_alone: bool,
}

impl Refused {
    fn note(&self, name: &ServerName<'_>, peer: Peer) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((name.to_owned(), peer));
    }

    /// What the server of this name has shown when it was refused.
    pub(super) fn take(&self, name: &ServerName<'static>) -> Option<Peer> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.take_if(|(noted, _)| noted == name).map(|(_, peer)| peer)
    }
}

/// Asks the platform, and remembers whom it refused.
#[derive(Debug)]
struct Witness {
    platform: Verifier,
    /// Those of the user's own choice; the platform knows them, too.
    own: Roots,
    refused: Refused,
}

impl Witness {
    /// The certificate that `openssl req -x509` makes for a server claims to be an authority. As
    /// such, many verifiers refuse it as a server's, even to a user who has named that very
    /// certificate as trusted. For that one, what remains to be checked is its name and its time.
    fn check_own(
        &self,
        certificate: &CertificateDer<'_>,
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Option<Result<ServerCertVerified, Error>> {
        let mut own = self.own.certificates().iter();
        own.find(|own| own.as_ref() == certificate.as_ref())?;
        let Certificate { not_before, not_after, .. } = Certificate::read(certificate)?;
        let parsed = ParsedCertificate::try_from(certificate).ok()?;
        Some(if now < not_before {
            Err(CertificateError::NotValidYetContext { time: now, not_before }.into())
        } else if now > not_after {
            Err(CertificateError::ExpiredContext { time: now, not_after }.into())
        } else {
            verify_server_name(&parsed, name).map(|()| ServerCertVerified::assertion())
        })
    }
}

impl ServerCertVerifier for Witness {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let platform = &self.platform;
        let verdict = platform
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            .or_else(|error| match error {
                Error::InvalidCertificate(CertificateError::Revoked) => Err(error),
                error => self.check_own(end_entity, server_name, now).unwrap_or(Err(error)),
            });
        if verdict.is_err() {
            let certificate = Certificate::read(end_entity).map(Box::new);
            let peer = Peer { certificate, is_alone: intermediates.is_empty() };
            self.refused.note(server_name, peer);
        }
        verdict
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.platform.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.platform.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.platform.supported_verify_schemes()
    }
}

/// Takes every certificate. Signatures are not looked at either: anybody can make a certificate
/// whose key they have, so that would keep nobody out but servers with certificates of odd sorts,
/// which are what this is for.
#[derive(Debug)]
struct Anybody(Vec<SignatureScheme>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_refused_is_kept_for_its_own_server() {
        let refused = Refused::default();
        let name = |text: &str| ServerName::try_from(text.to_owned()).unwrap();
        let peer = Peer { certificate: None, is_alone: true };
        refused.note(&name("a.example"), peer.clone());
        assert_eq!(refused.take(&name("b.example")), None);
        assert_eq!(refused.take(&name("a.example")), Some(peer));
        assert_eq!(refused.take(&name("a.example")), None, "once");
    }
}
