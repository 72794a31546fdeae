//! What web servers say, in a page over HTTP, when it is TLS that was done wrong. Pure.
//!
//! The handshake went well, or there was none: no error of TLS tells of it, and the page looks like
//! any other. The texts are those of nginx, Apache and Go's net/http, which have not changed in years.

/// What was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsRefusal {
    /// The server wants a client certificate, and none was shown.
    NoCertificate,
    /// The certificate that was shown is not one that the server accepts.
    BadCertificate,
    /// The request was not encrypted, and the port is one for TLS.
    PlainHttp,
}

const TEXTS: [(&str, TlsRefusal); 5] = [
    ("No required SSL certificate was sent", TlsRefusal::NoCertificate),
    ("The SSL certificate error", TlsRefusal::BadCertificate),
    ("The plain HTTP request was sent to HTTPS port", TlsRefusal::PlainHttp),
    ("You're speaking plain HTTP to an SSL-enabled server port", TlsRefusal::PlainHttp),
    ("Client sent an HTTP request to an HTTPS server", TlsRefusal::PlainHttp),
];

impl TlsRefusal {
    /// Reads it out of an answer with this status and this body.
    #[must_use]
    pub fn parse(status: u16, body: &str) -> Option<Self> {
        // nginx has numbers of its own for these, which its users can make visible.
        let may_be = matches!(status, 400 | 495..=497);
        // An MCP server may repeat such a text in an answer of its own.
        if !may_be || body.trim_start().starts_with(['{', '[']) {
            return None;
        }
        TEXTS.iter().find(|(text, _)| body.contains(text)).map(|(_, refusal)| *refusal)
    }

    /// What it means, in a sentence.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::NoCertificate => "The server wants a client certificate, and was shown none",
            Self::BadCertificate => "The server does not accept the client certificate",
            Self::PlainHttp => "The port speaks TLS, and the URL says plain http",
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(self) -> &'static str {
        match self {
            Self::NoCertificate => {
                "Show the server a certificate with --client-cert FILE, and its key with \
                 --client-key FILE if that is in another file"
            }
            Self::BadCertificate => {
                "Check that the file of --client-cert holds the certificate that was issued for \
                 this server, and that it has not expired"
            }
            Self::PlainHttp => "Write https:// in place of http:// in the URL",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nginx(text: &str) -> String {
        format!(
            "<html>\r\n<head><title>400 {text}</title></head>\r\n<body>\r\n<center><h1>400 Bad Request</h1></center>\r\n<center>{text}</center>\r\n<hr><center>nginx/1.22.1</center>\r\n</body>\r\n</html>\r\n"
        )
    }

    #[test]
    fn pages_about_tls_are_told_from_other_pages() {
        let of = |text: &str| TlsRefusal::parse(400, &nginx(text));
        assert_eq!(of("No required SSL certificate was sent"), Some(TlsRefusal::NoCertificate));
        assert_eq!(of("The SSL certificate error"), Some(TlsRefusal::BadCertificate));
        let plain = "The plain HTTP request was sent to HTTPS port";
        assert_eq!(of(plain), Some(TlsRefusal::PlainHttp));
        assert_eq!(of("Request Header Or Cookie Too Large"), None);
        let go = "Client sent an HTTP request to an HTTPS server.\n";
        assert_eq!(TlsRefusal::parse(400, go), Some(TlsRefusal::PlainHttp));
        assert_eq!(TlsRefusal::parse(200, &nginx(plain)), None);
        let quoted = format!(r#"{{"error":{{"message":"{plain}"}}}}"#);
        assert_eq!(TlsRefusal::parse(400, &quoted), None);
    }
}
