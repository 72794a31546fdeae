//! Whole conversations, byte for byte, as the requirements write them out.

use crate::support::{Bridge, Reply, Server, polite, run};

/// A server as revision 2025-03-26 has it: JSON for the handshake, events for the list.
fn fixture(r: &crate::support::Request) -> Reply {
    match &*r.what() {
        "initialize" => Reply::json(
            r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-03-26","capabilities":{}}}"#,
        )
        .header("Mcp-Session-Id", "fixture"),
        "tools/list" => Reply::sse().event(r#"{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}"#).end(),
        _ => polite(r),
    }
}

#[tokio::test]
async fn initialize_then_tools_list_over_streamable_http() {
    // S2-01, S2-14, S2-15, S4-01, S4-03, S4-19, S0-09: a chunked stream is read as it comes.
    let server = Server::start(fixture).await;
    let input = concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#,
        "\n"
    );
    let args = [&*server.url, "--header", "Authorization: Bearer abc123def"];
    let output = run(&args, &[], input).await;
    // S0-02, S0-18: lines of JSON-RPC and nothing else, no framing headers.
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        concat!(
            r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-03-26","capabilities":{}}}"#,
            "\n",
            r#"{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}"#,
            "\n"
        )
    );
    assert_eq!(output.stderr, b"");
    for r in server.requests() {
        assert_eq!(r.header("authorization"), Some("Bearer abc123def"));
        let session = (r.what() != "initialize").then_some("fixture");
        assert_eq!(r.header("mcp-session-id"), session, "{}", r.what());
    }
}

#[tokio::test]
async fn a_session_survives_many_messages() {
    // S2-26
    let server = Server::start(polite).await;
    let mut bridge = Bridge::ready(&[&server.url, "--no-server-stream"]).await;
    for id in 0..500 {
        assert_eq!(bridge.ask(crate::support::request(id, "tools/call")).await["id"], id);
    }
    assert_eq!(server.all("initialize").len(), 1);
    assert!(server.all("tools/call").iter().all(|r| r.header("mcp-session-id") == Some("s1")));
}
