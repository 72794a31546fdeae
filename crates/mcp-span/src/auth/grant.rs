//! What a source printed, as headers.

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};

use crate::error::{Error, ErrorKind};
use crate::wire::header;

/// A source gave nothing that can be used; never with what it gave.
pub(super) fn unusable(place: &str, why: &str) -> Error {
    Error::new(ErrorKind::Credentials, format!("{place} {why}")).not_delivered()
}

/// A token as it is often copied: with blanks around it, and its scheme before it.
pub fn bare(text: &str) -> &str {
    let text = text.trim();
    match text.strip_prefix("Bearer") {
        Some(rest) if rest.is_empty() || rest.starts_with([' ', '\t']) => rest.trim_start(),
        _ => text,
    }
}

/// `token` as a bearer token.
pub(super) fn bearer(place: &str, text: &str) -> Result<HeaderMap, Error> {
    let token = bare(text);
    if token.is_empty() {
        return Err(unusable(place, "holds no token: it is empty"));
    }
    if token.contains(['\n', '\r']) {
        return Err(unusable(place, "holds more than one line, which is no token"));
    }
    let value = header::secret(&format!("Bearer {token}"))
        .map_err(|_| unusable(place, "holds characters that no header can carry"))?;
    Ok(HeaderMap::from_iter([(AUTHORIZATION, value)]))
}

/// Lines `Name: value`, or a JSON object of names and values.
pub(super) fn headers(place: &str, text: &str) -> Result<HeaderMap, Error> {
    let bad = |sentence| unusable(place, &format!("printed a bad header: {sentence}"));
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let pairs = match text.trim_start().starts_with('{') {
        true => object(place, text)?,
        false => lines().map(header::parse_line).collect::<Result<_, _>>().map_err(bad)?,
    };
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let value = header::parse_value(&name, &value).map_err(bad)?;
        headers.append(name, value);
    }
    if headers.is_empty() {
        return Err(unusable(place, "printed no header"));
    }
    Ok(headers)
}

fn object(place: &str, text: &str) -> Result<Vec<(HeaderName, String)>, Error> {
    let wrong = || unusable(place, "printed JSON that is not an object of header names and texts");
    let pairs: std::collections::BTreeMap<String, String> =
        serde_json::from_str(text).map_err(|_| wrong())?;
    pairs
        .into_iter()
        .map(|(name, value)| Ok((name.parse::<HeaderName>().map_err(|_| wrong())?, value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_taken_as_they_come() {
        for text in ["abc.def", " abc.def\n", "Bearer abc.def\r\n", "Bearer\t abc.def"] {
            let headers = bearer("f", text).unwrap();
            assert_eq!(headers[AUTHORIZATION], "Bearer abc.def");
            assert!(headers[AUTHORIZATION].is_sensitive());
        }
        for text in ["", " \n", "a\nb", "a\u{1}b", "Bearer \n", "Bearer"] {
            let error = bearer("the file f", text).unwrap_err();
            assert!(error.message.starts_with("the file f "), "{error}");
            assert_eq!(error.kind, ErrorKind::Credentials);
        }
    }

    #[test]
    fn headers_are_taken_as_lines_or_as_json() {
        for text in
            ["X-Key: 1\nAuthorization: Basic x\n", r#"{"X-Key":"1","Authorization":"Basic x"}"#]
        {
            let headers = headers("c", text).unwrap();
            assert_eq!(
                (&headers["x-key"], &headers[AUTHORIZATION]),
                (&"1".parse().unwrap(), &"Basic x".parse().unwrap())
            );
        }
        for text in ["", "nonsense", "{\"a\":1}", "{", "{}"] {
            let error = headers("c", text).unwrap_err();
            assert!(!error.message.contains("nonsense"), "{error}");
        }
    }
}
