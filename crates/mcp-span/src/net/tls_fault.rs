//! Why there is no secure connection, in one sentence, and what helps.

use std::io;
use std::time::{Duration, SystemTime};

use rustls::pki_types::{InvalidDnsNameError, UnixTime};
use rustls::{AlertDescription as Alert, CertificateError, InvalidMessage, PeerIncompatible};

use super::trust::Peer;
use crate::error::{Error, ErrorKind};
use crate::limits;

/// What can go wrong with TLS on a connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum TlsFault {
    /// There is nobody to be trusted.
    #[error("{0}")]
    NoStore(rustls::Error),
    #[error("{0}")]
    Name(InvalidDnsNameError),
    #[error("{cause}")]
    Handshake {
        cause: io::Error,
        /// What the server has shown, if that is why.
        peer: Option<Peer>,
        introduction: CertificateShown,
    },
}

/// What a server has learnt about who we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CertificateShown {
    NotAsked,
    /// It has asked, and we had nothing to show.
    Nothing,
    /// It has asked, and we have shown our certificate.
    Certificate,
}

/// A reason, as it goes behind "No secure connection to host: ", and a hint.
type Reason = (String, String);

const LAST_RESORT: &str =
    "as a last resort, --insecure skips the check, and with it the protection";

const CLIENT_CERTIFICATE: &str =
    "Name the PEM file with your certificate by --client-cert, and its key by --client-key";

/// Explains `fault` on the way to `place`; `before` comes before the hint.
pub(super) fn explain(fault: &TlsFault, place: &str, before: &str) -> Error {
    let reason = match fault {
        TlsFault::NoStore(_) => said(
            "this machine has no store of certificate authorities, or an empty one",
            "Install the system's certificates (the package mostly is ca-certificates), name a PEM \
             file by --ca-cert, or check SSL_CERT_FILE and SSL_CERT_DIR if they are set",
        ),
        TlsFault::Name(_) => said("no certificate can have this name", "Check the host in the URL"),
        TlsFault::Handshake { cause, peer, introduction } => match inner(cause) {
            Some(rustls::Error::InvalidCertificate(error)) => certificate(error, peer.as_ref()),
            Some(rustls::Error::AlertReceived(alert)) => alerted(*alert, *introduction),
            Some(error) => protocol(error),
            None => broken(*introduction),
        },
    };
    insecure(place, before, reason)
}

/// The refusal of a client certificate, or of having none, that came when the request was written.
/// It takes the place of the handshake's end: nothing that we wrote was looked at.
pub(super) fn late_refusal(error: &io::Error, place: &str) -> Option<Error> {
    let Some(rustls::Error::AlertReceived(alert)) = inner(error) else { return None };
    objection(*alert)?;
    let reason = alerted(*alert, CertificateShown::Certificate);
    Some(insecure(place, "", reason).because(error).not_delivered())
}

fn insecure(place: &str, before: &str, (reason, hint): Reason) -> Error {
    Error::new(ErrorKind::Tls, format!("No secure connection to {place}: {reason}"))
        .hint(format!("{before}{hint}"))
}

fn said(reason: impl Into<String>, hint: impl Into<String>) -> Reason {
    (reason.into(), hint.into())
}

fn inner(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// The server's certificate is not taken.
fn certificate(error: &CertificateError, peer: Option<&Peer>) -> Reason {
    use CertificateError as Is;
    let read = peer.and_then(|peer| peer.certificate.as_deref());
    let issuer = read.and_then(|certificate| certificate.issuer.as_deref());
    let issued = issuer.map_or_else(String::new, |issuer| format!(", issued by \"{issuer}\","));
    let is_self_signed = read.is_some_and(|certificate| certificate.is_self_issued);
    let checked = |what: &str, hint: &str| {
        said(format!("its certificate{issued} {what}"), format!("{hint}; {LAST_RESORT}"))
    };
    // Not all platforms say when it was; the certificate does.
    let expired = |at: Option<SystemTime>| {
        let on = at.map_or_else(String::new, |at| format!(" on {}", date(at)));
        let hint = "Check the clock of this machine; if it is right, the server needs a new one";
        checked(&format!("expired{on}"), hint)
    };
    let early = |at: Option<SystemTime>| {
        let from = at.map_or_else(|| "yet".to_owned(), |at| format!("before {}", date(at)));
        checked(&format!("is not valid {from}"), "Check the clock of this machine")
    };
    let misnamed = |names: &str| {
        let hint = "Check the URL: its host must be one that the certificate names";
        checked(&format!("is for {names}"), hint)
    };
    match error {
        Is::ExpiredContext { not_after, .. } => expired(Some(system_time(*not_after))),
        Is::Expired => expired(read.map(|certificate| certificate.valid_until)),
        Is::NotValidYetContext { not_before, .. } => early(Some(system_time(*not_before))),
        Is::NotValidYet => early(read.map(|certificate| certificate.valid_from)),
        Is::NotValidForNameContext { presented, .. } => misnamed(&names(presented)),
        Is::NotValidForName => misnamed("other names"),
        Is::UnknownIssuer | Is::Other(_) if is_self_signed => said(
            format!("its certificate is self-signed, by \"{}\"", issuer.unwrap_or("nobody")),
            format!("If it is the right one, name a PEM file with it by --ca-cert; {LAST_RESORT}"),
        ),
        Is::UnknownIssuer => {
            unknown_issuer(issuer, peer.is_some_and(|peer| peer.others.is_empty()))
        }
        Is::Revoked => said(
            format!("its certificate{issued} was revoked"),
            "Ask who runs the server for a new one, and do not use it until then",
        ),
        Is::BadSignature => checked(
            "was not signed by that issuer",
            "Check that --ca-cert names the authority that is in use now",
        ),
        Is::InvalidPurpose | Is::InvalidPurposeContext { .. } => {
            checked("is not for servers", "It needs another one")
        }
        error => checked(&format!("cannot be used ({error})"), "It needs another one"),
    }
}

fn unknown_issuer(issuer: Option<&str>, is_alone: bool) -> Reason {
    let issuer = issuer.map_or_else(|| "somebody".to_owned(), |name| format!("\"{name}\""));
    let (alone, mend) = match is_alone {
        true => (
            ", and the server sent no other certificate with it",
            ", or let the server send the certificates between its own and that authority's",
        ),
        false => ("", ""),
    };
    said(
        format!("its certificate was issued by {issuer}, which is not trusted{alone}"),
        format!(
            "If your company or the server has an authority of its own, name the PEM file with its \
             certificate by --ca-cert{mend}; {LAST_RESORT}"
        ),
    )
}

fn system_time(time: UnixTime) -> SystemTime {
    // The end of the year 9999, behind which no certificate can look.
    let seconds = time.as_secs().min(253_402_300_799);
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

/// `06 Nov 1994 08:49:37 GMT`
fn date(time: SystemTime) -> String {
    let text = httpdate::fmt_http_date(time);
    text.split_once(", ").map_or_else(|| text.clone(), |(_, date)| date.to_owned())
}

/// Names as rustls has them: `DnsName("a.example")`, `IpAddress(127.0.0.1)`.
fn names(presented: &[String]) -> String {
    let plain = |name: &String| -> String {
        let name = name.split_once('(').map_or(name.as_str(), |(_, name)| name);
        let name = name.trim_end_matches(')').trim_matches('"');
        name.chars().filter(char::is_ascii_graphic).take(limits::CERTIFICATE_NAME).collect()
    };
    let shown: Vec<String> = presented.iter().take(limits::CERTIFICATE_NAMES).map(plain).collect();
    match presented.len().saturating_sub(shown.len()) {
        _ if shown.is_empty() => "no host name at all".to_owned(),
        0 => format!("other names: {}", shown.join(", ")),
        more => format!("other names: {} and {more} more", shown.join(", ")),
    }
}

/// The server has said no.
fn alerted(alert: Alert, introduction: CertificateShown) -> Reason {
    let objection = objection(alert);
    let of_certificate = objection.is_some() || alert == Alert::HandshakeFailure;
    let words = objection.map_or_else(|| format!("{alert:?}"), str::to_owned);
    match (alert, introduction) {
        (Alert::CertificateRequired, _) | (_, CertificateShown::Nothing) if of_certificate => {
            said("it wants a client certificate", CLIENT_CERTIFICATE)
        }
        (_, CertificateShown::Certificate) if of_certificate => said(
            format!("it refuses our client certificate ({words})"),
            "Check with who runs the server that --client-cert is one that it takes",
        ),
        (Alert::ProtocolVersion | Alert::InsufficientSecurity, _) => no_common_version(),
        (Alert::HandshakeFailure, _) => said(
            "it accepts none of the ways of encryption that are safe today",
            "The server needs TLS 1.2 or 1.3 with ciphers of today",
        ),
        (Alert::NoApplicationProtocol, _) => {
            said("it speaks neither HTTP/1.1 nor HTTP/2", "Check the port in the URL")
        }
        (Alert::UnrecognisedName, _) => {
            said("it does not know this host name", "Check the host in the URL")
        }
        _ => said(
            format!("it ended the TLS handshake ({words})"),
            "Check that the URL should begin with https, and its port",
        ),
    }
}

/// What is wrong with a client certificate. A server says these only in a handshake in which it has
/// asked for one.
fn objection(alert: Alert) -> Option<&'static str> {
    Some(match alert {
        Alert::CertificateRequired => "there is none",
        Alert::UnknownCA => "it does not trust who issued it",
        Alert::CertificateExpired => "it has expired",
        Alert::CertificateRevoked => "it was revoked",
        Alert::BadCertificate | Alert::CertificateUnknown => "without saying why",
        Alert::UnsupportedCertificate => "it is of a sort that it does not take",
        Alert::AccessDenied => "it has no access",
        _ => return None,
    })
}

fn no_common_version() -> Reason {
    said(
        "it does not speak TLS 1.2 or 1.3",
        "The server, or what stands before it, speaks only versions that are no longer safe",
    )
}

/// What answers there does something else than TLS, or another TLS.
fn protocol(error: &rustls::Error) -> Reason {
    match error {
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => said(
            "what answers there does not speak TLS",
            "Check the port; if the server speaks plain HTTP, write http:// in the URL",
        ),
        rustls::Error::PeerIncompatible(
            PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig,
        )
        | rustls::Error::InvalidMessage(InvalidMessage::UnknownProtocolVersion) => {
            no_common_version()
        }
        error => said(
            format!("the TLS handshake failed ({error})"),
            "Check that the URL should begin with https, and its port",
        ),
    }
}

/// The connection ended without a word.
fn broken(introduction: CertificateShown) -> Reason {
    match introduction {
        CertificateShown::NotAsked => said(
            "it broke the connection in the TLS handshake",
            "Check that the URL should begin with https, and that nothing between here and the \
             server cuts such connections",
        ),
        CertificateShown::Nothing => {
            said("it asked for a client certificate and broke the connection", CLIENT_CERTIFICATE)
        }
        CertificateShown::Certificate => said(
            "it broke the connection after it had our client certificate",
            "Check with who runs the server that --client-cert is one that it takes",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::certificate::Certificate;
    use super::*;

    fn handshake(
        error: rustls::Error,
        peer: Option<Peer>,
        introduction: CertificateShown,
    ) -> (String, String) {
        let cause = io::Error::new(io::ErrorKind::InvalidData, error);
        let error = explain(&TlsFault::Handshake { cause, peer, introduction }, "h:1", "");
        assert_eq!(error.kind, ErrorKind::Tls);
        let reason = error.message.strip_prefix("No secure connection to h:1: ").unwrap();
        (reason.to_owned(), error.hint.unwrap())
    }

    fn peer() -> Option<Peer> {
        let certificate = Some(Box::new(Certificate {
            issuer: Some("Root".to_owned()),
            subject: None,
            names: Vec::new(),
            is_self_issued: false,
            valid_from: SystemTime::UNIX_EPOCH,
            valid_until: system_time(UnixTime::since_unix_epoch(Duration::from_secs(u64::MAX))),
        }));
        Some(Peer { others: certificate.iter().map(|own| (**own).clone()).collect(), certificate })
    }

    fn refused(error: CertificateError, peer: Option<Peer>) -> String {
        handshake(error.into(), peer, CertificateShown::NotAsked).0
    }

    #[test]
    fn platforms_that_say_little_are_helped_out_by_the_certificate() {
        use CertificateError as Is;
        let said = |error, text: &str| assert_eq!(refused(error, peer()), text);
        let expired = "its certificate, issued by \"Root\", expired on 31 Dec 9999 23:59:59 GMT";
        said(Is::Expired, expired);
        let early =
            "its certificate, issued by \"Root\", is not valid before 01 Jan 1970 00:00:00 GMT";
        said(Is::NotValidYet, early);
        said(Is::NotValidForName, "its certificate, issued by \"Root\", is for other names");
        said(Is::Revoked, "its certificate, issued by \"Root\", was revoked");
        said(Is::UnknownIssuer, "its certificate was issued by \"Root\", which is not trusted");
        assert_eq!(refused(Is::Expired, None), "its certificate expired");
        assert_eq!(refused(Is::NotValidYet, None), "its certificate is not valid yet");
        let unknown = "its certificate was issued by somebody, which is not trusted";
        assert_eq!(refused(Is::UnknownIssuer, None), unknown);
    }

    #[test]
    fn names_of_certificates_are_shown_plainly() {
        let presented =
            |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let all = presented(&["DnsName(\"*.a.example\")", "IpAddress(::1)", "odd\u{1b}[2J"]);
        assert_eq!(names(&all), "other names: *.a.example, ::1, odd[2J");
        assert_eq!(names(&[]), "no host name at all");
    }

    #[test]
    fn what_a_server_says_depends_on_whether_it_has_asked() {
        use CertificateShown as Is;
        let said = |alert, introduction| {
            handshake(rustls::Error::AlertReceived(alert), None, introduction).0
        };
        assert_eq!(said(Alert::HandshakeFailure, Is::Nothing), "it wants a client certificate");
        assert!(said(Alert::UnknownCA, Is::Certificate).contains("does not trust who issued it"));
        assert!(said(Alert::HandshakeFailure, Is::NotAsked).contains("ways of encryption"));
        assert_eq!(
            said(Alert::DecodeError, Is::Nothing),
            "it ended the TLS handshake (DecodeError)"
        );
        assert!(broken(Is::Nothing).1.contains("--client-cert"));
        assert!(broken(Is::Certificate).0.contains("after it had our client certificate"));
    }

    #[test]
    fn a_refusal_behind_the_handshake_is_proof_that_nothing_was_looked_at() {
        let late = |error| late_refusal(&io::Error::other(error), "h:1");
        let error = late(rustls::Error::AlertReceived(Alert::CertificateRequired)).unwrap();
        assert_eq!(error.delivery, crate::error::Delivery::NotDelivered);
        assert!(error.message.ends_with("it wants a client certificate"));
        assert!(late(rustls::Error::AlertReceived(Alert::BadCertificate)).is_some());
        assert!(late(rustls::Error::AlertReceived(Alert::InternalError)).is_none());
        assert!(late(rustls::Error::DecryptError).is_none());
    }
}
