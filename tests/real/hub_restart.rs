//! mcp-hub that comes late, changes, dies and comes back: the client hears what it must know.

use std::time::Duration;

use crate::hub::HubPlace;
use crate::mcp_hub::{REVISION, assert_echo_works, begin_call, tool_names};
use crate::raw_client::RawClient;
use crate::restart::{assert_call_is_lost, assert_only_lists_changed};

/// Within this, a call learns that the hub has gone.
const BAD_NEWS: Duration = Duration::from_secs(1);
/// The hub looks at a changed file for 0.2 s, then starts the new server.
const NEW_SERVER: Duration = Duration::from_secs(20);

// C7, 4(d)26
#[test]
fn a_call_in_flight_ends_with_a_hub_that_is_told_to_stop() {
    let place = HubPlace::new();
    for mut bridge in place.bridges() {
        let hub = place.start();
        let mut client = RawClient::connect_by(&mut bridge, REVISION);
        let call = begin_call(&mut client, 60);

        hub.terminate();
        assert_call_is_lost(&mut client, call, BAD_NEWS);
        hub.wait_until_gone();
        let hub = place.start();
        assert_echo_works(&mut client);
        assert_only_lists_changed(&mut client);
        client.leave();
        hub.kill();
    }
}

// C7, 4(d)27
#[test]
fn a_call_in_flight_ends_with_a_hub_that_is_killed() {
    let place = HubPlace::new();
    for mut bridge in place.bridges() {
        let hub = place.start();
        let mut client = RawClient::connect_by(&mut bridge, REVISION);
        let call = begin_call(&mut client, 60);

        hub.kill();
        assert_call_is_lost(&mut client, call, BAD_NEWS);
        let hub = place.start();
        assert_echo_works(&mut client);
        assert_only_lists_changed(&mut client);
        client.leave();
        hub.kill();
    }
}

// C7, C30, S3-16
#[test]
fn a_restart_of_the_hub_between_two_calls_is_not_noticed() {
    let place = HubPlace::new();
    for mut bridge in place.bridges() {
        let hub = place.start();
        let mut client = RawClient::connect_by(&mut bridge, REVISION);
        let tools = tool_names(&mut client);
        assert_eq!(client.take_aside(), [""; 0], "nothing has changed yet");

        hub.kill();
        let mut hub = place.start();
        assert_echo_works(&mut client);
        assert_only_lists_changed(&mut client);
        assert_eq!(tool_names(&mut client), tools);
        assert_eq!(hub.active_clients(), 1);
        client.leave();
        hub.wait_for_clients(0);
        assert_eq!(hub.handshakes(), 1);
        hub.kill();
    }
}

// 4(d)25
#[test]
fn a_client_may_start_before_the_hub() {
    let place = HubPlace::new();
    let mut client = RawClient::start(&place.url());
    let id = client.send_initialize(REVISION);
    client.expect_silence(Duration::from_secs(1));

    let (mut hub, held_up) = place.start_held_up();
    // The hub listens and answers GET with 500: the second thing that has to be waited out.
    hub.expect_line("MCP server endpoint not initialized");
    held_up.let_go();
    let opened = client.result(id);
    assert_eq!(opened["serverInfo"]["name"], "mcp-hub-internal-endpoint", "{opened}");
    client.confirm();
    hub.wait_until_ready();
    assert_echo_works(&mut client);
    client.leave_after_waiting();
}

// S3-02, S3-14, 4(d)24
#[test]
fn the_client_hears_of_a_server_that_is_added_to_the_hub() {
    let place = HubPlace::new();
    let _hub = place.start();
    let mut client = RawClient::connect(&place.url(), REVISION);
    let before = tool_names(&mut client);

    place.configure(&["everything", "my-odd.name"]);
    for list in ["tools", "resources", "prompts"] {
        client.notification(&format!("notifications/{list}/list_changed"), NEW_SERVER);
    }
    let after = tool_names(&mut client);
    assert_eq!(after.len(), 2 * before.len(), "{after:?}");
    // 4(d)20
    assert!(after.iter().any(|name| name == "my_odd_name__echo"), "{after:?}");
    client.leave();
}
