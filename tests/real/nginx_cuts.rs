//! nginx that cuts what is silent, loses the server behind it, or is restarted itself.
//!
//! Its own limit for silence is 60 seconds; here it is 2, and the rest is the same.

use std::time::Duration;

use serde_json::{Value, json};

use crate::nginx::{Front, Nginx, for_each, location};
use crate::peers::Peers;
use crate::raw_client::RawClient;
use crate::restart::switch_updates_on;
use crate::restart::{RESOURCE, assert_call_is_lost, assert_echo_works, assert_only_lists_changed};
use crate::restart::{assert_tools_are_listed, assert_update_comes, send_long_call};
use crate::servers;

/// Each stream of a POST begins with an event id.
const REVISION: &str = "2025-11-25";
/// There is no event id before the first message.
const OLDER_REVISION: &str = "2025-06-18";
const CUT: &str = "proxy_read_timeout 2s;";
const UNBUFFERED_CUT: &str = "proxy_buffering off; proxy_read_timeout 2s;";
const PATIENCE: Duration = Duration::from_secs(30);

// C7, C8, C29
#[test]
fn the_servers_stream_is_opened_again_in_silence_as_often_as_it_is_cut() {
    let mut server = servers::everything(&Peers::find());
    let nginx = Nginx::start(Front::Plain, &location("/", server.origin(), CUT));
    let mut client = RawClient::connect_by(&mut nginx.bridge_to("/mcp"), REVISION);
    for _ in 0..3 {
        server.expect_line("Received MCP GET request");
    }
    client.request("resources/subscribe", json!({ "uri": RESOURCE }));
    switch_updates_on(&mut client);
    assert_update_comes(&mut client);
    // From here on it is resumed from an event. This server then repeats what was said on its
    // other streams, and says new things at the next resumption only.
    assert_echo_works(&mut client);
    server.expect_line("Client reconnecting with Last-Event-ID");
    client.notification("notifications/resources/updated", PATIENCE);
    assert_echo_works(&mut client);
    // The server logs that it was subscribed to.
    let expected = ["notifications/message", "notifications/resources/updated"];
    let mut aside = client.take_aside();
    aside.retain(|name| !expected.contains(&name.as_str()));
    assert_eq!(aside, [""; 0], "nobody hears of a stream that was cut");
    client.leave();
}

// C29, S4-22: over both versions of HTTP, which cut a stream in different ways.
#[test]
fn a_call_that_is_cut_for_its_silence_is_gone_on_with() {
    let server = servers::everything(&Peers::find());
    let origin = server.origin();
    for_each(&[Front::Plain, Front::TlsAndHttp2], |front| {
        let nginx = Nginx::start(front, &location("/", origin, CUT));
        let mut client = RawClient::connect_by(&mut nginx.bridge_to("/mcp"), REVISION);
        let call = send_silent_call(&mut client);
        let answer = client.answer(call, PATIENCE);
        assert!(is_done(&answer), "{answer}");
        assert_echo_works(&mut client);
        client.leave();
        let posts = nginx.accesses(4, |access| access.method == "POST");
        assert_eq!(posts.len(), 4, "no call was repeated: {posts:#?}");
    });
}

// C6, C7
#[test]
fn a_call_that_is_cut_without_an_event_id_ends_with_an_error() {
    let server = servers::everything(&Peers::find());
    let origin = server.origin();
    for_each(&[Front::Plain, Front::TlsAndHttp2], |front| {
        let nginx = Nginx::start(front, &location("/", origin, CUT));
        let mut client = RawClient::connect_by(&mut nginx.bridge_to("/mcp"), OLDER_REVISION);
        let call = send_silent_call(&mut client);
        client.take_aside();
        assert_call_is_lost(&mut client, call, PATIENCE);
        assert_echo_works(&mut client);
        client.leave();
    });
}

// C6, C37: a server that hangs, so that nginx answers in its place.
#[test]
fn a_call_that_gets_a_504_ends_with_it_and_initialize_waits() {
    let server = servers::everything(&Peers::find());
    let nginx = Nginx::start(Front::Plain, &location("/", server.origin(), CUT));
    server.freeze();
    let mut client = RawClient::start_by(&mut nginx.bridge_to("/mcp"));
    let id = client.send_initialize(REVISION);
    nginx.accesses(1, |access| access.status == 504);
    server.wake();
    client.result(id);
    client.confirm();
    assert_echo_works(&mut client);

    server.freeze();
    let call = send_silent_call(&mut client);
    assert_status(&client.answer(call, PATIENCE), 504);
    server.wake();
    assert_echo_works(&mut client);
    client.leave_after_waiting();
}

// C7, C35: such a stream is the session.
#[test]
fn the_stream_of_the_older_transport_is_opened_again_when_it_is_cut() {
    let mut server = servers::everything_sse(&Peers::find());
    let nginx = Nginx::start(Front::Plain, &location("/", server.origin(), UNBUFFERED_CUT));
    let mut client = RawClient::connect_by(&mut nginx.bridge_to("/sse"), REVISION);
    for _ in 0..3 {
        server.expect_line("Client Connected");
    }
    assert_echo_works(&mut client);
    assert_only_lists_changed(&mut client);

    let call = send_silent_call(&mut client);
    assert_call_is_lost(&mut client, call, PATIENCE);
    assert_echo_works(&mut client);
    client.leave();
}

// A second longer than elsewhere: pings of a busy machine may be late.
#[test]
fn a_keep_alive_prevents_the_cut() {
    let server = servers::everything_sse(&Peers::find());
    let late_cut = "proxy_buffering off; proxy_read_timeout 3s;";
    let nginx = Nginx::start(Front::Plain, &location("/", server.origin(), late_cut));
    let mut bridge = nginx.bridge_to("/sse");
    let mut client = RawClient::connect_by(bridge.args(["--keep-alive", "1"]), REVISION);
    let call = send_silent_call(&mut client);
    let answer = client.answer(call, PATIENCE);
    assert!(is_done(&answer), "{answer}");
    client.leave();
    let streams = nginx.accesses(1, |access| access.method == "GET");
    assert_eq!(streams.len(), 1, "{streams:#?}");
}

// S3-06: the server announces an address that lacks what nginx has taken away.
#[test]
fn the_older_transport_finds_its_address_behind_a_prefix() {
    let server = servers::everything_sse(&Peers::find());
    let origin = format!("{}/", server.origin());
    let site = location("/some/prefix/", &origin, "proxy_buffering off;");
    let nginx = Nginx::start(Front::Plain, &site);
    let mut client = RawClient::connect_by(&mut nginx.bridge_to("/some/prefix/sse"), REVISION);
    assert_tools_are_listed(&mut client);
    assert_echo_works(&mut client);
    client.leave();
    let posts = |path: &str| nginx.accesses(1, |a| a.path == path && a.method == "POST");
    assert!(posts("/some/prefix/message").iter().all(|post| post.status == 202));
    assert_eq!(posts("/message").len(), 1, "where nobody is, nobody is asked again");
}

// C6, C7, C37: nginx is there and says 502 while the server behind it is not.
#[test]
fn a_server_that_restarts_behind_its_proxy_is_found_again() {
    let (peers, port) = (Peers::find(), servers::lasting_port());
    let origin = format!("http://127.0.0.1:{port}");
    let nginx = Nginx::start(Front::TlsAndHttp2, &location("/", &origin, ""));
    let mut client = RawClient::start_by(&mut nginx.bridge_to("/mcp"));
    let id = client.send_initialize(REVISION);
    nginx.accesses(2, |access| access.status == 502);
    let server = servers::everything_at(&peers, port);
    client.result(id);
    client.confirm();
    assert_tools_are_listed(&mut client);
    client.take_aside();

    server.kill();
    let call = client.send("tools/list", json!({}));
    assert_status(&client.answer(call, PATIENCE), 502);
    let _server = servers::everything_at(&peers, port);
    assert_tools_are_listed(&mut client);
    assert_echo_works(&mut client);
    assert_only_lists_changed(&mut client);
    client.leave_after_waiting();
}

// C7
#[test]
fn a_reload_of_the_proxy_is_not_noticed() {
    let server = servers::everything(&Peers::find());
    let origin = server.origin();
    for_each(&[Front::Plain, Front::Tls, Front::TlsAndHttp2], |front| {
        let nginx = Nginx::start(front, &location("/", origin, ""));
        let mut client = RawClient::connect_by(&mut nginx.bridge_to("/mcp"), OLDER_REVISION);
        let call = send_silent_call(&mut client);
        assert_echo_works(&mut client);
        nginx.reload();
        assert_echo_works(&mut client);
        let answer = client.answer(call, PATIENCE);
        assert!(is_done(&answer), "{answer}");
        assert_eq!(client.take_aside(), [""; 0]);
        client.leave();
    });
}

// C7, C29: the call goes on in the server, and its stream is found again. With the cut, since this
// server says nothing new on a resumed stream until that is resumed once more.
#[test]
fn a_restart_of_the_proxy_costs_no_call() {
    let server = servers::everything(&Peers::find());
    let origin = server.origin();
    for_each(&[Front::Plain, Front::TlsAndHttp2], |front| {
        let mut nginx = Nginx::start(front, &location("/", origin, CUT));
        let mut client = RawClient::connect_by(&mut nginx.bridge_to("/mcp"), REVISION);
        let call = send_long_call(&mut client, json!({ "progressToken": "long" }));
        client.notification("notifications/progress", PATIENCE);
        let silent = send_silent_call(&mut client);
        client.notification("notifications/progress", PATIENCE);
        nginx.stop();
        nginx.start_again();
        let answer = client.answer(silent, PATIENCE);
        assert!(is_done(&answer), "{answer}");
        client.cancel(call);
        assert_echo_works(&mut client);
        client.leave();
    });
}

/// Sends a call that takes twice the time for which nginx bears silence, and shows no progress.
///
/// The client has not listed the tools, so the bridge cannot know that this one may be repeated.
fn send_silent_call(client: &mut RawClient) -> u64 {
    let arguments = json!({ "duration": 4, "steps": 1 });
    let name = "trigger-long-running-operation";
    client.send("tools/call", json!({ "name": name, "arguments": arguments }))
}

fn is_done(answer: &Value) -> bool {
    let text = answer["result"]["content"][0]["text"].as_str();
    text.is_some_and(|text| text.starts_with("Long running operation completed"))
}

fn assert_status(answer: &Value, status: u16) {
    assert_eq!(answer["error"]["code"], -32001, "{answer}");
    assert_eq!(answer["error"]["data"]["status"], status, "{answer}");
    assert_eq!(answer["error"]["data"]["delivery"], "unknown", "{answer}");
}
