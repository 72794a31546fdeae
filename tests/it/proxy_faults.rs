//! Proxies that are not there, refuse, want a login, or misbehave; and what is said about it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::proxy::{Fault, ProxyBehavior};
use crate::support::{Authority, Bridge, INITIALIZE, Server, Store, polite, request};

/// An address at which nobody listens, yet.
async fn reserved() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap()
}

/// Nobody is waited for.
const AT_ONCE: [&str; 6] = ["--connect-wait", "0", "--away-wait", "0", "--connect-timeout", "0.5"];

/// The error that a call to `url` through `proxy` ends with.
async fn error(url: &str, proxy: &str, args: &[&str]) -> Value {
    let mut bridge = Bridge::start(&[&[url, "--proxy", proxy], args].concat());
    let answer = bridge.ask(request(1, "initialize")).await;
    assert_eq!(answer["error"]["data"]["delivery"], "not-delivered", "{answer}");
    assert_eq!(answer["error"]["code"], -32000, "{answer}");
    answer["error"].clone()
}

fn contains(value: &Value, part: &str) -> bool {
    value.as_str().unwrap_or_default().contains(part)
}

#[tokio::test]
async fn a_proxy_that_is_not_there_is_named_with_the_flag_that_it_came_from() {
    let place = reserved().await.to_string();
    for scheme in ["http", "https", "socks5", "socks5h"] {
        for url in ["https://localhost:1/mcp", "http://127.0.0.1:1/mcp"] {
            let error = error(url, &format!("{scheme}://{place}"), &AT_ONCE).await;
            assert_eq!(error["data"]["kind"], "proxy", "{error}");
            let expected = format!("The proxy {place} refused the connection");
            assert_eq!(error["message"], expected, "{scheme}");
            assert!(contains(&error["data"]["hint"], "--proxy"), "{error}");
        }
    }
    let env = [("HTTPS_PROXY", &*place)];
    let args = [&["https://server.example/mcp"], &AT_ONCE[..]].concat();
    let mut bridge = Bridge::start_with(&args, &env);
    let error = bridge.ask(request(1, "initialize")).await["error"].clone();
    assert!(contains(&error["data"]["hint"], "HTTPS_PROXY"), "{error}");
}

#[tokio::test]
async fn a_proxy_that_does_not_connect_is_quoted() {
    let url = "https://localhost:4711/mcp";
    let page = "<html><title>Ask the help desk.</title></html>";
    for (manner, status, part) in [
        (ProxyBehavior::http().fault(Fault::Status(403, "Ask the help desk.")), 403, "(403 Text)"),
        (ProxyBehavior::http().fault(Fault::Status(403, page)), 403, "(403 Text)"),
        (ProxyBehavior::http().fault(Fault::Status(502, "Ask the help desk.")), 502, "(502 Text)"),
    ] {
        let proxy = manner.start().await;
        let error = error(url, &proxy.url("http"), &AT_ONCE).await;
        let expected =
            format!("The proxy {} refused to connect to localhost:4711 {part}", proxy.address);
        assert_eq!(error["message"], expected);
        assert_eq!(error["data"]["kind"], "proxy", "{error}");
        assert_eq!(error["data"]["status"], status, "{error}");
        assert_eq!(error["data"]["body"], "Ask the help desk.", "{error}");
    }
    let proxy = ProxyBehavior::socks().fault(Fault::Code(2)).start().await;
    let error = error(url, &proxy.url("socks5h"), &AT_ONCE).await;
    let expected = format!(
        "The proxy {} refused to connect to localhost:4711 (its rules forbid it)",
        proxy.address
    );
    assert_eq!(error["message"], expected);
}

#[tokio::test]
async fn a_proxy_that_misbehaves_costs_no_more_than_the_time_for_connecting() {
    let url = "https://localhost:4711/mcp";
    for (scheme, manner, what) in [
        ("http", ProxyBehavior::http(), "an HTTP"),
        ("socks5", ProxyBehavior::socks(), "a SOCKS5"),
        ("socks5h", ProxyBehavior::socks(), "a SOCKS5"),
    ] {
        for (fault, part) in [
            (Fault::Cut, "broke the connection".to_owned()),
            (Fault::Hang, "within 500 ms".to_owned()),
            (Fault::Garbage, format!("does not answer like {what} proxy")),
        ] {
            let proxy = manner.clone().fault(fault).start().await;
            let error = error(url, &proxy.url(scheme), &AT_ONCE).await;
            assert!(contains(&error["message"], &part), "{fault:?}: {error}");
            assert!(contains(&error["message"], &proxy.address.to_string()), "{error}");
            assert_eq!(error["data"]["kind"], "proxy", "{error}");
        }
    }
    let unknown = ProxyBehavior::http().tls(Authority::new("localhost").config(&[])).start().await;
    let error = error(url, &unknown.url("https"), &AT_ONCE).await;
    assert!(contains(&error["message"], "No secure connection to the proxy"), "{error}");
    assert_eq!(error["data"]["kind"], "tls", "{error}");
    let error = self::error(url, "http://no-such-host.invalid:3128", &AT_ONCE).await;
    assert_eq!(error["data"]["kind"], "proxy", "{error}");
}

#[tokio::test]
async fn refused_credentials_are_final_and_not_repeated_to_anybody() {
    let authority = Authority::new("localhost");
    let store = Store::with(&authority);
    let secure = Server::start_tls(authority.config(&["http/1.1"]), polite).await;
    let plain = Server::start(polite).await;
    for (scheme, manner) in [("http", ProxyBehavior::http()), ("socks5h", ProxyBehavior::socks())] {
        for (login, wants) in [("", "wants credentials"), ("some-user:s3cret-word", "other")] {
            for server in [&secure, &plain] {
                let proxy = manner.clone().login("some-user", "right").start().await;
                let url = match login {
                    "" => proxy.url(scheme),
                    login => proxy.url_for(scheme, login),
                };
                let args = [&*server.url, "--proxy", &url, "--log-level", "trace"];
                let start = Instant::now();
                let mut bridge = Bridge::start_with(&args, &store.env());
                let answer = bridge.ask(INITIALIZE).await;
                assert!(start.elapsed() < Duration::from_secs(20), "it was waited for");
                let error = &answer["error"];
                assert_eq!(error["data"]["kind"], "proxy-auth", "{answer}");
                assert_eq!(error["data"]["delivery"], "not-delivered", "{answer}");
                assert!(contains(&error["message"], wants), "{answer}");
                assert!(contains(&error["data"]["hint"], "--proxy"), "{answer}");
                assert_eq!(proxy.connections(), 1, "{answer}");
                let (_, _, stderr) = bridge.finish().await;
                for secret in ["some-user", "s3cret", "c29tZS11c2Vy"] {
                    assert!(!answer.to_string().contains(secret), "{answer}");
                    assert!(!stderr.contains(secret), "{stderr}");
                }
            }
        }
    }
    assert!(secure.requests().is_empty() && plain.requests().is_empty());
}

#[tokio::test]
async fn a_proxy_that_looks_into_https_is_named_when_its_certificate_is_not_trusted() {
    let (ours, theirs) = (Authority::new("localhost"), Authority::new("localhost"));
    let store = Store::with(&ours);
    let server = Server::start_tls(theirs.config(&["http/1.1"]), polite).await;
    let proxy = ProxyBehavior::http().start().await;
    let url = proxy.url("http");
    let args = [&[&*server.url, "--proxy", &url], &AT_ONCE[..]].concat();
    let mut bridge = Bridge::start_with(&args, &store.env());
    let error = bridge.ask(request(1, "initialize")).await["error"].clone();
    assert_eq!(error["data"]["kind"], "tls", "{error}");
    assert!(contains(&error["message"], &format!("through the proxy {}", proxy.address)));
    assert!(contains(&error["data"]["reason"], "certificate"), "{error}");
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn a_proxy_that_comes_up_later_is_waited_for() {
    let authority = Authority::new("localhost");
    let store = Store::with(&authority);
    let secure = Server::start_tls(authority.config(&["h2", "http/1.1"]), polite).await;
    let plain = Server::start(polite).await;
    for server in [&secure, &plain] {
        for (scheme, manner) in
            [("http", ProxyBehavior::http()), ("socks5h", ProxyBehavior::socks())]
        {
            let address = reserved().await;
            let url = format!("{scheme}://{address}");
            let args = [&*server.url, "--proxy", &url, "--no-server-stream"];
            let mut bridge = Bridge::start_with(&args, &store.env());
            // A probe is answered at once: now it is certain that the proxy was missed.
            let probe = bridge.ask(request(1, "server/discover")).await;
            assert_eq!(probe["error"]["data"]["kind"], "proxy", "{probe}");
            bridge.send(INITIALIZE).await;
            let proxy = manner.clone().start_at(address).await;
            assert!(bridge.receive().await["result"].is_object());
            bridge.send(crate::support::INITIALIZED).await;
            assert!(bridge.ask(request(2, "a")).await["result"].is_object());
            proxy.stop().await;
            let probe = bridge.ask(request(3, "server/discover")).await;
            assert!(probe["error"].is_object(), "{probe}");
            bridge.send(request(4, "tools/call")).await;
            let _again = manner.start_at(address).await;
            let (answer, _) = bridge.answer(4).await;
            assert!(answer["result"].is_object(), "{scheme}: {answer}");
        }
    }
}

#[tokio::test]
async fn a_proxy_that_cannot_reach_the_server_yet_is_asked_again() {
    let authority = Authority::new("localhost");
    let store = Store::with(&authority);
    let server = Server::start_tls(authority.config(&["http/1.1"]), polite).await;
    let fault = |fault| move |n| if n < 3 { fault } else { Fault::None };
    for (scheme, manner) in [
        ("http", ProxyBehavior::http().plan(fault(Fault::Status(502, "")))),
        ("http", ProxyBehavior::http().plan(fault(Fault::Cut))),
        ("socks5h", ProxyBehavior::socks().plan(fault(Fault::Code(5)))),
    ] {
        let proxy = manner.start().await;
        let args = [&*server.url, "--proxy", &proxy.url(scheme), "--no-server-stream"];
        let mut bridge = Bridge::start_with(&args, &store.env());
        bridge.handshake().await;
        assert!(proxy.connections() >= 4);
    }
}
