//! Client certificates, `--insecure`, and the files behind these flags.

use rcgen::KeyPair;
use serde_json::Value;
use tokio_rustls::rustls::version::{TLS12, TLS13};

use crate::support::certificates::{Ca, Files, Leaf, Manners};
use crate::support::{Bridge, INITIALIZE, Reply, Server, check, polite, request, run};

/// A server that takes the clients of one authority only.
struct Guarded {
    servers: Ca,
    clients: Ca,
    files: Files,
    ca: String,
}

impl Guarded {
    fn new() -> Self {
        let (servers, clients, files) = (Ca::new("servers"), Ca::new("clients"), Files::new());
        let ca = files.with("ca.pem", &servers.pem);
        Self { servers, clients, files, ca }
    }

    async fn start(&self, manners: Manners<'_>) -> Server {
        let manners = Manners { clients: Some(&self.clients), ..manners };
        Server::start_tls(self.servers.server(|_| ()).serve(manners), polite).await
    }

    async fn works(&self, server: &Server, args: &[&str], env: &[(&str, &str)]) {
        let args = [&[&*server.url, "--ca-cert", &*self.ca], args].concat();
        let mut bridge = Bridge::start_with(&args, env);
        bridge.handshake().await;
        assert!(bridge.ask(request(1, "a")).await["result"].is_object());
        let (rest, status, stderr) = bridge.finish().await;
        assert_eq!((rest.len(), status.code(), stderr.as_str()), (0, Some(0), ""));
    }

    async fn refused(&self, server: &Server, args: &[&str]) -> (String, String) {
        let args = [&[&*server.url, "--ca-cert", &*self.ca], args].concat();
        let mut bridge = Bridge::start(&args);
        let error = bridge.ask(request(1, "a")).await["error"].clone();
        assert_eq!(error["data"]["kind"], "tls", "{error}");
        assert_eq!(error["data"]["delivery"], "not-delivered", "{error}");
        assert!(server.requests().is_empty());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&error["message"]), text(&error["data"]["hint"]))
    }
}

const VERSIONS: [Manners<'static>; 3] = [
    Manners { protocols: &["http/1.1"], versions: &[&TLS12], clients: None },
    Manners { protocols: &["http/1.1"], versions: &[&TLS13], clients: None },
    Manners { protocols: &["h2"], versions: &[&TLS13], clients: None },
];

#[tokio::test]
async fn a_server_that_asks_is_shown_who_we_are() {
    let guarded = Guarded::new();
    let client = guarded.clients.client(KeyPair::generate().unwrap());
    let key = client.key.serialize_pem();
    let one = guarded.files.with("both.pem", &format!("{key}\n{}", client.pem));
    let (cert, key) =
        (guarded.files.with("cert.pem", &client.pem), guarded.files.with("key.pem", &key));
    for manners in VERSIONS {
        let server = guarded.start(manners).await;
        guarded.works(&server, &["--client-cert", &one], &[]).await;
        guarded.works(&server, &["--client-cert", &cert, "--client-key", &key], &[]).await;
        let env = [("MCP_SPAN_CLIENT_CERT", &*cert), ("MCP_SPAN_CLIENT_KEY", &*key)];
        guarded.works(&server, &[], &env).await;
    }
}

#[tokio::test]
async fn who_has_nothing_to_show_or_the_wrong_thing_is_told_so() {
    let guarded = Guarded::new();
    let stranger = Ca::new("strangers").client(KeyPair::generate().unwrap());
    let both = format!("{}{}", stranger.pem, stranger.key.serialize_pem());
    let both = guarded.files.with("both.pem", &both);
    for manners in VERSIONS {
        let server = guarded.start(manners).await;
        let (message, hint) = guarded.refused(&server, &[]).await;
        assert!(message.ends_with(": it wants a client certificate"), "{message}");
        assert!(hint.contains("--client-cert"), "{hint}");
        let (message, hint) = guarded.refused(&server, &["--client-cert", &both]).await;
        assert!(message.contains("refuses our client certificate"), "{message}");
        assert!(hint.contains("--client-cert"), "{hint}");
    }
}

#[tokio::test]
async fn silence_after_the_certificate_counts_as_consent() {
    // No tickets, and HTTP/1.1: it says nothing before the first request.
    let guarded = Guarded::new();
    let client = guarded.clients.client(KeyPair::generate().unwrap());
    let both = format!("{}{}", client.pem, client.key.serialize_pem());
    let both = guarded.files.with("both.pem", &both);
    let manners = Manners { clients: Some(&guarded.clients), ..VERSIONS[1] };
    let mut config = guarded.servers.server(|_| ()).serve(manners);
    config.send_tls13_tickets = 0;
    let server = Server::start_tls(config, polite).await;
    guarded.works(&server, &["--client-cert", &both], &[]).await;
}

#[tokio::test]
async fn all_forms_of_keys_are_read() {
    let rsa = KeyPair::from_pem(include_str!("support/rsa-key-for-tests.pem")).unwrap();
    let p256 = KeyPair::generate().unwrap();
    let guarded = Guarded::new();
    let server = guarded.start(Manners::default()).await;
    let parameters = pem("EC PARAMETERS", b"not looked at");
    for (key, before, label) in [(rsa, "", "RSA"), (p256, &*parameters, "EC")] {
        let text = pem(&format!("{label} PRIVATE KEY"), wrapped(&key.serialize_der()));
        let client = guarded.clients.client(key);
        let cert = guarded.files.with("cert.pem", &client.pem);
        let key = guarded.files.with("key.pem", &format!("{before}{text}"));
        guarded.works(&server, &["--client-cert", &cert, "--client-key", &key], &[]).await;
    }
}

/// What PKCS#8 wraps is PKCS#1 or SEC1: the last of its three members.
fn wrapped(pkcs8: &[u8]) -> &[u8] {
    let (members, _) = value(pkcs8);
    let (_, members) = value(members);
    let (_, members) = value(members);
    value(members).0
}

/// The content of the first DER value, and what is behind it.
fn value(der: &[u8]) -> (&[u8], &[u8]) {
    let (start, length) = match der[1] {
        0x81 => (3, usize::from(der[2])),
        0x82 => (4, usize::from(der[2]) << 8 | usize::from(der[3])),
        short => (2, usize::from(short)),
    };
    der[start..].split_at(length)
}

fn pem(label: &str, der: &[u8]) -> String {
    use base64::Engine;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
}

#[tokio::test]
async fn insecure_takes_everybody_and_says_so_once() {
    let leaf = Ca::new("unknown").server(|params| {
        params.subject_alt_names.clear();
        params.not_after = rcgen::date_time_ymd(2020, 11, 6);
    });
    for leaf in [leaf, Leaf::self_signed(|_| ())] {
        let server = Server::start_tls(leaf.serve(Manners::default()), polite).await;
        for (args, env, lines) in [
            (&["--insecure"][..], &[][..], 1),
            (&[], &[("MCP_SPAN_INSECURE", "1")], 1),
            (&["--insecure", "--log-level", "error"], &[], 1),
            (&["--insecure", "--log-level", "off"], &[], 0),
        ] {
            let args = [&[&*server.url], args].concat();
            let mut bridge = Bridge::start_with(&args, env);
            bridge.handshake().await;
            let (_, status, stderr) = bridge.finish().await;
            assert_eq!((status.code(), stderr.lines().count()), (Some(0), lines), "{stderr}");
            assert!(lines == 0 || stderr.contains("certificates are not checked"), "{stderr}");
        }
    }
    let plain = Server::start(|_| Reply::accepted()).await;
    let output = run(&[&plain.url, "--insecure"], &[], "").await;
    assert!(output.stderr.is_empty(), "it says nothing about http");
}

#[tokio::test]
async fn what_was_typed_beats_what_the_file_says() {
    let ca = Ca::new("first");
    let server = Server::start_tls(ca.server(|_| ()).serve(Manners::default()), polite).await;
    let files = Files::new();
    let file = files.with("ca.pem", &ca.pem);
    let lax = files.with("lax.json", r#"{"insecure": true}"#);
    let strict = files.with("strict.json", r#"{"caCert": "/no/such"}"#);
    for (args, lines) in [
        (["--config", &lax, "--ca-cert", &file].to_vec(), 0),
        (["--config", &strict, "--insecure"].to_vec(), 1),
    ] {
        let args = [&[&*server.url], &args[..]].concat();
        let mut bridge = Bridge::start(&args);
        bridge.handshake().await;
        let (_, _, stderr) = bridge.finish().await;
        assert_eq!(stderr.lines().count(), lines, "{stderr}");
    }
}

#[tokio::test]
async fn bad_files_are_refused_with_a_sentence() {
    let (ca, files) = (Ca::new("clients"), Files::new());
    let mine = ca.client(KeyPair::generate().unwrap());
    let secret = mine.key.serialize_pem();
    let body = secret.lines().nth(1).unwrap();
    let cert = files.with("cert.pem", &mine.pem);
    let key = files.with("key.pem", &secret);
    let other = files.with("other.pem", &KeyPair::generate().unwrap().serialize_pem());
    let locked = secret.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    let locked = files.with("locked.pem", &locked);
    let old = format!("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n{body}\n");
    let old = files.with("old.pem", &old);
    let odd = files.with("odd.pem", &pem("PRIVATE KEY", b"no key"));
    let cut = files.with("cut.pem", &mine.pem[..mine.pem.len() / 2]);
    let empty = files.with("empty.pem", "");
    for (args, said) in [
        (["--ca-cert", "/no/such"].to_vec(), "--ca-cert: /no/such: it cannot be read"),
        (["--ca-cert", "/"].to_vec(), "--ca-cert: /: it cannot be read"),
        (["--ca-cert", &empty].to_vec(), "there is no certificate in it"),
        (["--ca-cert", &key].to_vec(), "there is no certificate in it"),
        (["--ca-cert", &cut].to_vec(), "damaged, or was cut off"),
        (["--ca-cert", &cert, "--insecure"].to_vec(), "exclude each other"),
        (["--client-key", &key].to_vec(), "without --client-cert"),
        (["--client-cert", "/no/such"].to_vec(), "--client-cert: /no/such: it cannot be read"),
        (["--client-cert", &cert].to_vec(), "name its file by --client-key"),
        (["--client-cert", &key].to_vec(), "there is no certificate in it"),
        (["--client-cert", &cert, "--client-key", "/no/such"].to_vec(), "--client-key: /no/such"),
        (["--client-cert", &cert, "--client-key", &cert].to_vec(), "there is no private key"),
        (["--client-cert", &cert, "--client-key", &other].to_vec(), "does not belong to"),
        (["--client-cert", &cert, "--client-key", &locked].to_vec(), "is encrypted"),
        (["--client-cert", &cert, "--client-key", &old].to_vec(), "is encrypted"),
        (["--client-cert", &cert, "--client-key", &odd].to_vec(), "cannot be used"),
    ] {
        for url in ["https://localhost:1/mcp", "http://localhost:1/mcp"] {
            let output = run(&[&[url], &args[..]].concat(), &[], "").await;
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
            assert!(output.stdout.is_empty() && stderr.contains(said), "{args:?}: {stderr}");
            assert!(!stderr.contains(body), "{stderr}");
        }
    }
}

/// The page with which nginx says that TLS was done wrong.
fn nginx_page(text: &str) -> Reply {
    let page = format!(
        "<html>\r\n<head><title>400 {text}</title></head>\r\n<body>\r\n<center><h1>400 Bad Request</h1></center>\r\n<center>{text}</center>\r\n<hr><center>nginx/1.22.1</center>\r\n</body>\r\n</html>\r\n"
    );
    Reply::status(400, "text/html", page)
}

#[tokio::test]
async fn a_page_about_a_missing_certificate_or_missing_tls_is_no_login_page() {
    for (text, message, hint) in [
        (
            "No required SSL certificate was sent",
            "HTTP 400: The server wants a client certificate, and was shown none",
            "--client-cert FILE",
        ),
        (
            "The plain HTTP request was sent to HTTPS port",
            "HTTP 400: The port speaks TLS, and the URL says plain http",
            "https:// in place of http://",
        ),
    ] {
        let server = Server::start(move |_| nginx_page(text)).await;
        let mut bridge = Bridge::start(&[&server.url]);
        let error = bridge.ask(INITIALIZE).await["error"].clone();
        assert_eq!(error["message"], message);
        assert!(error["data"]["hint"].as_str().unwrap().contains(hint), "{error}");
        assert!(error["data"]["body"].as_str().unwrap().contains(text), "{error}");
        assert_eq!(error["data"]["delivery"], "not-delivered");
        assert_eq!(server.requests().len(), 1, "no other transport is looked for");

        let found = check(&[&server.url], &[]).await;
        let finding = found.finding("transport");
        assert!(finding.contains(hint) && !finding.contains("login page"), "{finding}");
    }
}
