//! The bridge between real clients and real servers: what a client sees must not depend on it.

// A test reports its failure by a panic.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that panics has failed, and says where"
)]

mod behind_nginx;
mod checks;
mod children;
mod compare;
mod completions;
mod conformance;
mod conformance_list;
mod hub;
mod hub_restart;
mod identity;
mod login_pages;
mod logins;
mod matrix;
mod matrix_cells;
mod matrix_peers;
mod mcp_hub;
mod mcp_remote;
mod mcp_remote_examples;
mod nginx;
mod nginx_cuts;
mod peers;
mod process;
mod raw_client;
mod restart;
mod servers;
mod sse;

use compare::{ClientRun, assert_same_steps};
use peers::Peers;

const BRIDGE: &str = env!("CARGO_BIN_EXE_mcp-span");

/// Each run gets a server of its own, because the servers keep state beyond a session.
fn compare_runs(start_server: fn(&Peers) -> servers::Server, client: ClientRun) {
    let peers = Peers::find();
    let direct = client.steps(&peers, start_server(&peers).url(), None);
    let bridged = client.steps(&peers, start_server(&peers).url(), Some(BRIDGE));
    assert_same_steps(&direct, &bridged);
}

#[test]
fn sdk1_sees_the_everything_server() {
    compare_runs(servers::everything, ClientRun::node("sdk1.mjs", &[]));
}

#[test]
fn sdk2_in_legacy_mode_sees_the_everything_server() {
    compare_runs(servers::everything, ClientRun::node("sdk2.mjs", &["legacy"]));
}

#[test]
fn sdk2_in_auto_mode_sees_the_everything_server() {
    compare_runs(servers::everything, ClientRun::node("sdk2.mjs", &["auto"]));
}

#[test]
fn sdk2_in_legacy_mode_sees_a_server_of_both_eras() {
    compare_runs(servers::modern, ClientRun::node("sdk2.mjs", &["legacy"]));
}

#[test]
fn sdk2_in_auto_mode_sees_a_server_of_both_eras() {
    compare_runs(servers::modern, ClientRun::node("sdk2.mjs", &["auto"]));
}

#[test]
fn python_sees_the_everything_server() {
    compare_runs(servers::everything, ClientRun::python("py2.py"));
}

#[test]
fn python_sees_a_server_of_both_eras() {
    compare_runs(servers::modern, ClientRun::python("py2.py"));
}

#[test]
fn the_session_is_ended_when_the_client_leaves() {
    let peers = Peers::find();
    let mut server = servers::everything(&peers);
    ClientRun::node("sdk2.mjs", &["legacy"]).steps(&peers, server.url(), Some(BRIDGE));
    server.expect_line("Received session termination request");
}
