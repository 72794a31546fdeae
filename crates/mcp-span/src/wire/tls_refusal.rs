//! What web servers say, in a page over HTTP, when it is TLS that was done wrong. Pure.
//!
//! The handshake went well, or there was none: no error of TLS tells of it, and the page looks like
//! any other. The texts are those of nginx, Apache and Go's net/http, which have not changed in years.

/// What was wrong, and what to do about it.
#[derive(Debug, PartialEq, Eq)]
pub struct TlsRefusal {
    /// What it means, in a sentence.
    pub meaning: &'static str,
    /// What to do about it.
    pub hint: &'static str,
    /// The server's words, one of which is in its page.
    texts: &'static [&'static str],
}

const REFUSALS: [TlsRefusal; 3] = [
    TlsRefusal {
        meaning: "The server wants a client certificate, and was shown none",
        hint: "Show the server a certificate with --client-cert FILE, and its key with \
               --client-key FILE if that is in another file",
        texts: &["No required SSL certificate was sent"],
    },
    TlsRefusal {
        meaning: "The server does not accept the client certificate",
        hint: "Check that the file of --client-cert holds the certificate that was issued for \
               this server, and that it has not expired",
        texts: &["The SSL certificate error"],
    },
    TlsRefusal {
        meaning: "The port speaks TLS, and the URL says plain http",
        hint: "Write https:// in place of http:// in the URL",
        texts: &[
            "The plain HTTP request was sent to HTTPS port",
            "You're speaking plain HTTP to an SSL-enabled server port",
            "Client sent an HTTP request to an HTTPS server",
        ],
    },
];

impl TlsRefusal {
    /// Reads it out of an answer with this status and this body.
    #[must_use]
    pub fn parse(status: u16, body: &str) -> Option<&'static Self> {
        // nginx has numbers of its own for these, which its users can make visible.
        let may_be = matches!(status, 400 | 495..=497);
        // An MCP server may repeat such a text in an answer of its own.
        if !may_be || body.trim_start().starts_with(['{', '[']) {
            return None;
        }
        REFUSALS.iter().find(|refusal| refusal.texts.iter().any(|text| body.contains(text)))
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
        let [none, bad, plain_http] = &REFUSALS;
        let of = |text: &str| TlsRefusal::parse(400, &nginx(text));
        assert_eq!(of("No required SSL certificate was sent"), Some(none));
        assert_eq!(of("The SSL certificate error"), Some(bad));
        let plain = "The plain HTTP request was sent to HTTPS port";
        assert_eq!(of(plain), Some(plain_http));
        assert_eq!(of("Request Header Or Cookie Too Large"), None);
        let go = "Client sent an HTTP request to an HTTPS server.\n";
        assert_eq!(TlsRefusal::parse(400, go), Some(plain_http));
        assert_eq!(TlsRefusal::parse(200, &nginx(plain)), None);
        let quoted = format!(r#"{{"error":{{"message":"{plain}"}}}}"#);
        assert_eq!(TlsRefusal::parse(400, &quoted), None);
    }
}
