//! Servers that repeat credentials, in every place and form: no error, log, trace or report of ours
//! shows them, whatever else the server does.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use crate::support::{Bridge, Reply, Request, Server, polite, request, run};

const TOKEN: &str = "Tok3n/of+the-User_99zzQQ";

/// All forms in which it is repeated.
fn forms() -> Vec<String> {
    let coded = |byte: u8| format!("%{byte:02X}");
    let numbered = |byte: u8| format!("\\u{byte:04x}");
    vec![
        TOKEN.to_owned(),
        TOKEN.to_uppercase(),
        TOKEN.to_lowercase(),
        TOKEN[..14].to_owned(),
        TOKEN.replace('/', "%2F").replace('+', "%2B"),
        TOKEN.replace('/', "\\/"),
        TOKEN.bytes().map(coded).collect(),
        TOKEN.bytes().map(numbered).collect(),
        TOKEN.bytes().map(|byte| format!("{byte:02x}")).collect(),
        STANDARD.encode(TOKEN),
        URL_SAFE_NO_PAD.encode(format!("u:{TOKEN}:x")),
        STANDARD.encode(format!("user:{TOKEN}")),
    ]
}

fn is_told(text: &str) -> Option<String> {
    let lower = text.to_lowercase();
    // A beginning of 12 characters tells too much in any form.
    let starts = forms().into_iter().map(|form| form[..form.len().min(24)].to_lowercase());
    let starts =
        starts.chain([TOKEN[..12].to_lowercase(), STANDARD.encode(TOKEN)[..16].to_lowercase()]);
    starts.into_iter().find(|start| lower.contains(start))
}

/// Repeats what it was sent, and sets new cookies with every answer.
fn echo(r: &Request) -> Reply {
    let heard = forms().join(" ");
    let page = format!("<html><title>{heard}</title><body>No: {heard}</body></html>");
    let mut reply = match &*r.what() {
        "text" => Reply::status(500, "text/plain", &heard),
        "page" => Reply::status(403, "text/html", page),
        "long" => Reply::status(500, "text/plain", format!("{}{heard}", "x ".repeat(1990))),
        "challenge" => Reply::status(401, "text/plain", "no").header(
            "WWW-Authenticate",
            &format!("Bearer error=\"invalid_token\", error_description=\"{heard}\""),
        ),
        "moved" => Reply::status(307, "", "")
            .header("Location", &format!("http://h.invalid/{TOKEN}/x?t={TOKEN}")),
        "broken" => Reply::json(&heard),
        "events" => Reply::sse().event(&heard).end(),
        "odd" => Reply::status(200, &format!("text/{TOKEN}"), ""),
        "notifications/refused" => Reply::status(400, "text/plain", &heard),
        _ => polite(r),
    };
    for n in 0..40 {
        let id = r.body.len() * 1000 + n;
        reply = reply.header("Set-Cookie", &format!("cookie{n}=value-{id}-of-{n:08}; Path=/"));
    }
    reply
}

#[tokio::test]
async fn no_number_of_cookies_brings_a_credential_to_light() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, TOKEN).unwrap();
    let (file, command) = (file.to_str().unwrap(), format!("echo {TOKEN}"));
    let header = format!("Authorization: Bearer {TOKEN}");
    let sources: [[&str; 2]; 3] =
        [["--bearer-file", file], ["--bearer-command", &command], ["--header", &header]];
    for (number, source) in sources.into_iter().enumerate() {
        let server = Server::start(echo).await;
        let trace = folder.path().join(format!("trace{number}"));
        let trace = trace.to_str().unwrap();
        let args = [&[&*server.url, "-v", "--trace-file", trace], &source[..]].concat();
        let mut bridge = Bridge::ready(&args).await;
        bridge.send(r#"{"jsonrpc":"2.0","method":"notifications/refused"}"#).await;
        let mut seen = String::new();
        for (id, method) in
            ["text", "page", "long", "challenge", "moved", "broken", "events", "odd", "text"]
                .into_iter()
                .enumerate()
        {
            let answer = bridge.ask(request(id, method)).await;
            assert!(answer["error"]["data"]["kind"].is_string(), "{answer}");
            seen += &answer.to_string();
        }
        let (_, _, stderr) = bridge.finish().await;
        let traced = std::fs::read_to_string(trace).unwrap();
        let told = String::from_utf8(run(&["trace", trace], &[], "").await.stdout).unwrap();
        for text in [&seen, &stderr, &traced, &told] {
            assert_eq!(is_told(text), None, "{source:?}: {text}");
        }
        assert!(seen.contains("[secret]") && traced.contains("[secret]"), "{seen}");
    }
}

#[tokio::test]
async fn no_command_and_no_report_shows_a_credential() {
    let server = Server::start(|r| match &*r.what() {
        "initialize" => Reply::status(500, "text/plain", forms().join(" ")),
        _ => echo(r),
    })
    .await;
    let sent = Server::start(echo).await;
    let header = format!("Authorization: Bearer {TOKEN}");
    for args in [
        vec!["check", &server.url],
        vec!["check", &server.url, "--json"],
        vec!["tools", &server.url],
        vec!["tools", &server.url, "--json"],
        vec!["raw", &sent.url, "text"],
        vec!["raw", &sent.url, "page", "--json"],
        vec!["raw", &sent.url, "challenge"],
    ] {
        let args = [&args[..], &["--header", &header]].concat();
        let output = run(&args, &[], "").await;
        for text in [&output.stdout, &output.stderr] {
            let text = String::from_utf8_lossy(text);
            assert_eq!(is_told(&text), None, "{args:?}: {text}");
        }
    }
}

#[tokio::test]
async fn a_page_is_told_in_its_own_words() {
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => Reply::status(
            502,
            "text/html",
            "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n<hr><center>nginx/1.22.1</center>\r\n</body>\r\n</html>",
        ),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    let error = bridge.ask(request(1, "tools/call")).await["error"].clone();
    assert_eq!(error["message"], "HTTP 502: 502 Bad Gateway: nginx/1.22.1", "{error}");
}
