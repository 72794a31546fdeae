//! What the processes that mcp-span starts find in their environment.
#![cfg(unix)]

use std::path::Path;

use crate::support::{Manners, Provider, Server, polite, run, soon};

/// Variables with secrets of ours, of one that `--bearer-env` or its like names, and of the user's.
const SECRETS: [(&str, &str); 6] = [
    ("MCP_SPAN_HEADER", "X-Key: hidden-header"),
    ("MCP_SPAN_PROXY", "http://me:hidden-proxy@127.0.0.1:1"),
    ("MCP_SPAN_NO_PROXY", "*"),
    ("MCP_SPAN_OAUTH_PARAM", "a=hidden-param"),
    ("CLIENT_SECRET", "hidden-client-secret"),
    ("MCP_SPAN_OAUTH_CLIENT_SECRET_ENV", "CLIENT_SECRET"),
];

/// What must still be there.
const USUAL: (&str, &str) = ("SOME_SETTING", "is-passed-on");

fn with(more: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    SECRETS.iter().chain([&USUAL]).chain(more).copied().collect()
}

fn check(found: &Path) -> String {
    let found = std::fs::read_to_string(found).unwrap();
    assert!(found.contains("SOME_SETTING=is-passed-on"), "{found}");
    assert!(!found.contains("hidden-"), "{found}");
    assert!(!found.contains("MCP_SPAN_"), "{found}");
    found
}

#[tokio::test]
async fn a_server_that_is_started_gets_no_secrets_of_ours() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("found");
    let script = format!("env > '{}'; exit 1", file.display());
    let proxy = ("HTTPS_PROXY", "http://me:of-all-programs@127.0.0.1:1");
    run(&["tools", "--", "sh", "-c", &script], &with(&[proxy]), "").await;
    let found = check(&file);
    assert!(found.contains("of-all-programs"), "the user's proxy is for all programs: {found}");
}

#[tokio::test]
async fn what_an_entry_sets_for_its_server_is_given_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let (file, config) = (folder.path().join("found"), folder.path().join("config.json"));
    let text = format!(
        r#"{{"mcpServers": {{"s": {{"command": "sh", "args": ["-c", "env > '{}'; exit 1"],
            "env": {{"MCP_SPAN_HEADER": "X: for-this-one", "CLIENT_SECRET": "${{CLIENT_SECRET}}"}}}}}}}}"#,
        file.display()
    );
    std::fs::write(&config, text).unwrap();
    let args = ["tools", "s", "--config", config.to_str().unwrap()];
    run(&args, &with(&[]), "").await;
    let found = std::fs::read_to_string(&file).unwrap();
    assert!(found.contains("MCP_SPAN_HEADER=X: for-this-one"), "{found}");
    assert!(found.contains("CLIENT_SECRET=hidden-client-secret"), "{found}");
    assert!(!found.contains("hidden-header") && !found.contains("hidden-proxy"), "{found}");
}

#[tokio::test]
async fn a_credential_command_gets_no_secrets_of_ours() {
    let server = Server::start(polite).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("found");
    let printer = format!("sh -c \"env > '{}'; echo token\"", file.display());
    let args = [&*server.url, "--bearer-command", &printer];
    let output = run(&args, &with(&[]), crate::support::INITIALIZE).await;
    assert!(file.exists(), "{output:?}");
    check(&file);
}

#[tokio::test]
async fn a_browser_gets_no_secrets_of_ours_and_no_passwords_of_proxies() {
    let known = Some(("known", "hidden-client-secret"));
    let manners = Manners { known, proof: "client_secret_post", ..Manners::default() };
    let provider = Provider::start(manners).await;
    provider.browse("env > \"$2/found.part\"; mv \"$2/found.part\" \"$2/found\"");
    let proxies = [
        ("https_proxy", "http://me:hidden-password@proxy.invalid:3128"),
        ("ALL_PROXY", "me:hidden-password@proxy.invalid:1080"),
    ];
    let _bridge = {
        let mut bridge = provider.bridge_with(&["--oauth-client-id", "known"], &with(&proxies));
        bridge.send(crate::support::INITIALIZE).await;
        bridge
    };
    let opened = async {
        while !provider.path("found").exists() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    soon("a browser", opened).await;
    let found = check(&provider.path("found"));
    assert!(found.contains("https_proxy=http://proxy.invalid:3128\n"), "{found}");
    assert!(found.contains("ALL_PROXY=proxy.invalid:1080\n"), "{found}");
}
