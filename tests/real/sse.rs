//! A server of 2024's HTTP+SSE: real clients see it through the bridge as they see it directly.

use std::time::Duration;

use serde_json::json;

use crate::compare::ClientRun;
use crate::compare_runs;
use crate::peers::Peers;
use crate::raw_client::RawClient;
use crate::restart::{assert_call_is_lost, assert_echo_works, assert_only_lists_changed};
use crate::restart::{assert_tools_are_listed, send_long_call};
use crate::servers;

/// The newest revision that the server speaks, whatever the age of its transport.
const REVISION: &str = "2025-11-25";
const FIRST_STEP: Duration = Duration::from_secs(10);
/// A call learns within about a second that its server has died; the machine may be busy.
const BAD_NEWS: Duration = Duration::from_secs(3);

// C9, S3-18
#[test]
fn sdk1_sees_the_everything_server() {
    compare_runs(servers::everything_sse, ClientRun::node("sdk1.mjs", &[]));
}

// C9, S3-18
#[test]
fn sdk2_in_legacy_mode_sees_the_everything_server() {
    compare_runs(servers::everything_sse, ClientRun::node("sdk2.mjs", &["legacy"]));
}

// C9, C33
#[test]
fn sdk2_in_auto_mode_sees_the_everything_server() {
    compare_runs(servers::everything_sse, ClientRun::node("sdk2.mjs", &["auto"]));
}

// C9, C33
#[test]
fn python_sees_the_everything_server() {
    compare_runs(servers::everything_sse, ClientRun::python("py2.py"));
}

// C7, C11
#[test]
fn a_call_in_flight_ends_with_its_server_and_the_next_call_works() {
    let (peers, port) = (Peers::find(), servers::lasting_port());
    let server = servers::everything_sse_at(&peers, port);
    let mut client = RawClient::connect(&servers::sse_url_at(port), REVISION);
    let call = send_long_call(&mut client, json!({ "progressToken": "long" }));
    client.notification("notifications/progress", FIRST_STEP);
    client.take_aside();

    server.kill();
    assert_call_is_lost(&mut client, call, BAD_NEWS);
    let _server = servers::everything_sse_at(&peers, port);
    assert_echo_works(&mut client);
    assert_only_lists_changed(&mut client);
    client.leave();
}

// C7: this server leaves a POST to a session that it does not know without any answer.
#[test]
fn a_restart_between_two_calls_is_not_noticed() {
    let (peers, port) = (Peers::find(), servers::lasting_port());
    let server = servers::everything_sse_at(&peers, port);
    let mut client = RawClient::connect(&servers::sse_url_at(port), REVISION);
    assert_tools_are_listed(&mut client);
    client.take_aside();

    server.kill();
    let mut server = servers::everything_sse_at(&peers, port);
    assert_tools_are_listed(&mut client);
    assert_echo_works(&mut client);
    assert_only_lists_changed(&mut client);
    client.leave();
    server.expect_line("Client Disconnected");
}
