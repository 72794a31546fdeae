//! Certificates and keys: the flags, and what the files behind them hold.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::builder::FalseyValueParser;
use clap::{ArgMatches, Args};

use super::args::is_explicit;
use super::report::Usage;
use mcp_span::net::{Identity, PemFault, Roots, TlsOptions, read_file};

/// Whom https trusts, and who we are to it.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Certificates")]
pub(super) struct Tls {
    /// Trust the authorities in this PEM file as well
    ///
    /// As well as those of the system. May be given several times.
    #[arg(long = "ca-cert", value_name = "FILE", env = "MCP_SPAN_CA_CERT")]
    pub(super) ca_certs: Vec<PathBuf>,

    /// Show the certificate in this PEM file to the server, if it asks for one
    #[arg(long, value_name = "FILE", env = "MCP_SPAN_CLIENT_CERT")]
    pub(super) client_cert: Option<PathBuf>,

    /// The PEM file with its private key, if that is another one
    #[arg(long, value_name = "FILE", env = "MCP_SPAN_CLIENT_KEY")]
    pub(super) client_key: Option<PathBuf>,

    /// Do not check the server's certificate: anybody on the way can read and change everything
    #[arg(long, env = "MCP_SPAN_INSECURE", value_parser = FalseyValueParser::new())]
    pub(super) insecure: bool,
}

impl Tls {
    /// Of two that exclude each other, the one that was typed, or is in the environment, beats the
    /// one in the file.
    pub(super) fn keep_explicit(&mut self, matches: &ArgMatches) {
        let (roots, insecure) =
            (is_explicit(matches, "ca_certs"), is_explicit(matches, "insecure"));
        if self.insecure && insecure && !roots {
            self.ca_certs.clear();
        }
        self.insecure &= insecure || !roots;
    }
}

/// Reads the files that were named. Those of `lookup` are named for others as well, so nothing is
/// read of them before the first https connection, and what is wrong with them is no reason to end.
pub(super) fn of(
    typed: &Tls,
    lookup: impl Fn(&str) -> Option<OsString>,
) -> Result<TlsOptions, Usage> {
    let identity = identity(typed.client_cert.as_deref(), typed.client_key.as_deref())?;
    let system_bundle = STORE_ELSEWHERE.iter().all(|name| lookup(name).is_none());
    if typed.insecure && !typed.ca_certs.is_empty() {
        return Err(Usage::new(
            "--insecure and --ca-cert exclude each other: the one checks no certificate, the \
             other says by what they are checked",
        ));
    }
    let mut roots = Roots::default();
    for path in &typed.ca_certs {
        roots.add_file(path).map_err(|fault| wrong("--ca-cert", path, &fault))?;
    }
    let (insecure, root_files) = (typed.insecure, files_of_others(lookup));
    Ok(TlsOptions { insecure, roots, root_files, identity, system_bundle })
}

/// Says what `--insecure` means, also to those who asked for errors only.
pub(super) fn warn() {
    const LINE: &str = "--insecure: the server's certificates are not checked, so anybody on the way to the \
                        server can read and change everything";
    match tracing::enabled!(tracing::Level::WARN) {
        true => tracing::warn!("{LINE}"),
        false => tracing::error!("{LINE}"),
    }
}

/// Where the store is in files, as on Linux, `SSL_CERT_FILE` stands for the store itself: so it is
/// with OpenSSL, and the crate that reads the store does the same. Elsewhere it adds to the store.
fn files_of_others(lookup: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let is_store = cfg!(all(unix, not(target_vendor = "apple")));
    let names = if is_store { &["NODE_EXTRA_CA_CERTS"][..] } else { &FILES_OF_OTHERS };
    let values = names.iter().filter_map(|name| lookup(name)).filter(|value| !value.is_empty());
    values.map(PathBuf::from).collect()
}

/// Variables by which the crate that reads the store is told of another one.
const STORE_ELSEWHERE: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// Variables by which other programs are told of authorities.
const FILES_OF_OTHERS: [&str; 2] = ["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"];

fn identity(certificate: Option<&Path>, key: Option<&Path>) -> Result<Option<Identity>, Usage> {
    let (certificate, key) = match (certificate, key) {
        (None, None) => return Ok(None),
        (None, Some(_)) => {
            return Err(Usage::new("--client-key is of no use without --client-cert"));
        }
        (Some(both), None) => (both, both),
        (Some(certificate), Some(key)) => (certificate, key),
    };
    let (in_certificate, in_key) = ("--client-cert", "--client-key");
    let key_flag = if certificate == key { in_certificate } else { in_key };
    let chain = read_file(certificate).map_err(|fault| wrong(in_certificate, certificate, &fault));
    let secret = read_file(key).map_err(|fault| wrong(key_flag, key, &fault));
    Identity::from_pem(&chain?, &secret?).map(Some).map_err(|fault| match fault {
        PemFault::NoKey if certificate == key => Usage::new(format!(
            "--client-cert: {}: there is no private key in it: name its file by --client-key",
            certificate.display()
        )),
        PemFault::NoKey | PemFault::EncryptedKey | PemFault::UnusableKey => {
            wrong(key_flag, key, &fault)
        }
        fault => wrong(in_certificate, certificate, &fault),
    })
}

fn wrong(flag: &str, path: &Path, fault: &PemFault) -> Usage {
    Usage::new(format!("{flag}: {}: {fault}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(typed: &Tls) -> String {
        of(typed, |_| None).unwrap_err().0
    }

    #[test]
    fn flags_that_make_no_sense_together_are_refused() {
        let key = Tls { client_key: Some("k.pem".into()), ..Tls::default() };
        assert!(refused(&key).contains("without --client-cert"));
        let both = Tls { insecure: true, ca_certs: vec!["a.pem".into()], ..Tls::default() };
        assert!(refused(&both).contains("exclude each other"));
    }

    #[test]
    fn files_of_others_are_named_and_not_read() {
        let lookup = |name: &str| Some(format!("/no/such/{name}").into());
        let options = of(&Tls::default(), lookup).unwrap();
        assert!(options.root_files.contains(&"/no/such/NODE_EXTRA_CA_CERTS".into()), "{options:?}");
        let empty = of(&Tls::default(), |_| Some(OsString::new())).unwrap();
        assert!(empty.root_files.is_empty() && !empty.insecure);
    }

    #[test]
    fn who_names_another_store_trusts_nothing_of_the_systems_bundle() {
        let with = |set: &'static str| {
            let lookup = move |name: &str| (name == set).then(|| OsString::from("/x"));
            let strict = of(&Tls::default(), lookup).unwrap();
            let lax = of(&Tls { insecure: true, ..Tls::default() }, lookup).unwrap();
            assert_eq!(strict.system_bundle, lax.elsewhere().system_bundle);
            strict.system_bundle
        };
        assert!(with("NODE_EXTRA_CA_CERTS"));
        assert!(!with("SSL_CERT_FILE") && !with("SSL_CERT_DIR"));
    }
}
