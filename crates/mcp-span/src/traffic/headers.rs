//! Headers as a trace shows them: names always, values where they can be no credential.

use http::header::{
    AUTHORIZATION, CONTENT_LOCATION, LOCATION, PROXY_AUTHENTICATE, WWW_AUTHENTICATE,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};
use url::Url;

use crate::secret::{is_secret_name, shown};
use crate::wire::header;

const HIDDEN: &str = "[secret]";

/// How much of a session id is shown: enough to tell two apart, too little to use one.
const SESSION_SHOWN: usize = 8;

/// All of them, as they may be shown; `url` is where they go or come from.
#[must_use]
pub fn told(headers: &HeaderMap, url: &Url) -> Map<String, Value> {
    let shown_values = |name| {
        let values = headers.get_all(name).iter().map(|value| shown_value(name, value, url));
        values.collect::<Vec<_>>().join(", ").into()
    };
    headers.keys().map(|name| (name.to_string(), shown_values(name))).collect()
}

fn shown_value(name: &HeaderName, value: &HeaderValue, url: &Url) -> String {
    let text = String::from_utf8_lossy(value.as_bytes());
    if *name == AUTHORIZATION {
        return scheme(&text).map_or_else(|| HIDDEN.to_owned(), |s| format!("{s} {HIDDEN}"));
    }
    if name.as_str().contains("session") {
        return match text.char_indices().nth(SESSION_SHOWN) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text.into_owned(),
        };
    }
    // These say what is wanted and hold none of it.
    let asks = [WWW_AUTHENTICATE, PROXY_AUTHENTICATE, header::AUTH_SERVER].contains(name);
    if value.is_sensitive() || (is_secret_name(name.as_str()) && !asks) {
        return HIDDEN.to_owned();
    }
    if [LOCATION, CONTENT_LOCATION].contains(name) {
        return url.join(&text).map_or_else(|_| HIDDEN.to_owned(), |url| shown(&url));
    }
    text.into_owned()
}

/// The first word of a credential, if it is one of those that say nothing.
fn scheme(value: &str) -> Option<&'static str> {
    let (first, _) = value.split_once(' ')?;
    let known = ["Bearer", "Basic", "Digest", "Negotiate", "Token", "ApiKey"];
    known.into_iter().find(|known| known.eq_ignore_ascii_case(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_hidden_by_mark_and_by_name() {
        let show = |name: &'static str, value: &str| {
            let url = Url::parse("http://h/mcp").unwrap();
            let value = HeaderValue::from_str(value).unwrap();
            shown_value(&HeaderName::from_static(name), &value, &url)
        };
        for (name, value, expected) in [
            ("authorization", "Bearer abc", "Bearer [secret]"),
            ("authorization", "abcdef", "[secret]"),
            ("authorization", "my secret", "[secret]"),
            ("proxy-authorization", "Basic abc", "[secret]"),
            ("cookie", "a=b", "[secret]"),
            ("set-cookie", "a=b; Path=/", "[secret]"),
            ("x-api-key", "abc", "[secret]"),
            ("x-csrf-token", "abc", "[secret]"),
            ("www-authenticate", "Bearer realm=\"x\"", "Bearer realm=\"x\""),
            ("mcp-session-id", "0123456789abcdef", "01234567…"),
            ("mcp-session-id", "s1", "s1"),
            ("x-session", "0123456789abcdef", "01234567…"),
            ("location", "/x?token=abc", "http://h/x?token=[secret]"),
            ("content-type", "application/json", "application/json"),
        ] {
            assert_eq!(show(name, value), expected, "{name}");
        }
    }

    #[test]
    fn what_is_marked_is_hidden_whatever_its_name_and_repeated_ones_stand_together() {
        let mut headers = HeaderMap::new();
        let mut value = HeaderValue::from_static("blue");
        headers.append("vary", HeaderValue::from_static("a"));
        headers.append("vary", HeaderValue::from_static("b"));
        value.set_sensitive(true);
        headers.insert("x-team", value);
        let told = told(&headers, &Url::parse("http://h/").unwrap());
        assert_eq!((&told["x-team"], &told["vary"]), (&"[secret]".into(), &"a, b".into()));
    }
}
