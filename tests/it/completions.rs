//! What shells ask the program for when they complete a command line. The shells themselves are
//! asked in `tests/real`.

use crate::support::{Reply, Server, polite, result, run};

#[tokio::test]
async fn a_configuration_that_is_wrong_leaves_the_commands() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.json");
    std::fs::write(&config, "{ not json").unwrap();
    let env = [("MCP_SPAN_CONFIG", config.to_str().unwrap()), ("MCP_SPAN_TIMEOUT", "never")];
    let told = run(&["__complete", "1", "--", "mcp-span", "sta"], &env, "").await;
    assert!(told.status.success() && told.stderr.is_empty(), "{told:?}");
    assert!(told.stdout.starts_with(b"status\t"), "{told:?}");
    // Whatever a shell may call it with.
    for args in [&["__complete"][..], &["__complete", "x", "--"], &["__complete", "7", "--", "m"]] {
        let told = run(args, &[], "").await;
        assert!(matches!(told.status.code(), Some(0 | 2 | 10)) && told.stderr.is_empty());
    }
}

#[tokio::test]
async fn tools_that_a_server_has_listed_are_offered_behind_it_without_asking_it_again() {
    let server = Server::start(|r| match &*r.what() {
        "tools/list" => {
            let tools = r#"{"tools":[{"name":"echo","inputSchema":{}},{"name":"$(reboot)","inputSchema":{}},{"name":"edit","inputSchema":{}}]}"#;
            Reply::json(result(r.id(), tools))
        }
        _ => polite(r),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let env = [("MCP_SPAN_STATE_DIR", folder.path().to_str().unwrap())];
    let url = &*server.url;
    let offered = async |line: &[&str]| {
        let index = line.len().to_string();
        let args = [&["__complete", &index, "--", "mcp-span"], line].concat();
        let told = run(&args, &env, "").await;
        assert!(told.status.success() && told.stderr.is_empty(), "{told:?}");
        String::from_utf8(told.stdout).unwrap()
    };
    assert_eq!(offered(&["call", url, ""]).await, "");
    let listed = run(&["tools", url], &env, "").await;
    assert!(listed.status.success(), "{listed:?}");
    let asked = server.all("initialize").len();
    let about = "a tool of the server";
    assert_eq!(offered(&["call", url, ""]).await, format!("echo\t{about}\nedit\t{about}\n"));
    assert_eq!(offered(&["tools", "--json", url, "ed"]).await, format!("edit\t{about}\n"));
    assert_eq!(offered(&["call", "https://other.example/mcp", ""]).await, "");
    assert_eq!(server.all("initialize").len(), asked, "completing connects to nobody");
}
