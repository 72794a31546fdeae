//! What must not stand in a report: credentials among the arguments and the environment of a program.

use std::ffi::OsString;

use url::Url;

use crate::explore;
use mcp_span::client::{Server, Spec};
use mcp_span::secret::{Secret, is_key, is_secret_name};

/// A report may be shown to anybody: no header of the user's is echoed in it, whatever its name, and
/// no argument that looks like a credential.
pub(super) fn hide(spec: &Spec) {
    explore::hide_secrets(spec);
    if let Server::Child(settings) = &spec.server {
        let found = secrets_of(&settings.args).into_iter().chain(secrets_inherited());
        found.for_each(|secret| settings.scrubber.add(&secret));
    }
}

/// Arguments that are credentials: by the name of their flag or variable, or by how they look.
fn secrets_of(args: &[OsString]) -> Vec<Secret> {
    let mut secrets = Vec::new();
    let mut is_named = false;
    for arg in args.iter().filter_map(|arg| arg.to_str()) {
        // `--name=value`, and `NAME=value` as it is given to containers.
        let (name, value) = match arg.split_once('=') {
            Some((name, value)) if !name.contains("://") => (Some(name), value),
            _ if arg.starts_with('-') => (Some(arg), ""),
            _ => (None, arg),
        };
        let names = name.is_some_and(|name| is_secret_name(&name.to_ascii_lowercase()));
        let is_flag_alone = name.is_some() && value.is_empty();
        let looks_so =
            is_key(value) && value.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
        if !is_flag_alone && (is_named || names || looks_so) {
            secrets.push(Secret::new(if is_named { arg } else { value }));
        }
        secrets.extend(secrets_of_url(value));
        is_named = names && is_flag_alone;
    }
    secrets
}

/// Who the user is to a database, say, and keys in a query.
fn secrets_of_url(text: &str) -> Vec<Secret> {
    let Ok(url) = Url::parse(text) else { return Vec::new() };
    let mut secrets: Vec<Secret> = url.password().map(Secret::new).into_iter().collect();
    if url.password().is_none() && !url.username().is_empty() {
        // A token in the user's place.
        secrets.push(Secret::new(url.username()));
    }
    let query = url.query_pairs().filter(|(name, _)| is_secret_name(&name.to_ascii_lowercase()));
    secrets.extend(query.map(|(_, value)| Secret::new(value)));
    secrets
}

/// What a program inherits from us, and may print.
fn secrets_inherited() -> impl Iterator<Item = Secret> {
    let named = std::env::vars_os().filter_map(|(name, value)| {
        let name = name.to_str()?.to_ascii_lowercase();
        is_secret_name(&name).then_some(value)
    });
    // Paths to keys and sockets are no secrets.
    let values = named.filter_map(|value| value.into_string().ok());
    values.filter(|value| !value.starts_with('/')).map(Secret::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_are_credentials_are_known_by_flag_or_look() {
        let found = |line: &str| {
            let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let found = secrets_of(&args);
            found.iter().map(|secret| secret.reveal().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(found("--token abc run"), ["abc"]);
        assert_eq!(found("--api-key=abc --x=y"), ["abc"]);
        assert_eq!(found("run 0123456789abcdef0 --port 80"), ["0123456789abcdef0"]);
        assert_eq!(found("-y @scope/server-thing@2025.11.1 --verbose"), [""; 0]);
        assert_eq!(found("--token --verbose"), [""; 0]);
        assert_eq!(found("--API-Key Abc"), ["Abc"]);
        assert_eq!(found("--token a=b"), ["a=b"]);
        assert_eq!(found("run -e GITHUB_TOKEN=abc -e NODE_ENV=production"), ["abc"]);
        assert_eq!(found("postgres://ann:pw@h/db --db=postgres://h/?api_key=k"), ["pw", "k"]);
    }
}
