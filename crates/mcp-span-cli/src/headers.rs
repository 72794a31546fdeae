//! The user's headers, from flags and from a file, and which of their values are secrets.

use std::path::Path;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::args::Connect;
use super::report::Usage;
use mcp_span::config::{Server, expand};
use mcp_span::secret::{Scrubber, Secret, is_secret_name};
use mcp_span::wire::header;

/// The headers for a server.
pub(super) struct Given {
    pub(super) headers: HeaderMap,
    /// Whether an `Authorization` was typed, or is in the environment.
    pub(super) has_token: bool,
}

/// Puts together what was typed or is in the environment, what the server's entry says, and what
/// the configuration file has for all servers. Of a name, the values in the strongest place count.
pub(super) fn of(
    typed: &Connect,
    scrubber: &Scrubber,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<Given, Usage> {
    let in_environment: Vec<String> = match &typed.headers[..] {
        [] => lookup("MCP_SPAN_HEADER")
            .iter()
            .flat_map(|all| all.lines().map(str::to_owned))
            .collect(),
        _ => Vec::new(),
    };
    let (strong, weak) = match typed.explicit.headers {
        true => (&typed.headers, &in_environment),
        false => (&in_environment, &typed.headers),
    };
    let file = |is_explicit| {
        typed.header_file.as_deref().filter(|_| typed.explicit.header_file == is_explicit)
    };
    let mut headers = read(weak, file(false), scrubber, &lookup)?;
    if let Some(Server::Url { headers: own, .. }) = typed.server.as_ref().map(|s| &s.server) {
        over(&mut headers, own.clone());
    }
    if typed.explicit.credentials && typed.credentials.is_bearer() {
        headers.remove(AUTHORIZATION);
    }
    let strong = read(strong, file(true), scrubber, &lookup)?;
    let has_token = strong.contains_key(AUTHORIZATION);
    over(&mut headers, strong);
    Ok(Given { headers, has_token })
}

/// Puts `strong` into `weak`, in place of what has the same name there.
fn over(weak: &mut HeaderMap, strong: HeaderMap) {
    for name in strong.keys() {
        weak.remove(name);
    }
    weak.extend(strong);
}

/// Reads headers; their values are never part of an error. What was typed wins over the file.
fn read(
    typed: &[String],
    file: Option<&Path>,
    scrubber: &Scrubber,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<HeaderMap, Usage> {
    let mut headers = HeaderMap::new();
    for (place, line) in file.map(read_file).transpose()?.unwrap_or_default() {
        let (name, value) = read_line(&line, &place, &lookup, scrubber)?;
        headers.append(name, value);
    }
    let mut from_flags = HeaderMap::new();
    for line in typed.iter().filter(|line| !line.trim().is_empty()) {
        let (name, value) = read_line(line, "--header", &lookup, scrubber)?;
        from_flags.append(name, value);
    }
    over(&mut headers, from_flags);
    Ok(headers)
}

fn read_line(
    line: &str,
    place: &str,
    lookup: impl Fn(&str) -> Option<String>,
    scrubber: &Scrubber,
) -> Result<(HeaderName, HeaderValue), Usage> {
    let wrong = |sentence: String| Usage::new(format!("{place}: {sentence}"));
    let (name, value) = header::parse_line(line).map_err(wrong)?;
    if header::is_framing(&name) {
        return Err(wrong(format!("header '{name}' is HTTP's own and cannot be set")));
    }
    let expanded = expand(&value, &lookup).map_err(wrong)?;
    let checked = header::parse_value(&name, &expanded.text).map_err(wrong)?;
    if !expanded.values.is_empty() || is_secret_name(name.as_str()) {
        scrubber.add(&Secret::new(expanded.text));
    }
    expanded.values.into_iter().for_each(|(_, value)| scrubber.add(&Secret::new(value)));
    Ok((name, checked))
}

/// The lines of a file of headers, each with its place.
pub(super) fn read_file(path: &Path) -> Result<Vec<(String, String)>, Usage> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Usage::new(format!("the header file {shown} cannot be read: {error}")))?;
    let lines = text.lines().enumerate().map(|(n, line)| (n, line.trim()));
    Ok(lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(n, line)| (format!("{shown}, line {}", n + 1), line.to_owned()))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(lines: &[&str]) -> Result<(HeaderMap, Scrubber), Usage> {
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        let scrubber = Scrubber::default();
        let lookup = |name: &str| (name == "TOKEN").then(|| "s3cr3tvalue".to_owned());
        Ok((read(&lines, None, &scrubber, lookup)?, scrubber))
    }

    #[test]
    fn headers_are_read_expanded_and_kept_secret() {
        let (headers, scrubber) =
            typed(&["Authorization:Bearer ${TOKEN}", "X-A: b", "X-A: c"]).unwrap();
        assert_eq!(headers["authorization"], "Bearer s3cr3tvalue");
        assert_eq!(headers.get_all("x-a").iter().count(), 2);
        assert!(!format!("{headers:?} {scrubber:?}").contains("s3cr3t"));
        assert_eq!(scrubber.clean("x s3cr3tvalue y"), "x [secret] y");
    }

    #[test]
    fn wrong_headers_are_said_to_be_wrong_without_their_value() {
        for (line, word) in [
            ("Authorization s3cr3tvalue", "no colon"),
            ("X-A: s3cr3t\nvalue", "line break"),
            ("X-A: ${UNDEFINED}", "'UNDEFINED'"),
            ("Content-Length: 5", "HTTP's own"),
        ] {
            let usage = typed(&[line]).unwrap_err();
            assert!(usage.0.contains(word) && !usage.0.contains("s3cr3t"), "{usage:?}");
        }
    }

    #[test]
    fn a_file_has_comments_and_its_errors_have_a_place() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "# mine\n\nX-A: 1\nX-Token: ${TOKEN}\n").unwrap();
        let lookup = |_: &str| Some("abcdef".to_owned());
        let read = |typed: &[&str], file: Option<&Path>| {
            let typed: Vec<String> = typed.iter().map(ToString::to_string).collect();
            read(&typed, file, &Scrubber::default(), lookup)
        };
        let headers = read(&["X-B: 2"], Some(file.path())).unwrap();
        assert_eq!(
            (&headers["x-a"], &headers["x-b"]),
            (&"1".parse().unwrap(), &"2".parse().unwrap())
        );
        assert_eq!(headers["x-token"], "abcdef");
        let headers = read(&["x-a: 2"], Some(file.path())).unwrap();
        assert_eq!(headers.get_all("x-a").iter().collect::<Vec<_>>(), ["2"], "a flag wins");
        assert!(read(&[""], None).unwrap().is_empty());
        std::fs::write(file.path(), "X-A: 1\nnonsense\n").unwrap();
        assert!(read(&[], Some(file.path())).unwrap_err().0.contains("line 2"));
        let missing = read(&[], Some(Path::new("/nonexistent/headers"))).unwrap_err();
        assert!(missing.0.contains("cannot be read"), "{missing:?}");
    }
}
