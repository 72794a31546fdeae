//! Every flag, variable and key of the first edition: each still means what it meant.

use serde_json::{Value, json};

use crate::support::run;

const URL: &str = "https://example.com/mcp";

/// The name of a flag, a value for it, and how `config` shows that. An empty value is a switch.
const OPTIONS: &[(&str, &str, &str)] = &[
    ("transport", "sse", "sse"),
    ("transport", "http-first", "auto"),
    ("transport", "sse-first", "auto"),
    ("transport", "http-only", "http"),
    ("transport", "streamable-http", "http"),
    ("transport", "streamablehttp", "http"),
    ("transport", "sse-only", "sse"),
    ("mcp-hub-mode", "", "true"),
    ("header", "X-A: 1", "X-A: [hidden]"),
    ("header-file", "/f", "/f"),
    ("bearer-env", "TOKEN", "TOKEN"),
    ("bearer-file", "/f", "/f"),
    ("bearer-command", "printer", "[hidden]"),
    ("header-command", "printer", "[hidden]"),
    ("credential-shell", "", "true"),
    ("credential-ttl", "7", "7"),
    ("no-oauth", "", "true"),
    ("oauth-client-id", "id", "id"),
    ("oauth-client-secret-env", "VAR", "VAR"),
    ("oauth-private-key", "/k", "/k"),
    ("oauth-client-metadata-url", "https://h/c", "https://h/c"),
    ("oauth-scope", "a b", "a b"),
    ("oauth-offered-scopes", "", "true"),
    ("oauth-no-resource", "", "true"),
    ("oauth-callback-port", "9696-9703", "9696-9703"),
    ("oauth-wait", "3", "3"),
    ("oauth-grant", "device-code", "device-code"),
    ("oauth-grant", "authorization-code", "code"),
    ("oauth-grant", "device", "device-code"),
    ("oauth-grant", "client-credentials", "client-credentials"),
    ("profile", "work", "work"),
    ("profile-by-headers", "", "true"),
    ("state-dir", "/s", "/s"),
    ("token-store", "file", "file"),
    ("oauth-login-timeout", "9", "9"),
    ("oauth-skew", "0", "0"),
    ("oauth-issuer", "https://as/", "https://as/"),
    ("oauth-token-url", "https://as/t", "https://as/t"),
    ("oauth-authorization-url", "https://as/a", "https://as/a"),
    ("oauth-no-discovery", "", "true"),
    ("oauth-no-interactive", "", "true"),
    ("oauth-refresh-token-env", "VAR", "VAR"),
    ("oauth-code-env", "VAR", "VAR"),
    ("oauth-code-verifier-env", "VAR", "VAR"),
    ("oauth-redirect-uri", "http://localhost:1/", "http://localhost:1/"),
    ("oauth-resource", "https://r/", "https://r/"),
    ("oauth-audience", "a", "a"),
    ("oauth-param", "a=1", "[hidden]"),
    ("oauth-authorize-param", "a=1", "[hidden]"),
    ("oauth-registration", "{}", "{}"),
    ("oauth-use-id-token", "", "true"),
    ("oauth-success-url", "https://h/done", "https://h/done"),
    ("oauth-auth-style", "header", "basic"),
    ("oauth-auth-style", "body", "post"),
    ("oauth-callback-host", "localhost", "localhost"),
    ("oauth-callback-path", "/cb", "/cb"),
    ("allow-http", "", "true"),
    ("ca-cert", "/c", "/c"),
    ("client-cert", "/c", "/c"),
    ("client-key", "/k", "/k"),
    ("insecure", "", "true"),
    ("proxy", "http://me:s3cret@p:1", "http://p:1"),
    ("no-proxy", "h.example", "h.example"),
    ("timeout", "7.5", "7.5"),
    ("connect-timeout", "3", "3"),
    ("connect-wait", "4", "4"),
    ("away-wait", "5", "5"),
    ("keep-alive", "6", "6"),
    ("max-message-size", "3M", "3M"),
    ("max-parallel", "8", "8"),
    ("serial", "", "true"),
    ("no-server-stream", "", "true"),
    ("no-cookies", "", "true"),
    ("ipv4", "", "true"),
    ("ignore-tool", "delete*", "delete*"),
    ("protocol-version", "2025-06-18", "2025-06-18"),
    ("protocol", "legacy", "legacy"),
    ("verbose", "", "true"),
    ("log-level", "Warning", "warn"),
    ("log-level", "none", "off"),
    ("log-format", "json", "json"),
    ("log-file", "/l", "/l"),
    ("trace-file", "/t", "/t"),
    ("trace-limit", "1M", "1M"),
];

/// Other names of flags.
const ALIASES: &[(&str, &str)] = &[
    ("--disable-cookies", "no-cookies"),
    ("--disable-resource-parameter", "oauth-no-resource"),
    ("--use-id-token", "oauth-use-id-token"),
    ("--debug", "verbose"),
    ("-v", "verbose"),
];

/// What `config` says of a setting: its value, and where it was set.
async fn said(args: &[&str], env: &[(&str, &str)], name: &str) -> (String, String) {
    let output = run(&[&["config", "--all", "--json"], args].concat(), env, "").await;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let all: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{args:?} {env:?}: {error}: {stderr}"));
    let text = |what: &str| all["settings"][name][what].as_str().unwrap_or_default().to_owned();
    assert!(!all.to_string().contains("s3cret"), "{all}");
    (text("value"), text("from"))
}

fn is(value: &str, from: &str) -> (String, String) {
    (value.to_owned(), from.to_owned())
}

#[tokio::test]
async fn every_flag_is_taken() {
    for (name, value, shown) in OPTIONS {
        let flag = match *value {
            "" => format!("--{name}"),
            value => format!("--{name}={value}"),
        };
        assert_eq!(said(&[URL, &flag], &[], name).await, is(shown, "flag"), "{flag}");
    }
    for (flag, name) in ALIASES {
        assert_eq!(said(&[URL, flag], &[], name).await, is("true", "flag"), "{flag}");
    }
    assert_eq!(said(&[URL, "-H", "X: 1"], &[], "header").await.0, "X: [hidden]");
    assert_eq!(said(&[URL, "--no-proxy"], &[], "no-proxy").await.0, "*");
    assert_eq!(said(&["--mcp-hub", URL], &[], "mcp-hub").await, is(URL, "flag"));
    assert_eq!(said(&["--mcp-hub"], &[], "mcp-hub").await.0, "local");
}

#[tokio::test]
async fn every_variable_is_read() {
    for (name, value, shown) in OPTIONS {
        let variable = format!("MCP_SPAN_{}", name.to_uppercase().replace('-', "_"));
        let value = if value.is_empty() { "1" } else { value };
        let got = said(&[URL], &[(&variable, value)], name).await;
        assert_eq!(got, is(shown, &variable), "{variable}={value}");
        let (_, from) = said(&[URL], &[(&variable, "")], name).await;
        assert!(["default", "not set"].contains(&&*from), "{variable} is empty: {from}");
        if *shown == "true" {
            for off in ["0", "false", "No", "off"] {
                let got = said(&[URL], &[(&variable, off)], name).await;
                assert_eq!(got, is("false", &variable), "{variable}={off}");
            }
        }
    }
    let variables = [("MCP_SPAN_URL", URL), ("MCP_SPAN_HEADER", "X-A: 1\n\nX-B: 2")];
    assert_eq!(said(&[], &variables, "url").await, is(URL, "MCP_SPAN_URL"));
    let (headers, _) = said(&[], &variables, "header").await;
    assert_eq!(headers, "X-A: [hidden], X-B: [hidden]");
    assert_eq!(said(&[], &[("MCP_SPAN_MCP_HUB", URL)], "mcp-hub").await.0, URL);
}

#[tokio::test]
async fn every_key_is_read_at_the_top_of_the_file_and_in_an_entry() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.json");
    let config = path.to_str().unwrap();
    for (name, value, shown) in OPTIONS {
        let camel: String = name
            .split('-')
            .enumerate()
            .map(|(n, word)| match n {
                0 => word.to_owned(),
                _ => word[..1].to_uppercase() + &word[1..],
            })
            .collect();
        for key in [name.to_string(), name.replace('-', "_"), camel] {
            let value = if value.is_empty() { json!(true) } else { json!(value) };
            let list = json!([value]);
            let value = if key == "header" { &list } else { &value };
            let text = format!("{{\n\"{key}\": {value},\n\"servers\": {{}}}}");
            std::fs::write(&path, text).unwrap();
            let got = said(&[URL, "--config", config], &[], name).await;
            assert_eq!(got, is(shown, "configuration file, line 2"), "{key}");
            let text = json!({"servers": {"x": {"url": URL, &key: value}}});
            std::fs::write(&path, text.to_string()).unwrap();
            let (got, from) = said(&["x", "--config", config], &[], name).await;
            // That the transport is found out is what an entry says by saying nothing.
            let is_default = (*name, *shown) == ("transport", "auto");
            assert!(is_default || from == "server 'x'", "{key}: {from}");
            let shown = if key == "header" { "x-a: [hidden]" } else { shown };
            assert_eq!(got, shown, "{key}");
        }
    }
}
