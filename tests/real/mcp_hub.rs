//! mcp-hub 4.2.1, which speaks HTTP+SSE alone: every way to reach it, and what is said there.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::hub::{Hub, HubPlace};
use crate::raw_client::RawClient;

/// The newest revision that the hub speaks.
pub(crate) const REVISION: &str = "2025-06-18";
/// For an answer whose time is not what the test is about.
const PATIENCE: Duration = Duration::from_secs(20);
/// A bridge that waited for a call would wait for minutes.
const AT_ONCE: Duration = Duration::from_secs(5);
/// The hub closes connections on which nothing was said for 5 seconds.
const IDLE: Duration = Duration::from_secs(7);

pub(crate) fn assert_echo_works(client: &mut RawClient) {
    let text = client.call_tool("everything__echo", json!({ "message": "grüße 🦀" }));
    assert_eq!(text, "Echo: grüße 🦀");
}

pub(crate) fn tool_names(client: &mut RawClient) -> Vec<String> {
    let result = client.request("tools/list", json!({}));
    let tools = result["tools"].as_array().expect("the answer to tools/list has a list");
    let name = |tool: &Value| tool["name"].as_str().expect("a tool has a name").to_owned();
    tools.iter().map(name).collect()
}

/// Sends a call that takes this many seconds, and lets it arrive.
///
/// The hub says nothing about a call before its end, but what is sent later arrives later.
pub(crate) fn begin_call(client: &mut RawClient, seconds: u32) -> u64 {
    let call = send_call(client, &json!({ "duration": seconds, "steps": 1 }));
    assert_echo_works(client);
    call
}

fn send_call(client: &mut RawClient, arguments: &Value) -> u64 {
    let name = "everything__trigger-long-running-operation";
    client.send("tools/call", json!({ "name": name, "arguments": arguments }))
}

/// S3-18: what every way to reach the hub must be good for.
fn converse(bridge: &mut Command, hub: &Hub) {
    let mut client = RawClient::start_by(bridge);
    let id = client.send_initialize(REVISION);
    let opened = client.result(id);
    assert_eq!(opened["serverInfo"]["name"], "mcp-hub-internal-endpoint", "{opened}");
    assert_eq!(opened["protocolVersion"], REVISION, "{opened}");
    client.confirm();

    let (mut names, mut all) = (tool_names(&mut client), hub.tools());
    assert!(all.len() > 10, "the everything server has more tools than {all:?}");
    names.sort();
    all.sort();
    assert_eq!(names, all, "every tool of the hub's");

    assert_echo_works(&mut client);
    let sum = client.call_tool("everything__get-sum", json!({ "a": 2, "b": 3 }));
    assert_eq!(sum, "The sum of 2 and 3 is 5.");
    let id = client.send("no/such/method", json!({}));
    let answer = client.answer(id, PATIENCE);
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
    assert_eq!(client.take_aside(), [""; 0], "nobody said anything unasked");
    client.leave();
}

// C9, S3-12, S3-19
#[test]
fn it_is_found_out_that_the_hub_speaks_sse() {
    let place = HubPlace::new();
    let hub = place.start();
    converse(place.bridge_command().arg(place.url()), &hub);
}

// C10, S3-10
#[test]
fn hub_mode_reaches_the_hub() {
    let place = HubPlace::new();
    let hub = place.start();
    converse(place.bridge_command().arg("--mcp-hub-mode").arg(place.url()), &hub);
}

// C10, S3-10
#[test]
fn the_url_may_be_the_value_of_the_option() {
    let place = HubPlace::new();
    let hub = place.start();
    converse(place.bridge_command().arg("--mcp-hub").arg(place.url()), &hub);
}

// C10
#[test]
fn a_hub_that_runs_here_needs_no_url() {
    let place = HubPlace::new();
    let hub = place.start();
    converse(place.bridge_command().arg("--mcp-hub"), &hub);
}

// C9, S3-19
#[test]
fn who_insists_on_streamable_http_gets_the_hubs_404() {
    let place = HubPlace::new();
    let mut hub = place.start();
    let command = &mut place.bridge_command();
    let mut client = RawClient::start_by(command.args(["--transport", "http"]).arg(place.url()));
    let id = client.send_initialize(REVISION);
    let answer = client.answer(id, PATIENCE);
    assert_eq!(answer["error"]["code"], -32001, "{answer}");
    assert_eq!(answer["error"]["data"]["status"], 404, "{answer}");
    assert_eq!(hub.active_clients(), 0);
    assert_eq!(hub.streams_without_handshake(), 0, "no stream was ever opened");
}

// S3-14, S3-15, 4(d)17
#[test]
fn sixty_calls_at_once_get_their_own_answers() {
    let place = HubPlace::new();
    let _hub = place.start();
    let mut client = RawClient::connect(&place.url(), REVISION);
    // The later it is sent, the sooner it is done.
    let calls = (1..=60_u32).map(|steps| {
        let duration = f64::from(61 - steps) / 40.0;
        let call = send_call(&mut client, &json!({ "duration": duration, "steps": steps }));
        (call, format!("Duration: {duration} seconds, Steps: {steps}."))
    });
    let calls: Vec<(u64, String)> = calls.collect();
    for (call, end) in calls {
        let result = client.result(call);
        let text = result["content"][0]["text"].as_str().expect("the tool answers with text");
        assert!(text.ends_with(&end), "call {call} should end with {end:?}: {text}");
    }
    assert_eq!(client.take_aside(), [""; 0], "each call is answered once");
    client.leave();
}

// 4(d)13
#[test]
fn a_call_that_is_too_large_for_the_hub_is_refused_alone() {
    let place = HubPlace::new();
    let _hub = place.start();
    let mut client = RawClient::connect(&place.url(), REVISION);
    let arguments = json!({ "message": "x".repeat(101 * 1024) });
    let params = json!({ "name": "everything__echo", "arguments": arguments });
    let call = client.send("tools/call", params);
    let answer = client.answer(call, PATIENCE);
    assert_eq!(answer["error"]["code"], -32001, "{answer}");
    assert_eq!(answer["error"]["data"]["status"], 413, "{answer}");
    assert_echo_works(&mut client);
    assert_eq!(client.take_aside(), [""; 0], "the session is the same");
    client.leave();
}

// 4(d)14
#[test]
fn a_call_after_a_long_pause_works() {
    let place = HubPlace::new();
    let _hub = place.start();
    let mut client = RawClient::connect(&place.url(), REVISION);
    assert_echo_works(&mut client);
    client.expect_silence(IDLE);
    assert_echo_works(&mut client);
    assert_eq!(client.take_aside(), [""; 0], "the session is the same");
    client.leave();
}

// C33, S3-07, 4(d)28
#[test]
fn a_bridge_is_one_client_of_the_hub_and_leaves_nothing_behind() {
    let place = HubPlace::new();
    let mut hub = place.start();
    let mut client = RawClient::connect(&place.url(), REVISION);
    tool_names(&mut client);
    assert_echo_works(&mut client);
    assert_eq!(hub.active_clients(), 1);
    client.leave();
    hub.wait_for_clients(0);
    assert_eq!(hub.handshakes(), 1);
    // Each stream that is closed costs the hub thousands of log lines, so none is opened to probe.
    assert_eq!(hub.streams_without_handshake(), 0);
}

// 4(d)23
#[test]
fn a_cancelled_call_is_never_heard_of_again() {
    let place = HubPlace::new();
    let _hub = place.start();
    let mut client = RawClient::connect(&place.url(), REVISION);
    let short = begin_call(&mut client, 1);
    let long = begin_call(&mut client, 60);
    client.cancel(short);
    client.cancel(long);
    // When this one is answered, the answer to the short one would have come.
    let other = begin_call(&mut client, 2);
    client.result(other);
    assert_eq!(client.take_aside(), [""; 0], "neither an answer nor an error");
    client.leave_within(AT_ONCE);
}
