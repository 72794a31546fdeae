//! How a report of `mcp-span check` is laid out: at any width, with and without colour.

use unicode_width::UnicodeWidthStr;

use crate::support::proxy::{Fault, ProxyBehavior};
use crate::support::{Checked, checked, run};

/// A check of a server that a proxy does not let us to: with all four marks, and without times.
async fn refused(columns: &str, args: &[&str], env: &[(&str, &str)]) -> Checked {
    let fault = Fault::Status(403, "no such hosts here");
    let proxy = ProxyBehavior::http().fault(fault).start().await;
    let way = proxy.url("http");
    let url = "http://server.example/mcp";
    let args = [&["check", url, "--allow-http", "--proxy", &way], args].concat();
    checked(&run(&args, &[&[("COLUMNS", columns)], env].concat(), "").await)
}

/// With `^[` for what begins the code of a colour.
fn visible(text: &str) -> String {
    text.replace('\u{1b}', "^")
}

#[tokio::test]
async fn a_report_fits_the_width() {
    let mut words = Vec::new();
    for (columns, expected) in [("40", AT_40), ("80", AT_80), ("120", AT_120)] {
        let found = refused(columns, &[], &[]).await;
        assert_eq!(found.text, expected, "\n{}", found.text);
        let width = columns.parse().unwrap();
        let prose = found.text.lines().filter(|line| !line.trim_start().starts_with(['>', '<']));
        for line in prose {
            assert!(line.width() <= width, "{line}");
        }
        words.push(found.text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    }
    assert!(words.iter().all(|text| *text == words[0]), "{words:?}");
}

#[tokio::test]
async fn colour_is_forced_and_forbidden_by_variables() {
    for (columns, plain) in [("40", AT_40), ("80", AT_80), ("120", AT_120)] {
        let coloured = refused(columns, &[], &[("CLICOLOR_FORCE", "1")]).await;
        let bare = anstream::adapter::strip_str(&coloured.text).to_string();
        assert_eq!(bare, plain);
        if columns == "80" {
            let text = visible(&coloured.text);
            assert_eq!(text, IN_COLOUR, "\n{text}");
        }
        let env = [("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")];
        assert_eq!(refused(columns, &[], &env).await.text, plain);
    }
}

const AT_40: &str = r#"
http://server.example/mcp
  ! url
    plain http, host server.example,
    port 80, path /mcp
    Anyone on the network path can read
    and change the traffic, credentials
    included
    hint: Use https, unless you trust
    the whole path
  - name           resolved by the proxy
  ✓ proxy
    http://127.0.0.1:PORT, from --proxy
  ✓ connection
    through the proxy (N ms)
  - tls            the URL is plain http
  ✓ http           HTTP/1.1
  - transport, server, session: the
    server requires credentials first
  ✗ authorization
    access is refused (HTTP 403 without
    WWW-Authenticate)
    These credentials do not grant
    access; web application firewalls
    answer like this, too
    hint: Ask the server's operator for
    access; check the credentials and
    headers that it requires
    > POST http://server.example/mcp
    > accept: application/json, text/event-stream
    > content-type: application/json
    > user-agent: mcp-span/VERSION
    > {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{},"clientInfo":{"name":"mcp-span","version":"VERSION"},"protocolVersion":"2025-11-25"}}
    < HTTP/1.1 403
    < content-length: 18
    < no such hosts here
  - round-trip, contents: the server
    requires credentials first
  1 failed, and 1 warning
"#;
const AT_80: &str = r#"
http://server.example/mcp
  ! url            plain http, host server.example, port 80, path /mcp
                   Anyone on the network path can read and change the traffic,
                   credentials included
                   hint: Use https, unless you trust the whole path
  - name           resolved by the proxy
  ✓ proxy          http://127.0.0.1:PORT, from --proxy
  ✓ connection     through the proxy (N ms)
  - tls            the URL is plain http
  ✓ http           HTTP/1.1
  - transport, server, session: the server requires credentials first
  ✗ authorization  access is refused (HTTP 403 without WWW-Authenticate)
                   These credentials do not grant access; web application
                   firewalls answer like this, too
                   hint: Ask the server's operator for access; check the
                   credentials and headers that it requires
                   > POST http://server.example/mcp
                   > accept: application/json, text/event-stream
                   > content-type: application/json
                   > user-agent: mcp-span/VERSION
                   > {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{},"clientInfo":{"name":"mcp-span","version":"VERSION"},"protocolVersion":"2025-11-25"}}
                   < HTTP/1.1 403
                   < content-length: 18
                   < no such hosts here
  - round-trip, contents: the server requires credentials first
  1 failed, and 1 warning
"#;
const AT_120: &str = r#"
http://server.example/mcp
  ! url            plain http, host server.example, port 80, path /mcp
                   Anyone on the network path can read and change the traffic, credentials included
                   hint: Use https, unless you trust the whole path
  - name           resolved by the proxy
  ✓ proxy          http://127.0.0.1:PORT, from --proxy
  ✓ connection     through the proxy (N ms)
  - tls            the URL is plain http
  ✓ http           HTTP/1.1
  - transport, server, session: the server requires credentials first
  ✗ authorization  access is refused (HTTP 403 without WWW-Authenticate)
                   These credentials do not grant access; web application firewalls answer like this, too
                   hint: Ask the server's operator for access; check the credentials and headers that it requires
                   > POST http://server.example/mcp
                   > accept: application/json, text/event-stream
                   > content-type: application/json
                   > user-agent: mcp-span/VERSION
                   > {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{},"clientInfo":{"name":"mcp-span","version":"VERSION"},"protocolVersion":"2025-11-25"}}
                   < HTTP/1.1 403
                   < content-length: 18
                   < no such hosts here
  - round-trip, contents: the server requires credentials first
  1 failed, and 1 warning
"#;
const IN_COLOUR: &str = r#"
^[1mhttp://server.example/mcp^[0m
  ^[33m!^[0m url            plain http, host server.example, port 80, path /mcp
                   Anyone on the network path can read and change the traffic,
                   credentials included
                   hint: Use https, unless you trust the whole path
  ^[2m-^[0m name           resolved by the proxy
  ^[32m✓^[0m proxy          http://127.0.0.1:PORT, from --proxy
  ^[32m✓^[0m connection     through the proxy (N ms)
  ^[2m-^[0m tls            the URL is plain http
  ^[32m✓^[0m http           HTTP/1.1
  ^[2m-^[0m transport, server, session: the server requires credentials first
  ^[1m^[31m✗^[0m authorization  access is refused (HTTP 403 without WWW-Authenticate)
                   These credentials do not grant access; web application
                   firewalls answer like this, too
                   hint: Ask the server's operator for access; check the
                   credentials and headers that it requires
                   ^[2m> POST http://server.example/mcp^[0m
                   ^[2m> accept: application/json, text/event-stream^[0m
                   ^[2m> content-type: application/json^[0m
                   ^[2m> user-agent: mcp-span/VERSION^[0m
                   ^[2m> {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{},"clientInfo":{"name":"mcp-span","version":"VERSION"},"protocolVersion":"2025-11-25"}}^[0m
                   ^[2m< HTTP/1.1 403^[0m
                   ^[2m< content-length: 18^[0m
                   ^[2m< no such hosts here^[0m
  ^[2m-^[0m round-trip, contents: the server requires credentials first
  ^[1m^[31m1 failed, and 1 warning^[0m
"#;
