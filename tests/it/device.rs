//! Logins on another device: the code is shown, waited for with patience, and refused with words.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::support::desk::{Form, refusal};
use crate::support::devices::DEVICE;
use crate::support::provider::place;
use crate::support::{INITIALIZE, INITIALIZED, Manners, Provider, Reply, Request, request, soon};

const GRANT: [&str; 2] = ["--oauth-grant", "device-code"];

/// Waits until the token endpoint was asked so many times.
async fn polled(provider: &Provider, times: usize) {
    let waiting = async {
        while provider.grants(DEVICE) < times {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    soon("a question for the token", waiting).await;
}

/// Replies with these, one after the other, to questions for a token.
fn at_first(replies: Vec<Reply>) -> Manners {
    let count = AtomicUsize::new(0);
    let instead = move |r: &Request| {
        if place(r) != "/token" {
            return None;
        }
        replies.get(count.fetch_add(1, Ordering::SeqCst)).cloned()
    };
    Manners { instead: Arc::new(instead), ..Manners::default() }
}

#[tokio::test]
async fn a_code_is_entered_on_another_device_and_the_token_is_kept() {
    // RFC 8628; peers b 25
    let provider = Provider::start(Manners::default()).await;
    let entering = async {
        polled(&provider, 2).await;
        provider.enter_code("yes").await;
    };
    let (login, ()) = tokio::join!(provider.run("login", &GRANT), entering);
    assert!(login.status.success(), "{login:?}");
    let page = format!("{}/device", provider.desk.issuer());
    let stderr = String::from_utf8(login.stderr).unwrap();
    let host = page.trim_start_matches("http://").trim_end_matches("/device");
    let line = format!("mcp-span: log in to {host}: open {page} and enter the code WDJB-1\n");
    assert_eq!(stderr, line);
    assert!(provider.pages().is_empty(), "no browser is opened here");
    let registered = provider.at("/register")[0].json();
    assert_eq!(registered["grant_types"], json!([DEVICE, "refresh_token"]));
    let asked = Form::of(&provider.at("/device_authorization")[0]);
    assert_eq!((asked.get("scope"), asked.get("resource")), ("read", &*provider.url));
    assert_eq!(provider.forms()[0].get("resource"), provider.url);

    let mut bridge = provider.ready(&[&GRANT[..], &["--no-server-stream"]].concat()).await;
    bridge.ask(request(1, "a")).await;
    provider.desk.expire();
    assert!(bridge.ask(request(2, "a")).await["result"].is_object());
    assert_eq!(provider.grants("refresh_token"), 1, "it is renewed like any other");
    assert_eq!(provider.at("/device_authorization").len(), 1);
}

#[tokio::test]
async fn a_client_that_waits_is_told_the_code() {
    let manners = Manners {
        edit_device: |d, _| {
            let page = d["verification_uri"].as_str().unwrap().to_owned();
            d["verification_uri_complete"] = format!("{page}?user_code=WDJB-1").into();
        },
        ..Manners::default()
    };
    let provider = Provider::start(manners).await;
    let mut bridge = provider.bridge(&[&GRANT[..], &["--oauth-wait", "0.2"]].concat());
    let answer = bridge.ask(INITIALIZE).await;
    let page = format!("{}/device", provider.desk.issuer());
    let expected = format!("{page}?user_code=WDJB-1 (or {page}) and see that the code is WDJB-1");
    let host = page.trim_start_matches("http://").trim_end_matches("/device");
    let told = format!("{expected}, to log in to {host}");
    let instructions = answer["result"]["instructions"].as_str().unwrap();
    assert!(instructions.ends_with(&told), "{instructions}");
    bridge.send(INITIALIZED).await;
    let error = bridge.ask(request(1, "tools/call")).await["error"].clone();
    assert_eq!(error["message"], format!("A login is pending: open {told}"), "{error}");
    provider.enter_code("yes").await;
    provider.server().saw("notifications/initialized").await;
    assert!(bridge.ask(request(2, "tools/call")).await["result"].is_object());
    assert!(bridge.stderr().contains(&expected));
}

#[tokio::test]
async fn a_provider_that_stumbles_is_asked_again_and_one_that_is_rushed_less_often() {
    let pending = refusal(400, "authorization_pending", "");
    let manners = at_first(vec![
        Reply::status(500, "text/html", "<html>"),
        Reply::nothing().reset(),
        pending,
        refusal(400, "slow_down", ""),
    ]);
    let provider = Provider::start(manners).await;
    let entering = async {
        polled(&provider, 4).await;
        let slowed = std::time::Instant::now();
        provider.enter_code("yes").await;
        slowed
    };
    let (login, slowed) = tokio::join!(provider.run("login", &GRANT), entering);
    assert!(login.status.success(), "{login:?}");
    // Half a second, and five more.
    assert!(slowed.elapsed() > std::time::Duration::from_secs(4));
    assert_eq!(provider.grants(DEVICE), 5);
}

#[tokio::test]
async fn a_login_that_comes_to_nothing_says_why() {
    let cases = [
        (vec![refusal(400, "access_denied", "the person said no")], "the person said no"),
        (vec![refusal(400, "expired_token", "the code is too old")], "the code is too old"),
        (vec![refusal(400, "invalid_grant", "what code?")], "what code?"),
        // What comes with a success may hold a token: it is not repeated.
        (vec![Reply::status(200, "text/html", "<html>hidden-page")], "no reason given"),
        (vec![Reply::json("[1, 2")], "The request for a token"),
    ];
    for (replies, part) in cases {
        let provider = Provider::start(at_first(replies)).await;
        let login = provider.run("login", &GRANT).await;
        let stderr = String::from_utf8(login.stderr).unwrap();
        assert_eq!(login.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(part), "{part}: {stderr}");
        assert!(!stderr.contains("hidden-"), "{stderr}");
        assert_eq!(provider.grants(DEVICE), 1, "{part}: it is final");
    }
    let provider = Provider::start(Manners::default()).await;
    let entering = async {
        polled(&provider, 1).await;
        provider.enter_code("no").await;
    };
    let (login, ()) = tokio::join!(provider.run("login", &GRANT), entering);
    let stderr = String::from_utf8(login.stderr).unwrap();
    assert!(stderr.contains("was refused") && stderr.contains("access_denied"), "{stderr}");
}

#[tokio::test]
async fn nobody_is_waited_for_without_end() {
    // By the provider's word, and by the user's.
    let soon = |d: &mut Value, _: &str| d["expires_in"] = 1.into();
    for (edit_device, more) in
        [(soon as fn(&mut Value, &str), &[][..]), (|_, _| (), &["--oauth-login-timeout", "1"])]
    {
        let provider = Provider::start(Manners { edit_device, ..Manners::default() }).await;
        let login = provider.run("login", &[&GRANT[..], more].concat()).await;
        let stderr = String::from_utf8(login.stderr).unwrap();
        assert_eq!(login.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("Nobody has logged in to"), "{stderr}");
    }
}

#[tokio::test]
async fn a_provider_without_device_codes_is_named_with_what_helps() {
    let edit_metadata = |d: &mut Value, _: &str| {
        d.as_object_mut().unwrap().remove("device_authorization_endpoint");
    };
    let provider = Provider::start(Manners { edit_metadata, ..Manners::default() }).await;
    let login = provider.run("login", &GRANT).await;
    let stderr = String::from_utf8(login.stderr).unwrap();
    assert_eq!(login.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("offers no logins on another device"), "{stderr}");
    assert!(stderr.contains("--paste"), "{stderr}");
    assert!(provider.at("/register").is_empty(), "nobody is bothered for nothing");
}

#[tokio::test]
async fn what_a_provider_wants_to_be_shown_is_looked_at_first() {
    // peers c: nothing of a server's reaches a terminal unescaped
    let cases: [(crate::support::provider::Edit, &str); 8] = [
        (|d, _| d["verification_uri"] = "http://login.example.com/".into(), "is not encrypted"),
        (|d, _| d["verification_uri"] = "javascript:alert(1)".into(), "neither http nor https"),
        (|d, _| d["verification_uri_complete"] = "file:///etc/passwd".into(), "neither http"),
        (|d, _| d["user_code"] = "\u{1b}[2JWDJB".into(), "that nobody can type"),
        (|d, _| d["user_code"] = "A".repeat(500).into(), "that nobody can type"),
        (|d, _| d["user_code"] = "A\u{202e}B: <tell it>".into(), "that nobody can type"),
        (|d, _| d["device_code"] = 7.into(), "has no code in it"),
        (|d, _| *d = "nonsense".into(), "has no code in it"),
    ];
    for (edit_device, part) in cases {
        let provider = Provider::start(Manners { edit_device, ..Manners::default() }).await;
        let login = provider.run("login", &GRANT).await;
        let stderr = String::from_utf8(login.stderr).unwrap();
        assert_eq!(login.status.code(), Some(1), "{part}: {stderr}");
        assert!(stderr.contains(part) && !stderr.contains("open"), "{part}: {stderr}");
        assert!(!stderr.contains('\u{1b}'), "{stderr}");
        assert_eq!(provider.grants(DEVICE), 0, "{part}");
    }
}

#[tokio::test]
async fn a_client_that_is_not_known_any_more_is_registered_anew() {
    let provider = Provider::start(Manners::default()).await;
    let enter = async |times| {
        polled(&provider, times).await;
        provider.enter_code("yes").await;
    };
    let (login, ()) = tokio::join!(provider.run("login", &GRANT), enter(1));
    assert!(login.status.success(), "{login:?}");
    provider.desk.forget_clients();
    let refused = provider.run("login", &GRANT).await;
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    // A client with a redirect address is another one.
    assert!(provider.run("login", &[]).await.status.success());
    assert_eq!(provider.at("/register").len(), 2);
}
