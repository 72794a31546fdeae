//! What a server says with `WWW-Authenticate`: several challenges, values quoted or bare. Pure.

use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;

/// What a 401 or 403 asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Challenge {
    /// Where the resource describes itself (RFC 9728).
    pub resource_metadata: Option<String>,
    /// The scopes that are wanted.
    pub scope: Option<String>,
    /// The sort of failure, such as `insufficient_scope`.
    pub error: Option<String>,
}

impl Challenge {
    /// What is asked for with a bearer token, by one challenge or several; with a bound one (DPoP),
    /// if nothing else is wanted.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let texts = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|v| v.to_str().ok());
        let all: Vec<Parameter<'_>> = texts.flat_map(parse).collect();
        let is_there =
            |scheme: &&str| all.iter().any(|(known, ..)| known.eq_ignore_ascii_case(scheme));
        let scheme = ["bearer", "dpop"].into_iter().find(is_there)?;
        let value = |name: &str| {
            let is_it = |(of, known, value): &&Parameter<'_>| {
                let is_of_scheme = of.eq_ignore_ascii_case(scheme);
                is_of_scheme && known.eq_ignore_ascii_case(name) && !value.is_empty()
            };
            all.iter().find(is_it).map(|(.., value)| value.clone())
        };
        Some(Self {
            resource_metadata: value("resource_metadata"),
            scope: value("scope"),
            error: value("error"),
        })
    }

    /// Whether the token is good but not for this.
    #[must_use]
    pub fn wants_more_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }
}

/// The scheme of a challenge, and a name and a value in it; both are empty where it begins.
type Parameter<'a> = (&'a str, &'a str, String);

/// The challenges of one header, with their parameters.
fn parse(text: &str) -> Vec<Parameter<'_>> {
    let (mut parameters, mut scheme, mut rest) = (Vec::new(), "", text);
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let word = token(rest);
        if word.is_empty() {
            return parameters;
        }
        let behind = rest[word.len()..].trim_start_matches([' ', '\t']);
        // A single `=` makes it a parameter; more of them are the padding of a token68.
        match behind.strip_prefix('=').filter(|after| !after.starts_with('=')) {
            Some(after) if !scheme.is_empty() && !after.trim_start().is_empty() => {
                let (value, end) = value(after.trim_start_matches([' ', '\t']));
                parameters.push((scheme, word, value));
                rest = end;
            }
            _ => {
                scheme = word;
                parameters.push((scheme, "", String::new()));
                rest = skip_token68(behind);
            }
        }
    }
}

fn token(text: &str) -> &str {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let end = text.find(|c| !is_token(c)).unwrap_or(text.len());
    &text[..end]
}

/// Credentials in one piece behind a scheme (`Negotiate abc==`) are of no interest.
fn skip_token68(text: &str) -> &str {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-._~+/".contains(c);
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    let padded = text[end..].trim_start_matches('=');
    let is_token68 = end > 0 && (padded.is_empty() || padded.trim_start().starts_with(','));
    // `a=b` is a parameter, `a==` or `a` alone is not.
    let is_parameter = text[end..].trim_start().starts_with('=') && !text[end..].starts_with("==");
    if is_token68 && !is_parameter { padded } else { text }
}

/// A value, and what follows it.
fn value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ', '\t']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut letters = quoted.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(letters.next().map(|(_, escaped)| escaped)),
            letter => value.push(letter),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn of(lines: &[&str]) -> Option<Challenge> {
        let pairs = lines.iter().map(|l| (WWW_AUTHENTICATE, HeaderValue::from_str(l).unwrap()));
        Challenge::of(&pairs.collect())
    }

    #[test]
    fn values_are_quoted_or_bare() {
        let expected = Challenge {
            resource_metadata: Some("https://h/.well-known/x".into()),
            scope: Some("a b".into()),
            error: Some("invalid_token".into()),
        };
        for line in [
            r#"Bearer resource_metadata="https://h/.well-known/x", scope="a b", error="invalid_token""#,
            r#"bearer error=invalid_token , scope="a b",resource_metadata=https://h/.well-known/x"#,
            r#"DPoP algs="ES256", Scope="a b", ERROR=invalid_token, resource_metadata = "https://h/.well-known/x""#,
        ] {
            assert_eq!(of(&[line]).as_ref(), Some(&expected), "{line}");
        }
    }

    #[test]
    fn the_bearer_challenge_is_found_among_others() {
        let scope = |lines: &[&str]| of(lines).and_then(|c| c.scope);
        assert_eq!(
            scope(&[r#"Basic realm="x, Bearer scope=no", Bearer scope="yes""#]).unwrap(),
            "yes"
        );
        assert_eq!(scope(&["Negotiate YII==, Bearer scope=yes"]).unwrap(), "yes");
        assert_eq!(scope(&["Negotiate abc", "Bearer scope=yes"]).unwrap(), "yes");
        assert_eq!(scope(&[r#"DPoP algs="ES256", Bearer scope=yes"#]).unwrap(), "yes");
        assert_eq!(scope(&["DPoP scope=no", "Bearer scope=yes"]).unwrap(), "yes");
        assert_eq!(scope(&["Bearer realm=x", "Bearer scope=yes, error=e"]).unwrap(), "yes");
        assert_eq!(scope(&["Bearer scope=yes", "Bearer scope=no"]).unwrap(), "yes");
        assert_eq!(scope(&["DPoP scope=no", "Bearer"]), None);
        assert_eq!(scope(&["Bearer, Basic realm=x"]), None);
        assert!(of(&["Bearer"]).is_some());
        assert!(of(&["Basic realm=\"x\""]).is_none());
        assert!(of(&[]).is_none());
    }

    #[test]
    fn escapes_and_ends_do_no_harm() {
        let error = |line: &str| of(&[line]).and_then(|c| c.error);
        assert_eq!(error(r#"Bearer error="a\"b\\c""#).unwrap(), "a\"b\\c");
        assert_eq!(error(r#"Bearer error="open"#).unwrap(), "open");
        assert_eq!(error("Bearer error=\"\""), None);
        assert_eq!(error("Bearer error="), None);
        assert!(of(&[r#"Bearer error="insufficient_scope""#]).unwrap().wants_more_scope());
    }

    proptest! {
        #[test]
        fn nothing_makes_it_stumble(text in "[ -~]{0,80}") {
            let _ = parse(&text);
        }
    }
}
