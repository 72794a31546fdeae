//! What must never start a login: streams, notices, probes, pings and goodbyes. They use what is
//! there, renew it, or find it in the store.

use std::sync::Arc;
use std::time::Duration;

use crate::support::desk::Desk;
use crate::support::{
    Bridge, Hub, INITIALIZE, Manners, Provider, Reply, cancel, polite, request, soon,
};

/// A token that nothing but a login replaces.
fn mortal() -> Manners {
    Manners { gives_refresh: false, ..Manners::default() }
}

/// Nobody was bothered, by anything that has happened so far. A ping is answered after all that was
/// sent before it; a login would have begun long ago.
async fn is_left_in_peace(provider: &Provider, bridge: &mut Bridge) {
    let (answer, _) = {
        bridge.send(request("\"peace\"", "ping")).await;
        bridge.answer("peace").await
    };
    assert_eq!(answer["error"]["data"]["status"], 401, "{answer}");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(provider.pages().len(), 1);
}

#[tokio::test]
async fn the_servers_own_stream_opens_no_browser() {
    let provider = Provider::guarding(mortal(), |r| match &*r.what() {
        "GET" => Reply::sse().chunk("retry: 50\n: hello\n\n").end(),
        _ => polite(r),
    })
    .await;
    let mut bridge = provider.ready(&[]).await;
    let streams = || provider.carried().iter().filter(|(what, _)| what == "GET").count();
    let asked_again = async |than: usize| {
        while streams() <= than {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon("a stream", asked_again(0)).await;
    provider.desk.expire();
    soon("the stream again", asked_again(streams())).await;
    is_left_in_peace(&provider, &mut bridge).await;
}

#[tokio::test]
async fn notices_and_pings_open_no_browser() {
    let provider = Provider::start(mortal()).await;
    let mut bridge = provider.ready(&["--no-server-stream"]).await;
    provider.server().saw("notifications/initialized").await;
    provider.desk.expire();
    bridge.send(cancel(77)).await;
    bridge.send(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#).await;
    provider.server().saw("notifications/roots/list_changed").await;
    provider.server().saw("notifications/cancelled").await;
    is_left_in_peace(&provider, &mut bridge).await;
    // And what somebody waits for still does.
    assert!(bridge.ask(request(1, "tools/call")).await["result"].is_object());
    assert_eq!(provider.pages().len(), 2);
}

#[tokio::test]
async fn notices_to_servers_of_the_older_transport_open_none_either() {
    let desk = Arc::new(Desk::new(Manners {
        challenge: Some(""),
        resource_at: "/.well-known/oauth-protected-resource",
        edit_resource: |document, origin| document["resource"] = format!("{origin}/").into(),
        ..mortal()
    }));
    let at = Arc::clone(&desk);
    let hub = Hub::start(move |r, _| at.answer(r)).await;
    desk.guards(&hub.url);
    let provider = Provider::with(hub.url.clone(), desk, Vec::new());
    let mut bridge = provider.ready(&["--transport", "sse"]).await;
    assert!(bridge.ask(request(1, "tools/list")).await["result"].is_object());
    provider.desk.expire();
    bridge.send(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#).await;
    let told = async {
        while !hub.requests().iter().any(|r| r.text().contains("roots/list_changed")) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon("the notice", told).await;
    is_left_in_peace(&provider, &mut bridge).await;
}

#[tokio::test]
async fn a_goodbye_has_no_time_for_a_renewal_but_for_a_look_at_the_store() {
    let provider = Provider::start(Manners::default()).await;
    let mut first = provider.ready(&["--no-server-stream"]).await;
    let second = provider.ready(&["--no-server-stream"]).await;
    provider.server().saw_count("notifications/initialized", 2).await;
    provider.desk.expire();
    let (_, status, _) = second.finish().await;
    assert!(status.success());
    let last = || provider.carried().pop().unwrap();
    assert_eq!(last(), ("DELETE".to_owned(), "hidden-access-2".to_owned()));
    assert_eq!(provider.grants("refresh_token"), 0, "its answer might come too late");

    let third = provider.ready(&["--no-server-stream"]).await;
    provider.server().saw_count("notifications/initialized", 3).await;
    assert_eq!(provider.grants("refresh_token"), 1);
    assert_eq!(last().1, "hidden-access-3");
    first.close_stdin();
    first.exit().await;
    assert_eq!(last(), ("DELETE".to_owned(), "hidden-access-3".to_owned()));
    assert_eq!(provider.pages().len(), 1);
    third.finish().await;
}

#[tokio::test]
async fn what_another_process_has_stored_is_used_without_a_login() {
    let provider = Provider::start(mortal()).await;
    let mut bridge = provider.ready(&["--no-server-stream"]).await;
    provider.server().saw("notifications/initialized").await;
    provider.desk.expire();
    assert!(provider.run("login", &[]).await.status.success());
    let answer = bridge.ask(request(1, "server/discover")).await;
    assert!(answer["result"].is_object(), "{answer}");
    assert_eq!(provider.pages().len(), 2, "the other process's");
}

#[tokio::test]
async fn a_probe_does_not_wait_for_a_login_that_is_under_way() {
    let provider = Provider::start(mortal()).await;
    provider.browse("exec sleep 60");
    let mut bridge = provider.bridge(&[]);
    bridge.send(INITIALIZE).await;
    provider.browsed(1).await;
    // What is in memory is looked at anew after a second.
    tokio::time::sleep(Duration::from_millis(1200)).await;
    let discover = request(7, "server/discover").replace(
        r#""method""#,
        r#""params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}},"method""#,
    );
    let begun = tokio::time::Instant::now();
    let answer = bridge.ask(discover).await;
    assert_eq!(answer["id"], 7, "{answer}");
    assert!(begun.elapsed() < Duration::from_secs(5), "the person has not logged in yet");
    assert_eq!(provider.pages().len(), 1);
}

#[tokio::test]
async fn a_probe_whose_id_looks_like_ours_starts_no_login_either() {
    let provider = Provider::start(Manners::default()).await;
    let mut bridge = provider.bridge(&[]);
    let discover = request("\"mcp-span-0123456789abcdef-1\"", "server/discover").replace(
        r#""method""#,
        r#""params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}},"method""#,
    );
    let answer = bridge.ask(discover).await;
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
    assert_eq!(answer["id"], "mcp-span-0123456789abcdef-1");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(provider.pages().len(), 0, "nobody was bothered");
}

#[tokio::test]
async fn whoever_waits_for_the_login_of_another_process_is_told_where_it_is() {
    let provider = Provider::start(Manners::default()).await;
    provider
        .browse("while [ ! -e \"$2/go\" ]; do sleep 0.02; done\nexec curl -sL -o /dev/null \"$1\"");
    let mut first = provider.bridge(&[]);
    first.send(INITIALIZE).await;
    provider.browsed(1).await;
    let mut second = provider.bridge(&["--oauth-wait", "0.1"]);
    let answer = second.ask(INITIALIZE).await;
    let page = &provider.pages()[0];
    let instructions = answer["result"]["instructions"].as_str().unwrap();
    assert!(instructions.contains(page.as_str()), "{answer}");
    std::fs::write(provider.path("go"), "").unwrap();
    assert!(first.receive().await["result"].is_object());
    let served = async {
        while second.ask(request(1, "tools/call")).await["result"].is_null() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon("the real server", served).await;
    assert_eq!(provider.pages().len(), 1);
}

#[tokio::test]
async fn a_login_goes_on_when_nobody_waits_for_it_any_more() {
    let provider = Provider::start(mortal()).await;
    let mut bridge = provider.ready(&["--no-server-stream"]).await;
    provider.server().saw("notifications/initialized").await;
    provider.desk.expire();
    provider
        .browse("while [ ! -e \"$2/go\" ]; do sleep 0.02; done\nexec curl -sL -o /dev/null \"$1\"");
    bridge.send(request(1, "tools/call")).await;
    provider.browsed(2).await;
    bridge.send(cancel(1)).await;
    bridge.send(request(2, "tools/call")).await;
    provider.server().saw_count("tools/call", 2).await;
    // Longer than the cancelled call is kept alive.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    std::fs::write(provider.path("go"), "").unwrap();
    let answer = bridge.receive().await;
    assert!(answer["id"] == 2 && answer["result"].is_object(), "{answer}");
    assert_eq!(provider.pages().len(), 2);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_stderr_that_is_closed_or_full_stops_no_login() {
    use std::io::Write;
    for is_full in [false, true] {
        let provider = Provider::start(Manners::default()).await;
        let (reader, mut writer) = std::io::pipe().unwrap();
        if is_full {
            writer.write_all(&[b' '; 65_536]).unwrap();
        }
        let reader = Some(reader).filter(|_| is_full);
        let mut command = crate::support::process::command(&[&provider.url]);
        command.envs(provider.env());
        let mut bridge = Bridge::spawn_with(command, writer.into());
        let answer = bridge.ask(INITIALIZE).await;
        assert!(answer["result"].is_object(), "{answer}");
        assert_eq!(provider.pages().len(), 1);
        drop(reader);
    }
}
