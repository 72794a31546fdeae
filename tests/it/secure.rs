//! https: real TLS, with a certificate authority of the test's own in the platform's place.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::support::{Bridge, Server, polite, request};

/// A server's configuration for `name`, and the authority that vouches for it, as PEM.
fn authority(name: &str) -> (ServerConfig, String) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let root = params.self_signed(&key).unwrap();
    let issuer = Issuer::new(params, key);
    let server_key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    let certificate = params.signed_by(&server_key, &issuer).unwrap();
    let key = PrivateKeyDer::try_from(server_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    (config, root.pem())
}

/// A file that stands for the platform's store.
fn store(pem: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), pem).unwrap();
    file
}

#[tokio::test]
async fn a_server_whose_authority_is_in_the_platforms_store_is_trusted() {
    let (config, root) = authority("localhost");
    let server = Server::start_tls(config, polite).await;
    let file = store(&root);
    let env = [("SSL_CERT_FILE", file.path().to_str().unwrap())];
    let mut bridge = Bridge::start_with(&[&server.url], &env);
    bridge.handshake().await;
    assert!(bridge.ask(request(1, "a")).await["result"].is_object());
    let (rest, status, stderr) = bridge.finish().await;
    assert_eq!((rest.len(), status.code(), stderr.as_str()), (0, Some(0), ""));
    assert_eq!(server.all("DELETE").len(), 1);
}

#[tokio::test]
async fn any_other_server_is_not_and_sees_no_request() {
    let (config, _) = authority("localhost");
    let (other, root) = authority("elsewhere.example");
    for (config, root) in [(config, root.clone()), (other, root)] {
        let server = Server::start_tls(config, polite).await;
        let file = store(&root);
        let env = [("SSL_CERT_FILE", file.path().to_str().unwrap())];
        let mut bridge = Bridge::start_with(&[&server.url], &env);
        let error = bridge.ask(request(1, "a")).await["error"].clone();
        assert_eq!(error["data"]["kind"], "tls", "{error}");
        assert_eq!(error["data"]["delivery"], "not-delivered");
        assert!(error["message"].as_str().unwrap().contains("localhost"), "{error}");
        assert!(error["data"]["reason"].as_str().unwrap().contains("certificate"), "{error}");
        assert!(server.requests().is_empty());
    }
}
