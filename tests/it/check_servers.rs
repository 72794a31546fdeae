//! `mcp-span check` at servers that can be connected to: what a person reads.

use crate::support::{Hub, Reply, Request, Server, check, result};

/// A server with nothing to be said against it.
pub(crate) fn healthy(r: &Request) -> Reply {
    let session = r.header("mcp-session-id");
    if session.is_some_and(|id| id != "session-one") {
        return Reply::status(404, "text/plain", "Session not found");
    }
    match &*r.http_method {
        "GET" if session.is_some() => return Reply::sse().hang(),
        "DELETE" => return Reply::status(200, "", ""),
        _ => {}
    }
    let json = r.json();
    if json["id"].is_null() {
        return Reply::accepted();
    }
    let said = match &*r.what() {
        "initialize" => {
            let answer = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"resources":{},"prompts":{}},"serverInfo":{"name":"fine","version":"1.2"}}"#;
            return Reply::json(result(r.id(), answer)).header("Mcp-Session-Id", "session-one");
        }
        "ping" => "{}",
        "tools/list" if json["params"]["cursor"].is_null() => {
            r#"{"tools":[{"name":"a","inputSchema":{"type":"object"}},{"name":"b","inputSchema":{"type":"object"}}],"nextCursor":"more"}"#
        }
        "tools/list" => r#"{"tools":[{"name":"c","inputSchema":{"type":"object"}}]}"#,
        "resources/list" => r#"{"resources":[{"uri":"x:y"}]}"#,
        "prompts/list" => r#"{"prompts":[]}"#,
        _ => {
            let id = r.id();
            let refusal = r#"{"code":-32601,"message":"Method not found"}"#;
            return Reply::json(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{refusal}}}"#));
        }
    };
    Reply::json(result(r.id(), said))
}

#[tokio::test]
async fn a_healthy_server_over_streamable_http() {
    let server = Server::start(healthy).await;
    check(&[&server.url, "--audit", "-v"], &[]).await.is(
        0,
        r#"
        http://127.0.0.1:PORT/mcp
        ✓ url              plain http on this machine, host 127.0.0.1, port PORT, path /mcp
        ✓ name             an IP address: nothing to resolve
        ✓ proxy            none
        ✓ connection       127.0.0.1:PORT (N ms)
        - tls              the URL is plain http
        ✓ http             HTTP/1.1
        ✓ transport        Streamable HTTP, revision 2025-11-25 (legacy era)
        ✓ server           fine 1.2
        capabilities: prompts, resources, tools (listChanged)
        ✓ session          session id issued; a second request works
        ✓ session-unknown  HTTP 404, as expected
        ✓ session-end      DELETE accepted (HTTP 200)
        ✓ stream           stays open (N ms)
        ✓ authorization    none required
        ✓ round-trip       median N ms, slowest N ms (5 pings)
        ✓ contents         3 tools on 2 pages, 1 resource, 0 prompts
        no problems found
        "#,
    );
}

#[tokio::test]
async fn a_healthy_server_over_http_and_sse() {
    let hub = Hub::start(|r, streams| {
        if r.what() != "tools/list" {
            return None;
        }
        let tools = r#"{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}"#;
        streams.newest().event(result(r.id(), tools));
        Some(crate::support::hub::acknowledged())
    })
    .await;
    check(&[&hub.url, "--audit", "-v"], &[]).await.is(
        0,
        r#"
        http://127.0.0.1:PORT/mcp
        ✓ url              plain http on this machine, host 127.0.0.1, port PORT, path /mcp
        ✓ name             an IP address: nothing to resolve
        ✓ proxy            none
        ✓ connection       127.0.0.1:PORT (N ms)
        - tls              the URL is plain http
        ✓ http             HTTP/1.1
        ✓ transport        HTTP+SSE (the older transport)
        POST answered with HTTP 404, GET with a stream
        ✓ server           hub 1
        capabilities: tools (listChanged)
        revision: 2025-11-25
        - session, session-unknown, session-end, stream: the stream is the session
        ✓ authorization    none required
        ✓ round-trip       median N ms, slowest N ms (5 pings)
        ✓ contents         1 tool
        no problems found
        "#,
    );
}

/// A server of the modern era alone.
fn modern_only(r: &Request) -> Reply {
    let id = r.id();
    let meta = r#""_meta":{"io.modelcontextprotocol/serverInfo":{"name":"new","version":"2"}}"#;
    match &*r.what() {
        "server/discover" => Reply::json(result(
            id,
            &format!(
                r#"{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{{"tools":{{}}}},{meta}}}"#
            ),
        )),
        "tools/list" => Reply::json(result(
            id,
            r#"{"resultType":"complete","tools":[{"name":"a","inputSchema":{"type":"object"}}]}"#,
        )),
        _ => Reply::status(
            400,
            "application/json",
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32022,"message":"Unsupported protocol version","data":{{"supported":["2026-07-28"]}}}}}}"#
            ),
        ),
    }
}

#[tokio::test]
async fn a_server_of_the_modern_era_alone() {
    let server = Server::start(modern_only).await;
    check(&[&server.url, "--audit", "-v"], &[]).await.is(
        0,
        r#"
        http://127.0.0.1:PORT/mcp
        ✓ url              plain http on this machine, host 127.0.0.1, port PORT, path /mcp
        ✓ name             an IP address: nothing to resolve
        ✓ proxy            none
        ✓ connection       127.0.0.1:PORT (N ms)
        - tls              the URL is plain http
        ✓ http             HTTP/1.1
        ✓ transport        Streamable HTTP, revision 2026-07-28 (modern era)
        mcp-span translates for clients of the legacy era
        `initialize` answered with HTTP 400
        ✓ server           new 2
        capabilities: tools
        - session, session-unknown, session-end, stream: the modern era has no sessions
        ✓ authorization    none required
        ✓ round-trip       median N ms, slowest N ms (5 questions)
        ✓ contents         1 tool
        no problems found
        "#,
    );
}

#[tokio::test]
async fn a_server_of_both_eras_is_found_by_an_audit() {
    let server = Server::start(|r| match &*r.what() {
        "server/discover" => modern_only(r),
        _ => healthy(r),
    })
    .await;
    let found = check(&[&server.url, "--audit"], &[]).await;
    let both = "Streamable HTTP, revision 2025-11-25 (legacy era); 2026-07-28 (modern era) as well";
    assert_eq!(found.finding("transport").replace('\n', " "), format!("✓ transport        {both}"));
    let found = check(&[&server.url], &[]).await;
    assert!(!found.finding("transport").contains("as well"), "{found:?}");
    let asked = server.requests().iter().filter(|r| r.what() == "server/discover").count();
    assert_eq!(asked, 1, "no client would ask that");
}

#[tokio::test]
async fn tools_that_are_invalid_or_hidden_are_told() {
    let server = Server::start(|r| match &*r.what() {
        "tools/list" => {
            let tools =
                r#"{"tools":[{"name":"good","inputSchema":{"type":"object"}},{"name":"bare"}]}"#;
            Reply::json(result(r.id(), tools))
        }
        _ => healthy(r),
    })
    .await;
    let found = check(&[&server.url, "--ignore-tool", "go*"], &[]).await;
    assert_eq!(found.code, Some(0), "{found:?}");
    found.says(
        "contents",
        r#"
        ! contents       2 tools, 1 resource, 0 prompts; some tools are invalid
        bare: no inputSchema
        hidden by --ignore-tool: 1 tool
        Strict clients refuse such a tool, or the whole list with it
        hint: Give each tool a unique name and an inputSchema of the type "object"
        "#,
    );
}

#[tokio::test]
async fn a_handshake_that_is_taken_and_not_answered() {
    for reply in [Reply::accepted(), Reply::sse().chunk(": hello\n\n").end()] {
        let server = Server::start(move |_| reply.clone()).await;
        let found = check(&[&server.url], &[]).await;
        assert_eq!(found.code, Some(3), "{found:?}");
        let finding = found.finding("transport").replace('\n', " ");
        assert!(finding.contains("accepts the handshake, but does not answer it"), "{finding}");
        assert!(finding.contains("> POST "), "{finding}");
    }
}

#[tokio::test]
async fn a_page_in_place_of_an_answer_and_where_the_server_is() {
    let server = Server::start(|r| match &*r.path {
        "/mcp" => healthy(r),
        "/sse" => Reply::status(404, "", ""),
        _ => Reply::status(200, "text/html", "<html><title>Welcome</title></html>"),
    })
    .await;
    let url = server.url.replace("/mcp", "/start?key=hidden-key");
    check(&[&url, "-H", "Authorization: Bearer hidden-token"], &[]).await.is(3, r#"
        http://127.0.0.1:PORT/start?key=[secret]
        ✓ url            plain http on this machine, host 127.0.0.1, port PORT, path /start
        ✓ name           an IP address: nothing to resolve
        ✓ proxy          none
        ✓ connection     127.0.0.1:PORT (N ms)
        - tls            the URL is plain http
        ✓ http           HTTP/1.1
        ✗ transport      a web page "Welcome" instead of an answer (HTTP 200, text/html)
        The URL is that of a login page or a home page, or something in between (a
        captive portal, a company proxy) answers instead of the server
        hint: Try http://127.0.0.1:PORT/mcp: an MCP server answers there
        > POST http://127.0.0.1:PORT/start?key=[secret]
        > accept: application/json, text/event-stream
        > authorization: Bearer [secret]
        > content-type: application/json
        > user-agent: mcp-span/VERSION
        > {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{},"clientInfo":{"name":"mcp-span","version":"VERSION"},"protocolVersion":"2025-11-25"}}
        < HTTP/1.1 200
        < content-length: 35
        < content-type: text/html
        < <html><title>Welcome</title></html>
        - server, session, authorization, round-trip, contents: no MCP server found
        1 failed
        "#);
    let others = server.requests().into_iter().filter(|r| r.path == "/mcp" || r.path == "/sse");
    let mut asked = Vec::new();
    for other in others {
        let credentials = other.header("authorization");
        assert_eq!(credentials, None, "they are for the URL that was typed");
        asked.push(other.what());
    }
    assert_eq!(
        asked,
        ["initialize", "notifications/initialized", "DELETE", "GET"],
        "no session is left behind"
    );
}

#[tokio::test]
async fn a_server_that_speaks_only_the_other_transport() {
    let hub = Hub::plain().await;
    check(&[&hub.url, "--transport", "http"], &[]).await.is(3, r#"
        http://127.0.0.1:PORT/mcp
        ✓ url            plain http on this machine, host 127.0.0.1, port PORT, path /mcp
        ✓ name           an IP address: nothing to resolve
        ✓ proxy          none
        ✓ connection     127.0.0.1:PORT (N ms)
        - tls            the URL is plain http
        ✓ http           HTTP/1.1
        ✗ transport      the server speaks HTTP+SSE (the older transport), not --transport http
        The transport that was asked for is not the server's
        hint: Drop --transport http: mcp-span finds out by itself
        > POST http://127.0.0.1:PORT/mcp
        > accept: application/json, text/event-stream
        > content-type: application/json
        > user-agent: mcp-span/VERSION
        > {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{},"clientInfo":{"name":"mcp-span","version":"VERSION"},"protocolVersion":"2025-11-25"}}
        < HTTP/1.1 404
        < content-length: 57
        < content-type: text/html; charset=utf-8
        < <!DOCTYPE html> <html><pre>Cannot POST /mcp</pre></html>
        - server, session, authorization, round-trip, contents: the server speaks another transport
        1 failed
        "#);
    let server = Server::start(healthy).await;
    let other = check(&[&server.url, "--transport", "sse"], &[]).await;
    assert_eq!(other.code, Some(3));
    assert!(
        other
            .finding("transport")
            .starts_with("✗ transport      the server speaks Streamable HTTP"),
        "{other:?}"
    );
}

#[tokio::test]
async fn sessions_that_are_not_as_they_should_be() {
    let server = Server::start(|r| {
        let session = r.header("mcp-session-id");
        match &*r.http_method {
            _ if session.is_some_and(|id| id != "session-one") => {
                Reply::status(400, "text/plain", "No valid session")
            }
            "GET" => Reply::sse().chunk(": hello\n\n").end(),
            "DELETE" => Reply::status(500, "", ""),
            _ => healthy(r),
        }
    })
    .await;
    let found = check(&[&server.url, "--audit"], &[]).await;
    assert_eq!(found.code, Some(0), "warnings only");
    assert_eq!(check(&[&server.url, "--audit", "--strict"], &[]).await.code, Some(1));
    assert_eq!(check(&[&server.url, "--strict"], &[]).await.code, Some(0), "nobody asked");
    for (check, begin) in [
        ("session-unknown", "! session-unknown  HTTP 400 instead of 404"),
        ("session-end", "! session-end      DELETE answered with HTTP 500"),
        ("stream", "! stream           closed as soon as it was opened"),
    ] {
        let finding = found.finding(check);
        assert!(finding.starts_with(begin) && finding.contains("hint: "), "{finding}");
    }
}

#[tokio::test]
async fn a_second_request_that_fails_comes_with_its_exchange() {
    let server = Server::start(|r| match &*r.what() {
        "ping" => Reply::status(503, "text/plain", "another machine"),
        _ => healthy(r),
    })
    .await;
    let found = check(&[&server.url], &[]).await;
    assert_eq!(found.code, Some(3));
    let finding = found.finding("session");
    assert!(finding.contains("the second request of a session fails (HTTP 503)"), "{finding}");
    assert!(finding.contains("load balancer"), "{finding}");
    // Enough to tell two sessions apart, too little to use one.
    assert!(finding.contains("> mcp-session-id: session-…"), "{finding}");
    assert!(finding.contains("< another machine"), "{finding}");
}

#[tokio::test]
async fn redirects_clocks_and_silence() {
    let server = Server::start(|r| match &*r.path {
        "/old" => Reply::status(307, "", "").header("Location", "/mcp"),
        _ => healthy(r).header("Date", "Sun, 06 Nov 1994 08:49:37 GMT"),
    })
    .await;
    let found = check(&[&server.url.replace("/mcp", "/old"), "--audit"], &[]).await;
    assert_eq!(found.code, Some(0), "{found:?}");
    assert!(found.finding("http").contains("redirected to http://127.0.0.1:PORT/mcp"), "{found:?}");
    assert!(found.finding("clock").starts_with("! "), "{found:?}");

    let elsewhere = Server::start(|_| {
        Reply::status(302, "", "").header("Location", "https://login.example/?next=hidden-value")
    })
    .await;
    let found = check(&[&elsewhere.url], &[]).await;
    let finding = found.finding("transport");
    assert!(finding.contains("another origin, https://login.example/?next=[secret]"), "{finding}");
    assert_eq!(found.code, Some(3));

    let silent = Server::start(|_| Reply::nothing().hang()).await;
    let found = check(&[&silent.url, "--timeout", "0.3"], &[]).await;
    assert!(found.finding("transport").contains("No answer within N ms"), "{found:?}");
}

#[tokio::test]
async fn answers_that_are_none() {
    for (reply, said) in [
        (Reply::status(404, "text/plain", "nothing"), "nothing at this path"),
        (Reply::status(502, "text/html", "<html>Bad gateway"), "a web page instead of an answer"),
        (Reply::status(500, "text/plain", "oh"), "server error (HTTP 500, text/plain)"),
        (Reply::status(429, "", ""), "too many requests"),
        (Reply::json("{}"), "not an MCP answer"),
        (
            Reply::status(200, "text/plain", r#"{"jsonrpc":"2.0","id":1,"result":{}}"#),
            "valid answer, wrong Content-Type",
        ),
        (
            Reply::json(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"go away"}}"#),
            "handshake refused: MCP error -32600: go away",
        ),
    ] {
        let server = Server::start(move |_| reply.clone()).await;
        let found = check(&[&server.url], &[]).await;
        assert_eq!(found.code, Some(3), "{found:?}");
        let finding = found.finding("transport").replace('\n', " ");
        assert!(finding.contains(said), "{said}: {finding}");
        assert!(finding.contains("hint: ") && finding.contains("> POST "), "{finding}");
    }
}

#[tokio::test]
async fn a_server_that_only_sends_signs_of_life_is_given_up() {
    // Every 100 ms, for a minute: no silence is long enough to be a timeout.
    for silent in ["initialize", "tools/list", "ping"] {
        let server = Server::start(move |r| match &*r.what() {
            what if what == silent => {
                (0..600).fold(Reply::sse(), |reply, _| reply.chunk(": alive\n\n").pause(100))
            }
            _ => healthy(r),
        })
        .await;
        let begun = std::time::Instant::now();
        let found = check(&[&server.url, "--timeout", "0.5"], &[]).await;
        assert_eq!(found.code, Some(3), "{silent}: {found:?}");
        let took = begun.elapsed();
        assert!(took < std::time::Duration::from_secs(20), "{silent}: {took:?}");
    }
}
