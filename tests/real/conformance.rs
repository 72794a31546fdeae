//! The official conformance suite, judging the bridge together with a plain stdio client.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::BRIDGE;
use crate::peers::Peers;
use crate::process::Process;

/// The suite gives a client 30 seconds.
const SUITE_TIME: Duration = Duration::from_secs(60);

fn assert_scenario_passes(scenario: &str, revision: &str) {
    assert_passes(scenario, revision, &[]);
}

/// Scenarios in which the client has to log in, with a browser that agrees to everything.
fn assert_logins_pass(revision: &str, names: &[&str], flags: &[&str]) {
    assert!(
        Command::new("curl").arg("--version").output().is_ok_and(|output| output.status.success()),
        "curl plays the browser here and was not found: install it (Debian: apt install curl)"
    );
    for name in names {
        assert_passes(&format!("auth/{name}"), revision, flags);
    }
}

fn assert_passes(scenario: &str, revision: &str, flags: &[&str]) {
    let peers = Peers::find();
    let results = fresh_folder(scenario, revision);
    let state = tempfile::tempdir().expect("a folder for tokens");
    let mut command = peers.node();
    command
        .arg(peers.package_file("@modelcontextprotocol/conformance/dist/index.js"))
        // The suite splits the command at spaces, so no path may stand in it.
        .args(["client", "--command", "node conformance-client.mjs"])
        .args(["--scenario", scenario, "--spec-version", revision, "-o"])
        .arg(&results)
        .args(flags)
        .current_dir(peers.scripts())
        .env("BROWSER", "curl -sL -o /dev/null")
        .env("MCP_SPAN_STATE_DIR", state.path())
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

/// The suite writes one `checks.json` into a folder with the time in its name; below another one
/// if there is a slash in the scenario's.
fn passed_checks(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).expect("the suite has written its results");
    let paths = entries.map(|entry| entry.expect("the results can be listed").path());
    paths
        .map(|path| match path {
            folder if folder.is_dir() => passed_checks(&folder),
            file if file.ends_with("checks.json") => {
                let text = std::fs::read_to_string(file).expect("the checks can be read");
                let checks: Vec<Value> = serde_json::from_str(&text).expect("they are a list");
                checks.iter().filter(|check| check["status"] == "SUCCESS").count()
            }
            _ => 0,
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

#[test]
fn tools_call_2026_07_28() {
    assert_scenario_passes("tools_call", "2026-07-28");
}

#[test]
fn headers_2026_07_28() {
    for scenario in ["http-standard-headers", "http-custom-headers", "http-invalid-tool-headers"] {
        assert_scenario_passes(scenario, "2026-07-28");
    }
}

#[test]
fn request_metadata_2026_07_28() {
    assert_scenario_passes("request-metadata", "2026-07-28");
}

#[test]
fn schemas_2026_07_28() {
    for scenario in ["json-schema-ref-no-deref", "json-schema-2020-12-preservation"] {
        assert_scenario_passes(scenario, "2026-07-28");
    }
}

#[test]
fn request_state_2026_07_28() {
    assert_scenario_passes("sep-2322-client-request-state", "2026-07-28");
}

const METADATA: [&str; 5] =
    ["metadata-default", "metadata-var1", "metadata-var2", "metadata-var3", "basic-cimd"];
const SCOPES: [&str; 5] = [
    "scope-from-www-authenticate",
    "scope-from-scopes-supported",
    "scope-omitted-when-undefined",
    "scope-step-up",
    "scope-retry-limit",
];
const CLIENTS: [&str; 4] = [
    "token-endpoint-auth-basic",
    "token-endpoint-auth-post",
    "token-endpoint-auth-none",
    "pre-registration",
];

#[test]
fn finding_the_provider_2025_11_25() {
    assert_logins_pass("2025-11-25", &METADATA, &[]);
}

#[test]
fn finding_the_provider_2026_07_28() {
    assert_logins_pass("2026-07-28", &METADATA, &[]);
    let more = ["resource-mismatch", "metadata-issuer-mismatch", "authorization-server-migration"];
    assert_logins_pass("2026-07-28", &more, &[]);
}

#[test]
fn finding_the_provider_2025_03_26() {
    let names = ["2025-03-26-oauth-metadata-backcompat", "2025-03-26-oauth-endpoint-fallback"];
    assert_logins_pass("2025-03-26", &names, &[]);
}

#[test]
fn scopes_2025_11_25() {
    assert_logins_pass("2025-11-25", &SCOPES, &[]);
}

#[test]
fn scopes_2026_07_28() {
    assert_logins_pass("2026-07-28", &SCOPES, &[]);
    let more = ["offline-access-scope", "offline-access-not-supported"];
    assert_logins_pass("2026-07-28", &more, &[]);
}

#[test]
fn clients_2025_11_25() {
    assert_logins_pass("2025-11-25", &CLIENTS, &[]);
}

#[test]
fn clients_2026_07_28() {
    assert_logins_pass("2026-07-28", &CLIENTS, &[]);
}

#[test]
fn clients_of_their_own_right() {
    // An extension, which is in no revision's list.
    let names = ["client-credentials-basic", "client-credentials-jwt"];
    assert_logins_pass("2025-11-25", &names, &["--force"]);
}

#[test]
fn who_answers_the_browser_2026_07_28() {
    let names = [
        "iss-supported",
        "iss-not-advertised",
        "iss-supported-missing",
        "iss-wrong-issuer",
        "iss-unexpected",
        "iss-normalized",
    ];
    assert_logins_pass("2026-07-28", &names, &[]);
}
