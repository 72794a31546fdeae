//! Providers, servers and browsers that do not do as they should in a login: clear errors, no
//! tokens for strangers, no tab after tab.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::support::desk::{Form, back, refusal};
use crate::support::provider::place;
use crate::support::{
    Bridge, INITIALIZE, Manners, Provider, Reply, Request, Server, polite, request,
};

/// A login that must fail, and say why; what the server said is not lost (C5).
async fn fails(manners: Manners, why: &str) -> (Provider, Value) {
    let provider = Provider::start(manners).await;
    let error = provider.bridge(&[]).ask(INITIALIZE).await["error"].clone();
    assert_eq!(error["data"]["kind"], "login", "{error}");
    assert_eq!(error["data"]["status"], 401, "{error}");
    assert_eq!(error["data"]["delivery"], "not-delivered", "{error}");
    assert!(error["message"].as_str().unwrap().contains(why), "{error}");
    (provider, error)
}

/// The same, before a browser is opened.
async fn fails_early(manners: Manners, why: &str) -> Value {
    let (provider, error) = fails(manners, why).await;
    assert!(provider.pages().is_empty(), "{error}");
    assert!(provider.at("/token").is_empty(), "{error}");
    error
}

/// Replies to the browser with these fields in place of a code.
fn sending_back(fields: &'static [(&'static str, &'static str)]) -> Manners {
    let instead =
        |r: &Request| (place(r) == "/authorize").then(|| back(&Form::of_query(r), fields));
    Manners { instead: Arc::new(instead), ..Manners::default() }
}

const METADATA: &str = "/.well-known/oauth-authorization-server";
const RESOURCE: &str = "/.well-known/oauth-protected-resource/mcp";

#[tokio::test]
async fn rmcp_937_metadata_that_does_not_fit_together_is_refused() {
    // protocol d: resource, issuer, PKCE
    let good = Manners::default();
    let edited = |edit_metadata| Manners { edit_metadata, ..Manners::default() };
    let other: fn(&mut Value, &str) = |d, _| d["resource"] = "https://evil.example/mcp".into();
    fails_early(Manners { edit_resource: other, ..good }, "evil.example").await;
    fails_early(edited(|d, _| d["issuer"] = "https://evil.example".into()), "calls itself").await;
    fails_early(edited(|d, _| d["issuer"] = Value::Null), "calls itself").await;
    fails_early(edited(|d, _| d["code_challenge_methods_supported"] = json!(["plain"])), "PKCE")
        .await;
    fails_early(edited(|d, _| d["code_challenge_methods_supported"] = Value::Null), "PKCE").await;
    fails_early(edited(|d, _| d["token_endpoint"] = Value::Null), "token").await;
}

#[tokio::test]
async fn cve_2025_6514_addresses_that_no_browser_should_see_are_refused() {
    // CVE-2025-6514; peers c 1
    let edited = |edit_metadata| Manners { edit_metadata, ..Manners::default() };
    let none = "neither http nor https";
    fails_early(edited(|d, _| d["authorization_endpoint"] = "javascript:alert(1)".into()), none)
        .await;
    fails_early(edited(|d, _| d["authorization_endpoint"] = "file:///etc/passwd".into()), none)
        .await;
    fails_early(
        edited(|d, _| d["authorization_endpoint"] = "http://a.example/".into()),
        "encrypted",
    )
    .await;
    fails_early(edited(|d, _| d["token_endpoint"] = "http://a.example/".into()), "encrypted").await;
    fails_early(edited(|d, _| d["registration_endpoint"] = "http://10.0.0.1/".into()), "encrypted")
        .await;
    let edit: fn(&mut Value, &str) =
        |d, _| d["authorization_servers"] = json!(["http://a.example"]);
    fails_early(Manners { edit_resource: edit, ..Manners::default() }, "encrypted").await;
}

#[tokio::test]
async fn cve_2025_6514_the_browser_gets_the_address_as_one_argument_and_no_shell_sees_it() {
    // CVE-2025-6514; peers c 1
    let edit_metadata: fn(&mut Value, &str) = |d, origin| {
        d["authorization_endpoint"] =
            format!("{origin}/authorize?x=$(touch${{IFS}}pwned)`id`;'|\" &y=-o").into();
    };
    let provider = Provider::start(Manners { edit_metadata, ..Manners::default() }).await;
    provider.browse("echo $count > \"$2/count\"\nexec curl -sL -o /dev/null \"$1\"");
    provider.ready(&[]).await;
    assert_eq!(std::fs::read_to_string(provider.path("count")).unwrap(), "1\n");
    let page = url::Url::parse(&provider.pages()[0]).unwrap();
    let (name, value) = page.query_pairs().next().unwrap();
    assert_eq!((&*name, &*value), ("x", "$(touch${IFS}pwned)`id`;'|\" "));
}

#[tokio::test]
async fn rmcp_935_a_public_server_cannot_make_us_ask_our_own_network() {
    // peers c 6; the address of the server is a name that only the proxy knows
    let private = Server::start(polite).await;
    let challenge = format!("Bearer resource_metadata=\"{}\"", private.url);
    let proxy =
        Server::start(move |_| Reply::status(401, "", "").header("WWW-Authenticate", &challenge))
            .await;
    let address = proxy.url.trim_end_matches("/mcp");
    let folder = tempfile::tempdir().unwrap();
    let args = ["http://mcp.example.com/mcp", "--allow-http", "--proxy", address];
    let env = [("MCP_SPAN_STATE_DIR", folder.path().to_str().unwrap()), ("BROWSER", "false")];
    let error = Bridge::start_with(&args, &env).ask(INITIALIZE).await["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("private network"), "{error}");
    assert!(private.requests().is_empty());
}

#[tokio::test]
async fn an_answer_from_another_provider_is_not_taken() {
    // RFC 9207; protocol d 6
    for manners in [
        sending_back(&[("code", "c"), ("iss", "https://evil.example")]),
        sending_back(&[("code", "c")]),
        sending_back(&[("error", "access_denied"), ("iss", "https://evil.example")]),
    ] {
        let (provider, error) = fails(manners, "does not come from").await;
        assert!(provider.at("/token").is_empty());
        assert!(!error.to_string().contains("access_denied"), "{error}");
    }
}

#[tokio::test]
async fn lesson_3_strangers_at_the_listener_are_turned_away_and_the_login_goes_on() {
    let provider = Provider::start(Manners::default()).await;
    provider.browse(
        r#"field() { printf '%s' "$page" | sed "s/.*[?&]$1=\([^&]*\).*/\1/"; }
           page=$1
           port=$(field redirect_uri | sed 's/.*%3A\([0-9]*\)%2F.*/\1/')
           at="http://127.0.0.1:$port/callback"
           ask() { curl -s -o /dev/null -w '%{http_code} ' "$@" >> "$folder/codes"; }
           folder=$2
           ask "$at?code=c&state=other"
           ask "$at?code=c"
           ask -H 'Host: evil.example' "$at?code=c&state=$(field state)"
           curl -sL -o /dev/null "$page""#,
    );
    provider.ready(&[]).await;
    assert_eq!(std::fs::read_to_string(provider.path("codes")).unwrap(), "400 400 403 ");
    assert_eq!(provider.at("/token").len(), 1);
}

#[tokio::test]
async fn a_login_that_was_refused_is_not_tried_again_at_once() {
    let instead = |r: &Request| {
        let asked = Form::of_query(r);
        let iss = format!("http://{}", r.header("host").unwrap());
        let description = "no\u{1b}[31m way\u{7}\r\n";
        let fields =
            [("error", "access_denied"), ("error_description", description), ("iss", &iss)];
        (place(r) == "/authorize").then(|| back(&asked, &fields))
    };
    let manners = Manners { instead: Arc::new(instead), ..Manners::default() };
    let provider = Provider::start(manners).await;
    let mut bridge = provider.bridge(&[]);
    for id in 0..4 {
        let error = bridge.ask(request(id, "tools/call")).await["error"].clone();
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("was refused: no[31m way"), "{error}");
        assert!(!message.contains(char::is_control), "{error}");
    }
    assert_eq!(provider.pages().len(), 1);
    let output = provider.run("login", &[]).await;
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("was refused: no[31m way"), "{stderr}");
    assert!(!stderr.contains('\u{1b}') && !stderr.contains('\u{7}'), "{stderr:?}");
}

#[tokio::test]
async fn where_no_client_can_be_registered_the_error_says_what_to_do() {
    let edit_metadata: fn(&mut Value, &str) = |d, _| d["registration_endpoint"] = Value::Null;
    let manners = Manners { edit_metadata, ..Manners::default() };
    let error = fails_early(manners, "knows no client of ours").await;
    let hint = error["data"]["hint"].as_str().unwrap();
    assert!(
        hint.contains("--oauth-client-id")
            && hint.contains("http://127.0.0.1/callback on any port"),
        "{error}"
    );
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(" wants a login, and http://127.0.0.1:"), "and where: {error}");
}

#[tokio::test]
async fn a_port_that_is_taken_is_named() {
    let holder = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = holder.local_addr().unwrap().port().to_string();
    let provider = Provider::start(Manners::default()).await;
    let mut bridge = provider.bridge(&["--oauth-callback-port", &port]);
    let error = bridge.ask(INITIALIZE).await["error"].clone();
    assert_eq!(error["data"]["kind"], "login", "{error}");
    assert!(error["message"].as_str().unwrap().contains(&port), "{error}");
    assert!(provider.pages().is_empty() && provider.at("/register").is_empty());
}

#[tokio::test]
async fn what_is_no_metadata_is_not_taken_for_it() {
    let page = Reply::status(200, "text/html", "<html>welcome</html>");
    let large = Reply::json(format!(r#"{{"x":"{}"}}"#, "x".repeat(2_000_000)));
    for reply in [page, large, Reply::nothing().reset(), Reply::status(500, "", "")] {
        let manners = Manners::default().instead(METADATA, reply);
        fails_early(manners, "says nothing of itself").await;
    }
}

#[tokio::test]
async fn rmcp_936_discovery_does_not_follow_to_another_origin() {
    // protocol d 3
    let thief = Server::start(polite).await;
    for path in [METADATA, RESOURCE] {
        let reply = Reply::status(302, "", "").header("Location", &thief.url);
        let manners = Manners::default().instead(path, reply);
        let provider = Provider::start(manners).await;
        provider.bridge(&[]).ask(INITIALIZE).await;
        assert!(!provider.at(path).is_empty());
        assert!(thief.requests().is_empty());
    }
}

#[tokio::test]
async fn a_server_that_is_its_own_provider_may_call_it_by_another_name() {
    // 2025-03-26: some stand behind a network of others, which is in their metadata.
    let alone = Manners {
        resource_at: "/nowhere",
        challenge: None,
        says_issuer: false,
        ..Manners::default()
    };
    let names: [fn(&mut Value, &str); 2] =
        [|d, _| d["issuer"] = "https://cf.example".into(), |d, _| d["issuer"] = Value::Null];
    for edit_metadata in names {
        let provider = Provider::start(Manners { edit_metadata, ..alone.clone() }).await;
        provider.ready(&[]).await;
        assert_eq!(provider.logins().len(), 1);
    }
}

#[tokio::test]
async fn what_belongs_to_a_login_is_not_sent_on_to_another_origin() {
    // /revoke carries the refresh token, the others who we are.
    let thief = Server::start(polite).await;
    let grant = ["--oauth-grant", "device-code"];
    let cases: [(&str, &str, &[&str]); 3] = [
        ("/register", "login", &[]),
        ("/device_authorization", "login", &grant),
        ("/revoke", "logout", &[]),
    ];
    for (path, command, args) in cases {
        for status in [302, 307] {
            let reply = Reply::status(status, "", "").header("Location", &thief.url);
            let provider = Provider::start(Manners::default().instead(path, reply)).await;
            if command == "logout" {
                assert!(provider.run("login", args).await.status.success());
            }
            let output = provider.run(command, args).await;
            assert!(!provider.at(path).is_empty(), "{path}: {output:?}");
            assert!(thief.requests().is_empty(), "{path}");
            let is_well = output.status.success();
            assert_eq!(is_well, command == "logout", "{path}: what is kept goes: {output:?}");
        }
    }
}

#[tokio::test]
async fn answers_of_a_provider_that_never_end_are_not_read_to_their_end() {
    let large = || Reply::json(format!(r#"{{"access_token":"{}"}}"#, "x".repeat(2_000_000)));
    let grant = ["--oauth-grant", "device-code"];
    let cases: [(&str, &[&str]); 3] =
        [("/token", &[]), ("/register", &[]), ("/device_authorization", &grant)];
    for (path, args) in cases {
        let provider = Provider::start(Manners::default().instead(path, large())).await;
        let login = provider.run("login", args).await;
        let stderr = String::from_utf8(login.stderr).unwrap();
        assert_eq!(login.status.code(), Some(1), "{path}: {stderr}");
        assert!(stderr.contains("is too large"), "{path}: {stderr}");
    }
    let provider = Provider::start(Manners::default().instead("/revoke", large())).await;
    assert!(provider.run("login", &[]).await.status.success());
    let logout = provider.run("logout", &[]).await;
    assert!(!provider.at("/revoke").is_empty() && logout.status.success(), "{logout:?}");
}

#[tokio::test]
async fn whatever_the_grant_is_the_error_says_what_to_register() {
    let edit_metadata: fn(&mut Value, &str) = |d, _| d["registration_endpoint"] = Value::Null;
    for grant in ["device-code", "client-credentials"] {
        let provider = Provider::start(Manners { edit_metadata, ..Manners::default() }).await;
        let login = provider.run("login", &["--oauth-grant", grant]).await;
        let stderr = String::from_utf8(login.stderr).unwrap();
        assert_ne!(login.status.code(), Some(0), "{grant}: {stderr}");
        assert!(stderr.contains("--oauth-client-id"), "{grant}: {stderr}");
        assert!(provider.pages().is_empty() && provider.at("/token").is_empty(), "{grant}");
    }
}

#[tokio::test]
async fn a_provider_that_gives_no_token_is_quoted() {
    for (reply, said) in [
        (refusal(400, "invalid_grant", "too\u{1b} late"), "too late"),
        (refusal(400, "server_error", ""), "HTTP 400"),
        (Reply::status(200, "text/html", "<html>hello</html>"), "HTTP 200"),
        (Reply::json(r#"{"token_type":"Bearer"}"#), "no reason given"),
        (Reply::status(502, "", ""), "HTTP 502"),
    ] {
        fails(Manners::default().instead("/token", reply), said).await;
    }
    // A token in a form that nobody expects is still one.
    for body in ["access_token=hidden-odd&token_type=bearer", "\"hidden-odd\"", "hidden-odd"] {
        let reply = Reply::status(200, "text/plain", body);
        let (_, error) = fails(Manners::default().instead("/token", reply), "HTTP 200").await;
        assert!(!error.to_string().contains("hidden-"), "{error}");
    }
    let reply = refusal(403, "access_denied", "no new clients");
    fails_early(Manners::default().instead("/register", reply), "no new clients").await;
}

#[tokio::test]
async fn a_provider_that_cannot_be_reached_is_no_server_that_is_away() {
    for edit_metadata in [
        (|d, _| d["token_endpoint"] = "http://127.0.0.1:1/token".into()) as fn(&mut Value, &str),
        |d, _| d["registration_endpoint"] = "http://127.0.0.1:1/register".into(),
    ] {
        let manners = Manners { edit_metadata, ..Manners::default() };
        fails(manners, "refused the connection").await;
    }
}

#[tokio::test]
async fn lesson_14_secrets_are_neither_logged_nor_traced() {
    // C5; peers c 14
    let echo = refusal(400, "invalid_grant", "hidden-refresh-2 of hidden-secret-1 is no good");
    let manners = Manners { proof: "client_secret_basic", ..Manners::default() }
        .where_it_is(|r| r.text().contains("grant_type=refresh_token"), echo);
    let provider = Provider::start(manners).await;
    let trace = provider.path("trace");
    let trace_flag =
        ["--log-level", "trace", "--no-server-stream", "--trace-file", trace.to_str().unwrap()];
    let mut bridge = provider.ready(&trace_flag).await;
    provider.desk.expire();
    let answer = bridge.ask(request(1, "tools/call")).await;
    assert!(answer["result"].is_object(), "{answer}");
    let (_, _, stderr) = bridge.finish().await;
    assert!(stderr.contains("is no good any more"), "{stderr}");
    assert!(!stderr.contains("hidden-"), "{stderr}");
    let trace = std::fs::read_to_string(trace).unwrap();
    assert!(trace.contains("tools/call") && !trace.contains("hidden-"), "{trace}");
}

#[tokio::test]
async fn a_token_endpoint_that_redirects_is_refused_in_words_for_a_login() {
    for status in [307, 302] {
        let to = Reply::status(status, "", "").header("Location", "https://evil.example/token");
        let (provider, error) = fails(Manners::default().instead("/token", to), "redirects").await;
        assert_eq!(provider.at("/token").len(), 1);
        let text = error.to_string();
        assert!(!text.contains("as the URL"), "the URL is right: {text}");
        assert!(text.contains("--oauth-token-url"), "{text}");
    }
}

#[tokio::test]
async fn a_login_that_was_refused_is_not_tried_again_by_every_process_and_every_restart() {
    let refuses = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let at = Arc::clone(&refuses);
    let instead = move |r: &Request| {
        let is_refused = at.load(std::sync::atomic::Ordering::SeqCst) && place(r) == "/authorize";
        let iss = format!("http://{}", r.header("host").unwrap());
        is_refused.then(|| back(&Form::of_query(r), &[("error", "not_today"), ("iss", &iss)]))
    };
    let provider =
        Provider::start(Manners { instead: Arc::new(instead), ..Manners::default() }).await;
    let mut all = [provider.bridge(&[]), provider.bridge(&[]), provider.bridge(&[])];
    for bridge in &mut all {
        bridge.send(INITIALIZE).await;
    }
    for bridge in &mut all {
        let error = bridge.receive().await["error"].clone();
        assert!(error["message"].as_str().unwrap().contains("not_today"), "{error}");
    }
    let error = provider.bridge(&[]).ask(INITIALIZE).await["error"].clone();
    assert_eq!(error["data"]["kind"], "login", "{error}");
    assert!(error["message"].as_str().unwrap().contains("not_today"), "{error}");
    assert_eq!(provider.pages().len(), 1);
    // Who asks for a login has one, and that is the end of it for all.
    assert!(!provider.run("login", &[]).await.status.success());
    assert_eq!(provider.pages().len(), 2);
    refuses.store(false, std::sync::atomic::Ordering::SeqCst);
    assert!(provider.run("login", &[]).await.status.success());
    provider.ready(&[]).await;
    assert_eq!(provider.pages().len(), 3);
}
