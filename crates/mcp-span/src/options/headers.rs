//! The user's headers, from options and from a file, and which of their values are secrets.

use std::path::Path;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::value::{Value, ValueKind};
use super::{Context, OptionError, ServerOptions};
use crate::config::expand;
use crate::secret::{Scrubber, Secret, is_secret_name};
use crate::wire::header;

/// A header that goes with every request: `Name: value`.
#[derive(Clone)]
pub struct Header {
    line: Secret,
    /// Variables are replaced in what people write, and in nothing else.
    has_variables: bool,
}

impl Header {
    /// A header with this very value.
    #[must_use]
    pub fn new(name: &str, value: &str) -> Self {
        Self { line: Secret::new(format!("{name}: {value}")), has_variables: false }
    }

    /// `Name: value`, where `${NAME}` stands for the variable.
    #[expect(clippy::unnecessary_wraps, reason = "other values can be wrong")]
    pub(super) fn read(line: &str) -> Result<Self, String> {
        Ok(Self { line: Secret::new(line), has_variables: true })
    }

    /// The name in small letters, if it is one.
    pub(super) fn key(&self) -> String {
        self.name().trim().to_ascii_lowercase()
    }

    /// The name as it was written.
    #[must_use]
    pub fn name(&self) -> &str {
        self.line.reveal().split(':').next().unwrap_or_default()
    }

    /// The whole of it, as it was written.
    #[must_use]
    pub fn line(&self) -> &str {
        self.line.reveal()
    }

    pub(super) fn is_authorization(&self) -> bool {
        self.key() == "authorization"
    }

    fn resolve(
        &self,
        context: &Context,
        scrubber: &Scrubber,
    ) -> Result<(HeaderName, HeaderValue), String> {
        let (name, value) = header::parse_line(self.line.reveal())?;
        if header::is_framing(&name) {
            return Err(format!("header '{name}' is HTTP's own and cannot be set"));
        }
        let lookup = |name: &str| context.variables.text(name);
        let (text, values) = match self.has_variables {
            true => expand(&value, &lookup).map(|expanded| (expanded.text, expanded.values))?,
            false => (value, Vec::new()),
        };
        let checked = header::parse_value(&name, &text)?;
        if !values.is_empty() || is_secret_name(name.as_str()) {
            scrubber.add(&Secret::new(text));
        }
        values.into_iter().for_each(|(_, value)| scrubber.add(&Secret::new(value)));
        Ok((name, checked))
    }
}

impl Value for Header {
    const KIND: ValueKind = ValueKind::Many;

    fn texts(&self) -> Vec<String> {
        vec![self.line.reveal().to_owned()]
    }
}

impl ServerOptions {
    /// All headers; of those with the same name, the strongest. Their values are never part of an
    /// error.
    pub(super) fn resolve_headers(
        &self,
        context: &Context,
        scrubber: &Scrubber,
    ) -> Result<HeaderMap, OptionError> {
        let mut headers = HeaderMap::new();
        let mut weak = HeaderMap::new();
        for header in &self.weak_headers {
            let (name, value) =
                header.resolve(context, scrubber).map_err(|why| self.wrong("header", why))?;
            weak.append(name, value);
        }
        put_over(&mut headers, weak);
        let mut in_file = HeaderMap::new();
        for (place, line) in self.header_lines()? {
            let header = Header { line: Secret::new(line), has_variables: true };
            let (name, value) = header
                .resolve(context, scrubber)
                .map_err(|why| OptionError::new(format!("{place}: {why}")))?;
            in_file.append(name, value);
        }
        put_over(&mut headers, in_file);
        let mut own = HeaderMap::new();
        for header in self.headers.iter().flatten() {
            if header.line.reveal().trim().is_empty() {
                continue;
            }
            let (name, value) =
                header.resolve(context, scrubber).map_err(|why| self.wrong("header", why))?;
            own.append(name, value);
        }
        put_over(&mut headers, own);
        Ok(headers)
    }

    /// The lines of the file of headers, each with its place.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    #[doc(hidden)]
    pub fn header_lines(&self) -> Result<Vec<(String, String)>, OptionError> {
        self.header_file.as_deref().map_or_else(|| Ok(Vec::new()), read_file)
    }
}

/// Puts `strong` into `weak`, in place of what has the same name there.
fn put_over(weak: &mut HeaderMap, strong: HeaderMap) {
    for name in strong.keys() {
        weak.remove(name);
    }
    weak.extend(strong);
}

fn read_file(path: &Path) -> Result<Vec<(String, String)>, OptionError> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        OptionError::new(format!("the header file {shown} cannot be read: {error}"))
    })?;
    let lines = text.lines().enumerate().map(|(n, line)| (n, line.trim()));
    Ok(lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(n, line)| (format!("{shown}, line {}", n + 1), line.to_owned()))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Variables;

    fn context() -> Context {
        let variables = Variables::new([("TOKEN", "s3cr3tvalue")]);
        Context { variables, ..Context::default() }
    }

    fn resolved(lines: &[&str], file: Option<&Path>) -> Result<(HeaderMap, Scrubber), OptionError> {
        let scrubber = Scrubber::default();
        let options = ServerOptions {
            headers: Some(lines.iter().map(|line| Header::read(line).unwrap()).collect()),
            header_file: file.map(Path::to_owned),
            ..ServerOptions::default()
        };
        Ok((options.resolve_headers(&context(), &scrubber)?, scrubber))
    }

    #[test]
    fn headers_are_read_expanded_and_kept_secret() {
        let lines = ["Authorization:Bearer ${TOKEN}", "X-A: b", "X-A: c", ""];
        let (headers, scrubber) = resolved(&lines, None).unwrap();
        assert_eq!(headers["authorization"], "Bearer s3cr3tvalue");
        assert_eq!(headers.get_all("x-a").iter().count(), 2);
        assert!(!format!("{headers:?} {scrubber:?}").contains("s3cr3t"));
        assert_eq!(scrubber.clean("x s3cr3tvalue y"), "x [secret] y");
        let own = Header::new("X-A", "${TOKEN}").resolve(&context(), &scrubber).unwrap();
        assert_eq!(own.1, "${TOKEN}", "a program means what it says");
    }

    #[test]
    fn wrong_headers_are_said_to_be_wrong_without_their_value() {
        for (line, word) in [
            ("Authorization s3cr3tvalue", "no colon"),
            ("X-A: s3cr3t\nvalue", "line break"),
            ("X-A: ${UNDEFINED}", "'UNDEFINED'"),
            ("Content-Length: 5", "HTTP's own"),
        ] {
            let why = resolved(&[line], None).unwrap_err().to_string();
            assert!(why.contains(word) && !why.contains("s3cr3t"), "{why}");
        }
    }

    #[test]
    fn a_file_has_comments_and_its_errors_have_a_place() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "# mine\n\nX-A: 1\nX-Token: ${TOKEN}\n").unwrap();
        let (headers, _) = resolved(&["X-B: 2"], Some(file.path())).unwrap();
        assert_eq!(
            (&headers["x-a"], &headers["x-b"]),
            (&"1".parse().unwrap(), &"2".parse().unwrap())
        );
        assert_eq!(headers["x-token"], "s3cr3tvalue");
        let (headers, _) = resolved(&["x-a: 2"], Some(file.path())).unwrap();
        assert_eq!(headers.get_all("x-a").iter().collect::<Vec<_>>(), ["2"], "an option wins");
        std::fs::write(file.path(), "X-A: 1\nnonsense\n").unwrap();
        assert!(resolved(&[], Some(file.path())).unwrap_err().to_string().contains("line 2"));
        let missing = resolved(&[], Some(Path::new("/nonexistent/headers"))).unwrap_err();
        assert!(missing.to_string().contains("cannot be read"), "{missing}");
    }
}
