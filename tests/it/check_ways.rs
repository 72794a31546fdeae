//! `mcp-span check` on the way to a server: down, certificates, proxies.

use std::time::{Duration, Instant};

use rcgen::date_time_ymd;
use tokio::net::TcpListener;

use crate::check_servers::healthy;
use crate::support::certificates::{Ca, Files, Leaf, Manners};
use crate::support::proxy::{Fault, Manner};
use crate::support::{Server, check};

#[tokio::test]
async fn a_server_that_is_down() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    drop(listener);
    check(&[&url], &[]).await.is(3, "");
}

#[tokio::test]
async fn a_name_that_nobody_knows() {
    let found = check(&["https://nobody.invalid/mcp"], &[]).await;
    assert_eq!(found.code, Some(3));
    let finding = found.finding("name");
    assert!(
        finding.starts_with("failed   name             The host name nobody.invalid"),
        "{finding}"
    );
    assert!(finding.contains("next: Check the host in the URL"), "{finding}");
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
async fn a_healthy_server_over_https() {
    let (files, root) = (Files::new(), Ca::new("Root One"));
    let leaf = root.intermediate("Middle One").server(|_| ());
    let server = Server::start_tls(
        leaf.serve(Manners { protocols: &["h2", "http/1.1"], ..Manners::default() }),
        healthy,
    )
    .await;
    let ca = files.with("ca.pem", &root.pem);
    let found = check(&[&server.url, "--ca-cert", &ca], &[]).await;
    assert_eq!(found.code, Some(0), "{found:?}");
    assert_eq!(found.finding("tls"), "");
    assert_eq!(found.finding("http"), "ok       http             HTTP/2, negotiated by TLS");
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
    check(&[&server.url, "--ca-cert", &ca], &[]).await.is(3, "");
    assert!(server.requests().is_empty(), "nothing is said to it");
}

#[tokio::test]
async fn a_self_signed_certificate_and_one_for_another_name() {
    let alone = Leaf::self_signed(|_| ());
    let server = Server::start_tls(alone.serve(Manners::default()), healthy).await;
    let found = check(&[&server.url], &[]).await;
    assert_eq!(found.finding("tls"), "");

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
    assert_eq!(found.finding("tls"), "");
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
    assert!(finding.starts_with("warning  tls"), "{finding}");
    assert!(finding.contains("a certificate expires in N days"), "{finding}");
    let found = check(&[&server.url, "--insecure"], &[]).await;
    assert_eq!(found.code, Some(0));
    assert!(found.finding("tls").contains("nobody checks who the server is"), "{found:?}");
}

#[tokio::test]
async fn a_server_behind_a_proxy() {
    let server = Server::start(healthy).await;
    let proxy = Manner::http().login("ann", "hidden-password").start().await;
    let way = proxy.url_for("http", "ann:hidden-password");
    let found = check(&[&server.url, "--proxy", &way], &[]).await;
    assert_eq!(found.code, Some(0), "{found:?}");
    assert_eq!(
        found.finding("proxy"),
        "ok       proxy            http://127.0.0.1:PORT, from --proxy"
    );
    assert_eq!(found.finding("name"), "skipped  name             the proxy looks it up");
    assert_eq!(found.finding("connection"), "ok       connection       through the proxy (N ms)");
    assert!(!found.text.contains("hidden") && !found.text.contains("ann"), "{found:?}");
    assert!(!proxy.asked().is_empty());
}

#[tokio::test]
async fn a_proxy_that_does_not_let_us_through() {
    let proxy = Manner::http().fault(Fault::Status(403, "no such hosts here")).start().await;
    let way = proxy.url("http");
    check(&["https://server.example/mcp", "--proxy", &way], &[]).await.is(3, "");
}
