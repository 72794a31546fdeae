//! How connections are made, in a form that can be handed to another process.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;
use serde::{Deserialize, Serialize};

use super::exceptions::Exceptions;
use super::options::Addresses;
use super::tls_options::Roots;
use super::{Identity, Options, Proxies, Proxy, TlsOptions};

/// [`Options`] without what only this process has. It holds secrets, and is never shown.
#[derive(Deserialize, Serialize)]
pub(crate) struct Portable {
    connect_timeout: Duration,
    ipv4: bool,
    insecure: bool,
    /// In base64.
    roots: Vec<String>,
    root_files: Vec<PathBuf>,
    /// The PEM texts of the certificates and the key.
    identity: Option<(String, String)>,
    system_bundle: bool,
    http: Option<PortableProxy>,
    https: Option<PortableProxy>,
    except: Exceptions,
    loopback: bool,
}

/// Its URL, and where that came from.
type PortableProxy = (String, String);

impl From<&Options> for Portable {
    fn from(options: &Options) -> Self {
        // Which addresses may be connected to is the business of whoever makes the connection.
        let Options { connect_timeout, tls, proxies, addresses: _, ipv4 } = options;
        let TlsOptions { insecure, roots, root_files, identity, system_bundle } = tls;
        let Proxies { http, https, except, loopback } = proxies;
        let portable = |proxy: &Arc<Proxy>| (proxy.url.to_string(), proxy.origin().to_owned());
        Self {
            connect_timeout: *connect_timeout,
            ipv4: *ipv4,
            insecure: *insecure,
            roots: roots.0.iter().map(|root| STANDARD.encode(root)).collect(),
            root_files: root_files.clone(),
            identity: identity.as_ref().map(|identity| {
                let (certificates, key) = &*identity.pem;
                (certificates.clone(), key.reveal().to_owned())
            }),
            system_bundle: *system_bundle,
            http: http.as_ref().map(portable),
            https: https.as_ref().map(portable),
            except: except.clone(),
            loopback: *loopback,
        }
    }
}

impl Portable {
    /// The options again. `None` if they are not what a process of the same program wrote.
    pub(crate) fn into_options(self) -> Option<Options> {
        let roots = self.roots.iter().map(|root| STANDARD.decode(root).map(CertificateDer::from));
        let identity = self
            .identity
            .map(|(certificates, key)| Identity::from_pem(certificates.as_bytes(), key.as_bytes()));
        let proxy = |portable: Option<PortableProxy>| {
            let parsed = portable.map(|(url, origin)| Proxy::parse(&url, &origin).map(Arc::new));
            parsed.transpose().ok()
        };
        Some(Options {
            connect_timeout: self.connect_timeout,
            tls: TlsOptions {
                insecure: self.insecure,
                roots: Roots(roots.collect::<Result<_, _>>().ok()?),
                root_files: self.root_files,
                identity: identity.transpose().ok()?,
                system_bundle: self.system_bundle,
            },
            proxies: Proxies {
                http: proxy(self.http)?,
                https: proxy(self.https)?,
                except: self.except,
                loopback: self.loopback,
            },
            addresses: Addresses::default(),
            ipv4: self.ipv4,
        })
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

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
        };
        let written = serde_json::to_string(&Portable::from(&options)).unwrap();
        let read: Portable = serde_json::from_str(&written).unwrap();
        let read = read.into_options().unwrap();
        assert_eq!(read.connect_timeout, options.connect_timeout);
        assert_eq!(format!("{:?}", read.tls), format!("{:?}", options.tls));
        assert_eq!(serde_json::to_string(&Portable::from(&read)).unwrap(), written);
        let uri = "https://h/".parse().unwrap();
        assert_eq!(read.proxies.of(&uri).unwrap().origin(), "--proxy");
        assert!(read.proxies.of(&"https://10.1.2.3/".parse().unwrap()).is_none());
    }
}
