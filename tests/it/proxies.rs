//! The user's proxies: what goes through them, what does not, and how they are named.
//!
//! Servers are on loopback, which takes the flag; by any other name they need a proxy to be found.

use crate::support::proxy::{Proxy, ProxyBehavior};
use crate::support::{Authority, Bridge, Hub, Server, Store, polite, request, run};

/// A proxy of each sort, with the scheme of its URL.
async fn one_of_each(authority: &Authority) -> Vec<(&'static str, Proxy)> {
    let secure = ProxyBehavior::http().tls(authority.config(&["http/1.1"]));
    vec![
        ("http", ProxyBehavior::http().start().await),
        ("https", secure.start().await),
        ("socks5", ProxyBehavior::socks().start().await),
        ("socks5h", ProxyBehavior::socks().start().await),
    ]
}

/// The URL of a server under a name that only proxies know.
fn renamed(server: &Server) -> String {
    server.url.replace("127.0.0.1", "server.example").replace("localhost", "server.example")
}

/// A conversation, to its end.
async fn converse(args: &[&str], env: &[(&str, &str)]) {
    let mut bridge = Bridge::start_with(args, env);
    bridge.handshake().await;
    assert!(bridge.ask(request(1, "a")).await["result"].is_object(), "{args:?}");
    let (_, status, stderr) = bridge.finish().await;
    assert_eq!((status.code(), &*stderr), (Some(0), ""), "{args:?}");
}

fn port(url: &str) -> String {
    let place = url.split('/').nth(2).unwrap();
    place.rsplit_once(':').unwrap().1.to_owned()
}

#[tokio::test]
async fn plain_http_goes_through_every_sort_of_proxy() {
    let authority = Authority::new("localhost");
    let store = Store::with(&authority);
    for (scheme, proxy) in one_of_each(&authority).await {
        let server = Server::start(polite).await;
        converse(&[&server.url, "--proxy", &proxy.url(scheme)], &store.env()).await;
        assert_eq!(server.all("DELETE").len(), 1);
        assert!(server.requests().iter().all(|r| r.path == "/mcp"), "{scheme}");
        let place = format!("127.0.0.1:{}", port(&server.url));
        assert!(server.requests().iter().all(|r| r.header("host") == Some(&place)), "{scheme}");
        let asked = proxy.asked();
        if scheme.starts_with("http") {
            let posts = asked.iter().filter(|what| **what == format!("POST {}", server.url));
            assert_eq!((posts.count(), asked.len()), (3, server.requests().len()), "{asked:?}");
        } else {
            assert!(asked.iter().all(|what| *what == format!("SOCKS {place}")), "{asked:?}");
        }
        assert!(server.connections() > 0 && server.connections() <= proxy.connections());
    }
}

#[tokio::test]
async fn https_goes_through_a_tunnel_of_every_sort() {
    let authority = Authority::new("localhost");
    let store = Store::with(&authority);
    for protocols in [&["http/1.1"][..], &["h2", "http/1.1"]] {
        for (scheme, proxy) in one_of_each(&authority).await {
            let server = Server::start_tls(authority.config(protocols), polite).await;
            converse(&[&server.url, "--proxy", &proxy.url(scheme)], &store.env()).await;
            let port = port(&server.url);
            let expected = match scheme {
                "http" | "https" => vec![format!("CONNECT localhost:{port}")],
                "socks5h" => vec![format!("SOCKS localhost:{port}")],
                // Resolved here; the address that the proxy has no way to is followed by the other.
                _ => vec![format!("SOCKS [::1]:{port}"), format!("SOCKS 127.0.0.1:{port}")],
            };
            let asked = proxy.asked();
            assert!(asked.iter().all(|what| expected.contains(what)), "{scheme}: {asked:?}");
            assert!(expected.iter().all(|what| asked.contains(what)), "{scheme}: {asked:?}");
            let heads = server.requests();
            assert!(heads.iter().all(|r| r.headers.iter().all(|(n, _)| !n.starts_with("proxy"))));
        }
    }
}

#[tokio::test]
async fn many_calls_share_one_tunnel_over_http2() {
    let authority = Authority::new("localhost");
    let store = Store::with(&authority);
    let server = Server::start_tls(authority.config(&["h2"]), polite).await;
    let proxy = ProxyBehavior::http().start().await;
    // The server's own stream has a connection, and so a tunnel, to itself.
    let args = [&*server.url, "--no-server-stream", "--proxy", &proxy.url("http")];
    let mut bridge = Bridge::start_with(&args, &store.env());
    bridge.handshake().await;
    for id in 0..50 {
        bridge.send(request(id, "tools/call")).await;
    }
    let (answers, _) = bridge.answers(50).await;
    assert!(answers.iter().all(|answer| answer["result"].is_object()));
    assert_eq!((proxy.connections(), server.connections()), (1, 1));
}

#[tokio::test]
async fn user_and_password_reach_the_proxy_and_nobody_else() {
    let authority = Authority::new("localhost");
    let store = Store::with(&authority);
    let secure = Server::start_tls(authority.config(&["http/1.1"]), polite).await;
    let plain = Server::start(polite).await;
    for (scheme, manner) in [
        ("http", ProxyBehavior::http()),
        ("https", ProxyBehavior::http().tls(authority.config(&[]))),
        ("socks5", ProxyBehavior::socks()),
        ("socks5h", ProxyBehavior::socks()),
    ] {
        let proxy = manner.login("me@work", "p:ss/w#rd").start().await;
        let url = proxy.url_for(scheme, "me%40work:p%3Ass%2Fw%23rd");
        for server in [&secure, &plain] {
            converse(&[&server.url, "--proxy", &url], &store.env()).await;
            let sees_login = |r: &crate::support::Request| {
                r.header("proxy-authorization").is_some() || r.header("authorization").is_some()
            };
            assert!(!server.requests().iter().any(sees_login), "{scheme}");
        }
        assert!(!proxy.asked().is_empty());
    }
}

#[tokio::test]
async fn the_usual_variables_are_honoured_in_small_and_capital_letters() {
    let authority = Authority::new("server.example");
    let store = Store::with(&authority);
    let secure = Server::start_tls(authority.config(&["h2", "http/1.1"]), polite).await;
    let plain = Server::start(polite).await;
    let (proxy, wrong) = (ProxyBehavior::http().start().await, "http://127.0.0.1:1");
    let right = &*proxy.url("http");
    let (secure, plain) = (&renamed(&secure), &renamed(&plain));
    for (url, env) in [
        (secure, &[("HTTPS_PROXY", right), ("HTTP_PROXY", wrong), ("ALL_PROXY", wrong)][..]),
        (secure, &[("https_proxy", right), ("HTTPS_PROXY", wrong)]),
        (secure, &[("ALL_PROXY", right), ("HTTP_PROXY", wrong)]),
        (plain, &[("HTTP_PROXY", right), ("HTTPS_PROXY", wrong)]),
        (plain, &[("http_proxy", right), ("HTTP_PROXY", wrong), ("REQUEST_METHOD", "GET")]),
        (plain, &[("all_proxy", right), ("NO_PROXY", "other.example,example.org")]),
        (plain, &[("MCP_SPAN_PROXY", right), ("HTTP_PROXY", wrong)]),
        (plain, &[("MCP_SPAN_PROXY", right), ("NO_PROXY", "*")]),
        (plain, &[("HTTP_PROXY", right), ("NO_PROXY", "*"), ("MCP_SPAN_NO_PROXY", "other")]),
    ] {
        let before = proxy.connections();
        converse(&[url, "--allow-http"], &[env, &store.env()].concat()).await;
        assert!(proxy.connections() > before, "{env:?}");
    }
}

#[tokio::test]
async fn the_configuration_file_beats_the_usual_variables_and_yields_to_ours() {
    let server = Server::start(polite).await;
    let proxies = [(); 4].map(|()| ProxyBehavior::http());
    let mut urls = Vec::new();
    let mut running = Vec::new();
    for manner in proxies {
        let proxy = manner.start().await;
        urls.push(proxy.url("http"));
        running.push(proxy);
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!(r#"{{"proxy": "{}"}}"#, urls[1])).unwrap();
    let url = renamed(&server);
    let args = [&*url, "--allow-http", "--config", file.path().to_str().unwrap()];
    let env = [("http_proxy", &*urls[0]), ("MCP_SPAN_PROXY", &*urls[2])];
    converse(&args, &env[..1]).await;
    converse(&args, &env).await;
    converse(&[&args[..], &["--proxy", &urls[3]]].concat(), &env).await;
    let used: Vec<bool> = running.iter().map(|proxy| proxy.connections() > 0).collect();
    assert_eq!(used, [false, true, true, true]);
    let connections: usize = running.iter().map(Proxy::connections).sum();
    std::fs::write(file.path(), r#"{"noProxy": "*"}"#).unwrap();
    converse(&[&[&*server.url], &args[1..]].concat(), &env[..1]).await;
    assert_eq!(running.iter().map(Proxy::connections).sum::<usize>(), connections);
}

#[tokio::test]
async fn this_machine_is_reached_directly_unless_a_proxy_is_typed() {
    let server = Server::start(polite).await;
    let proxy = ProxyBehavior::http().start().await;
    let url = &*proxy.url("http");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!(r#"{{"proxy": "{url}"}}"#)).unwrap();
    let localhost = server.url.replace("127.0.0.1", "localhost");
    for server in [&server.url, &localhost] {
        converse(&[server], &[("HTTP_PROXY", url), ("all_proxy", url)]).await;
        converse(&[server], &[("MCP_SPAN_PROXY", url), ("HTTP_PROXY", "nonsense://")]).await;
        converse(&[server, "--config", file.path().to_str().unwrap()], &[]).await;
    }
    assert_eq!(proxy.connections(), 0);
    converse(&[&server.url, "--proxy", url], &[]).await;
    assert!(proxy.connections() > 0);
}

#[tokio::test]
async fn hosts_that_are_excepted_are_reached_directly() {
    let server = Server::start(polite).await;
    let proxy = ProxyBehavior::http().start().await;
    let flag = ["--proxy", &*proxy.url("http")];
    let port = port(&server.url);
    let (with_port, other_port) = (format!("127.0.0.1:{port}"), "127.0.0.1:1");
    for list in ["127.0.0.1", "127.0.0.0/8", "a.example, 127.0.0.1", &with_port] {
        converse(&[&[&*server.url], &flag[..]].concat(), &[("NO_PROXY", list)]).await;
        converse(&[&[&*server.url], &flag[..]].concat(), &[("no_proxy", list)]).await;
        let list = format!("--no-proxy={list}");
        converse(&[&[&*list, &*server.url], &flag[..]].concat(), &[]).await;
    }
    let named = server.url.replace("127.0.0.1", "a.localhost");
    for list in ["localhost", ".localhost", "*.LOCALHOST", "a.localhost"] {
        converse(&[&[&*named], &flag[..]].concat(), &[("NO_PROXY", list)]).await;
    }
    // Without a value it does not take the URL for one.
    converse(&[&flag[..], &["--no-proxy", &*server.url]].concat(), &[]).await;
    converse(&[&["connect"], &flag[..], &["--no-proxy", &*server.url]].concat(), &[]).await;
    assert_eq!(proxy.connections(), 0);
    for list in [other_port, "10.0.0.0/8", "b.localhost"] {
        converse(&[&[&*server.url], &flag[..]].concat(), &[("NO_PROXY", list)]).await;
    }
    assert!(proxy.connections() >= 3);
}

#[tokio::test]
async fn an_http_sse_server_is_spoken_to_on_several_connections_of_one_proxy() {
    for (scheme, manner) in [("http", ProxyBehavior::http()), ("socks5h", ProxyBehavior::socks())] {
        let (hub, proxy) = (Hub::plain().await, manner.start().await);
        let mut bridge = hub.ready(&["--proxy", &proxy.url(scheme)]).await;
        assert!(bridge.ask(request(1, "tools/list")).await["result"].is_object());
        assert!(bridge.ask(request(2, "tools/list")).await["result"].is_object());
        let (_, status, stderr) = bridge.finish().await;
        assert_eq!((status.code(), &*stderr), (Some(0), ""));
        assert_eq!(hub.connections(), proxy.connections(), "all of them");
        assert!(proxy.connections() >= 2, "one is the stream's alone");
        if scheme == "http" {
            let streams = format!("GET {}", hub.url);
            assert_eq!(proxy.asked().iter().filter(|what| **what == streams).count(), 1);
            let posts = proxy.asked().into_iter().filter(|what| what.starts_with("POST http://"));
            assert_eq!(posts.count(), 4);
        }
    }
}

#[tokio::test]
async fn nothing_of_user_and_password_is_shown() {
    let authority = Authority::new("localhost");
    let store = Store::with(&authority);
    let server = Server::start_tls(authority.config(&["http/1.1"]), polite).await;
    let proxy = ProxyBehavior::http().login("some-user", "s3cret-word").start().await;
    let url = proxy.url_for("http", "some-user:s3cret%2Dword");
    let args = [&*server.url, "--proxy", &url, "--log-level", "trace"];
    let mut bridge = Bridge::start_with(&args, &store.env());
    bridge.handshake().await;
    let (_, _, stderr) = bridge.finish().await;
    assert!(stderr.contains("connecting through a proxy"), "{stderr}");
    assert!(stderr.contains(&proxy.address.to_string()), "{stderr}");
    let env = [("HTTPS_PROXY", &*url), ("MCP_SPAN_PROXY", &*url)];
    let config = run(&["config", &server.url, "--no-proxy=a,b"], &env, "").await;
    let table = String::from_utf8(config.stdout).unwrap();
    assert!(table.contains(&proxy.url("http")) && table.contains("a,b"), "{table}");
    assert_eq!(table.matches(&proxy.url("http")).count(), 2, "{table}");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!(r#"{{"proxy": "{url}"}}"#)).unwrap();
    let help = run(&["--help", "--config", file.path().to_str().unwrap()], &env, "").await;
    let help = String::from_utf8(help.stdout).unwrap();
    for text in [stderr, table, help] {
        for secret in ["some-user", "s3cret", "c29tZS11c2Vy"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
    }
}

#[tokio::test]
async fn what_cannot_be_a_proxy_ends_the_program_with_a_sentence() {
    for (args, env, part) in [
        (&["--proxy", "ftp://me:s3cret@proxy"][..], &[][..], "--proxy: its scheme is 'ftp'"),
        (&["--proxy", "http://"], &[], "--proxy: there is no host in it"),
        (&["--proxy", "me:s3cret@"], &[], "--proxy: "),
        (&[], &[("HTTPS_PROXY", "http://me:s3cret#1@proxy")], "HTTPS_PROXY: it is not the URL"),
        (&[], &[("https_proxy", "socks4://s3cret@proxy")], "https_proxy: its scheme is 'socks4'"),
        (&[], &[("ALL_PROXY", "http://proxy/s3cret")], "ALL_PROXY: there is something behind"),
        (&[], &[("MCP_SPAN_PROXY", "http://proxy:99999")], "MCP_SPAN_PROXY: it is not the URL"),
        (&["--no-proxy=10.0.0.0/99"], &[], "--no-proxy: '10.0.0.0/99' is no host"),
        (&[], &[("MCP_SPAN_NO_PROXY", "a:b")], "MCP_SPAN_NO_PROXY: 'a:b' is no host"),
    ] {
        let output = run(&[&["https://server.example/mcp"], args].concat(), env, "").await;
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?} {env:?}: {stderr}");
        assert!(stderr.contains(part) && !stderr.contains("s3cret"), "{stderr}");
        assert!(output.stdout.is_empty());
    }
}
