//! The system's certificates as far as they lie in one file: enough for nearly every server, and
//! read in a small part of the time that all of them take.
//!
//! Most systems have a file with all of them, and a directory with each of them once more. All are
//! read only for a server whom this file does not vouch for.

use rustls::RootCertStore;

/// What the file holds; `None` where there is none.
#[cfg(all(unix, not(target_vendor = "apple"), not(target_os = "android")))]
pub(super) fn read() -> Option<RootCertStore> {
    let file = openssl_probe::probe().cert_file?;
    let text = super::pem::read_file(&file).ok()?;
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(super::pem::readable(&text));
    (!store.is_empty()).then_some(store)
}

/// Elsewhere the system itself decides.
#[cfg(not(all(unix, not(target_vendor = "apple"), not(target_os = "android"))))]
pub(super) fn read() -> Option<RootCertStore> {
    None
}

#[cfg(all(test, unix, not(target_vendor = "apple")))]
mod tests {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    use super::super::authority::Authority;
    use super::super::pem;

    #[test]
    fn what_is_damaged_is_left_out() {
        let (one, other) = (Authority::new("one").root, Authority::new("other").root);
        let damaged = one.replacen('M', "!", 1);
        let windows = other.replace('\n', "\r\n");
        let text = format!("# one\n{one}\n# damaged\n{damaged}# other: \u{e4}\n{windows}# end");
        let expected = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let read: Vec<_> = pem::readable(text.as_bytes()).collect();
        assert_eq!(read, [expected(&one), expected(&other)]);
        let cut = &one.as_bytes()[..one.len() / 2];
        assert_eq!(pem::readable(cut).count(), 0);
        assert_eq!(pem::readable(b"-----BEGIN CERTIFICATE-----").count(), 0);
    }
}
