//! Command lines of mcp-remote and other bridges: the same on the wire as our own spelling gives.

use crate::support::{Bridge, INITIALIZE, Reply, Request, Server, polite, request, run};

/// The POSTs of a conversation, each in one text; `URL` in the arguments is the server.
async fn posts(args: &[&str], env: &[(&str, &str)]) -> Vec<String> {
    let server = Server::start(polite).await;
    let args: Vec<&str> =
        args.iter().map(|arg| if *arg == "URL" { &*server.url } else { arg }).collect();
    let mut bridge = Bridge::start_with(&args, env);
    bridge.handshake().await;
    bridge.ask(request(1, "tools/list")).await;
    let (_, status, stderr) = bridge.finish().await;
    assert_eq!((status.code(), &*stderr), (Some(0), ""), "{args:?}");
    let posts = server.requests().into_iter().filter(|request| request.http_method == "POST");
    posts.map(|request| on_the_wire(&request)).collect()
}

fn on_the_wire(request: &Request) -> String {
    let headers = request.headers.iter().filter(|(name, _)| name != "host");
    let mut headers: Vec<String> =
        headers.map(|(name, value)| format!("{name}: {value}")).collect();
    headers.sort();
    format!("{}\n{}\n{}", request.path, headers.join("\n"), request.text())
}

async fn same(theirs: &[&str], ours: &[&str], env: &[(&str, &str)]) {
    assert_eq!(posts(theirs, env).await, posts(ours, env).await, "{theirs:?}");
}

#[tokio::test]
async fn the_examples_that_mcp_remote_documents() {
    let token = [("AUTH_TOKEN", "abc"), ("AUTH_HEADER", "Bearer abc")];
    let headers = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(headers.path(), "# mine\nAuthorization: Bearer my-token\nX-A: b\n").unwrap();
    let file = headers.path().to_str().unwrap();
    let header = "Authorization: Bearer ${AUTH_TOKEN}";
    let short = "Authorization:${AUTH_HEADER}";
    let authorized: &[&str] = &["URL", "-H", "Authorization: Bearer abc"];
    for (theirs, ours) in [
        (&["mcp-remote", "URL", "--header", header][..], authorized),
        (&["mcp-remote", "URL", "--header", short], authorized),
        (&["-y", "mcp-remote@latest", "--header", short, "URL", "9696"], authorized),
        (&["mcp-remote", "URL", "--header-file", file], &["URL", "--header-file", file]),
        (&["mcp-remote", "URL", "--transport", "http-only"], &["URL", "--transport", "http"]),
        (&["--log-level", "error", "mcp-remote", "URL", "--header", short], authorized),
        (&["--serial", "npx", "-y", "mcp-remote", "URL", "--header", short], authorized),
    ] {
        same(theirs, ours, &token).await;
    }
}

/// All that mcp-remote takes beside headers, as its documentation writes it.
const PLAIN: &[&[&str]] = &[
    &["mcp-remote", "URL"],
    &["-y", "mcp-remote", "URL"],
    &["mcp-remote@latest", "URL"],
    &["mcp-remote", "URL", "9696"],
    &["URL", "--host", "127.0.0.1"],
    &["URL", "--callback-path", "/custom/callback"],
    &["URL", "--auth-success-url", "https://app.example.com/cli-connected"],
    &["URL", "--auth-timeout", "60"],
    &["URL", "--allow-http"],
    &["URL", "--silent"],
    &["URL", "--enable-proxy"],
    &["URL", "--disable-cookies"],
    &["URL", "--connect-timeout", "30", "--body-timeout", "0"],
    &["URL", "--headers-timeout", "300"],
    &["URL", "--keep-alive", "--ping-interval", "60"],
    &["URL", "--keep-alive"],
    &["--keep-alive", "URL"],
    &["URL", "--ipv4"],
    &["URL", "--transport", "http-first"],
    &["URL", "--transport", "sse-first"],
    &["URL", "--protocol", "auto"],
    &["URL", "--protocol", "legacy"],
    &["URL", "--resource", "https://tenant1.example.net/"],
    &["URL", "--disable-resource-parameter"],
    &["URL", "--authorize-param", "access_type=offline", "--authorize-param", "prompt=consent"],
    &["URL", "--static-oauth-client-metadata", "{ \"scope\": \"space separated scopes\" }"],
    &["URL", "--static-oauth-client-info", "{\"client_id\":\"a\"}"],
    &["URL", "3334", "--client-metadata-url", "https://client.example.com/oauth-client-metadata"],
    &["URL", "--client-credentials", "--static-oauth-client-info", "{\"client_id\":\"${PATH}\"}"],
    &["URL", "--client-credentials", "--token-endpoint", "https://auth.example.com/oauth/token"],
    &["URL", "--device-code"],
    &["URL", "--use-id-token"],
    &["URL", "--ignore-tool", "delete*", "--ignore-tool", "remove*"],
];

#[tokio::test]
async fn every_flag_of_mcp_remote_is_accepted_in_silence() {
    let plain = posts(&["URL"], &[]).await;
    for args in PLAIN {
        assert_eq!(posts(args, &[]).await, plain, "{args:?}");
    }
}

#[tokio::test]
async fn what_has_no_effect_is_named_when_asked_and_its_values_never_are() {
    let server = Server::start(polite).await;
    let args = [
        &*server.url,
        "--static-oauth-client-info",
        "{\"client_id\":\"c\",\"client_secret\":\"s3cret\"}",
        "--host=s3cret",
        "--enable-proxy",
        "-v",
    ];
    let output = run(&args, &[], &request(1, "a")).await;
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let names = "--host --enable-proxy";
    let lines: Vec<&str> = stderr.lines().filter(|line| line.contains(names)).collect();
    assert!(matches!(lines[..], [line] if line.contains("DEBUG")), "{stderr}");
    assert!(!stderr.contains("s3cret"), "{stderr}");
    let output = run(&[&["config"], &args[..]].concat(), &[], "").await;
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains(names) && !table.contains("s3cret"), "{table}");
}

#[tokio::test]
async fn the_table_of_settings_shows_what_became_of_each() {
    let args = ["config", "-y", "mcp-remote", "https://example.com/mcp", "--body-timeout", "0"];
    let more = ["--connect-timeout", "3", "--keep-alive", "--silent", "--transport", "sse-only"];
    let output = run(&[&args[..], &more].concat(), &[], "").await;
    let table = String::from_utf8(output.stdout).unwrap();
    for (name, value) in [
        ("url", "https://example.com/mcp"),
        ("timeout", "0"),
        ("connect-timeout", "3"),
        ("keep-alive", "30"),
        ("log-level", "off"),
        ("transport", "sse"),
    ] {
        let mut lines = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        assert!(lines.any(|line| line == [name, value, "(flag)"]), "{name}: {table}");
    }
}

#[tokio::test]
async fn silence_is_kept_and_debugging_breaks_it() {
    let server = Server::start(polite).await;
    let input = format!("no json\n{}\n", request(1, "a"));
    for (flags, is_silent) in [
        (&["--silent"][..], true),
        (&["--logLevel", "none"], true),
        (&["--silent", "--debug"], false),
    ] {
        let output = run(&[&[&*server.url], flags].concat(), &[], &input).await;
        assert_eq!(output.stderr.is_empty(), is_silent, "{flags:?}");
    }
}

#[tokio::test]
async fn a_ping_interval_pings() {
    let server = Server::start(polite).await;
    let _bridge = Bridge::ready(&["mcp-remote", &server.url, "--ping-interval", "0.05"]).await;
    server.saw("ping").await;
}

#[tokio::test]
async fn the_simple_forms_of_other_bridges() {
    let authorized: &[&str] = &["URL", "--transport", "http", "-H", "Authorization: Bearer abc"];
    let env = [("API_ACCESS_TOKEN", "abc"), ("MCP_BEARER_TOKEN", "abc")];
    for (theirs, ours) in [
        (
            &["-y", "supergateway", "--streamableHttp", "URL"][..],
            &["URL", "--transport", "http"][..],
        ),
        (&["--streamableHttp", "URL", "--oauth2Bearer", "abc", "--logLevel", "none"], authorized),
        (&["--transport=streamablehttp", "URL"], &["URL", "--transport", "http"]),
        (
            &["--transport", "streamablehttp", "-H", "Authorization", "Bearer abc", "URL"],
            authorized,
        ),
        (
            &["URL", "--headers", "X-A", "b: c", "--headers", "X-D", "e"],
            &["URL", "-H", "X-A: b: c", "-H", "X-D: e"],
        ),
        (&["mcp-proxy", "--transport", "streamablehttp", "URL"], authorized),
        (
            &["mcp-proxy", "URL", "--log-level", "CRITICAL", "-H", "Authorization", "x"],
            &["URL", "-H", "Authorization: x"],
        ),
        (&["mcp-stdio", "URL"], authorized),
        (&["URL", "--bearer-token", "abc", "--timeout-connect", "5"], authorized),
        (
            &["mcp-stdio", "URL", "-H", "X-A: b"],
            &["URL", "-H", "Authorization: Bearer abc", "-H", "X-A: b"],
        ),
        (&["mcp-remote", "URL"], &["URL"]),
    ] {
        same(theirs, ours, &env).await;
    }
    let plain = posts(&["URL"], &env).await.concat();
    assert!(!plain.contains("authorization"), "a variable of another program is nobody's business");
}

#[tokio::test]
async fn an_sse_url_is_spoken_to_in_the_older_way() {
    let script = |request: &Request| match &*request.http_method {
        "GET" => Reply::sse().chunk("event: endpoint\ndata: /messages\n\n").hang(),
        _ => Reply::accepted(),
    };
    for args in [
        &["-y", "supergateway", "--sse", "URL", "--header", "X-A: b", "--oauth2Bearer", "abc"][..],
        &[
            "mcp-proxy",
            "--transport",
            "sse",
            "--headers",
            "X-A",
            "b",
            "-H",
            "Authorization",
            "Bearer abc",
            "URL",
        ],
        &[
            "mcp-remote",
            "URL",
            "--transport",
            "sse-only",
            "--header",
            "X-A:b",
            "--header",
            "Authorization:Bearer abc",
        ],
    ] {
        let server = Server::start(script).await;
        let args: Vec<&str> =
            args.iter().map(|arg| if *arg == "URL" { &*server.url } else { arg }).collect();
        let mut bridge = Bridge::start(&args);
        bridge.send(INITIALIZE).await;
        let post = server.saw("initialize").await;
        assert_eq!(server.asked(), ["GET", "initialize"], "{args:?}");
        assert_eq!(post.path, "/messages");
        for request in server.requests() {
            assert_eq!(request.header("x-a"), Some("b"));
            assert_eq!(request.header("authorization"), Some("Bearer abc"));
        }
    }
}

#[tokio::test]
async fn what_is_wrong_gets_a_sentence_under_the_name_that_was_typed() {
    let url = "http://localhost:1/mcp";
    for (args, part) in [
        (&["--body-timeout", "soon"][..], "--body-timeout: it must be a number of seconds"),
        (&["--ping-interval", "0"], "--ping-interval: it must be more than 0"),
        (&["--static-oauth-client-info"], "--static-oauth-client-info needs a value"),
        (
            &["--static-oauth-client-info", "@/no/info.json"],
            "--static-oauth-client-info: /no/info.json cannot be read",
        ),
        (&["--static-oauth-client-metadata", "{s3cret"], "this is not JSON (line 1"),
        (&["--auth-timeout", "0"], "--auth-timeout: it must be more than 0"),
        (&["--headers", "X-A"], "--headers needs a name and a value"),
        (&["--oauth2Bearer", "s3cret", "-H", "Authorization: s3cret"], "leave one of them out"),
        (&["--keep-alive", "soon"], "'soon' for --keep-alive: it must be"),
        (&["--transport", "pigeon"], "'pigeon'"),
        (&["--ignore-tols", "s3cret"], "unexpected argument '--ignore-tols'"),
        (&["96960"], "a port is 1 to 65535"),
        (&["mcp-remote"], "'mcp-remote' stands behind the URL"),
        (&["nonsense"], "one argument too many"),
        (
            &["--auth-success-url", "https://example.com/?s3cret"],
            "--auth-success-url: it must have no user, no query and no fragment",
        ),
        (
            &["--auth-success-url", "nonsense"],
            "--auth-success-url: it is not a URL: write it like https://",
        ),
        (&["--callback-path", "nonsense"], "--callback-path: it must be a path such as /callback"),
    ] {
        let output = run(&[&[url], args].concat(), &[], "").await;
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(part) && !stderr.contains("s3cret"), "{args:?}: {stderr}");
    }
    let output = run(&["mcp-remote"], &[], "").await;
    assert!(String::from_utf8_lossy(&output.stderr).contains("URL of an MCP server is missing"));
}
