//! How connections are made, in a form that can be handed to another process.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;
use serde::{Deserialize, Serialize};

use super::tls_options::Roots;
use super::{Identity, Options, Proxy};

/// [`Options`] with what they do not hand out themselves. Only which addresses may be connected to
/// is left out: that is the business of whoever makes the connection. It holds secrets, and is never
/// shown.
#[derive(Deserialize, Serialize)]
pub(crate) struct Portable {
    options: Options,
    /// In base64.
    roots: Vec<String>,
    /// The PEM texts of the certificates and the key.
    identity: Option<(String, String)>,
    http: Option<PortableProxy>,
    https: Option<PortableProxy>,
}

/// Its URL, and where that came from.
type PortableProxy = (String, String);

impl From<&Options> for Portable {
    fn from(options: &Options) -> Self {
        let (tls, proxies) = (&options.tls, &options.proxies);
        let pem = |identity: &Identity| {
            let (certificates, key) = &*identity.pem;
            (certificates.clone(), key.reveal().to_owned())
        };
        let portable = |proxy: &Arc<Proxy>| (proxy.url.to_string(), proxy.origin.clone());
        Self {
            options: options.clone(),
            roots: tls.roots.0.iter().map(|root| STANDARD.encode(root)).collect(),
            identity: tls.identity.as_ref().map(pem),
            http: proxies.http.as_ref().map(portable),
            https: proxies.https.as_ref().map(portable),
        }
    }
}

impl Portable {
    /// The options again. `None` if they are not what a process of the same program wrote.
    pub(crate) fn into_options(self) -> Option<Options> {
        let mut options = self.options;
        let roots = self.roots.iter().map(|root| STANDARD.decode(root).map(CertificateDer::from));
        options.tls.roots = Roots(roots.collect::<Result<_, _>>().ok()?);
        let identity = self
            .identity
            .map(|(certificates, key)| Identity::from_pem(certificates.as_bytes(), key.as_bytes()));
        options.tls.identity = identity.transpose().ok()?;
        let proxy = |portable: Option<PortableProxy>| {
            let parsed = portable.map(|(url, origin)| Proxy::parse(&url, &origin).map(Arc::new));
            parsed.transpose().ok()
        };
        options.proxies.http = proxy(self.http)?;
        options.proxies.https = proxy(self.https)?;
        Some(options)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use rcgen::{CertificateParams, KeyPair};

    use super::super::{Addresses, Exceptions, Proxies, TlsOptions};
    use super::*;

    #[test]
    fn what_another_process_reads_is_what_was_written() {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["me".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        let mut roots = Roots::default();
        roots.add_pem(certificate.as_bytes()).unwrap();
        let pem = key.serialize_pem();
        let identity = Identity::from_pem(certificate.as_bytes(), pem.as_bytes()).unwrap();
        let proxy = Proxy::parse("socks5h://me:hidden@proxy:1081", "--proxy").unwrap();
        let except = Exceptions::parse("10.0.0.0/8,example.com:8080").unwrap();
        let options = Options {
            ipv4: true,
            connect_timeout: Duration::from_millis(1234),
            tls: TlsOptions {
                insecure: false,
                roots,
                root_files: vec![PathBuf::from("/a.pem")],
                identity: Some(identity),
                system_bundle: true,
            },
            proxies: Proxies { http: None, https: Some(Arc::new(proxy)), except, loopback: true },
            addresses: Addresses::default(),
            recorder: None,
        };
        let written = serde_json::to_string(&Portable::from(&options)).unwrap();
        let read: Portable = serde_json::from_str(&written).unwrap();
        let read = read.into_options().unwrap();
        assert_eq!(read.connect_timeout, options.connect_timeout);
        assert_eq!(format!("{:?}", read.tls), format!("{:?}", options.tls));
        assert_eq!(serde_json::to_string(&Portable::from(&read)).unwrap(), written);
        let uri = "https://h/".parse().unwrap();
        assert_eq!(read.proxies.of(&uri).unwrap().origin, "--proxy");
        assert!(read.proxies.of(&"https://10.1.2.3/".parse().unwrap()).is_none());
    }
}
