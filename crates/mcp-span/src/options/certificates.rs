//! Certificates and keys: what the files behind the options hold.

use std::path::{Path, PathBuf};

use super::{Context, OptionError, ServerOptions, Variables};
use crate::net::{Identity, PemFault, Roots, TlsOptions, read_file};

impl ServerOptions {
    /// Reads the files that were named. Those that variables name are for other programs as well, so
    /// nothing is read of them before the first https connection, and what is wrong with them is no
    /// reason to end.
    pub(super) fn resolve_certificates(
        &self,
        context: &Context,
    ) -> Result<TlsOptions, OptionError> {
        let insecure = self.insecure == Some(true);
        let files = self.ca_certs.as_deref().unwrap_or_default();
        if insecure && !files.is_empty() {
            return Err(OptionError::new(format!(
                "{} and {} exclude each other: the one checks no certificate, the other says by what \
                 they are checked",
                self.label("insecure"),
                self.label("ca-cert")
            )));
        }
        let mut roots = Roots::default();
        for path in files {
            roots.add_file(path).map_err(|fault| self.wrong_file("ca-cert", path, &fault))?;
        }
        let variables = &context.variables;
        Ok(TlsOptions {
            insecure,
            roots,
            root_files: files_of_others(variables),
            identity: self.identity()?,
            system_bundle: STORE_ELSEWHERE.iter().all(|name| variables.get(name).is_none()),
        })
    }

    fn wrong_file(&self, option: &str, path: &Path, fault: &PemFault) -> OptionError {
        self.wrong(option, format!("{}: {fault}", path.display()))
    }

    fn identity(&self) -> Result<Option<Identity>, OptionError> {
        let (certificate, key) = match (&self.client_cert, &self.client_key) {
            (None, None) => return Ok(None),
            (None, Some(_)) => {
                return Err(self.wrong("client-key", "it is of no use without --client-cert"));
            }
            (Some(both), None) => (both, both),
            (Some(certificate), Some(key)) => (certificate, key),
        };
        let (in_certificate, in_key) = ("client-cert", "client-key");
        let is_one_file = certificate == key;
        let key_option = if is_one_file { in_certificate } else { in_key };
        let chain = read_file(certificate)
            .map_err(|fault| self.wrong_file(in_certificate, certificate, &fault));
        let secret = read_file(key).map_err(|fault| self.wrong_file(key_option, key, &fault));
        Identity::from_pem(&chain?, &secret?).map(Some).map_err(|fault| match fault {
            PemFault::NoKey if is_one_file => self.wrong(
                in_certificate,
                format!(
                    "{}: there is no private key in it: name its file by --client-key",
                    certificate.display()
                ),
            ),
            PemFault::NoKey | PemFault::EncryptedKey | PemFault::UnusableKey => {
                self.wrong_file(key_option, key, &fault)
            }
            fault => self.wrong_file(in_certificate, certificate, &fault),
        })
    }
}

/// Where the store is in files, as on Linux, `SSL_CERT_FILE` stands for the store itself: so it is
/// with OpenSSL, and the crate that reads the store does the same. Elsewhere it adds to the store.
fn files_of_others(variables: &Variables) -> Vec<PathBuf> {
    let is_store = cfg!(all(unix, not(target_vendor = "apple")));
    let names = if is_store { &["NODE_EXTRA_CA_CERTS"][..] } else { &FILES_OF_OTHERS };
    names.iter().filter_map(|name| variables.path(name)).collect()
}

/// Variables by which the crate that reads the store is told of another one.
const STORE_ELSEWHERE: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// Variables by which other programs are told of authorities.
const FILES_OF_OTHERS: [&str; 2] = ["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"];

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &'static str, value: &'static str) -> Context {
        Context { variables: Variables::new([(name, value)]), ..Context::default() }
    }

    #[test]
    fn options_that_make_no_sense_together_are_refused() {
        let refused = |options: ServerOptions| {
            options.resolve_certificates(&Context::default()).unwrap_err().to_string()
        };
        let key = ServerOptions { client_key: Some("k.pem".into()), ..ServerOptions::default() };
        assert!(refused(key).contains("without --client-cert"));
        let both = ServerOptions {
            insecure: Some(true),
            ca_certs: Some(vec!["a.pem".into()]),
            ..ServerOptions::default()
        };
        assert_eq!(
            refused(both).split(':').next(),
            Some("--insecure and --ca-cert exclude each other")
        );
    }

    #[test]
    fn files_of_others_are_named_and_not_read() {
        let options = ServerOptions::default();
        let context = with("NODE_EXTRA_CA_CERTS", "/no/such/file");
        let resolved = options.resolve_certificates(&context).unwrap();
        assert_eq!(resolved.root_files, [PathBuf::from("/no/such/file")]);
        let empty = options.resolve_certificates(&with("NODE_EXTRA_CA_CERTS", "")).unwrap();
        assert!(empty.root_files.is_empty() && !empty.insecure);
    }

    #[test]
    fn who_names_another_store_trusts_nothing_of_the_systems_bundle() {
        let uses_bundle = |name: &'static str| {
            let lax = ServerOptions { insecure: Some(true), ..ServerOptions::default() };
            let strict = ServerOptions::default().resolve_certificates(&with(name, "/x")).unwrap();
            let lax = lax.resolve_certificates(&with(name, "/x")).unwrap();
            assert_eq!(strict.system_bundle, lax.elsewhere().system_bundle);
            strict.system_bundle
        };
        assert!(uses_bundle("NODE_EXTRA_CA_CERTS"));
        assert!(!uses_bundle("SSL_CERT_FILE") && !uses_bundle("SSL_CERT_DIR"));
    }
}
