//! Servers that have names in a configuration file, and commands in place of a URL.

use std::path::PathBuf;

use crate::support::{Bridge, INITIALIZE, Server, polite, request, run};

/// A folder with a configuration file of ours, or another program's, in it.
struct Folder(tempfile::TempDir);

impl Folder {
    /// Ours, where it is looked for.
    fn ours(text: &str) -> Self {
        Self::with("mcp-span/config.json", text)
    }

    fn with(name: &str, text: &str) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        let path = folder.file(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        folder
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn env(&self) -> (&'static str, &str) {
        ("XDG_CONFIG_HOME", self.0.path().to_str().unwrap())
    }
}

/// This program, which has a server inside.
const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-span");

/// What is said on stderr by a run that has to end with exit code 2.
async fn refused(args: &[&str], env: &[(&str, &str)]) -> String {
    let output = run(args, env, "").await;
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
    assert!(output.stdout.is_empty());
    stderr
}

/// The name of the server that is reached with these arguments.
async fn reached(args: &[&str], env: &[(&str, &str)]) -> String {
    let mut bridge = Bridge::start_with(args, env);
    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let answer = bridge.ask(initialize).await;
    let name = answer["result"]["serverInfo"]["name"].as_str();
    name.unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// The headers of a call that is made with these arguments to a server behind `{URL}` in the file.
async fn headers(file: &str, args: &[&str], env: &[(&str, &str)]) -> http::HeaderMap {
    let server = Server::start(polite).await;
    let folder = Folder::ours(&file.replace("{URL}", &server.url));
    let mut bridge = Bridge::start_with(args, &[&[folder.env()], env].concat());
    bridge.ask(request(1, "a")).await;
    let got = server.all("a").pop().unwrap();
    let names = ["authorization", "x-entry", "x-all", "x-both"];
    let headers = names.iter().filter_map(|name| Some((*name, got.header(name)?)));
    headers.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
}

fn shown(headers: &http::HeaderMap) -> String {
    let pairs = headers.iter().map(|(name, value)| format!("{name}={}", value.to_str().unwrap()));
    pairs.collect::<Vec<_>>().join(" ")
}

const FILE: &str = r#"{
    // What holds for all servers.
    "headers": {"X-All": "file", "X-Both": "file"},
    "bearerCommand": "echo for-all",
    "mcpServers": {
        "docs": {"url": "{URL}", "headers": {"X-Entry": "${KEY}", "X-Both": "entry"}},
        "own": {"url": "{URL}", "bearerEnv": "OWN"},
        "told": {"url": "{URL}", "headers": {"Authorization": "Bearer told"}},
    },
}"#;

#[tokio::test]
async fn a_name_stands_for_its_url_with_its_headers() {
    let env = [("KEY", "k3y"), ("OWN", "its-own")];
    let of = async |name: &str| shown(&headers(FILE, &[name], &env).await);
    let all = "authorization=Bearer for-all x-entry=k3y x-all=file x-both=entry";
    assert_eq!(of("docs").await, all);
    assert_eq!(of("own").await, "authorization=Bearer its-own x-all=file x-both=file");
    assert_eq!(of("told").await, "authorization=Bearer told x-all=file x-both=file");
}

#[tokio::test]
async fn a_flag_beats_the_environment_which_beats_the_entry_which_beats_the_file() {
    let key = ("KEY", "k3y");
    let typed = ["docs", "--header", "X-Both: flag"];
    let variable = ("MCP_SPAN_HEADER", "X-Both: variable");
    // A list replaces the one in the file, as it does without a name; the entry's own headers stay.
    let got = headers(FILE, &typed, &[key, variable]).await;
    assert_eq!(shown(&got), "authorization=Bearer for-all x-entry=k3y x-both=flag");
    let got = headers(FILE, &["docs"], &[key, variable]).await;
    assert_eq!(shown(&got), "authorization=Bearer for-all x-entry=k3y x-both=variable");
    // Of credentials there is one sort, from the strongest place.
    let own = [("OWN", "its-own"), ("T", "typed")];
    let of = async |args: &[&str]| headers(FILE, args, &own).await["authorization"].clone();
    assert_eq!(of(&["told", "--bearer-env", "T"]).await, "Bearer typed");
    assert_eq!(of(&["own", "--bearer-env", "T"]).await, "Bearer typed");
    assert_eq!(of(&["own", "--header", "Authorization: Bearer flag"]).await, "Bearer flag");
}

#[tokio::test]
async fn headers_of_an_entry_go_with_its_name_alone() {
    let server = Server::start(polite).await;
    let text = r#"{"mcpServers": {"a": {"url": "{URL}", "headers": {"X-Entry": "secret"}}}}"#;
    let folder = Folder::ours(&text.replace("{URL}", &server.url));
    let mut bridge = Bridge::start_with(&[&server.url], &[folder.env()]);
    bridge.ask(request(1, "a")).await;
    assert_eq!(server.all("a")[0].header("x-entry"), None);
}

#[tokio::test]
async fn a_command_wins_over_a_name_and_connect_takes_every_name() {
    // C36
    let text = r#"{"mcpServers": {"logout": {"command": "{BIN}", "args": ["demo"]},
        "mcp-proxy": {"command": "{BIN}", "args": ["demo"]}, "help": {"command": "{BIN}", "args": ["demo"]}}}"#;
    let folder = Folder::ours(&text.replace("{BIN}", PROGRAM));
    let said = refused(&["logout"], &[folder.env()]).await;
    assert!(said.contains("URL of an MCP server is missing"), "{said}");
    // Flags in front of a command change nothing about it.
    let file = folder.file("mcp-span/config.json");
    for flags in [&["-v"][..], &["--config", file.to_str().unwrap()]] {
        let said = refused(&[flags, &["logout"]].concat(), &[folder.env()]).await;
        assert!(said.contains("URL of an MCP server is missing"), "{flags:?}: {said}");
    }
    for args in [
        &["connect", "logout"][..],
        &["connect", "mcp-proxy"],
        &["mcp-proxy"],
        &["connect", "help"],
    ] {
        assert_eq!(reached(args, &[folder.env()]).await, "mcp-span-demo", "{args:?}");
    }
}

#[tokio::test]
async fn a_word_that_is_no_name_is_answered_with_the_names() {
    let folder = Folder::ours(r#"{"mcpServers": {"notion": {"command": "c"}, "docs": {}}}"#);
    let said = refused(&["noton"], &[folder.env()]).await;
    assert!(said.contains("'noton' is not a URL"), "{said}");
    assert!(said.contains("config.json are notion, docs; did you mean 'notion'?"), "{said}");
    let said = refused(&["notion"], &[]).await;
    assert!(said.contains("no configuration file with names of servers was found"), "{said}");
}

#[tokio::test]
async fn a_wrong_entry_is_named_and_does_not_hurt_the_others() {
    let text = "{\"mcpServers\": {\n  \"wrong\": {\"comand\": \"x\"},\n  \"unset\": {\"command\": \"${NOPE}\"},\n  \
                \"odd\": {\"url\": \"http://127.0.0.1:1/\", \"logLevel\": \"loud\"},\n  \
                \"both\": {\"command\": \"x\",\n    \"url\": \"http://h\"},\n  \
                \"good\": {\"command\": \"{BIN}\", \"args\": [\"demo\"]}}}";
    let folder = Folder::ours(&text.replace("{BIN}", PROGRAM));
    let env = [folder.env()];
    assert_eq!(reached(&["good"], &env).await, "mcp-span-demo");
    for (name, part) in [
        (
            "wrong",
            "line 2, column 13: server 'wrong': unknown key \"comand\", did you mean \"command\"?",
        ),
        (
            "unset",
            "line 3, column 24: server 'unset': \"command\": the environment variable 'NOPE'",
        ),
        ("odd", "line 4, column 53: server 'odd': \"logLevel\": it must be off, error"),
        ("both", "line 6, column 5: server 'both': both \"command\" and \"url\" are set"),
    ] {
        let said = refused(&[name], &env).await;
        assert!(said.contains("config.json, ") && said.contains(part), "{name}: {said}");
    }
}

#[tokio::test]
async fn files_of_other_clients_are_read_where_they_are_named() {
    let claude = "\u{feff}{\"globalShortcut\": \"\", \"timeout\": \"never\",\r\n\"mcpServers\": {\"x\": ENTRY}}";
    let code = "{\"inputs\": [], \"servers\": {\"x\": ENTRY,}, /* end */}";
    let zed = "// Zed\n{\"theme\": \"One\", \"context_servers\": {\"x\": ENTRY}}";
    let entry = format!("{{\"command\": \"{PROGRAM}\", \"args\": [\"demo\"]}}");
    for text in [claude, code, zed] {
        let folder = Folder::with("settings.json", &text.replace("ENTRY", &entry));
        let path = folder.file("settings.json");
        let args = ["x", "--config", path.to_str().unwrap()];
        assert_eq!(reached(&args, &[]).await, "mcp-span-demo", "{text}");
    }
    let folder = Folder::with("theme.json", "{\"theme\": \"One\"}");
    let path = folder.file("theme.json");
    let said = refused(&["x", "--config", path.to_str().unwrap()], &[]).await;
    assert!(said.contains("unknown key 'theme'"), "{said}");
}

#[tokio::test]
async fn nothing_is_taken_from_the_working_directory_unasked() {
    let text = format!("{{\"mcpServers\": {{\"x\": {{\"command\": \"{PROGRAM}\"}}}}}}");
    let folder = Folder::with(".mcp.json", &text);
    for name in ["mcp.json", ".vscode/mcp.json", "config.json", "mcp-span/config.json"] {
        std::fs::create_dir_all(folder.file(name).parent().unwrap()).unwrap();
        std::fs::write(folder.file(name), &text).unwrap();
    }
    let mut command = crate::support::process::command(&["x"]);
    let output = command.current_dir(folder.0.path()).output().await.unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("is not a name either"));
}

#[tokio::test]
async fn a_name_may_be_in_the_variable_for_the_url_too() {
    let text = format!(
        "{{\"mcpServers\": {{\"x\": {{\"command\": \"{PROGRAM}\", \"args\": [\"demo\"]}}}}}}"
    );
    let folder = Folder::ours(&text);
    assert_eq!(reached(&[], &[folder.env(), ("MCP_SPAN_URL", "x")]).await, "mcp-span-demo");
}

#[tokio::test]
async fn the_table_shows_names_and_faults_and_what_an_entry_sets() {
    let text = r#"{"timeout": 3, "awayWait": 4, "mcpServers": {
        "docs": {"url": "https://me:s3cret@h/mcp?key=s3cret", "timeout": 7000, "profile": "work"},
        "files": {"command": "files", "args": ["s3cret"]},
        "later": {"command": "later", "disabled": true},
        "wrong": {"args": []},
        "unset": {"url": "https://h/", "bearerEnv": "NOPE"}}}"#;
    let folder = Folder::ours(text);
    let output = run(&["config", "docs"], &[folder.env(), ("COLUMNS", "200")], "").await;
    let table = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let line = |name: &str| {
        let line = table.lines().find(|line| line.split_whitespace().next() == Some(name));
        let words = line.unwrap_or_else(|| panic!("{name}: {table}")).split_whitespace().skip(1);
        words.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("url"), "https://h/mcp?key=[secret] (server 'docs')");
    assert_eq!(line("timeout"), "7 (server 'docs')");
    assert_eq!(line("profile"), "work (server 'docs')");
    assert_eq!(line("away-wait"), "4 (configuration file, line 1)");
    assert_eq!(line("docs"), "https://h/mcp?key=[secret]");
    assert_eq!((line("files"), line("later")), ("files".into(), "disabled".into()));
    let words = table.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("line 5, column 9: server 'wrong': stdio server requires"), "{table}");
    assert!(words.contains("the variable NOPE is not set"), "{table}");
    assert!(!table.contains("s3cret"), "{table}");
}

#[tokio::test]
async fn commands_about_accounts_take_names_of_servers_that_have_a_url() {
    let text = r#"{"mcpServers": {"a": {"url": "http://127.0.0.1:1/mcp"}, "b": {"command": "c"}}}"#;
    let folder = Folder::ours(text);
    let state = folder.file("state");
    let env = [folder.env(), ("MCP_SPAN_STATE_DIR", state.to_str().unwrap())];
    let output = run(&["status", "a"], &env, "").await;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("not logged in to http://127.0.0.1:1/mcp"), "{said}");
    let said = refused(&["status", "b"], &env).await;
    assert!(said.contains("is a program to be started"), "{said}");
}

#[tokio::test]
async fn a_name_can_be_installed_and_is_spelled_out_where_it_is_a_command() {
    // C36
    let text = r#"{"mcpServers": {"docs": {"url": "https://h/mcp"}, "status": {"command": "c"}}}"#;
    let folder = Folder::ours(text);
    let env = [folder.env(), ("HOME", folder.0.path().to_str().unwrap())];
    for (name, args) in
        [("docs", r#""args": ["docs"]"#), ("status", r#""args": ["connect", "status"]"#)]
    {
        let output = run(&["install", "cursor", name, "--print"], &env, "").await;
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(shown.contains(args) && shown.contains(&format!("\"{name}\": {{")), "{shown}");
    }
    let said = refused(&["install", "cursor", "dosc", "--print"], &env).await;
    assert!(said.contains("did you mean 'docs'?"), "{said}");
}

#[tokio::test]
async fn what_a_setting_of_an_entry_asks_for_in_vain_is_named_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("servers.json");
    let text = "{\n  \"mcpServers\": {\n    \"x\": {\"url\": \"https://localhost/\", \"caCert\": \"/no/file.pem\"}}}";
    std::fs::write(&file, text).unwrap();
    let said = refused(&["x", "--config", file.to_str().unwrap()], &[]).await;
    assert!(said.contains("line 3") && said.contains("server 'x'"), "{said}");
    assert!(said.contains("/no/file.pem"), "{said}");
}

#[cfg(unix)]
mod programs {
    use super::*;

    /// A server in shell: answers the first request with these words, and reads on.
    fn echo(words: &str) -> String {
        format!(
            "read -r line; printf '{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{\"said\":\"%s\"}}}}\\n' \
             \"{words}\"; while read -r line; do :; done"
        )
    }

    #[tokio::test]
    async fn a_command_after_two_dashes_is_started_and_spoken_to() {
        let script = echo("$0 $1");
        let mut bridge =
            Bridge::start(&["--timeout", "9", "--", "sh", "-c", &script, "--help", "demo"]);
        assert_eq!(bridge.ask(request(1, "a")).await["result"]["said"], "--help demo");
        let (lines, status, stderr) = bridge.finish().await;
        assert_eq!((lines.len(), status.code(), &*stderr), (0, Some(0), ""));
    }

    #[tokio::test]
    async fn a_child_by_name_gets_its_arguments_variables_and_folder() {
        let script = serde_json::json!(echo("$0 $GREETING $TOKEN $PWD"));
        let folder = Folder::ours("");
        let cwd = folder.0.path().canonicalize().unwrap();
        let text = format!(
            r#"{{"mcpServers": {{"x": {{"command": "sh", "args": ["-c", {script}, "${{NAME:-nobody}}"],
               "env": {{"GREETING": "hello ${{TOKEN}}"}}, "cwd": "{}"}}}}}}"#,
            cwd.display()
        );
        std::fs::write(folder.file("mcp-span/config.json"), text).unwrap();
        let mut bridge = Bridge::start_with(&["x"], &[folder.env(), ("TOKEN", "t0k")]);
        let said = format!("nobody hello t0k t0k {}", cwd.display());
        assert_eq!(bridge.ask(request(1, "a")).await["result"]["said"], *said);
    }

    #[tokio::test]
    async fn a_command_that_cannot_be_started_or_ends_is_explained() {
        let said = refused(&["--", "no-such-program-anywhere"], &[]).await;
        assert!(said.contains("'no-such-program-anywhere' cannot be started"), "{said}");
        assert!(said.contains("PATH"), "{said}");
        let mut bridge = Bridge::start(&["--", "sh", "-c", "read -r l; echo s0rry >&2; exit 3"]);
        let answer = bridge.ask(request(1, "a")).await;
        assert_eq!(answer["error"]["data"]["kind"], "closed", "{answer}");
        let (_, status, stderr) = bridge.finish().await;
        assert_eq!(status.code(), Some(1));
        assert!(stderr.contains("'sh' has ended: exit status: 3"), "{stderr}");
    }

    #[tokio::test]
    async fn there_is_one_server_and_what_was_typed_is_it() {
        let said = refused(&["http://127.0.0.1:1/", "--", "sh"], &[]).await;
        assert!(said.contains("there are two servers"), "{said}");
        let script = echo("hello");
        let env = [
            ("MCP_SPAN_URL", "http://127.0.0.1:1/"),
            ("UPSTREAM_URL", "http://127.0.0.1:1/"),
            ("OAUTH2_GRANT", "client_credentials"),
            ("OAUTH2_TOKEN_URL", "http://127.0.0.1:1/"),
            ("OAUTH2_CLIENT_ID", "c"),
            ("OAUTH2_CLIENT_SECRET", "s"),
        ];
        let mut bridge = Bridge::start_with(&["--", "sh", "-c", &script], &env);
        assert_eq!(bridge.ask(request(1, "a")).await["result"]["said"], "hello");
        let server = Server::start(polite).await;
        let mut bridge = Bridge::start(&["--", &server.url]);
        bridge.ask(request(1, "a")).await;
        assert_eq!(server.all("a").len(), 1, "others have a URL there");
    }

    #[tokio::test]
    async fn a_client_that_comes_after_the_programs_end_is_told_why() {
        let mut bridge = Bridge::start(&["--", "sh", "-c", "echo 'no licence' >&2; exit 5"]);
        // The program is gone by the time that a client has started.
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        let answer = bridge.ask(INITIALIZE).await;
        assert_eq!(answer["error"]["data"]["kind"], "closed", "{answer}");
        assert_eq!(answer["error"]["data"]["delivery"], "not-delivered", "{answer}");
        let text = answer["error"].to_string();
        assert!(text.contains("exit status: 5") && text.contains("no licence"), "{text}");
    }

    #[tokio::test]
    async fn requests_to_a_program_have_a_timeout() {
        // S1-23, S1-24: pipes have no clock, so the bridge has one.
        let script = "read -r l; printf '{\"jsonrpc\":\"2.0\",\"id\":2,\"foo\":1}\\n'; read -r l
            read -r l; printf '%s\\n' \"$l\" >&2; while read -r l; do :; done";
        let args = ["--timeout", "0.4", "-v", "--", "sh", "-c", script];
        let mut bridge = Bridge::start(&args);
        let answer = bridge.ask(request(2, "tools/call")).await;
        assert_eq!(answer["error"]["data"]["kind"], "bad-response", "{answer}");
        let answer = bridge.ask(request(3, "tools/call")).await;
        assert_eq!(answer["error"]["message"], "Request timeout after 400ms", "{answer}");
        let (_, _, stderr) = bridge.finish().await;
        assert!(stderr.contains("notifications/cancelled"), "{stderr}");
    }

    #[tokio::test]
    async fn what_a_program_said_last_reaches_a_slow_client() {
        // It writes much, answers, and is gone long before the client reads.
        let script = "read -r l; i=0; while [ $i -lt 3000 ]; do
            printf '{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"n\":%s,\"pad\":\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}}\\n' $i
            i=$((i+1)); done; printf '{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\\n'; exit 0";
        let mut command = crate::support::process::command(&["--", "sh", "-c", script]);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        command.stderr(std::process::Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        use tokio::io::AsyncWriteExt;
        stdin.write_all(format!("{}\n", request(2, "tools/call")).as_bytes()).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_secs(3)).await;
        let output = crate::support::soon("the end", child.wait_with_output()).await.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.lines().count(), 3001, "all of it came");
        assert!(
            text.trim_end().ends_with(r#""id":2,"result":{}}"#),
            "{}",
            &text[text.len() - 300..]
        );
        drop(stdin);
    }
}
