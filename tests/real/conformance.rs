//! The official conformance suite, judging the bridge together with a plain stdio client.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::BRIDGE;
use crate::peers::Peers;
use crate::process::Process;

/// The suite gives a client 30 seconds.
const SUITE_TIME: Duration = Duration::from_secs(60);

fn assert_scenario_passes(scenario: &str, revision: &str) {
    let peers = Peers::find();
    let results = fresh_folder(scenario, revision);
    let mut command = peers.node();
    command
        .arg(peers.package_file("@modelcontextprotocol/conformance/dist/index.js"))
        // The suite splits the command at spaces, so no path may stand in it.
        .args(["client", "--command", "node conformance-client.mjs"])
        .args(["--scenario", scenario, "--spec-version", revision, "-o"])
        .arg(&results)
        .current_dir(peers.scripts())
        .env("PATH", peers.path_with_node())
        .env("BRIDGE", BRIDGE);
    let mut suite = Process::start(&mut command);
    let status = suite.wait(SUITE_TIME);
    assert!(
        status.is_some_and(|status| status.success()),
        "{scenario} ({revision}) failed with {status:?}:\n{}",
        suite.output()
    );
    let passed = passed_checks(&results);
    assert!(passed > 0, "{scenario} ({revision}) checked nothing:\n{}", suite.output());
}

fn fresh_folder(scenario: &str, revision: &str) -> PathBuf {
    let name = format!("conformance-{revision}-{}", scenario.replace('/', "-"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).expect("results of an earlier run can be removed");
    }
    folder
}

/// The suite writes one `checks.json` into a folder with the time in its name.
fn passed_checks(results: &Path) -> usize {
    let runs = std::fs::read_dir(results).expect("the suite has written its results");
    let files = runs.map(|run| run.expect("the results can be listed").path().join("checks.json"));
    files
        .map(|file| {
            let text = std::fs::read_to_string(file).expect("the suite has written checks.json");
            let checks: Vec<Value> = serde_json::from_str(&text).expect("checks.json is a list");
            checks.iter().filter(|check| check["status"] == "SUCCESS").count()
        })
        .sum()
}

#[test]
fn initialize_2025_11_25() {
    assert_scenario_passes("initialize", "2025-11-25");
}

#[test]
fn tools_call_2025_11_25() {
    assert_scenario_passes("tools_call", "2025-11-25");
}

#[test]
fn elicitation_defaults_2025_11_25() {
    assert_scenario_passes("elicitation-sep1034-client-defaults", "2025-11-25");
}

#[test]
fn sse_retry_2025_11_25() {
    assert_scenario_passes("sse-retry", "2025-11-25");
}
