//! The configuration file: defaults below flags and environment, and clear words when it is wrong.

use std::path::PathBuf;

use crate::support::{Bridge, Server, polite, request, run};

/// A configuration folder with this file in it.
struct Folder(tempfile::TempDir);

impl Folder {
    fn with(text: &str) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir(folder.0.path().join("mcp-span")).unwrap();
        std::fs::write(folder.file(), text).unwrap();
        folder
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("mcp-span/config.json")
    }

    fn env(&self) -> (&'static str, &str) {
        ("XDG_CONFIG_HOME", self.0.path().to_str().unwrap())
    }
}

/// The header `x-from` that the server got.
async fn header_from(args: &[&str], env: &[(&str, &str)]) -> Option<String> {
    let server = Server::start(polite).await;
    let mut bridge = Bridge::start_with(&[&[&*server.url], args].concat(), env);
    bridge.ask(request(1, "a")).await;
    server.all("a")[0].header("x-from").map(str::to_owned)
}

#[tokio::test]
async fn a_flag_beats_the_environment_which_beats_the_file() {
    let folder = Folder::with(r#"{"headers": {"X-From": "file"}}"#);
    let env = [folder.env()];
    assert_eq!(header_from(&[], &env).await.as_deref(), Some("file"));
    let env = [folder.env(), ("MCP_SPAN_HEADER", "X-From: variable")];
    assert_eq!(header_from(&[], &env).await.as_deref(), Some("variable"));
    let flags = ["--header", "X-From: flag"];
    assert_eq!(header_from(&flags, &env).await.as_deref(), Some("flag"));
    assert_eq!(header_from(&["--no-config"], &env[..1]).await, None);
}

#[tokio::test]
async fn a_typed_source_of_credentials_replaces_that_of_the_file() {
    let server = Server::start(polite).await;
    let folder = Folder::with(r#"{"bearerCommand": "echo from-the-file"}"#);
    let env = [folder.env(), ("TOKEN", "from-the-flag")];
    for (args, token) in
        [(&[][..], "Bearer from-the-file"), (&["--bearer-env", "TOKEN"], "Bearer from-the-flag")]
    {
        let mut bridge = Bridge::start_with(&[&[&*server.url], args].concat(), &env);
        bridge.ask(request(1, "a")).await;
        let asked = server.all("a").pop().unwrap();
        assert_eq!(asked.header("authorization"), Some(token));
    }
}

#[tokio::test]
async fn the_table_says_what_holds_and_where_it_came_from() {
    let folder = Folder::with(r#"{"timeout": 12, "headers": {"Authorization": "s3cret-value"}}"#);
    let env = [folder.env(), ("MCP_SPAN_AWAY_WAIT", "9")];
    let args =
        ["config", "--all", "https://me:s3cret@example.com/mcp?key=s3cret", "--keep-alive", "5"];
    let output = run(&args, &env, "").await;
    let table = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0));
    let line = |name: &str| {
        let line = table.lines().find(|line| line.split_whitespace().next() == Some(name)).unwrap();
        line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("timeout"), "12 (configuration file, line 1)");
    assert_eq!(line("away-wait"), "9 (MCP_SPAN_AWAY_WAIT)");
    assert_eq!(line("keep-alive"), "5 (flag)");
    assert_eq!(line("connect-wait"), "25 (default)");
    assert_eq!(line("bearer-file"), "- (not set)");
    assert!(table.contains(folder.file().to_str().unwrap()), "{table}");
    assert!(!table.contains("s3cret"), "{table}");
}

#[tokio::test]
async fn a_file_that_is_wrong_is_named_with_what_is_wrong() {
    for (text, part) in [
        ("{\n \"timeout\": 3,,\n}", "config.json, line 2, column 15"),
        (r#"{"timeuot": 3}"#, "unknown key 'timeuot', did you mean 'timeout'?"),
        (r#"{"timeout": "soon"}"#, "\"timeout\": it must be a number of seconds"),
        (r#"{"transport": "pigeon"}"#, "\"transport\": it must be auto, http or sse"),
        (r#"{"serial": 3}"#, "\"serial\": it must be true or false"),
        ("", "line 1, column 1"),
    ] {
        let folder = Folder::with(text);
        let output = run(&["http://127.0.0.1:1/"], &[folder.env()], "").await;
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}: {stderr}");
        assert!(stderr.contains(part), "{text}: {stderr}");
    }
    let output = run(&["http://127.0.0.1:1/", "--config", "/no/such"], &[], "").await;
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no file /no/such"));
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_others_can_write_is_not_believed() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::with("{}");
    std::fs::set_permissions(folder.file(), std::fs::Permissions::from_mode(0o666)).unwrap();
    let output = run(&["http://127.0.0.1:1/"], &[folder.env()], "").await;
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("chmod 600"));
}
