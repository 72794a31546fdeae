//! Renewal of tokens: ahead of their end, once for all, with failures shared, and what a refusal of
//! it leads to.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::support::desk::{Form, back, refusal};
use crate::support::provider::place;
use crate::support::{
    Bridge, INITIALIZE, Manners, Provider, Reply, Request, cancel, polite, request, soon,
};

async fn calls(bridge: &mut Bridge, count: usize) -> Vec<serde_json::Value> {
    let lines: String = (0..count).map(|id| request(id, "tools/call") + "\n").collect();
    bridge.send_bytes(lines.as_bytes()).await;
    bridge.answers(count).await.0
}

fn is_renewal(r: &Request) -> bool {
    place(r) == "/token" && Form::of(r).get("grant_type") == "refresh_token"
}

#[tokio::test]
async fn twenty_who_wait_for_a_renewal_that_fails_cause_one_and_hear_of_it() {
    let reply = Reply::status(503, "text/plain", "later").pause(0);
    let provider = Provider::start(Manners::default().where_it_is(is_renewal, reply)).await;
    let mut bridge = provider.ready(&["--no-server-stream"]).await;
    provider.desk.expire();
    for answer in calls(&mut bridge, 20).await {
        assert_eq!(answer["error"]["data"]["kind"], "login", "{answer}");
        assert_eq!(answer["error"]["data"]["status"], 401, "{answer}");
    }
    assert_eq!(provider.grants("refresh_token"), 1);
    assert_eq!(provider.pages().len(), 1);
}

#[tokio::test]
async fn a_renewal_that_is_refused_for_any_reason_leads_to_a_login() {
    for (status, error) in [
        (400, "invalid_scope"),
        (400, "unsupported_grant_type"),
        (400, "invalid_request"),
        (403, "access_denied"),
        (200, "bad_refresh_token"),
    ] {
        let reply = refusal(status, error, "no");
        let provider = Provider::start(Manners::default().where_it_is(is_renewal, reply)).await;
        let mut bridge = provider.ready(&["--no-server-stream"]).await;
        provider.desk.expire();
        for answer in calls(&mut bridge, 3).await {
            assert!(answer["result"].is_object(), "{error}: {answer}");
        }
        assert_eq!(provider.pages().len(), 2, "{error}");
        assert_eq!(provider.grants("refresh_token"), 1, "{error}");
        assert_eq!(provider.at("/register").len(), 1, "{error}");
    }
}

#[tokio::test]
async fn a_provider_that_has_no_time_costs_nobody_the_login() {
    for reply in [
        refusal(429, "slow_down", "later"),
        Reply::status(502, "text/html", "<p>later"),
        Reply::status(200, "text/html", "<p>welcome to the hotel"),
        Reply::status(403, "text/html", "<p>blocked by a firewall"),
        Reply::status(404, "text/html", "<p>no such page"),
        refusal(400, "temporarily_unavailable", "later"),
        refusal(400, "server_error", "oops"),
    ] {
        let provider = Provider::start(Manners::default().where_it_is(is_renewal, reply)).await;
        let mut bridge = provider.ready(&["--no-server-stream"]).await;
        provider.desk.expire();
        let answer = bridge.ask(request(1, "tools/call")).await;
        assert_eq!(answer["error"]["data"]["kind"], "login", "{answer}");
        let kept = std::fs::read_to_string(provider.kept()).unwrap();
        assert!(kept.contains("hidden-refresh-2"), "{kept}");
        assert_eq!(provider.pages().len(), 1);
    }
}

#[tokio::test]
async fn a_token_of_twenty_seconds_is_used_for_ten() {
    let lifetimes = (json!(20), json!(20));
    let provider = Provider::start(Manners { lifetimes, ..Manners::default() }).await;
    let mut bridge = provider.ready(&["--no-server-stream"]).await;
    for id in 0..3 {
        tokio::time::sleep(Duration::from_millis(1100)).await;
        assert!(bridge.ask(request(id, "tools/call")).await["result"].is_object());
    }
    assert_eq!(provider.at("/token").len(), 1);
}

#[tokio::test]
async fn a_token_is_renewed_before_its_end_and_no_request_waits_for_that() {
    let gate = crate::support::Gate::new();
    let at = gate.clone();
    let instead = move |r: &Request| {
        let answer = json!({"access_token": "hidden-new", "expires_in": 3600}).to_string();
        match r.header("authorization") {
            Some("Bearer hidden-new") => Some(polite(r)),
            _ => is_renewal(r).then(|| Reply::json(answer).held(&at)),
        }
    };
    let manners = Manners { instead: Arc::new(instead), ..Manners::default() };
    let provider = Provider::start(manners).await;
    assert!(provider.run("login", &[]).await.status.success());
    provider.leave(45);
    let mut bridge = provider.ready(&["--no-server-stream"]).await;
    for answer in calls(&mut bridge, 5).await {
        assert!(answer["result"].is_object(), "{answer}");
    }
    let asked = async {
        while provider.grants("refresh_token") == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon("a renewal", asked).await;
    let before = provider.carried();
    assert!(before.iter().all(|(_, token)| token != "hidden-new"), "{before:?}");
    // The provider takes its time; nobody asks it again meanwhile.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert!(bridge.ask(request(8, "tools/call")).await["result"].is_object());
    assert_eq!(provider.grants("refresh_token"), 1);
    gate.open();
    let used = async {
        for id in 100.. {
            bridge.ask(request(id, "ping")).await;
            if provider.carried().last().unwrap().1 == "hidden-new" {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    soon("the new token", used).await;
    assert_eq!(provider.grants("refresh_token"), 1);
}

#[tokio::test]
async fn a_renewal_is_kept_though_nobody_waits_for_it_any_more() {
    let gate = crate::support::Gate::new();
    let at = gate.clone();
    let instead = move |r: &Request| {
        let answer = json!({"access_token": "hidden-new", "refresh_token": "hidden-next"});
        match r.header("authorization") {
            Some("Bearer hidden-new") => Some(polite(r)),
            _ => is_renewal(r).then(|| Reply::json(answer.to_string()).held(&at)),
        }
    };
    let manners = Manners { instead: Arc::new(instead), ..Manners::default() };
    let provider = Provider::start(manners).await;
    let mut bridge = provider.ready(&["--no-server-stream"]).await;
    provider.server().saw("notifications/initialized").await;
    provider.desk.expire();
    bridge.send(request(1, "tools/call")).await;
    let asked = async {
        while provider.grants("refresh_token") == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon("a renewal", asked).await;
    bridge.send(cancel(1)).await;
    // Longer than the cancelled call is kept alive.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    gate.open();
    assert!(bridge.ask(request(2, "tools/call")).await["result"].is_object());
    assert_eq!(provider.grants("refresh_token"), 1);
    assert_eq!(provider.carried().last().unwrap().1, "hidden-new");
    assert!(std::fs::read_to_string(provider.kept()).unwrap().contains("hidden-next"));
}

/// A provider whose next renewal waits for the gate, and a bridge that is at it in the background.
async fn while_a_renewal_is_held() -> (Provider, Bridge, crate::support::Gate) {
    let gate = crate::support::Gate::new();
    let at = gate.clone();
    let instead = move |r: &Request| {
        let answer = json!({"access_token": "hidden-new", "refresh_token": "hidden-next"});
        is_renewal(r).then(|| Reply::json(answer.to_string()).held(&at))
    };
    let provider =
        Provider::start(Manners { instead: Arc::new(instead), ..Manners::default() }).await;
    assert!(provider.run("login", &[]).await.status.success());
    provider.leave(45);
    let bridge = provider.ready(&["--no-server-stream"]).await;
    let asked = async {
        while provider.grants("refresh_token") == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon("a renewal", asked).await;
    (provider, bridge, gate)
}

#[tokio::test]
async fn a_renewal_is_kept_though_the_client_leaves_in_the_middle_of_it() {
    let (provider, bridge, gate) = while_a_renewal_is_held().await;
    let opening = async {
        // The session is deleted by then: all that is left is the renewal.
        provider.server().saw("DELETE").await;
        gate.open();
    };
    let ((_, status, _), ()) = tokio::join!(bridge.finish(), opening);
    assert!(status.success());
    assert!(std::fs::read_to_string(provider.kept()).unwrap().contains("hidden-next"));
}

#[cfg(unix)]
#[tokio::test]
async fn a_renewal_is_kept_though_a_signal_comes_in_the_middle_of_it() {
    let (provider, bridge, gate) = while_a_renewal_is_held().await;
    bridge.signal("TERM");
    provider.server().saw("DELETE").await;
    gate.open();
    let (_, status, _) = bridge.finish().await;
    assert!(status.success());
    assert!(std::fs::read_to_string(provider.kept()).unwrap().contains("hidden-next"));
}

#[tokio::test]
async fn a_renewal_that_does_not_end_holds_nobody_up_for_long() {
    let (_provider, bridge, _gate) = while_a_renewal_is_held().await;
    let left = std::time::Instant::now();
    let (_, status, _) = bridge.finish().await;
    assert!(status.success());
    assert!(left.elapsed() < Duration::from_secs(4), "{:?}", left.elapsed());
}

#[tokio::test]
async fn a_token_that_still_lives_is_used_on_though_it_cannot_be_renewed() {
    let reply = refusal(400, "invalid_grant", "no");
    let provider = Provider::start(Manners::default().where_it_is(is_renewal, reply)).await;
    assert!(provider.run("login", &[]).await.status.success());
    provider.leave(25);
    let mut bridge = provider.ready(&["--no-server-stream"]).await;
    assert!(bridge.ask(request(1, "tools/call")).await["result"].is_object());
    assert_eq!(provider.grants("refresh_token"), 1);
    assert_eq!(provider.pages().len(), 1);
}

#[cfg(unix)]
#[tokio::test]
async fn without_the_lock_no_refresh_token_is_used() {
    // peers b 22
    let provider = Provider::start(Manners::default()).await;
    let mut bridge = provider.ready(&["--no-server-stream"]).await;
    provider.server().saw("notifications/initialized").await;
    let file = std::fs::File::open(provider.kept().with_extension("lock")).unwrap();
    file.lock().unwrap();
    provider.desk.expire();
    // Nobody is asked for a probe, so it has its answer though the lock is held.
    let answer = bridge.ask(request(1, "ping")).await;
    assert_eq!(answer["error"]["data"]["status"], 401, "{answer}");
    assert_eq!(provider.grants("refresh_token"), 0);
    drop(file);
    assert!(bridge.ask(request(2, "tools/call")).await["result"].is_object());
    assert_eq!(provider.grants("refresh_token"), 1);
    assert_eq!(provider.pages().len(), 1);
}

/// Refuses `resource` at the authorization endpoint, with this error.
fn without_resource(error: &'static str, description: &'static str) -> Manners {
    let instead = move |r: &Request| {
        let asked = Form::of_query(r);
        let iss = format!("http://{}", r.header("host").unwrap());
        let fields = [("error", error), ("error_description", description), ("iss", &iss)];
        (place(r) == "/authorize" && asked.has("resource")).then(|| back(&asked, &fields))
    };
    Manners { instead: Arc::new(instead), gives_refresh: false, ..Manners::default() }
}

#[tokio::test]
async fn a_login_that_is_refused_for_the_resource_is_asked_for_once_more_without_it() {
    // peers b 27
    for (error, description) in
        [("invalid_target", ""), ("invalid_request", "unknown parameter: Resource")]
    {
        let provider = Provider::start(without_resource(error, description)).await;
        provider.ready(&[]).await;
        let told: Vec<bool> = provider.logins().iter().map(|l| l.has("resource")).collect();
        assert_eq!(told, [true, false], "{error}");
        assert!(!provider.forms()[0].has("resource"));
        // And that is remembered.
        provider.desk.expire();
        provider.ready(&[]).await;
        let told: Vec<bool> = provider.logins().iter().map(|l| l.has("resource")).collect();
        assert_eq!(told, [true, false, false], "{error}");
    }
    let provider = Provider::start(without_resource("invalid_request", "no such scope")).await;
    let answer = provider.bridge(&[]).ask(INITIALIZE).await;
    assert!(answer["error"]["message"].as_str().unwrap().contains("no such scope"), "{answer}");
    assert_eq!(provider.logins().len(), 1);
}

#[tokio::test]
async fn a_renewal_that_is_refused_for_the_resource_is_asked_for_without_it() {
    let wrong = refusal(400, "invalid_target", "unknown");
    let is_told = |r: &Request| is_renewal(r) && Form::of(r).has("resource");
    let provider = Provider::start(Manners::default().where_it_is(is_told, wrong)).await;
    let mut bridge = provider.ready(&["--no-server-stream"]).await;
    for _ in 0..2 {
        provider.desk.expire();
        assert!(bridge.ask(request(1, "tools/call")).await["result"].is_object());
    }
    let told: Vec<bool> = provider.forms()[1..].iter().map(|f| f.has("resource")).collect();
    assert_eq!(told, [true, false, false]);
    assert_eq!(provider.pages().len(), 1);
}
