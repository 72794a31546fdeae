//! Verifies a server's certificate by the platform, and records what it refuses; or accepts all.
//!
//! rustls calls it dangerous to bring a verifier of one's own, and all that does so is in this file.
//! It is recorded only because errors do not say who issued the certificate that was refused.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::SystemTime;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WantsClientCert, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, Error, SignatureScheme,
    WantsVerifier,
};
use rustls_platform_verifier::Verifier;
use tracing::warn;

use super::bundle;
use super::certificate::Certificate;
use super::tls_options::{Roots, TlsOptions};
use crate::limits;
use crate::lock::lock;

/// Gives the configuration its verifier. Certificates that are refused are noted in `refused`.
pub(super) fn with_trust(
    builder: ConfigBuilder<ClientConfig, WantsVerifier>,
    options: &TlsOptions,
    refused: &RejectedCertificate,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, Error> {
    let (provider, insecure) = (Arc::clone(builder.crypto_provider()), options.insecure);
    let (mut own, mut bundle) = (Roots::default(), None);
    if !insecure {
        own.clone_from(&options.roots);
        for path in &options.root_files {
            if let Err(fault) = own.add_file(path) {
                warn!("the certificates in {} are not used: {fault}", path.display());
            }
        }
        bundle = quick(options, &own, &provider);
    }
    let (platform, refused) = (OnceLock::new(), refused.clone());
    let verifier = RecordingVerifier { insecure, bundle, platform, provider, own, refused };
    if !insecure && verifier.bundle.is_none() {
        verifier.platform()?;
    }
    Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)))
}

/// Those of the user's choice, and as many of the system's as can be read quickly.
fn quick(
    options: &TlsOptions,
    own: &Roots,
    provider: &Arc<CryptoProvider>,
) -> Option<Arc<WebPkiServerVerifier>> {
    let mut roots = options.system_bundle.then(bundle::read)??;
    roots.add_parsable_certificates(own.0.iter().cloned());
    WebPkiServerVerifier::builder_with_provider(roots.into(), Arc::clone(provider)).build().ok()
}

/// The last server certificate that was refused. Handshakes run side by side on one configuration,
/// so it is kept under the name of its server.
#[derive(Clone, Debug, Default)]
pub(super) struct RejectedCertificate(Arc<Mutex<Option<(ServerName<'static>, Peer)>>>);

/// What a server that was refused has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    /// Its own certificate, if that can be read. Boxed, so that no fault carries its size.
    pub(super) certificate: Option<Box<Certificate>>,
    /// The others that it sent along.
    pub(super) others: Vec<Certificate>,
}

impl RejectedCertificate {
    fn note(&self, name: &ServerName<'_>, peer: Peer) {
        *lock(&self.0) = Some((name.to_owned(), peer));
    }

    /// What the server of this name has shown when it was refused.
    pub(super) fn take(&self, name: &ServerName<'static>) -> Option<Peer> {
        lock(&self.0).take_if(|(noted, _)| noted == name).map(|(_, peer)| peer)
    }
}

/// Asks the platform, and remembers whom it refused; or asks nobody.
#[derive(Debug)]
struct RecordingVerifier {
    /// Every certificate is taken, and nobody is asked. Signatures are not looked at either: anybody
    /// can make a certificate whose key they have, so that would keep nobody out but servers with
    /// certificates of odd sorts, which are what this is for.
    insecure: bool,
    /// A part of what the platform trusts, and never more than that: who is vouched for here is
    /// good, and about all others the platform decides.
    bundle: Option<Arc<WebPkiServerVerifier>>,
    /// All that the system trusts, once it is needed, and those of the user's choice.
    platform: OnceLock<Result<Verifier, Error>>,
    provider: Arc<CryptoProvider>,
    /// Those of the user's own choice.
    own: Roots,
    refused: RejectedCertificate,
}

impl RecordingVerifier {
    fn algorithms(&self) -> &WebPkiSupportedAlgorithms {
        &self.provider.signature_verification_algorithms
    }

    fn platform(&self) -> Result<&Verifier, Error> {
        let read =
            || Verifier::new_with_extra_roots(self.own.0.clone(), Arc::clone(&self.provider));
        self.platform.get_or_init(read).as_ref().map_err(Clone::clone)
    }

    /// The certificate that `openssl req -x509` makes for a server claims to be an authority. As
    /// such, many verifiers refuse it as a server's, even to a user who has named that very
    /// certificate as trusted. For that one, byte for byte, what remains to be checked is its name
    /// and its time.
    fn check_own(
        &self,
        certificate: &CertificateDer<'_>,
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Option<Result<ServerCertVerified, Error>> {
        self.own.0.iter().find(|own| own.as_ref() == certificate.as_ref())?;
        let Certificate { valid_from, valid_until, .. } = Certificate::read(certificate)?;
        let (not_before, not_after) = (unix_time(valid_from), unix_time(valid_until));
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

fn unix_time(time: SystemTime) -> UnixTime {
    UnixTime::since_unix_epoch(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

impl ServerCertVerifier for RecordingVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.insecure {
            return Ok(ServerCertVerified::assertion());
        }
        let verify = |verifier: &dyn ServerCertVerifier| {
            verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
        };
        if let Some(Ok(verified)) = self.bundle.as_ref().map(|bundle| verify(&**bundle)) {
            return Ok(verified);
        }
        let verdict =
            self.platform().and_then(|platform| verify(platform)).or_else(|error| match error {
                Error::InvalidCertificate(CertificateError::Revoked) => Err(error),
                error => self.check_own(end_entity, server_name, now).unwrap_or(Err(error)),
            });
        if verdict.is_err() {
            let certificate = Certificate::read(end_entity).map(Box::new);
            let others = intermediates.iter().take(limits::CHAIN);
            let others = others.filter_map(|der| Certificate::read(der)).collect();
            let peer = Peer { certificate, others };
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
        match self.insecure {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => verify_tls12_signature(message, cert, dss, self.algorithms()),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match self.insecure {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => verify_tls13_signature(message, cert, dss, self.algorithms()),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms().supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rustls::RootCertStore;
    use rustls::crypto::ring;

    use super::super::authority::Authority;
    use super::*;

    /// A verifier that trusts `own`, and has `bundled` in the system's bundle.
    fn verifier(own: &Authority, bundled: &Authority) -> RecordingVerifier {
        let provider = Arc::new(ring::default_provider());
        let mut store = RootCertStore::empty();
        let roots = |authority: &Authority| {
            let mut roots = Roots::default();
            roots.add_pem(authority.root.as_bytes()).unwrap();
            roots
        };
        store.add_parsable_certificates(roots(bundled).0);
        let bundle =
            WebPkiServerVerifier::builder_with_provider(store.into(), Arc::clone(&provider));
        RecordingVerifier {
            insecure: false,
            bundle: Some(bundle.build().unwrap()),
            platform: OnceLock::new(),
            provider,
            own: roots(own),
            refused: RejectedCertificate::default(),
        }
    }

    fn judge(verifier: &RecordingVerifier, server: &Authority) -> bool {
        let name = ServerName::try_from("localhost").unwrap();
        let certificate = &server.certificate;
        verifier.verify_server_cert(certificate, &[], &name, &[], UnixTime::now()).is_ok()
    }

    #[test]
    fn all_of_the_systems_certificates_are_read_for_those_only_who_need_them() {
        let [own, bundled, stranger] = [(); 3].map(|()| Authority::new("localhost"));
        let verifier = verifier(&own, &bundled);
        assert!(judge(&verifier, &bundled));
        assert!(verifier.platform.get().is_none(), "the bundle was enough");
        assert!(judge(&verifier, &own), "the bundle is not the last word");
        assert!(!judge(&verifier, &stranger));
        let name = ServerName::try_from("localhost").unwrap();
        assert!(verifier.refused.take(&name).is_some());
    }

    /// A certificate for `localhost` as `openssl req -x509` makes it, which claims to be an authority.
    fn self_signed(years: (i32, i32)) -> Authority {
        let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.not_before = rcgen::date_time_ymd(years.0, 1, 1);
        params.not_after = rcgen::date_time_ymd(years.1, 1, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let mut authority = Authority::new("localhost");
        authority.root = certificate.pem();
        authority.certificate = certificate.der().clone();
        authority
    }

    #[test]
    fn the_dates_of_a_certificate_can_take_trust_back_and_give_none() {
        let verdict = |own: &Authority, shown: &Authority, name: &str| {
            let name = ServerName::try_from(name.to_owned()).unwrap();
            let verifier = verifier(own, &Authority::new("localhost"));
            verifier.verify_server_cert(&shown.certificate, &[], &name, &[], UnixTime::now())
        };
        let [good, same] = [(); 2].map(|()| self_signed((2020, 2120)));
        assert!(verdict(&good, &good, "localhost").is_ok());
        assert!(verdict(&good, &good, "other.example").is_err(), "it is for another server");
        assert!(verdict(&good, &same, "localhost").is_err(), "its dates are as good, and no more");
        for (years, is_past) in [((2010, 2020), true), ((2110, 2120), false)] {
            let bad = self_signed(years);
            let Err(Error::InvalidCertificate(error)) = verdict(&bad, &bad, "localhost") else {
                panic!("{years:?} is taken");
            };
            let said = match error {
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => Some(true),
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                    Some(false)
                }
                _ => None,
            };
            assert_eq!(said, Some(is_past), "{error:?}");
        }
    }

    /// The dates that are read here end where those end that rustls reads.
    #[test]
    fn dates_are_read_as_rustls_reads_them() {
        let own = Authority::new("localhost");
        let verifier = verifier(&own, &own);
        let bundle = verifier.bundle.as_ref().unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let Certificate { valid_from, valid_until, .. } =
            Certificate::read(&own.certificate).unwrap();
        let (not_before, not_after) = (unix_time(valid_from), unix_time(valid_until));
        let is_valid = |seconds: u64| {
            let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
            bundle.verify_server_cert(&own.certificate, &[], &name, &[], now).is_ok()
        };
        assert!(is_valid(not_before.as_secs()) && is_valid(not_after.as_secs()));
        assert!(!is_valid(not_before.as_secs() - 1) && !is_valid(not_after.as_secs() + 1));
    }

    #[test]
    fn the_systems_bundle_is_read_for_those_only_who_want_it() {
        let is_read = |system_bundle| {
            let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
            let builder = builder.with_safe_default_protocol_versions().unwrap();
            let options = TlsOptions { system_bundle, ..TlsOptions::default() };
            let (own, provider) = (Roots::default(), builder.crypto_provider());
            quick(&options, &own, provider).is_some()
        };
        assert!(!is_read(false) && !TlsOptions::default().system_bundle);
        assert_eq!(is_read(true), bundle::read().is_some());
    }

    #[test]
    fn what_was_refused_is_kept_for_its_own_server() {
        let refused = RejectedCertificate::default();
        let name = |text: &str| ServerName::try_from(text.to_owned()).unwrap();
        let peer = Peer { certificate: None, others: Vec::new() };
        refused.note(&name("a.example"), peer.clone());
        assert_eq!(refused.take(&name("b.example")), None);
        assert_eq!(refused.take(&name("a.example")), Some(peer));
        assert_eq!(refused.take(&name("a.example")), None, "once");
    }
}
