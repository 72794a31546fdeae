//! How `mcp-span check` tells what it found: to programs, of several targets, to whom it is shown.

use serde_json::Value;

use crate::check_servers::healthy;
use crate::support::{Reply, Server, check, run};

fn objects(stdout: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn programs_get_one_object_for_each_target() {
    let (good, bad) =
        (Server::start(healthy).await, Server::start(|_| Reply::status(500, "", "x")).await);
    let output = run(&["check", &bad.url, &good.url, "--json"], &[], "").await;
    assert_eq!(output.status.code(), Some(3));
    assert!(output.stderr.is_empty(), "{output:?}");
    let all = objects(&output.stdout);
    assert_eq!(all.len(), 2);
    assert_eq!((&all[0]["target"], &all[0]["status"]), (&Value::from(&*bad.url), &"failed".into()));
    assert_eq!((&all[1]["target"], &all[1]["status"]), (&Value::from(&*good.url), &"ok".into()));
    let names: Vec<&str> = all[1]["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| finding["check"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "url",
            "name",
            "proxy",
            "connection",
            "tls",
            "http",
            "transport",
            "server",
            "session",
            "session-unknown",
            "session-end",
            "stream",
            "authorization",
            "round-trip",
            "contents",
        ]
    );
    let failed = all[0]["findings"].as_array().unwrap().iter().find(|f| f["check"] == "transport");
    let failed = failed.unwrap();
    assert_eq!(failed["exchange"]["request"]["method"], "POST");
    assert_eq!(failed["exchange"]["response"]["status"], 500);
    assert!(failed["next_step"].is_string() && failed["meaning"].is_string(), "{failed}");
    let trips = all[1]["findings"].as_array().unwrap().iter().find(|f| f["check"] == "round-trip");
    assert_eq!(trips.unwrap()["times"].as_array().unwrap().len(), 5);
}

#[tokio::test]
async fn several_targets_are_told_in_the_order_in_which_they_were_typed() {
    let slow = Server::start(|r| match &*r.what() {
        "initialize" => {
            let Reply { .. } = healthy(r);
            healthy(r).pause(300)
        }
        _ => healthy(r),
    })
    .await;
    let fast = Server::start(healthy).await;
    let output = run(&["check", &slow.url, &fast.url, "--", "false"], &[], "").await;
    let text = String::from_utf8(output.stdout).unwrap();
    let at = |part: &str| text.find(&format!("\n{part}\n")).unwrap_or_else(|| panic!("{text}"));
    assert!(at(&slow.url) < at(&fast.url) && at(&fast.url) < at("false"), "{text}");
    assert_eq!(text.matches("mcp-span 0").count(), 1, "one heading: {text}");
}

#[tokio::test]
async fn what_is_shown_to_others_holds_no_secret() {
    let server = Server::start(|r| {
        let echo = format!("{:?} {}", r.headers, r.path);
        Reply::status(400, "text/plain", echo).header("Set-Cookie", "id=hidden-cookie")
    })
    .await;
    let url = server.url.replace("/mcp", "/mcp/hidden0key0in0path?token=hidden-query");
    let url = url.replace("http://", "http://ann:hidden-password@");
    let args = ["-H", "X-Key: hidden-key-value", "-H", "X-Other: hidden-other"];
    for json in [&[][..], &["--json"]] {
        let output = run(&[&["check", &url], &args[..], json].concat(), &[], "").await;
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("[secret]"), "{text}");
        assert!(!text.contains("hidden") && !text.contains("ann"), "{text}");
    }
}

#[tokio::test]
async fn what_cannot_be_checked_is_wrong_usage() {
    for args in [&[][..], &["nonsense"], &["http://server.example/mcp"], &["ftp://h/"]] {
        let output = run(&[&["check"], args].concat(), &[], "").await;
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
    }
    let plain = check(&["http://server.invalid/mcp", "--allow-http"], &[]).await;
    assert!(plain.finding("url").starts_with("warning  url"), "{plain:?}");
}

#[tokio::test]
async fn all_servers_of_a_configuration_or_one_by_its_name() {
    let server = Server::start(healthy).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("servers.json");
    let program = env!("CARGO_BIN_EXE_mcp-span");
    let text = format!(
        r#"{{
        // three that are meant, one that is switched off
        "mcpServers": {{
            "remote": {{"url": "{}"}},
            "local": {{"command": "{program}", "args": ["demo"]}},
            "wrong": {{"url": 7}},
            "off": {{"command": "nothing", "disabled": true}},
        }}}}"#,
        server.url
    );
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let output = run(&["check", "--config", file, "--json"], &[], "").await;
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let all = objects(&output.stdout);
    let told: Vec<_> = all
        .iter()
        .map(|one| (one["target"].as_str().unwrap(), one["status"].as_str().unwrap()))
        .collect();
    assert_eq!(told, [("remote", "ok"), ("local", "ok"), ("wrong", "failed")]);
    let finding = &all[2]["findings"][0];
    assert_eq!(finding["check"], "configuration");
    let summary = finding["summary"].as_str().unwrap();
    assert!(summary.contains("line 6") && summary.contains("url"), "{summary}");
    let output = run(&["check", "local", "--config", file, "--json"], &[], "").await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(objects(&output.stdout)[0]["target"], "local");
    let output = run(&["check", "locol", "--config", file], &[], "").await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("'local'"), "{said}");
}

#[tokio::test]
async fn a_wrong_word_does_not_harm_the_other_targets() {
    let server = Server::start(healthy).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("servers.json");
    std::fs::write(&file, r#"{"mcpServers": {"wrong": {"url": 7}, "other": {"command": "x"}}}"#)
        .unwrap();
    let file = file.to_str().unwrap();
    let words = ["wrong", "othr", &server.url, "X-Key: hidden", "ftp://ann:hidden@h/"];
    let args = [&["check", "--config", file, "--json"], &words[..]].concat();
    let output = run(&args, &[], "").await;
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let all = objects(&output.stdout);
    let told: Vec<_> = all.iter().map(|one| one["target"].as_str().unwrap()).collect();
    assert_eq!(told, ["wrong", "othr", &server.url, "target 4", "ftp://h/"]);
    assert_eq!(all[2]["status"], "ok");
    let said = all[1]["findings"][0]["summary"].as_str().unwrap();
    assert!(said.contains("did you mean 'other'?"), "of this word: {said}");
}

#[tokio::test]
async fn a_configuration_without_servers_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("empty.json");
    std::fs::write(&file, r#"{"mcpServers": {}}"#).unwrap();
    let output = run(&["check", "--config", file.to_str().unwrap()], &[], "").await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("empty.json has no server that is switched on"), "{said}");
}

#[tokio::test]
async fn exit_codes_are_in_the_help() {
    let output = run(&["check", "--help"], &[], "").await;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("Exit codes:") && said.contains("--strict\n"), "{said}");
}
