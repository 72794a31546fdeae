//! https: real TLS, with authorities of the test's own. A file stands for the platform's store.

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::support::certificates::{Ca, Files, Leaf, Manners};
use crate::support::{Authority, Bridge, Hub, Server, Store, polite, request};

#[tokio::test]
async fn a_server_whose_authority_is_in_the_platforms_store_is_trusted() {
    let authority = Authority::new("localhost");
    let server = Server::start_tls(authority.config(&["http/1.1"]), polite).await;
    let store = Store::with(&authority);
    let mut bridge = Bridge::start_with(&[&server.url], &store.env());
    bridge.handshake().await;
    assert!(bridge.ask(request(1, "a")).await["result"].is_object());
    let (rest, status, stderr) = bridge.finish().await;
    assert_eq!((rest.len(), status.code(), stderr.as_str()), (0, Some(0), ""));
    assert_eq!(server.all("DELETE").len(), 1);
}

#[tokio::test]
async fn any_other_server_is_not_and_sees_no_request() {
    let unknown = Authority::new("localhost");
    let elsewhere = Authority::new("elsewhere.example");
    let store = Store::with(&elsewhere);
    for authority in [&unknown, &elsewhere] {
        let server = Server::start_tls(authority.config(&["http/1.1"]), polite).await;
        refused(&server, &[], &store.env()).await;
    }
}

/// The error with which a request to the server ends; none arrives there.
async fn refused(server: &Server, args: &[&str], env: &[(&str, &str)]) -> (String, String) {
    let before = server.requests().len();
    let error = failure(&server.url, args, env).await;
    assert_eq!(server.requests().len(), before);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    assert!(text(&error["data"]["reason"]).contains("certificate"), "{error}");
    (text(&error["message"]), text(&error["data"]["hint"]))
}

async fn failure(url: &str, args: &[&str], env: &[(&str, &str)]) -> Value {
    let mut bridge = Bridge::start_with(&[&[url], args].concat(), env);
    let error = bridge.ask(request(1, "a")).await["error"].clone();
    assert_eq!(error["data"]["kind"], "tls", "{error}");
    assert_eq!(error["data"]["delivery"], "not-delivered", "{error}");
    let host = url.split('/').nth(2).unwrap();
    let begin = format!("No secure connection to {host}: ");
    assert!(error["message"].as_str().unwrap().starts_with(&begin), "{error}");
    error
}

async fn works(server: &Server, args: &[&str], env: &[(&str, &str)]) {
    let mut bridge = Bridge::start_with(&[&[&*server.url], args].concat(), env);
    bridge.handshake().await;
    assert!(bridge.ask(request(1, "a")).await["result"].is_object());
    let (rest, status, stderr) = bridge.finish().await;
    assert_eq!((rest.len(), status.code(), stderr.as_str()), (0, Some(0), ""));
}

async fn start(leaf: &Leaf) -> Server {
    Server::start_tls(leaf.serve(Manners::default()), polite).await
}

#[tokio::test]
async fn a_private_authority_is_trusted_beside_the_platforms() {
    let (first, second) = (Ca::new("first"), Ca::new("second"));
    let platform = Authority::new("localhost");
    let store = Store::with(&platform);
    let files = Files::new();
    let (one, two) = (files.with("1.pem", &first.pem), files.with("2.pem", &second.pem));
    let bundle = files.with("bundle.pem", &format!("# all\n{}\n{}", first.pem, second.pem));
    let servers = [start(&first.server(|_| ())).await, start(&second.server(|_| ())).await];
    for server in &servers {
        works(server, &["--ca-cert", &one, "--ca-cert", &two], &[]).await;
        works(server, &["--ca-cert", &bundle], &store.env()).await;
        works(server, &[], &[("MCP_SPAN_CA_CERT", &bundle)]).await;
        works(server, &[], &[("NODE_EXTRA_CA_CERTS", &bundle)]).await;
        refused(server, &[], &store.env()).await;
    }
    let ours = Server::start_tls(platform.config(&["http/1.1"]), polite).await;
    works(&ours, &["--ca-cert", &bundle], &store.env()).await;
    let config = format!(r#"{{"caCert": ["{one}", "{two}"]}}"#);
    let config = files.with("config.json", &config);
    works(&servers[1], &["--config", &config], &[]).await;
}

#[tokio::test]
async fn a_file_that_was_named_for_others_is_no_reason_to_end() {
    let ca = Ca::new("first");
    let server = start(&ca.server(|_| ())).await;
    let file = Files::new().with("ca.pem", &ca.pem);
    let files = Files::new();
    let ca_file = files.with("ca.pem", &ca.pem);
    let env = [("NODE_EXTRA_CA_CERTS", &*file)];
    let mut bridge = Bridge::start_with(&[&server.url, "--ca-cert", &ca_file], &env);
    bridge.handshake().await;
    let (_, status, stderr) = bridge.finish().await;
    assert_eq!((status.code(), stderr.lines().count()), (Some(0), 1), "{stderr}");
    assert!(stderr.contains(&file) && stderr.contains("are not used"), "{stderr}");
}

#[tokio::test]
async fn the_intermediate_that_a_server_sends_along_is_used() {
    let root = Ca::new("the root");
    let between = root.intermediate("the one between");
    let files = Files::new();
    let (ca, middle) = (files.with("ca.pem", &root.pem), files.with("m.pem", &between.pem));
    works(&start(&between.server(|_| ())).await, &["--ca-cert", &ca], &[]).await;
    let forgetful = start(&between.server(|_| ()).alone()).await;
    let (message, hint) = refused(&forgetful, &["--ca-cert", &ca], &[]).await;
    assert!(message.contains(r#"issued by "the one between""#), "{message}");
    assert!(message.ends_with("and the server sent no other certificate with it"), "{message}");
    assert!(hint.contains("--ca-cert"), "{hint}");
    works(&forgetful, &["--ca-cert", &middle], &[]).await;
}

#[tokio::test]
async fn what_is_wrong_with_a_certificate_is_said_in_a_sentence() {
    let ca = Ca::new("Example Root");
    let files = Files::new();
    let file = files.with("ca.pem", &ca.pem);
    let trusting = ["--ca-cert", &*file];
    let expired = ca.server(|params| {
        params.not_before = rcgen::date_time_ymd(2019, 1, 1);
        params.not_after = rcgen::date_time_ymd(2020, 11, 6);
    });
    let (message, hint) = refused(&start(&expired).await, &trusting, &[]).await;
    let said = r#"its certificate, issued by "Example Root", expired on 06 Nov 2020 00:00:00 GMT"#;
    assert!(message.ends_with(said), "{message}");
    assert!(hint.contains("clock") && hint.contains("last resort, --insecure"), "{hint}");
    let early = ca.server(|params| {
        params.not_before = rcgen::date_time_ymd(2090, 1, 1);
        params.not_after = rcgen::date_time_ymd(2091, 1, 1);
    });
    let (message, hint) = refused(&start(&early).await, &trusting, &[]).await;
    assert!(message.ends_with("is not valid before 01 Jan 2090 00:00:00 GMT"), "{message}");
    assert!(hint.contains("clock"), "{hint}");
    let elsewhere = ca.server(|params| {
        let names = (1..=6).map(|n| format!("host{n}.example")).collect::<Vec<_>>();
        params.subject_alt_names = rcgen::CertificateParams::new(names).unwrap().subject_alt_names;
    });
    let (message, hint) = refused(&start(&elsewhere).await, &trusting, &[]).await;
    let said = "is for other names: host1.example, host2.example, host3.example, host4.example \
                and 2 more";
    assert!(message.ends_with(said), "{message}");
    assert!(hint.contains("Check the URL"), "{hint}");
    let store = Store::with(&Authority::new("localhost"));
    let unknown = start(&ca.server(|_| ())).await;
    let (message, hint) = refused(&unknown, &[], &store.env()).await;
    assert!(message.contains(r#"issued by "Example Root", which is not trusted"#), "{message}");
    assert!(hint.contains("--ca-cert") && hint.contains("--insecure"), "{hint}");
}

#[tokio::test]
async fn a_self_signed_certificate_is_trusted_by_who_names_it() {
    let store = Store::with(&Authority::new("localhost"));
    let leaf = Leaf::self_signed(|_| ());
    let server = start(&leaf).await;
    let (message, hint) = refused(&server, &[], &store.env()).await;
    assert!(message.ends_with(r#"its certificate is self-signed, by "alone""#), "{message}");
    assert!(hint.contains("--ca-cert"), "{hint}");
    let files = Files::new();
    let file = files.with("own.pem", &leaf.pem);
    works(&server, &["--ca-cert", &file], &store.env()).await;
    let address = server.url.replace("localhost", "127.0.0.1");
    let error = failure(&address, &["--ca-cert", &file], &[]).await;
    assert!(error["message"].as_str().unwrap().contains("other names: localhost"), "{error}");
    let old = Leaf::self_signed(|params| params.not_after = rcgen::date_time_ymd(2020, 11, 6));
    let file = files.with("old.pem", &old.pem);
    let (message, _) = refused(&start(&old).await, &["--ca-cert", &file], &[]).await;
    assert!(message.contains("expired on 06 Nov 2020"), "{message}");
}

#[tokio::test]
async fn an_empty_store_is_told_from_a_bad_certificate() {
    let files = Files::new();
    let empty = files.with("empty.pem", "");
    let url = "https://localhost:9/mcp";
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = url.replace("9", &listener.local_addr().unwrap().port().to_string());
    let error = failure(&url, &[], &[("SSL_CERT_FILE", &empty)]).await;
    assert!(error["message"].as_str().unwrap().contains("has no store"), "{error}");
    assert!(error["data"]["hint"].as_str().unwrap().contains("--ca-cert"), "{error}");
}

#[tokio::test]
async fn servers_speak_the_http_that_they_speak() {
    let ca = Ca::new("first");
    let (leaf, files) = (ca.server(|_| ()), Files::new());
    let file = files.with("ca.pem", &ca.pem);
    for protocols in [&["h2"][..], &["http/1.1"], &[]] {
        let config = leaf.serve(Manners { protocols, ..Manners::default() });
        works(&Server::start_tls(config, polite).await, &["--ca-cert", &file], &[]).await;
    }
    let config = leaf.serve(Manners { protocols: &["smtp"], ..Manners::default() });
    let server = Server::start_tls(config, polite).await;
    let error = failure(&server.url, &["--ca-cert", &file], &[]).await;
    assert!(error["message"].as_str().unwrap().contains("neither HTTP/1.1 nor HTTP/2"), "{error}");
}

/// The URL of somebody who answers whatever is said with these bytes, and closes.
async fn parrot(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}/mcp", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            // All of it: closing over what is unread would reset the connection.
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(answer).await;
        }
    });
    url
}

#[tokio::test]
async fn what_does_not_speak_our_tls_is_named() {
    let store = Store::with(&Authority::new("localhost"));
    for (answer, said, hint) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "does not speak TLS", "http://"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "does not speak TLS 1.2 or 1.3", "no longer safe"),
        (b"\x15\x03\x01\x00\x02\x02\x28", "none of the ways of encryption", "TLS 1.2 or 1.3"),
        (b"\x15\x03\x01\x00\x02\x02\x70", "does not know this host name", "host in the URL"),
        (b"", "broke the connection in the TLS handshake", "https"),
    ] {
        let error = failure(&parrot(answer).await, &[], &store.env()).await;
        assert!(error["message"].as_str().unwrap().contains(said), "{error}");
        assert!(error["data"]["hint"].as_str().unwrap().contains(hint), "{error}");
    }
}

#[tokio::test]
async fn the_older_transport_goes_over_https_as_well() {
    let authority = Authority::new("localhost");
    let store = Store::with(&authority);
    for protocol in ["http/1.1", "h2"] {
        let hub = Hub::start_tls(authority.config(&[protocol]), |_, _| None).await;
        let mut bridge = Bridge::start_with(&[&hub.url], &store.env());
        bridge.handshake().await;
        for id in 1..20 {
            assert!(bridge.ask(request(id, "a")).await["result"].is_object(), "{protocol}");
        }
        let (rest, status, stderr) = bridge.finish().await;
        assert_eq!((rest.len(), status.code(), stderr.as_str()), (0, Some(0), ""), "{protocol}");
        assert_eq!(hub.streams.count(), 1);
    }
}
