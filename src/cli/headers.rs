//! The user's headers, from flags and from a file, and which of their values are secrets.

use std::path::Path;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::report::Usage;
use crate::config::expand;
use crate::secret::{Scrubber, Secret, is_secret_name};
use crate::wire::header;

/// Reads all headers; their values are never part of an error. What was typed wins over the file.
pub(super) fn read(
    typed: &[String],
    file: Option<&Path>,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<(HeaderMap, Scrubber), Usage> {
    let scrubber = Scrubber::default();
    let mut headers = HeaderMap::new();
    for (place, line) in file.map(read_file).transpose()?.unwrap_or_default() {
        let (name, value) = read_line(&line, &place, &lookup, &scrubber)?;
        headers.append(name, value);
    }
    let mut from_flags = HeaderMap::new();
    for line in typed.iter().filter(|line| !line.trim().is_empty()) {
        let (name, value) = read_line(line, "--header", &lookup, &scrubber)?;
        headers.remove(&name);
        from_flags.append(name, value);
    }
    headers.extend(from_flags);
    Ok((headers, scrubber))
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
    let mut checked = header::parse_value(&name, &expanded.text).map_err(wrong)?;
    checked.set_sensitive(true);
    if !expanded.values.is_empty() || is_secret_name(name.as_str()) {
        scrubber.add(&Secret::new(expanded.text));
    }
    expanded.values.into_iter().for_each(|(_, value)| scrubber.add(&Secret::new(value)));
    Ok((name, checked))
}

fn read_file(path: &Path) -> Result<Vec<(String, String)>, Usage> {
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
        read(&lines, None, |name| (name == "TOKEN").then(|| "s3cr3tvalue".to_owned()))
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
        let (headers, _) = read(&["X-B: 2".to_owned()], Some(file.path()), lookup).unwrap();
        assert_eq!(
            (&headers["x-a"], &headers["x-b"]),
            (&"1".parse().unwrap(), &"2".parse().unwrap())
        );
        assert_eq!(headers["x-token"], "abcdef");
        let (headers, _) = read(&["x-a: 2".to_owned()], Some(file.path()), lookup).unwrap();
        assert_eq!(headers.get_all("x-a").iter().collect::<Vec<_>>(), ["2"], "a flag wins");
        assert!(read(&[String::new()], None, lookup).unwrap().0.is_empty());
        std::fs::write(file.path(), "X-A: 1\nnonsense\n").unwrap();
        assert!(read(&[], Some(file.path()), lookup).unwrap_err().0.contains("line 2"));
        let missing = read(&[], Some(Path::new("/nonexistent/headers")), lookup).unwrap_err();
        assert!(missing.0.contains("cannot be read"), "{missing:?}");
    }
}
