//! The URL of a server: what is taken for one, and what is not.

use ::url::Url;
use percent_encoding::percent_decode_str;

use super::OptionError;
use crate::net::is_loopback;
use crate::secret::{Scrubber, Secret, is_key, shown};
use crate::transport::http::basic_authorization;
use ::http::HeaderValue;

const EXAMPLE: &str = "write it like https://example.com/mcp";

/// A URL that can be used for a server.
///
/// # Errors
///
/// Why it is none, without what may be a secret in it.
pub fn check_url(typed: Option<&str>, allow_http: bool) -> Result<Url, OptionError> {
    let Some(typed) = typed else {
        return Err(OptionError::new("the URL of an MCP server is missing").hint(EXAMPLE));
    };
    let wrong = || {
        // What stands before an '@', in a path or behind a '?' may be a secret.
        let typed = typed.split(['?', '#']).next().unwrap_or_default();
        let typed = typed.rsplit('@').next().unwrap_or_default();
        let typed = typed.split('/').map(|part| if is_key(part) { "…" } else { part });
        let typed = typed.collect::<Vec<_>>().join("/");
        let typed = typed.escape_debug().to_string();
        let meant = without_scheme(&typed);
        let hint = meant.unwrap_or_else(|| EXAMPLE.to_owned());
        OptionError::new(format!("'{typed}' is not a URL")).hint(hint)
    };
    // `localhost:3000/mcp` parses, as a URL with the scheme `localhost`.
    let mut url = Url::parse(typed).map_err(|_| wrong())?;
    if !matches!(url.scheme(), "http" | "https") {
        if !url.has_host() {
            return Err(wrong());
        }
        let scheme = url.scheme();
        return Err(OptionError::new(format!(
            "the URL's scheme is '{scheme}'; only http and https are spoken here"
        )));
    }
    url.set_fragment(None);
    if url.scheme() == "http" && !url.host_str().is_some_and(is_loopback) && !allow_http {
        return Err(OptionError::new(format!(
            "{} is plain http to another machine, where anybody on the way can read it",
            shown(&url)
        ))
        .hint("use https, or --allow-http if you trust the way"));
    }
    Ok(url)
}

/// What to write in place of a URL without its scheme, if that is what it is: a host with a dot, or
/// this machine with a port.
fn without_scheme(typed: &str) -> Option<String> {
    let url = Url::parse(&format!("https://{typed}")).ok()?;
    let host = url.host_str()?;
    let scheme = match is_loopback(host) {
        true if url.port().is_some() || url.path() != "/" => "http",
        false if host.contains('.') && !typed.contains(char::is_whitespace) => "https",
        _ => return None,
    };
    Some(format!("did you mean {scheme}://{typed}?"))
}

/// What stands in a URL may be a token as well as not.
pub(super) fn hide_parts(url: &Url, scrubber: &Scrubber) {
    for (_, value) in url.query_pairs() {
        scrubber.add(&Secret::new(value));
    }
    let as_written = url.query().unwrap_or_default().split('&');
    for value in as_written.filter_map(|pair| pair.split_once('=').map(|(_, value)| value)) {
        scrubber.add(&Secret::new(value));
    }
    for segment in url.path().split('/').filter(|segment| is_key(segment)) {
        scrubber.add(&Secret::new(segment));
    }
    if url.password().is_some() || !url.username().is_empty() {
        scrubber.add(&Secret::new(url.username()));
    }
    if let Some(password) = url.password() {
        scrubber.add(&Secret::new(password));
        scrubber.add(&Secret::new(percent_decode_str(password).decode_utf8_lossy()));
    }
    if let Some(Ok(basic)) = basic_authorization(url).as_ref().map(HeaderValue::to_str) {
        scrubber.add(&Secret::new(basic));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_or_refused_with_a_reason() {
        // S2-32
        let accepted = |typed| check_url(Some(typed), false).map(|url| url.to_string());
        assert_eq!(accepted("https://example.com/mcp#x").unwrap(), "https://example.com/mcp");
        for typed in
            ["http://localhost:1/", "http://127.9.9.9/", "http://[::1]/", "http://a.localhost/"]
        {
            assert!(accepted(typed).is_ok(), "{typed}");
        }
        let refused = |typed| check_url(typed, false).unwrap_err().to_string();
        assert!(refused(None).contains("missing"));
        assert!(refused(Some("nonsense")).contains("is not a URL"));
        for (typed, meant) in [
            ("localhost:3000/mcp", "mean http://localhost:3000/mcp?"),
            ("127.0.0.1:3000", "mean http://127.0.0.1:3000?"),
            ("example.com/mcp", "mean https://example.com/mcp?"),
            ("localhost", "write it like"),
            ("some words.", "write it like"),
        ] {
            let said = refused(Some(typed));
            assert!(said.contains("is not a URL") && said.contains(meant), "{said}");
        }
        assert!(refused(Some("")).contains("is not a URL"));
        let shown = refused(Some("me:s3cret@example.com/mcp?token=s3cret"));
        assert!(shown.contains("example.com/mcp") && !shown.contains("s3cret"), "{shown}");
        assert!(refused(Some("ftp://example.com/")).contains("'ftp'"));
        assert!(refused(Some("http://example.com/?token=abc")).contains("--allow-http"));
        assert!(!refused(Some("http://example.com/?token=abc")).contains("abc"));
        assert!(check_url(Some("http://example.com/"), true).is_ok());
    }
}
