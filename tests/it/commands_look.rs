//! `mcp-span tools`, `resources` and `prompts`: what a person and a program see, and what goes wrong.

use std::process::Output;
use std::time::{Duration, Instant};

use crate::support::shop::{TOOL, shop};
use crate::support::{Manners, Provider, Reply, Server, polite, run};

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-span");

fn parts(output: &Output) -> (Option<i32>, &str, &str) {
    let text = |bytes| std::str::from_utf8(bytes).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[tokio::test]
async fn tools_of_a_program_are_listed_for_a_person() {
    let output = run(&["tools", "--", PROGRAM, "demo"], &[], "").await;
    let shown = "\
echo — Echo
    Gives back the text it is given.
    text*  string

add — Add
    Adds two numbers.
    a*  number
    b*  number

countdown — Countdown
    Counts down to zero, with progress on the way.
    from  integer 1 to 100

3 tools; * must be given
";
    assert_eq!(parts(&output), (Some(0), shown, ""));
}

#[tokio::test]
async fn colours_change_nothing_about_what_is_said() {
    let server = Server::start(shop).await;
    for command in ["tools", "prompts", "resources"] {
        let plain = run(&[command, &server.url], &[], "").await;
        let coloured = run(&[command, &server.url], &[("CLICOLOR_FORCE", "1")], "").await;
        let coloured = String::from_utf8(coloured.stdout).unwrap();
        assert!(coloured.contains('\u{1b}'), "{coloured}");
        let mut parts = coloured.split('\u{1b}');
        let first = parts.next().unwrap().to_owned();
        let rest = parts.map(|part| part.split_once('m').unwrap().1);
        assert_eq!(first + &rest.collect::<String>(), String::from_utf8(plain.stdout).unwrap());
    }
}

#[tokio::test]
async fn all_pages_are_listed_without_control_characters() {
    let server = Server::start(shop).await;
    let output = run(&["tools", &server.url], &[], "").await;
    let shown = "\
order — Order something
    Orders[31m things.
    Takes a while.
    what*   string                               What to order
    count*  integer 1 to 1.2345678901234568e+29
    size    s|m|l = \"m\"
    tags    array of string
    to      object

fail

draw

3 tools; * must be given
";
    assert_eq!(parts(&output), (Some(0), shown, ""));
}

#[tokio::test]
async fn programs_get_what_the_server_wrote() {
    let server = Server::start(shop).await;
    let output = run(&["tools", &server.url, "--json"], &[], "").await;
    let rest = r#"{"name":"fail","inputSchema":{"type":"object"}},{"name":"draw"}"#;
    assert_eq!(parts(&output), (Some(0), &*format!("{{\"tools\":[{TOOL},{rest}]}}\n"), ""));
    let output = run(&["tools", &server.url, "order", "--json"], &[], "").await;
    assert_eq!(parts(&output), (Some(0), &*format!("{TOOL}\n"), ""));
}

#[tokio::test]
async fn one_tool_is_shown_with_its_schema() {
    let server = Server::start(shop).await;
    let output = run(&["tools", &server.url, "order"], &[], "").await;
    let (code, text, _) = parts(&output);
    assert_eq!(code, Some(0));
    for part in [
        "order — Order something\n",
        "Annotations\n{\n  \"x\": 1.0\n}\n",
        "Schema of the arguments\n{\n  \"type\": \"object\",\n  \"required\": [\n    \"what\",",
        "\"maximum\": 123456789012345678901234567890\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let output = run(&["tools", &server.url, "ordr"], &[], "").await;
    let said = "error: the server has no tool 'ordr'\nhint: did you mean 'order'?\n";
    assert_eq!(parts(&output), (Some(2), "", said));
}

#[tokio::test]
async fn resources_and_patterns_stand_in_columns() {
    let server = Server::start(shop).await;
    let output = run(&["resources", &server.url], &[], "").await;
    let shown = "\
file:///logo.png  image/png  The logo · 2.0 KiB
note://1                     note · A note

Patterns
note://{id}    notes

2 resources, 1 pattern
";
    assert_eq!(parts(&output), (Some(0), shown, ""));
    let output = run(&["resources", &server.url, "--json"], &[], "").await;
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["resources"][0]["size"], 2048);
    assert_eq!(json["resourceTemplates"][0]["name"], "notes");
}

#[tokio::test]
async fn prompts_are_listed_with_what_they_take() {
    let server = Server::start(shop).await;
    let output = run(&["prompts", &server.url], &[], "").await;
    let shown = "\
greet — Greeting
    Says hello.
    who*  Whom to greet
    how

1 prompt; * must be given
";
    assert_eq!(parts(&output), (Some(0), shown, ""));
    let output = run(&["prompts", &server.url, "gret"], &[], "").await;
    assert_eq!(output.status.code(), Some(2));
}

#[tokio::test]
async fn a_server_without_such_a_list_has_none_of_them() {
    let output = run(&["resources", "--", PROGRAM, "demo"], &[], "").await;
    assert_eq!(parts(&output), (Some(0), "", "the server has no resources\n"));
    let output = run(&["prompts", "--json", "--", PROGRAM, "demo"], &[], "").await;
    assert_eq!(parts(&output), (Some(0), "{\"prompts\":[]}\n", ""));
}

#[tokio::test]
async fn nobody_waits_long_for_a_server_that_is_down() {
    // The clock is a promise: a client's 25 seconds are not for a person.
    let start = Instant::now();
    let output = run(&["tools", "http://127.0.0.1:1/mcp"], &[], "").await;
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    let (code, stdout, stderr) = parts(&output);
    assert_eq!((code, stdout), (Some(3), ""));
    assert!(stderr.starts_with("error: 127.0.0.1:1 refused the connection\n"), "{stderr}");
    assert!(stderr.contains("Check that the server runs"), "{stderr}");
    let output = run(&["tools", "http://127.0.0.1:1/mcp", "--json"], &[], "").await;
    let json: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(json["error"]["kind"], "connect");
    assert_eq!(output.status.code(), Some(3));
}

#[tokio::test]
async fn a_program_that_is_no_server_is_told_with_its_last_words() {
    let output = run(&["tools", "--", "sh", "-c", "echo oh no >&2; exit 7"], &[], "").await;
    let (code, stdout, stderr) = parts(&output);
    assert_eq!((code, stdout), (Some(3), ""));
    assert!(stderr.contains("exit status: 7") && stderr.contains("oh no"), "{stderr}");
    let output = run(&["tools", "--", "/no/such/program"], &[], "").await;
    assert_eq!(output.status.code(), Some(3));
    assert!(parts(&output).2.contains("cannot be started"), "{output:?}");
}

#[tokio::test]
async fn credentials_that_are_missing_have_an_exit_code_of_their_own() {
    let refuse = |r: &crate::support::Request| match r.header("authorization") {
        Some("Bearer right") => polite(r),
        _ => Reply::status(401, "text/plain", "who are you?"),
    };
    let server = Server::start(refuse).await;
    let output = run(&["raw", &server.url, "a", "--no-oauth"], &[], "").await;
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let header = "Authorization: Bearer right";
    let output = run(&["raw", &server.url, "a", "--header", header], &[], "").await;
    assert_eq!(parts(&output), (Some(0), "{\"did\":\"a\"}\n", ""));
}

#[tokio::test]
async fn a_login_is_made_on_the_way() {
    let provider = Provider::guarding(Manners::default(), shop).await;
    let output = provider.run("tools", &["--json"]).await;
    let (code, stdout, stderr) = parts(&output);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.starts_with("{\"tools\":["), "{stdout}");
    assert_eq!(provider.pages().len(), 1);
    // The next one has the token.
    let output = provider.run("tools", &["--json"]).await;
    assert_eq!(parts(&output).2, "");
    assert_eq!(provider.pages().len(), 1);
}

#[tokio::test]
async fn where_nobody_logs_in_the_page_is_named() {
    let provider = Provider::guarding(Manners::default(), shop).await;
    provider.browse("exit 0");
    let output = provider.run("tools", &["--oauth-wait", "0.2"]).await;
    let (code, stdout, stderr) = parts(&output);
    assert_eq!((code, stdout), (Some(4), ""), "{stderr}");
    assert!(stderr.contains("A login is pending: open http"), "{stderr}");
}
