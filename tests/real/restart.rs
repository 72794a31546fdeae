//! A real server that dies and comes back, or comes late: the client goes on as if nothing was.

use std::time::Duration;

use serde_json::{Value, json};

use crate::peers::Peers;
use crate::raw_client::RawClient;
use crate::servers::{self, Server};

/// Within this, a call learns that its server has died.
const BAD_NEWS: Duration = Duration::from_secs(2);
/// The 5 s for which a server that is away is waited for, and a little more.
const AWAY: Duration = Duration::from_secs(10);
/// The server takes about a second from its start to the first message.
const START: Duration = Duration::from_secs(10);
/// The server sends an update every 5 seconds, and the first may come before anybody listens.
const UPDATES: Duration = Duration::from_secs(15);

/// The newest revision that the server speaks; each of its streams begins with an event id.
const REVISION: &str = "2025-11-25";
/// The one before: a stream has no event id until it brings a message.
const OLDER_REVISION: &str = "2025-06-18";
pub(crate) const RESOURCE: &str = "demo://resource/dynamic/text/1";

/// A server that can be killed and started again at the same URL.
struct Restartable {
    peers: Peers,
    port: u16,
}

impl Restartable {
    fn new() -> Self {
        Self { peers: Peers::find(), port: servers::lasting_port() }
    }

    fn url(&self) -> String {
        servers::url_at(self.port)
    }

    fn start(&self) -> Server {
        servers::everything_at(&self.peers, self.port)
    }
}

pub(crate) fn assert_echo_works(client: &mut RawClient) {
    assert_eq!(client.call_tool("echo", json!({ "message": "hello" })), "Echo: hello");
}

pub(crate) fn assert_tools_are_listed(client: &mut RawClient) {
    let result = client.request("tools/list", json!({}));
    let tools = result["tools"].as_array().expect("the answer to tools/list has a list");
    assert!(tools.iter().any(|tool| tool["name"] == "echo"), "no echo in {result}");
}

/// The client is told to ask for its lists again, and sees nothing else of the restart.
pub(crate) fn assert_only_lists_changed(client: &mut RawClient) {
    let mut seen = client.take_aside();
    seen.sort();
    seen.dedup();
    let lists = ["prompts", "resources", "tools"];
    assert_eq!(seen, lists.map(|list| format!("notifications/{list}/list_changed")));
}

/// Sends a call that takes a minute, with whatever is to go along with it.
///
/// The client has not listed the tools, so the bridge cannot know that this one may be repeated.
pub(crate) fn send_long_call(client: &mut RawClient, meta: Value) -> u64 {
    let arguments = json!({ "duration": 60, "steps": 60 });
    let name = "trigger-long-running-operation";
    client.send("tools/call", json!({ "name": name, "arguments": arguments, "_meta": meta }))
}

/// The call learns soon that its server has died, and nothing else is said about it.
pub(crate) fn assert_call_is_lost(client: &mut RawClient, call: u64, within: Duration) {
    let answer = client.answer(call, within);
    assert_eq!(answer["error"]["data"]["delivery"], "unknown", "{answer}");
    let mut aside = client.take_aside();
    aside.retain(|name| !name.ends_with("/list_changed"));
    assert_eq!(aside, [""; 0], "the error is all that the client learns");
}

#[test]
fn a_call_in_flight_ends_with_its_server_and_the_next_call_works() {
    let place = Restartable::new();
    let server = place.start();
    let mut client = RawClient::connect(&place.url(), REVISION);
    let call = send_long_call(&mut client, json!({ "progressToken": "long" }));
    client.notification("notifications/progress", START);
    client.take_aside();

    server.kill();
    // The stream had event ids: its rest is asked for as long as any server is waited for.
    assert_call_is_lost(&mut client, call, AWAY);
    let _server = place.start();
    assert_echo_works(&mut client);
    assert_only_lists_changed(&mut client);
    client.leave();
}

#[test]
fn a_call_in_flight_without_an_event_id_ends_with_its_server_too() {
    let place = Restartable::new();
    let mut server = place.start();
    let mut client = RawClient::connect(&place.url(), OLDER_REVISION);
    let call = send_long_call(&mut client, json!({}));
    // `initialize`, its confirmation, and the call, which sends nothing back before its end.
    for _ in 0..3 {
        server.expect_line("Received MCP POST request");
    }
    client.take_aside();

    server.kill();
    assert_call_is_lost(&mut client, call, BAD_NEWS);
    let _server = place.start();
    assert_echo_works(&mut client);
    assert_only_lists_changed(&mut client);
    client.leave();
}

#[test]
fn a_restart_between_two_calls_is_not_noticed() {
    let place = Restartable::new();
    let server = place.start();
    let mut client = RawClient::connect(&place.url(), REVISION);
    assert_tools_are_listed(&mut client);
    client.take_aside();

    server.kill();
    let mut server = place.start();
    assert_tools_are_listed(&mut client);
    assert_echo_works(&mut client);
    assert_only_lists_changed(&mut client);
    server.expect_line("Session initialized");
    client.leave();
    server.expect_line("Received session termination request");
}

#[test]
fn a_client_may_start_before_its_server() {
    let place = Restartable::new();
    let mut client = RawClient::start(&place.url());
    let id = client.send_initialize(REVISION);
    client.expect_silence(Duration::from_secs(1));

    let _server = place.start();
    let result = client.result(id);
    assert_eq!(result["serverInfo"]["name"], "mcp-servers/everything", "{result}");
    client.confirm();
    assert_tools_are_listed(&mut client);
    client.leave_after_waiting();
}

#[test]
fn a_subscription_outlives_its_session() {
    let place = Restartable::new();
    let server = place.start();
    let mut client = RawClient::connect(&place.url(), REVISION);
    client.request("resources/subscribe", json!({ "uri": RESOURCE }));
    switch_updates_on(&mut client);
    assert_update_comes(&mut client);

    server.kill();
    let _server = place.start();
    assert_echo_works(&mut client);
    // Updates of the old session; it is gone, and the answer has come behind them.
    client.take_aside();
    switch_updates_on(&mut client);
    assert_update_comes(&mut client);
    client.leave();
}

/// The server invents updates only for sessions that ask for them by this tool. It forgets that
/// with the session, and no bridge can know that this call is to be repeated: the client does it.
pub(crate) fn switch_updates_on(client: &mut RawClient) {
    let text = client.call_tool("toggle-subscriber-updates", json!({}));
    assert!(text.starts_with("Started simulated resource updated notifications"), "{text}");
}

pub(crate) fn assert_update_comes(client: &mut RawClient) {
    let update = client.notification("notifications/resources/updated", UPDATES);
    assert_eq!(update["params"]["uri"], RESOURCE, "{update}");
}
