//! What shells ask the program for when they complete a command line. The shells themselves are
//! asked in `tests/real`.

use crate::support::run;

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
