//! `mcp-span check` on the way to a server: down, certificates, proxies.

use std::time::{Duration, Instant};

use rcgen::date_time_ymd;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::check_servers::healthy;
use crate::support::certificates::{Ca, Files, Leaf, Manners};
use crate::support::proxy::{Fault, ProxyBehavior};
use crate::support::{Server, check};

#[tokio::test]
async fn a_server_that_is_down() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    drop(listener);
    check(&[&url], &[]).await.is(
        3,
        r#"
        http://127.0.0.1:PORT/mcp
        ✓ url            plain http on this machine, host 127.0.0.1, port PORT, path /mcp
        ✓ name           an IP address: nothing to resolve
        ✓ proxy          none
        ✗ connection     127.0.0.1:PORT refused the connection
        Connection refused
        The machine is up, but nothing listens on this port: the server is down, or uses
        another port
        hint: Check that the server runs and that http://127.0.0.1:PORT/mcp is its URL
        - tls            the URL is plain http
        - http, transport, server, session, authorization, round-trip, contents: no connection
        1 failed
        "#,
    );
}

#[tokio::test]
async fn a_name_that_nobody_knows() {
    let found = check(&["https://nobody.invalid/mcp"], &[]).await;
    assert_eq!(found.code, Some(3));
    let finding = found.finding("name");
    assert!(finding.starts_with("✗ name           The host name nobody.invalid"), "{finding}");
    assert!(finding.contains("hint: Check the host in the URL"), "{finding}");
}

#[tokio::test]
async fn a_dead_server_costs_no_more_than_connecting_may() {
    // Takes connections, and never speaks TLS.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/mcp", listener.local_addr().unwrap());
    let begun = Instant::now();
    let found = check(&[&url, "--connect-timeout", "0.5"], &[]).await;
    assert_eq!(found.code, Some(3), "{found:?}");
    assert!(found.finding("tls").contains("No connection to"), "{found:?}");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn the_smaller_limit_holds_for_a_connection_too() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/mcp", listener.local_addr().unwrap());
    let begun = Instant::now();
    let found = check(&[&url, "--timeout", "0.5"], &[]).await;
    assert_eq!(found.code, Some(3), "{found:?}");
    assert!(found.finding("tls").starts_with("✗ tls"), "{found:?}");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_peer_that_speaks_no_http() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 1024]).await;
            let _ = stream.write_all(b"SSH-2.0-something\r\n").await;
        }
    });
    let found = check(&[&url], &[]).await;
    assert_eq!(found.code, Some(3), "{found:?}");
    let finding = found.finding("transport");
    assert!(finding.starts_with("✗ transport"), "{finding}");
    assert!(finding.contains("hint: Check scheme and port of the URL"), "{finding}");
    assert!(finding.contains("invalid HTTP"), "the reason: {finding}");
    assert!(finding.contains("The answer is not HTTP"), "{finding}");
}

#[tokio::test]
async fn a_healthy_server_over_https() {
    let (files, root) = (Files::new(), Ca::new("Root One"));
    let leaf = root.intermediate("Middle One").server(|_| ());
    let server = Server::start_tls(
        leaf.serve(Manners { protocols: &["h2", "http/1.1"], ..Manners::default() }),
        healthy,
    )
    .await;
    let ca = files.with("ca.pem", &root.pem);
    let found = check(&[&server.url, "--ca-cert", &ca, "-v"], &[]).await;
    assert_eq!(found.code, Some(0), "{found:?}");
    found.says(
        "tls",
        r#"
        ✓ tls            TLS 1.3 (N ms); valid for N days
        "rcgen self signed cert" for localhost, issued by "Middle One", expires in N days (DATE)
        "Middle One", issued by "Root One", expires in N days (DATE)
        "#,
    );
    assert_eq!(found.finding("http"), "✓ http           HTTP/2, negotiated by TLS");
}

#[tokio::test]
async fn an_expired_certificate() {
    let (files, root) = (Files::new(), Ca::new("Root One"));
    let leaf = root.server(|params| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
    });
    let server = Server::start_tls(leaf.serve(Manners::default()), healthy).await;
    let ca = files.with("ca.pem", &root.pem);
    check(&[&server.url, "--ca-cert", &ca], &[]).await.is(
        3,
        r#"
        https://localhost:PORT/mcp
        ✓ url            https, host localhost, port PORT, path /mcp
        ✓ name           localhost is this machine: nothing to resolve
        ✓ proxy          none
        ✓ connection     127.0.0.1:PORT (N ms)
        ✗ tls            No secure connection to localhost:PORT: its certificate, issued by "Root One",
        expired on DATE 00:00:00 GMT
        "rcgen self signed cert" for localhost, issued by "Root One", expired N days ago (DATE)
        The certificate has expired; unless this machine's date is wrong, it was not
        renewed
        hint: Check the clock of this machine; if it is right, the server needs a new
        one; as a last resort, --insecure skips the check, and with it the protection
        - http, transport, server, session, authorization, round-trip, contents: no connection
        1 failed
        "#,
    );
    assert!(server.requests().is_empty(), "nothing is said to it");
}

#[tokio::test]
async fn a_self_signed_certificate_and_one_for_another_name() {
    let alone = Leaf::self_signed(|_| ());
    let server = Server::start_tls(alone.serve(Manners::default()), healthy).await;
    let found = check(&[&server.url], &[]).await;
    found.says(
        "tls",
        r#"
        ✗ tls            No secure connection to localhost:PORT: its certificate is self-signed, by
        "alone"
        "alone" for localhost, self-signed, expires in N days (DATE)
        No authority vouches for the certificate: anyone could have made it
        hint: If it is the right one, name a PEM file with it by --ca-cert; as a last
        resort, --insecure skips the check, and with it the protection
        "#,
    );

    let (files, root) = (Files::new(), Ca::new("Root One"));
    let other = root.server(|params| {
        params.subject_alt_names =
            rcgen::CertificateParams::new(vec!["a.example".to_owned(), "b.example".to_owned()])
                .unwrap()
                .subject_alt_names;
    });
    let server = Server::start_tls(other.serve(Manners::default()), healthy).await;
    let ca = files.with("ca.pem", &root.pem);
    let found = check(&[&server.url, "--ca-cert", &ca], &[]).await;
    found.says("tls", r#"
        ✗ tls            No secure connection to localhost:PORT: its certificate, issued by "Root One",
        is for other names: a.example, b.example
        "rcgen self signed cert" for a.example, b.example, issued by "Root One", expires in N days (DATE)
        The peer cannot prove to be the server of this URL, so nothing was sent
        hint: Check the URL: its host must be one that the certificate names; as a last
        resort, --insecure skips the check, and with it the protection
        "#);
    assert_eq!(found.code, Some(3));
}

#[tokio::test]
async fn a_certificate_that_ends_soon_and_one_that_nobody_looks_at() {
    let (files, root) = (Files::new(), Ca::new("Root One"));
    let soon = std::time::SystemTime::now() + Duration::from_secs(3 * 24 * 60 * 60 + 60);
    let leaf = root.server(|params| params.not_after = soon.into());
    let server = Server::start_tls(leaf.serve(Manners::default()), healthy).await;
    let ca = files.with("ca.pem", &root.pem);
    let found = check(&[&server.url, "--ca-cert", &ca, "--strict"], &[]).await;
    assert_eq!(found.code, Some(1));
    let finding = found.finding("tls");
    assert!(finding.starts_with("! tls"), "{finding}");
    assert!(finding.contains("certificate expires in N days"), "{finding}");
    let found = check(&[&server.url, "--insecure"], &[]).await;
    assert_eq!(found.code, Some(0));
    assert!(found.finding("tls").contains("certificate not verified"), "{found:?}");
}

#[tokio::test]
async fn a_server_behind_a_proxy() {
    let server = Server::start(healthy).await;
    let proxy = ProxyBehavior::http().login("ann", "hidden-password").start().await;
    let way = proxy.url_for("http", "ann:hidden-password");
    let found = check(&[&server.url, "--proxy", &way], &[]).await;
    assert_eq!(found.code, Some(0), "{found:?}");
    assert_eq!(found.finding("proxy"), "✓ proxy          http://127.0.0.1:PORT, from --proxy");
    assert_eq!(found.finding("name"), "- name           resolved by the proxy");
    assert_eq!(found.finding("connection"), "✓ connection     through the proxy (N ms)");
    assert!(!found.text.contains("hidden") && !found.text.contains("ann"), "{found:?}");
    assert!(!proxy.asked().is_empty());
}

#[tokio::test]
async fn a_proxy_that_does_not_let_us_through() {
    let proxy = ProxyBehavior::http().fault(Fault::Status(403, "no such hosts here")).start().await;
    let way = proxy.url("http");
    check(&["https://server.example/mcp", "--proxy", &way], &[]).await.is(3, r#"
        https://server.example/mcp
        ✓ url            https, host server.example, port 443, path /mcp
        - name           resolved by the proxy
        ✓ proxy          http://127.0.0.1:PORT, from --proxy
        ✗ connection     The proxy 127.0.0.1:PORT refused to connect to server.example:443 (403 Text)
        The proxy is unreachable, or refuses to connect to the server
        hint: Ask who runs the proxy, which comes from --proxy; --no-proxy goes without
        it
        - tls, http, transport, server, session, authorization, round-trip, contents: no connection
        1 failed
        "#);
}
