//! nginx as it stands in front of many servers: it ends TLS, buffers, and turns requests away.

use std::collections::HashSet;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::nginx::{Front, Nginx, for_each, location};
use crate::peers::Peers;
use crate::raw_client::{RawClient, bridge_command};
use crate::restart::{RESOURCE, assert_echo_works, assert_tools_are_listed, assert_update_comes};
use crate::restart::{send_long_call, switch_updates_on};
use crate::servers;

const REVISION: &str = "2025-11-25";
/// Much less than the minute that the long call takes.
const FIRST_STEP: Duration = Duration::from_secs(15);
const PATIENCE: Duration = Duration::from_secs(20);
const CALLS: usize = 60;

// S2-22, C1, C8: one connection for calls, one for the stream, and one for what is urgent.
#[test]
fn everything_passes_a_tls_terminator_over_http2() {
    let server = servers::everything(&Peers::find());
    let nginx = Nginx::start(Front::TlsAndHttp2, &location("/", server.origin(), ""));
    talk_about_everything(&nginx);

    // Beside the calls: the handshake, four requests, the server's stream, and the goodbye.
    let accesses = nginx.accesses(CALLS + 8, |_| true);
    assert!(accesses.iter().all(|access| access.protocol == "HTTP/2.0"), "{accesses:#?}");
    let connections: HashSet<_> = accesses.iter().map(|access| &access.connection).collect();
    assert!(connections.len() <= 3, "{connections:?}");
}

// C1, C8: also with the older version of TLS, which some of them still have to themselves.
#[test]
fn everything_passes_a_tls_terminator_over_http1() {
    let server = servers::everything(&Peers::find());
    let site = location("/", server.origin(), "");
    let nginx = Nginx::start(Front::Tls, &format!("ssl_protocols TLSv1.2; {site}"));
    talk_about_everything(&nginx);

    let accesses = nginx.accesses(CALLS + 8, |_| true);
    assert!(accesses.iter().all(|access| access.protocol == "HTTP/1.1"), "{accesses:#?}");
}

fn talk_about_everything(nginx: &Nginx) {
    let mut client = RawClient::connect_by(&mut nginx.bridge_to("/mcp"), REVISION);
    assert_tools_are_listed(&mut client);
    assert_echo_works(&mut client);
    let calls: Vec<_> =
        (0..CALLS).map(|number| send_echo(&mut client, &number.to_string())).collect();
    for (number, call) in calls.into_iter().enumerate() {
        let result = client.result(call);
        assert_eq!(result["content"][0]["text"], format!("Echo: {number}"));
    }
    client.request("resources/subscribe", json!({ "uri": RESOURCE }));
    switch_updates_on(&mut client);
    assert_update_comes(&mut client);
    client.leave();
}

fn send_echo(client: &mut RawClient, message: &str) -> u64 {
    client.send("tools/call", json!({ "name": "echo", "arguments": { "message": message } }))
}

// S2-21: the server says X-Accel-Buffering: no, and nginx, whose buffering is on, heeds it.
#[test]
fn progress_is_not_held_up_by_a_proxy_that_buffers() {
    let server = servers::everything(&Peers::find());
    let nginx = Nginx::start(Front::Plain, &location("/", server.origin(), "proxy_buffering on;"));
    let mut client = RawClient::connect_by(&mut nginx.bridge_to("/mcp"), REVISION);
    let call = send_long_call(&mut client, json!({ "progressToken": "long" }));
    client.notification("notifications/progress", FIRST_STEP);
    client.cancel(call);
    assert_echo_works(&mut client);
    client.leave();
}

// S2-21: it may be late, but all of it comes, in order, and nothing waits for ever.
#[test]
fn all_of_it_arrives_in_order_if_the_proxy_buffers_against_the_servers_will() {
    let server = servers::everything(&Peers::find());
    let stubborn = "proxy_buffering on; proxy_ignore_headers X-Accel-Buffering;";
    let nginx = Nginx::start(Front::Plain, &location("/", server.origin(), stubborn));
    let mut client = RawClient::connect_by(&mut nginx.bridge_to("/mcp"), REVISION);
    assert_tools_are_listed(&mut client);
    client.take_aside();

    assert_progress_comes_in_order(&mut client);
    // The head of the server's own stream is held back until there is something to say.
    client.request("resources/subscribe", json!({ "uri": RESOURCE }));
    switch_updates_on(&mut client);
    assert_update_comes(&mut client);
    client.leave();
}

// C28: this transport's server does not ask nginx to be quick, and nginx keeps the end of a large
// answer back until more follows it. Pings bring more.
#[test]
fn a_keep_alive_pushes_large_answers_through_a_proxy_that_buffers() {
    let server = servers::everything_sse(&Peers::find());
    let nginx = Nginx::start(Front::Plain, &location("/", server.origin(), "proxy_buffering on;"));
    let mut bridge = nginx.bridge_to("/sse");
    let mut client = RawClient::connect_by(bridge.args(["--keep-alive", "1"]), REVISION);
    for _ in 0..3 {
        assert_tools_are_listed(&mut client);
    }
    client.take_aside();
    assert_progress_comes_in_order(&mut client);
    client.leave();
}

// C2, C28: without pings it is an answer or a timeout, whatever nginx makes of it.
#[test]
fn what_a_buffering_proxy_keeps_for_itself_times_out() {
    let server = servers::everything_sse(&Peers::find());
    let nginx = Nginx::start(Front::Plain, &location("/", server.origin(), "proxy_buffering on;"));
    let mut bridge = nginx.bridge_to("/sse");
    let mut client = RawClient::connect_by(bridge.args(["--timeout", "5"]), REVISION);
    let list = client.send("tools/list", json!({}));
    let answer = client.answer(list, PATIENCE);
    let is_timeout = answer["error"]["data"]["kind"] == "timeout";
    assert!(is_timeout || answer["result"]["tools"].is_array(), "{answer}");
    assert_echo_works(&mut client);
    client.leave();
}

fn assert_progress_comes_in_order(client: &mut RawClient) {
    let arguments = json!({ "duration": 1.5, "steps": 3 });
    let name = "trigger-long-running-operation";
    let meta = json!({ "progressToken": "short" });
    let call =
        client.send("tools/call", json!({ "name": name, "arguments": arguments, "_meta": meta }));
    client.result(call);
    // All of it has come before the answer, or it would not be aside.
    let seen = client.take_progress();
    assert_eq!(seen, [1, 2, 3], "steps in order, each once");
}

// C4, C6: what was turned away was not delivered, and harms nothing that follows.
#[test]
fn a_call_that_is_too_large_for_the_proxy_is_turned_away() {
    let server = servers::everything(&Peers::find());
    let origin = server.origin();
    for_each(&[Front::Plain, Front::TlsAndHttp2], |front| {
        let limited = format!("client_max_body_size 10k; {}", location("/", origin, ""));
        let nginx = Nginx::start(front, &limited);
        let mut client = RawClient::connect_by(&mut nginx.bridge_to("/mcp"), REVISION);
        // The larger one is refused while most of it is still to be sent.
        for length in [20_000, 8_000_000] {
            let call = send_echo(&mut client, &"x".repeat(length));
            let error = client.answer(call, PATIENCE)["error"].take();
            assert_eq!(error["code"], -32001, "{error}");
            assert_eq!(error["data"]["status"], 413, "{error}");
            assert_eq!(error["data"]["delivery"], "not-delivered", "{error}");
            assert_echo_works(&mut client);
        }
        client.leave();
    });
}

// C5, S1-36
#[test]
fn a_password_for_the_proxy_goes_into_the_url() {
    let server = servers::everything(&Peers::find());
    let locked = "auth_basic 'Staff only'; auth_basic_user_file users;";
    let nginx = Nginx::start(Front::Plain, &location("/", server.origin(), locked));
    nginx.write("users", "me:{PLAIN}open-sesame\n");
    assert_is_locked_out(&nginx.url("/mcp"));
    assert_is_locked_out(&with_user(&nginx, "me:guessed"));

    let mut client = RawClient::connect(&with_user(&nginx, "me:open-sesame"), REVISION);
    assert_tools_are_listed(&mut client);
    assert_echo_works(&mut client);
    client.leave();
}

fn with_user(nginx: &Nginx, user: &str) -> String {
    nginx.url("/mcp").replace("http://", &format!("http://{user}@"))
}

fn assert_is_locked_out(url: &str) {
    let mut client = RawClient::start_by(bridge_command().arg(url));
    let id = client.send_initialize(REVISION);
    let error: Value = client.answer(id, PATIENCE)["error"].take();
    assert_eq!(error["code"], -32001, "{error}");
    assert_eq!(error["data"]["status"], 401, "{error}");
    let message = error["message"].as_str().unwrap_or_default();
    assert!(message.contains(r#"[WWW-Authenticate: Basic realm="Staff only"]"#), "{error}");
    let hint = error["data"]["hint"].as_str().unwrap_or_default();
    assert!(hint.contains("other credentials"), "{error}");
    client.leave();
}

// The handshake goes well, or there is none, and a page over HTTP says what is wrong.
#[test]
fn what_nginx_says_about_tls_is_no_login_page() {
    let guarded = "ssl_client_certificate server.pem; ssl_verify_client on;";
    let nginx = Nginx::start(Front::Tls, &format!("{guarded} location / {{ return 404; }}"));
    assert_hint(&mut nginx.bridge_to("/mcp"), "--client-cert FILE");
    let plain = nginx.url("/mcp").replace("https://", "http://");
    assert_hint(bridge_command().arg(plain), "https:// in place of http://");
}

fn assert_hint(bridge: &mut Command, expected: &str) {
    let mut client = RawClient::start_by(bridge);
    let id = client.send_initialize(REVISION);
    let error: Value = client.answer(id, PATIENCE)["error"].take();
    assert_eq!(error["data"]["status"], 400, "{error}");
    let hint = error["data"]["hint"].as_str().unwrap_or_default();
    assert!(hint.contains(expected), "{error}");
    client.leave();
}
