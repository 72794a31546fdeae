//! What is shown of a login's words: no secret that was sent, nothing that a terminal acts on; and
//! limits on what others may ask of us in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::desk::Form;
use crate::support::provider::place;
use crate::support::{INITIALIZE, Manners, Provider, Reply, Request, request};

/// A token endpoint that repeats what it was sent, in a success that is none.
fn echoes(field: &'static str, is_on: &Arc<AtomicBool>) -> Manners {
    let is_on = Arc::clone(is_on);
    let instead = move |r: &Request| {
        let form = Form::of(r);
        if place(r) != "/token" || !form.has(field) || !is_on.load(Ordering::SeqCst) {
            return None;
        }
        let said = format!("I do not like {} at all", form.get(field));
        let answer = json!({"error": "invalid_grant", "error_description": said});
        Some(Reply::json(answer.to_string()))
    };
    Manners { instead: Arc::new(instead), ..Manners::default() }
}

#[tokio::test]
async fn what_was_sent_is_not_shown_when_a_provider_repeats_it_in_a_success() {
    let is_on = Arc::new(AtomicBool::new(true));
    let grants: [(&str, &[&str]); 2] =
        [("code", &[]), ("device_code", &["--oauth-grant", "device-code"])];
    for (field, args) in grants {
        let provider = Provider::start(echoes(field, &is_on)).await;
        let login = provider.run("login", args).await;
        let stderr = String::from_utf8(login.stderr).unwrap();
        assert_eq!(login.status.code(), Some(1), "{field}: {stderr}");
        assert!(stderr.contains("I do not like"), "{field}: {stderr}");
        assert!(!stderr.contains("hidden-"), "{field}: {stderr}");
    }
    // The same for a refresh token, whose failure goes to the client and to the log.
    is_on.store(false, Ordering::SeqCst);
    let provider = Provider::start(echoes("refresh_token", &is_on)).await;
    assert!(provider.run("login", &[]).await.status.success());
    is_on.store(true, Ordering::SeqCst);
    provider.desk.expire();
    provider.browse("exit 1");
    let mut bridge = provider.bridge(&["--log-level", "trace", "--oauth-wait", "0.2"]);
    let answer = bridge.ask(INITIALIZE).await.to_string();
    let (_, _, stderr) = bridge.finish().await;
    assert!(provider.grants("refresh_token") > 0);
    assert!(!answer.contains("hidden-") && !stderr.contains("hidden-"), "{answer} {stderr}");
}

#[tokio::test]
async fn a_store_of_the_wrong_shape_is_named_by_its_place_and_not_quoted() {
    let provider = Provider::start(Manners::default()).await;
    assert!(provider.run("login", &[]).await.status.success());
    std::fs::write(provider.kept(), "{\n \"token\": \"hidden-token\"}").unwrap();
    let mut bridge = provider.ready(&["--no-server-stream"]).await;
    assert!(bridge.ask(request(1, "a")).await["result"].is_object(), "another login was made");
    let (_, _, stderr) = bridge.finish().await;
    assert!(stderr.contains("damaged (line 2, column "), "{stderr}");
    assert!(!stderr.contains("hidden-"), "{stderr}");
}

#[tokio::test]
async fn a_provider_that_wants_to_be_asked_once_in_an_age_costs_no_more_than_the_login_may() {
    let manners =
        Manners { edit_device: |device, _| device["interval"] = json!(1e19), ..Manners::default() };
    let provider = Provider::start(manners).await;
    let start = Instant::now();
    let args = ["--oauth-grant", "device-code", "--oauth-login-timeout", "1"];
    let login = provider.run("login", &args).await;
    let stderr = String::from_utf8(login.stderr).unwrap();
    assert_eq!(login.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("in time"), "{stderr}");
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
}

#[tokio::test]
async fn no_control_character_of_a_provider_reaches_a_terminal() {
    let issuer = Manners {
        edit_metadata: |metadata, _| metadata["issuer"] = json!("https://as\u{1b}[31m/\u{7}"),
        ..Manners::default()
    };
    let provider = Provider::start(issuer).await;
    let login = provider.run("login", &[]).await;
    let stderr = String::from_utf8(login.stderr).unwrap();
    assert_eq!(login.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("calls itself https://as"), "the rest is shown: {stderr}");
    assert!(!stderr.contains(['\u{1b}', '\u{7}']), "{stderr:?}");
    let scope = Manners {
        edit_token: |token, _| token["scope"] = json!("read\u{1b}]0;title\u{7} more"),
        ..Manners::default()
    };
    let provider = Provider::start(scope).await;
    let login = provider.run("login", &[]).await;
    assert!(login.status.success(), "{login:?}");
    let status = provider.run("status", &[]).await;
    for bytes in [login.stdout, login.stderr, status.stdout.clone(), status.stderr] {
        let text = String::from_utf8(bytes).unwrap();
        assert!(!text.contains(['\u{1b}', '\u{7}']), "{text:?}");
    }
    assert!(String::from_utf8(status.stdout).unwrap().contains("read]0;title"));
}
