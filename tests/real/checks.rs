//! `mcp-span check` at real servers: what is healthy must be found healthy.

use std::process::Command;

use serde_json::Value;

use crate::hub::HubPlace;
use crate::peers::Peers;
use crate::raw_client::bridge_command;
use crate::servers;

/// The findings of a check, by name; the exit code must be this one.
fn check(command: &mut Command, target: &[&str], code: i32) -> Value {
    let output = command.args(["check", "--json"]).args(target).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(code), "{text}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The status and the summary of one finding.
fn found(report: &Value, check: &str) -> (String, String) {
    let findings = report["findings"].as_array().expect("a list");
    let finding = findings.iter().find(|finding| finding["check"] == check);
    let finding = finding.unwrap_or_else(|| panic!("no {check} in {report}"));
    let text = |name: &str| finding[name].as_str().expect("a text").to_owned();
    (text("status"), text("summary"))
}

#[track_caller]
fn assert_found(report: &Value, check: &str, status: &str, part: &str) {
    let (is, summary) = found(report, check);
    assert!(is == status && summary.contains(part), "{check}: {is}, {summary}\n{report}");
}

#[test]
fn the_everything_server_is_found_healthy() {
    let server = servers::everything(&Peers::find());
    let report = check(&mut bridge_command(), &[server.url(), "--audit"], 0);
    assert_found(&report, "transport", "ok", "Streamable HTTP, revision 2025-11-25");
    assert_found(&report, "server", "ok", "mcp-servers/everything");
    assert_found(&report, "session", "ok", "session id issued");
    assert_found(&report, "session-end", "ok", "DELETE accepted");
    assert_found(&report, "stream", "ok", "stays open");
    assert_found(&report, "contents", "ok", " tools");
}

#[test]
fn the_everything_server_over_the_older_transport_is_found_healthy() {
    let server = servers::everything_sse(&Peers::find());
    let report = check(&mut bridge_command(), &[server.url()], 0);
    assert_found(&report, "transport", "ok", "HTTP+SSE");
    assert_found(&report, "contents", "ok", " tools");
}

#[test]
fn servers_of_both_eras_and_of_the_modern_one_alone_are_told_apart() {
    let peers = Peers::find();
    let both = servers::modern(&peers);
    let report = check(&mut bridge_command(), &[both.url(), "--audit"], 0);
    assert_found(&report, "transport", "ok", "2026-07-28 (modern era) as well");
    let one = servers::modern_only(&peers);
    let report = check(&mut bridge_command(), &[one.url()], 0);
    assert_found(&report, "transport", "ok", "revision 2026-07-28 (modern era)");
    assert_found(&report, "session", "skipped", "no sessions");
    assert_found(&report, "contents", "ok", " tool");
}

#[test]
fn mcp_hub_is_found_healthy() {
    let place = HubPlace::new();
    let _hub = place.start();
    let report = check(&mut place.bridge_command(), &[&place.url()], 0);
    assert_found(&report, "transport", "ok", "HTTP+SSE");
    assert_found(&report, "server", "ok", "mcp-hub");
    assert_found(&report, "contents", "ok", " tools");
    assert_found(&report, "round-trip", "ok", "5 pings");
}

#[test]
fn the_everything_server_as_a_program_is_found_healthy() {
    let peers = Peers::find();
    let (node, program) = (peers.node_program(), servers::everything_program(&peers));
    let words = [node.to_str().expect("UTF-8"), program.to_str().expect("UTF-8"), "stdio"];
    let report = check(&mut bridge_command(), &["--", words[0], words[1], words[2]], 0);
    assert_found(&report, "start", "ok", "initialized in");
    assert_found(&report, "server", "ok", "mcp-servers/everything");
    assert_found(&report, "contents", "ok", " tools");
    assert_found(&report, "goodbye", "ok", "exits when stdin closes");
}
