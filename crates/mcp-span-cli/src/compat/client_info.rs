//! The client that mcp-remote is given as JSON, or in a file with it: in terms of our own flags.

use serde_json::{Map, Value};
use url::Url;

use super::super::report::Usage;
use super::super::secrets::{Purpose, Secrets};
use mcp_span::config::expand;
use mcp_span::options::{is_callback_host, is_callback_path};

/// Our flags with their values, and secrets.
pub(super) type Given = (Vec<(&'static str, String)>, Secrets);

/// `--static-oauth-client-info`: a client that was registered by hand. `${NAME}` is replaced.
pub(super) fn information(
    name: &str,
    text: &str,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<Given, Usage> {
    let text = expand(&content(name, text)?, &lookup)
        .map_err(|why| Usage::new(format!("{name}: {why}")))?
        .text;
    let client = object(name, &text)?;
    let mut secrets = Secrets::default();
    if let Some(secret) = client.get("client_secret").and_then(Value::as_str) {
        secrets.add(Purpose::ClientSecret, secret);
    }
    let mut flags = described(&client);
    let id = client.get("client_id").and_then(Value::as_str).filter(|id| !id.is_empty());
    match id {
        Some(id) => flags.push(("oauth-client-id", id.to_owned())),
        None => return Err(Usage::new(format!("{name}: there is no client_id in it"))),
    }
    Ok((flags, secrets))
}

/// `--static-oauth-client-metadata`: what a client that is registered on the spot is like.
pub(super) fn metadata(name: &str, text: &str) -> Result<Given, Usage> {
    let client = object(name, &content(name, text)?)?;
    let mut flags = described(&client);
    flags.push(("oauth-registration", Value::Object(client).to_string()));
    Ok((flags, Secrets::default()))
}

/// What of a client's description has a flag here.
fn described(client: &Map<String, Value>) -> Vec<(&'static str, String)> {
    let text = |name: &str| client.get(name).and_then(Value::as_str).filter(|t| !t.is_empty());
    let mut flags = Vec::new();
    flags.extend(text("scope").map(|scope| ("oauth-scope", scope.to_owned())));
    let style = text("token_endpoint_auth_method");
    let style = style.filter(|s| matches!(*s, "client_secret_basic" | "client_secret_post"));
    flags.extend(style.map(|style| ("oauth-auth-style", style.to_owned())));
    let redirect = client.get("redirect_uris").and_then(|uris| uris.get(0)?.as_str());
    flags.extend(redirect.into_iter().flat_map(redirect_flags));
    flags
}

/// Our flags for a redirect address; none if it is not one of this machine.
pub(super) fn redirect_flags(address: &str) -> Vec<(&'static str, String)> {
    let Ok(url) = Url::parse(address) else { return Vec::new() };
    let (Some(host), Some(port)) = (url.host_str(), url.port()) else { return Vec::new() };
    if url.scheme() != "http" || !is_callback_host(host) || !is_callback_path(url.path()) {
        return Vec::new();
    }
    vec![
        ("oauth-callback-host", host.to_owned()),
        ("oauth-callback-port", port.to_string()),
        ("oauth-callback-path", url.path().to_owned()),
    ]
}

/// The text itself, or that of the file behind the `@`.
pub(super) fn content(name: &str, text: &str) -> Result<String, Usage> {
    match text.strip_prefix('@') {
        None => Ok(text.to_owned()),
        Some(file) => std::fs::read_to_string(file)
            .map_err(|error| Usage::new(format!("{name}: {file} cannot be read: {error}"))),
    }
}

/// What is wrong is said without a word of the text: it may be a secret.
pub(super) fn object(name: &str, text: &str) -> Result<Map<String, Value>, Usage> {
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(Usage::new(format!("{name}: this is not a JSON object"))),
        Err(error) => {
            let (line, column) = (error.line(), error.column());
            Err(Usage::new(format!("{name}: this is not JSON (line {line}, column {column})")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &str) -> Option<String> {
        (name == "SECRET").then(|| "s3cret".to_owned())
    }

    #[test]
    fn a_client_is_put_into_our_flags() {
        let text = r#"{"client_id": "c", "client_secret": "${SECRET}", "scope": "a b",
            "token_endpoint_auth_method": "client_secret_post",
            "redirect_uris": ["http://localhost:4000/oauth/callback"]}"#;
        let (flags, secrets) = information("--x", text, lookup).unwrap();
        let flags: Vec<String> = flags.iter().map(|(n, v)| format!("{n}={v}")).collect();
        let expected = [
            "oauth-scope=a b",
            "oauth-auth-style=client_secret_post",
            "oauth-callback-host=localhost",
            "oauth-callback-port=4000",
            "oauth-callback-path=/oauth/callback",
            "oauth-client-id=c",
        ];
        assert_eq!(flags, expected);
        let mut same = Secrets::default();
        same.add(Purpose::ClientSecret, "s3cret");
        assert_eq!(secrets, same);
        let text = r#"{"client_name":"n","redirect_uris":["https://a/"]}"#;
        let (flags, _) = metadata("--x", text).unwrap();
        assert_eq!(flags, [("oauth-registration", text.to_owned())]);
    }

    #[test]
    fn what_is_wrong_is_said_without_the_secret() {
        for (text, part) in [
            (r#"{"client_secret": "s3cret"}"#, "--x: there is no client_id"),
            (r#"{"client_id": s3cret"#, "--x: this is not JSON (line 1"),
            (r#"["s3cret"]"#, "--x: this is not a JSON object"),
            (r#"{"client_id": "${NOT}"}"#, "--x: the environment variable 'NOT'"),
            ("@/no/such/file", "--x: /no/such/file cannot be read"),
        ] {
            let why = information("--x", text, lookup).unwrap_err().0;
            assert!(why.contains(part) && !why.contains("s3cret"), "{why}");
        }
    }
}
