//! The settings of mcp-oauth2-proxy, and the clients that mcp-remote is given: both are understood.

use serde_json::json;

use crate::support::{Bridge, Manners, Provider, request, run};

fn silent() -> Manners {
    Manners {
        resource_at: "/nowhere",
        described_at: "/nowhere",
        challenge: None,
        known: Some(("mine", "s3cret")),
        proof: "client_secret_post",
        ..Manners::default()
    }
}

/// A bridge without an argument, with these variables and a place for tokens.
fn bridge(provider: &Provider, args: &[&str], env: &[(&str, &str)]) -> Bridge {
    let own = provider.env();
    let mut all: Vec<(&str, &str)> = own.iter().map(|(n, v)| (*n, v.as_str())).collect();
    all.extend(env);
    Bridge::start_with(args, &all)
}

#[tokio::test]
async fn a_client_logs_in_by_its_variables_alone() {
    // 5(c)
    let provider = Provider::start(silent()).await;
    let token_url = format!("{}/token", provider.desk.issuer());
    let env = [
        ("UPSTREAM_URL", &*provider.url),
        ("UPSTREAM_OPEN_SERVER_STREAM", "no"),
        ("UPSTREAM_PROTOCOL_VERSION", "2025-03-26"),
        ("OAUTH2_GRANT", "client_credentials"),
        ("OAUTH2_TOKEN_URL", &token_url),
        ("OAUTH2_CLIENT_ID", "mine"),
        ("OAUTH2_CLIENT_SECRET", "s3cret"),
        ("OAUTH2_AUDIENCE", "api://x"),
        ("OAUTH2_SCOPE", "a b"),
        ("OAUTH2_EXTRA_PARAMS", r#"{"tenant": "t1"}"#),
        ("DISCOVERY_ENABLED", "false"),
    ];
    let mut bridge = bridge(&provider, &[], &env);
    bridge.handshake().await;
    assert!(bridge.ask(request(1, "a")).await["result"].is_object());
    let form = &provider.forms()[0];
    for (name, value) in [
        ("grant_type", "client_credentials"),
        ("client_secret", "s3cret"),
        ("audience", "api://x"),
        ("scope", "a b"),
        ("tenant", "t1"),
    ] {
        assert_eq!(form.get(name), value, "{name}");
    }
    let asked = provider.server().all("a");
    assert_eq!(asked[0].header("mcp-protocol-version"), Some("2025-03-26"));
    let (_, status, stderr) = bridge.finish().await;
    assert!(status.success() && stderr.is_empty(), "{stderr}");
    assert!(provider.server().all("GET").is_empty());
}

#[tokio::test]
async fn a_person_logs_in_by_its_file_and_a_variable_beats_it() {
    let provider = Provider::start(silent()).await;
    let at = |path: &str| format!("{}{path}", provider.desk.issuer());
    let port = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port()
    };
    let file = provider.path("proxy.json");
    let text = json!({
        "upstream": {"url": provider.url, "timeoutMs": 20000, "openServerStream": false},
        "oauth2": {
            "grant": "authorization_code", "clientId": "mine", "clientSecret": "s3cret",
            "tokenUrl": at("/token"), "authorizationUrl": at("/authorize"), "scope": "file",
            "callbackHost": "localhost", "callbackPort": port, "callbackTimeoutSeconds": 20,
            "tokenCacheDir": provider.path("state"), "extraParams": {"prompt": "login"},
        },
        "log": {"level": "warn"},
    });
    std::fs::write(&file, text.to_string()).unwrap();
    let env = [("MCP_PROXY_CONFIG", file.to_str().unwrap()), ("OAUTH2_SCOPE", "variable")];
    let mut bridge = bridge(&provider, &[], &env);
    bridge.handshake().await;
    let login = &provider.logins()[0];
    assert_eq!((login.get("scope"), login.get("prompt")), ("variable", "login"));
    assert_eq!(login.get("redirect_uri"), format!("http://localhost:{port}/callback"));
    assert_eq!(provider.forms()[0].get("client_secret"), "s3cret");
    let (_, _, stderr) = bridge.finish().await;
    assert!(!stderr.contains("s3cret"), "{stderr}");
    // A flag of ours, and a variable, are stronger than both.
    let env = [&env[..], &[("MCP_SPAN_OAUTH_SKEW", "5")]].concat();
    let output = run(&["config", "--oauth-scope", "flag"], &env, "").await;
    let table = String::from_utf8(output.stdout).unwrap();
    let line = |name: &str| {
        let line = table.lines().find(|line| line.split_whitespace().next() == Some(name)).unwrap();
        line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("oauth-scope"), "flag (flag)");
    assert_eq!(line("oauth-skew"), "5 (MCP_SPAN_OAUTH_SKEW)");
    assert_eq!(line("oauth-client-id"), "mine (mcp-oauth2-proxy)");
    assert!(!table.contains("s3cret"), "{table}");
}

#[tokio::test]
async fn its_variables_are_for_its_server_and_for_no_other() {
    let provider = Provider::start(Manners::default()).await;
    let env = [
        ("OAUTH2_GRANT", "client_credentials"),
        ("OAUTH2_CLIENT_ID", "mine"),
        ("OAUTH2_CLIENT_SECRET", "s3cret"),
    ];
    // Neither of the two says that they are meant, or they are meant for another.
    for more in [&[][..], &[("UPSTREAM_URL", "https://other.example/mcp")]] {
        let mut bridge = bridge(&provider, &[&provider.url], &[&env[..], more].concat());
        bridge.handshake().await;
    }
    // What is wrong in them is no business of another server's, either.
    for (name, value) in [("UPSTREAM_URL", "nonsense"), ("MCP_PROXY_CONFIG", "/no/such.json")] {
        let mut bridge = bridge(&provider, &[&provider.url], &[(name, value)]);
        bridge.handshake().await;
    }
    assert_eq!(provider.grants("client_credentials"), 0);
    assert!(provider.forms().iter().all(|form| !form.has("client_secret")));
    assert_eq!(provider.pages().len(), 1);
}

#[tokio::test]
async fn a_bad_configuration_is_a_sentence_and_exit_code_2() {
    let good = [
        ("UPSTREAM_URL", "http://127.0.0.1:1/mcp"),
        ("OAUTH2_GRANT", "authorization_code"),
        ("OAUTH2_CLIENT_ID", "mine"),
    ];
    for (name, value, part) in [
        ("OAUTH2_CALLBACK_PORT", "many", "OAUTH2_CALLBACK_PORT must be an integer, got \"many\""),
        ("UPSTREAM_TIMEOUT_MS", "1.5", "UPSTREAM_TIMEOUT_MS must be an integer, got \"1.5\""),
        ("OAUTH2_GRANT", "password", "OAUTH2_GRANT must be one of"),
        ("OAUTH2_AUTH_STYLE", "loud", "OAUTH2_AUTH_STYLE must be one of header, body"),
        ("OAUTH2_CLIENT_ID", "", "OAUTH2_CLIENT_ID (oauth2.clientId) is missing"),
        ("OAUTH2_EXTRA_PARAMS", "x", "must be a JSON object"),
        ("OAUTH2_TOKEN_URL", "http://as.example/", "is plain http to another machine"),
        ("UPSTREAM_URL", "http://other.example/", "is plain http to another machine"),
        ("DISCOVERY_ENABLED", "off", "needs --oauth-token-url"),
        ("MCP_PROXY_CONFIG", "/no/such.json", "MCP_PROXY_CONFIG: /no/such.json cannot be read"),
    ] {
        let mut env: Vec<(&str, &str)> = good.into_iter().filter(|(n, _)| *n != name).collect();
        env.push((name, value));
        let output = run(&[], &env, "").await;
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{name}: {stderr}");
        assert!(stderr.contains(part), "{name}: {stderr}");
    }
}

#[tokio::test]
async fn a_client_that_mcp_remote_was_given_is_ours() {
    let manners = || Manners {
        known: Some(("mine", "s3cret")),
        proof: "client_secret_post",
        ..Manners::default()
    };
    let provider = Provider::start(manners()).await;
    let file = provider.path("info.json");
    std::fs::write(&file, r#"{"client_id": "mine", "client_secret": "${SECRET}"}"#).unwrap();
    let at_file = format!("@{}", file.display());
    let info = ["--static-oauth-client-info", &at_file];
    let scope = ["--static-oauth-client-metadata", r#"{"scope": "x y", "client_name": "n"}"#];
    let args = [&[&*provider.url][..], &info, &scope].concat();
    bridge(&provider, &args, &[("SECRET", "s3cret")]).handshake().await;
    assert!(provider.at("/register").is_empty());
    assert_eq!(provider.logins()[0].get("scope"), "x y");
    assert_eq!(provider.forms()[0].get("client_secret"), "s3cret");

    let provider = Provider::start(silent()).await;
    let token_url = format!("{}/token", provider.desk.issuer());
    let inline = r#"{"client_id":"mine","client_secret":"s3cret","token_endpoint_auth_method":"client_secret_post"}"#;
    let client = ["--client-credentials", "--static-oauth-client-info", inline];
    let args = [&[&*provider.url][..], &client, &["--token-endpoint", &token_url]].concat();
    bridge(&provider, &args, &[]).handshake().await;
    assert_eq!(provider.grants("client_credentials"), 1);
}
