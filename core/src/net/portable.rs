//! How connections are made, in a form that can be handed to another process.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;
use serde::{Deserialize, Serialize};

use super::addresses::Addresses;
use super::exceptions::Exceptions;
use super::{Identity, Options, Proxies, Proxy, Roots, Rules, TlsOptions, Trust};

/// [`Options`] without what only this process has. It holds secrets, and is never shown.
#[derive(Deserialize, Serialize)]
pub(crate) struct Portable {
    connect_timeout: Duration,
    trust: PortableTrust,
    identity: Option<PortableIdentity>,
    system_bundle: bool,
    proxies: Option<PortableRules>,
    ipv4: bool,
}

#[derive(Deserialize, Serialize)]
enum PortableTrust {
    /// Certificates in base64, and files.
    Platform(Vec<String>, Vec<PathBuf>),
    /// Files.
    Anybody(Vec<PathBuf>),
}

#[derive(Deserialize, Serialize)]
struct PortableIdentity {
    certificates: String,
    key: String,
}

#[derive(Deserialize, Serialize)]
struct PortableRules {
    http: Option<PortableProxy>,
    https: Option<PortableProxy>,
    except: Exceptions,
    loopback: bool,
}

#[derive(Deserialize, Serialize)]
struct PortableProxy {
    url: String,
    origin: String,
}

impl From<&Options> for Portable {
    fn from(options: &Options) -> Self {
        // Which addresses may be connected to is the business of whoever makes the connection.
        let Options { connect_timeout, tls, proxies, addresses: _, ipv4 } = options;
        let TlsOptions { trust, identity, system_bundle } = tls;
        Self {
            ipv4: *ipv4,
            system_bundle: *system_bundle,
            connect_timeout: *connect_timeout,
            trust: match trust {
                Trust::Anybody { files } => PortableTrust::Anybody(files.clone()),
                Trust::Platform { roots, files } => {
                    let roots = roots.certificates().iter().map(|root| STANDARD.encode(root));
                    PortableTrust::Platform(roots.collect(), files.clone())
                }
            },
            identity: identity.as_ref().map(|identity| {
                let (certificates, key) = identity.pem();
                let certificates = String::from_utf8_lossy(certificates).into_owned();
                PortableIdentity { certificates, key: key.reveal().to_owned() }
            }),
            proxies: proxies.rules().map(|rules| PortableRules {
                http: rules.http.as_deref().map(PortableProxy::from),
                https: rules.https.as_deref().map(PortableProxy::from),
                except: rules.except.clone(),
                loopback: rules.loopback,
            }),
        }
    }
}

impl From<&Proxy> for PortableProxy {
    fn from(proxy: &Proxy) -> Self {
        Self { url: proxy.text().reveal().to_owned(), origin: proxy.origin().to_owned() }
    }
}

impl Portable {
    /// The options again. `None` if they are not what a process of the same program wrote.
    pub(crate) fn into_options(self) -> Option<Options> {
        let trust = match self.trust {
            PortableTrust::Anybody(files) => Trust::Anybody { files },
            PortableTrust::Platform(roots, files) => {
                let decoded = roots.iter().map(|root| STANDARD.decode(root).ok());
                let roots = decoded.map(|root| root.map(CertificateDer::from));
                Trust::Platform { roots: Roots::from_checked(roots.collect::<Option<_>>()?), files }
            }
        };
        let identity = match self.identity {
            Some(PortableIdentity { certificates, key }) => {
                Some(Identity::from_pem(certificates.as_bytes(), key.as_bytes()).ok()?)
            }
            None => None,
        };
        let proxies = match self.proxies {
            Some(PortableRules { http, https, except, loopback }) => {
                let (http, https) = (read(http)?, read(https)?);
                Proxies::new(Rules { http, https, except, loopback })
            }
            None => Proxies::default(),
        };
        Some(Options {
            connect_timeout: self.connect_timeout,
            tls: TlsOptions { trust, identity, system_bundle: self.system_bundle },
            proxies,
            addresses: Addresses::default(),
            ipv4: self.ipv4,
        })
    }
}

/// `None` for one that cannot be read; `Some(None)` where there is none.
fn read(proxy: Option<PortableProxy>) -> Option<Option<Arc<Proxy>>> {
    match proxy {
        Some(proxy) => Proxy::parse(&proxy.url, &proxy.origin).ok().map(|p| Some(Arc::new(p))),
        None => Some(None),
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
        let rules = Rules { http: None, https: Some(Arc::new(proxy)), except, loopback: true };
        let files = vec![PathBuf::from("/a.pem")];
        let options = Options {
            ipv4: true,
            connect_timeout: Duration::from_millis(1234),
            tls: TlsOptions {
                trust: Trust::Platform { roots, files },
                identity: Some(identity),
                system_bundle: true,
            },
            proxies: Proxies::new(rules),
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
