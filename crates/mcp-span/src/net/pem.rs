//! Certificates and keys out of PEM files, with a sentence for each thing that can be wrong there.

use std::io::Read;
use std::path::Path;
use std::{fs, io};

use memchr::memmem;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::limits;

/// What is wrong with a file. Its words go behind the file's name; nothing of a key is in them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PemFault {
    /// The system does not give it.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// More than anybody needs.
    #[error("it is too large for a file of certificates")]
    TooLarge,
    /// Something else, or another form of the right thing.
    #[error("there is no certificate in it that begins with -----BEGIN CERTIFICATE-----")]
    NoCertificate,
    /// The text breaks off, or has foreign characters in it.
    #[error("what is in it is damaged, or was cut off")]
    Damaged,
    /// Certificates, but not of a sort that can be used.
    #[error("no certificate in it can be used")]
    UnusableCertificate,
    /// It may be in another file.
    #[error("there is no private key in it")]
    NoKey,
    /// Nobody is there to be asked for the password.
    #[error("the private key in it is encrypted: decrypt it first, such as with openssl pkey")]
    EncryptedKey,
    /// Not of a sort that can be used.
    #[error(
        "the private key in it cannot be used: it must be RSA with 2048 to 8192 bits, ECDSA over \
         P-256 or P-384, or Ed25519"
    )]
    UnusableKey,
    /// The key fits another certificate.
    #[error("the private key does not belong to the first certificate")]
    OtherKey,
}

/// The content of a file.
///
/// # Errors
///
/// When it cannot be read, or has no end in sight.
pub fn read_file(path: &Path) -> Result<Vec<u8>, PemFault> {
    let mut content = Vec::new();
    fs::File::open(path)?.take(limits::PEM_FILE + 1).read_to_end(&mut content)?;
    match content.len() as u64 > limits::PEM_FILE {
        true => Err(PemFault::TooLarge),
        false => Ok(content),
    }
}

/// The certificates in `pem` that can be read.
#[cfg(all(unix, not(target_vendor = "apple"), not(target_os = "android")))]
pub(super) fn readable(pem: &[u8]) -> impl Iterator<Item = CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem).flatten()
}

/// All certificates in `pem`, at least one.
pub(super) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, PemFault> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if found.is_empty() => Err(PemFault::NoCertificate),
        Ok(found) => Ok(found),
        Err(_) => Err(PemFault::Damaged),
    }
}

/// The first private key in `pem`: PKCS#8, PKCS#1 or SEC1.
pub(super) fn key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, PemFault> {
    // The parser has a word for neither: it skips the one and finds the other damaged.
    let has = |mark: &str| memmem::find(pem, mark.as_bytes()).is_some();
    if has("-----BEGIN ENCRYPTED PRIVATE KEY-----") || has("Proc-Type: 4,ENCRYPTED") {
        return Err(PemFault::EncryptedKey);
    }
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        rustls::pki_types::pem::Error::NoItemsFound => PemFault::NoKey,
        _ => PemFault::UnusableKey,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_told_apart() {
        let section = |label: &str, body: &str| {
            format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n")
        };
        let certificates = |pem: &str| certificates(pem.as_bytes());
        assert!(matches!(certificates(""), Err(PemFault::NoCertificate)));
        assert!(matches!(
            certificates(&section("PRIVATE KEY", "AAAA")),
            Err(PemFault::NoCertificate)
        ));
        assert!(matches!(certificates("0\u{82}\u{3}"), Err(PemFault::NoCertificate)), "DER");
        let whole = section("CERTIFICATE", "AAAA");
        assert!(matches!(certificates(&whole[..whole.len() - 9]), Err(PemFault::Damaged)));
        assert!(matches!(certificates(&section("CERTIFICATE", "ä")), Err(PemFault::Damaged)));
        assert_eq!(certificates(&format!("text\n{whole}{whole}")).unwrap().len(), 2);
        let key = |pem: &str| key(pem.as_bytes());
        assert!(matches!(key(&whole), Err(PemFault::NoKey)));
        let encrypted = section("ENCRYPTED PRIVATE KEY", "AAAA");
        assert!(matches!(key(&encrypted), Err(PemFault::EncryptedKey)));
        let headers = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA";
        let old = section("RSA PRIVATE KEY", headers);
        assert!(matches!(key(&old), Err(PemFault::EncryptedKey)));
        for label in ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"] {
            assert!(key(&section(label, "AAAA")).is_ok(), "{label}");
        }
    }

    #[test]
    fn files_without_an_end_are_not_read_to_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(limits::PEM_FILE + 1).unwrap();
        assert!(matches!(read_file(file.path()), Err(PemFault::TooLarge)));
        assert!(matches!(read_file(Path::new("/no/such")), Err(PemFault::Unreadable(_))));
    }
}
