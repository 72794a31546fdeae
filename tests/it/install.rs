//! `mcp-span install` and `uninstall`: what becomes of files, and what a person is told.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::process::command;
use crate::support::{Bridge, Server, polite, request, soon};

/// A home directory with nothing in it.
pub(crate) struct Home(tempfile::TempDir);

/// How a run of the program ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Home {
    pub(crate) fn new() -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir(home.path("here")).unwrap();
        home
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.0.path().join(below)
    }

    /// Runs the program in the folder `here`, with these and its usual places below this home.
    pub(crate) async fn run(&self, args: &[&str]) -> Ended {
        self.run_with(args, &[]).await
    }

    async fn run_with(&self, args: &[&str], env: &[(&str, &str)]) -> Ended {
        let mut command = command(args);
        command.current_dir(self.path("here"));
        command.env("HOME", self.0.path()).env("USERPROFILE", self.0.path());
        command.env("XDG_CONFIG_HOME", self.path("config")).env("APPDATA", self.path("config"));
        command.env("PATH", "").envs(env.iter().copied());
        let output = soon("the end of the program", command.output()).await.unwrap();
        Ended {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The file that a client reads on this system, with `text` in it.
    pub(crate) async fn file(&self, client: &str, text: &str) -> PathBuf {
        let printed = self.run(&["install", client, URL, "--print", "--json"]).await;
        let printed: Value = serde_json::from_str(&printed.stdout).unwrap();
        let file = PathBuf::from(printed["file"].as_str().unwrap());
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap();
        file
    }
}

pub(crate) const URL: &str = "https://mcp.notion.com/mcp";

pub(crate) fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap()
}

fn beside(file: &Path, ending: &str) -> PathBuf {
    PathBuf::from(format!("{}{ending}", file.display()))
}

fn names_in(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_file_that_is_missing_is_made_and_print_makes_none() {
    let home = Home::new();
    let printed = home.run(&["install", "cursor", URL, "--print"]).await;
    assert_eq!(printed.code, Some(0));
    assert!(printed.stderr.contains("nothing was changed"), "{}", printed.stderr);
    assert!(!home.path(".cursor").exists());
    let done = home.run(&["install", "cursor", URL]).await;
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_eq!(done.stderr, "");
    let file = home.path(".cursor/mcp.json");
    // What is printed is what a file of its own would hold.
    assert_eq!(read(&file), printed.stdout);
    let entry: Value = serde_json::from_str(&printed.stdout).unwrap();
    assert_eq!(entry["mcpServers"]["notion"]["args"], json!([URL]));
    assert!(done.stdout.contains(file.to_str().unwrap()), "{}", done.stdout);
    assert!(done.stdout.contains("Restart Cursor"), "{}", done.stdout);
    // It may hold tokens.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(names_in(&home.path(".cursor")), ["mcp.json"]);
    assert_eq!(names_in(&home.path("here")), [""; 0]);
}

#[tokio::test]
async fn what_was_installed_is_a_working_server() {
    let server = Server::start(polite).await;
    let home = Home::new();
    let header = "X-Token: ${SECRET}";
    let args =
        ["install", "claude-code", &server.url, "--header", header, "--env", "SECRET=from-entry"];
    let done = home.run(&args).await;
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));
    let file: Value = serde_json::from_str(&read(&home.path(".claude.json"))).unwrap();
    let servers = file["mcpServers"].as_object().unwrap();
    let entry = servers.values().next().unwrap();
    assert_eq!(entry["type"], "stdio");
    let args = entry["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap());
    let mut client = tokio::process::Command::new(entry["command"].as_str().unwrap());
    client.args(args).env_clear().kill_on_drop(true);
    for (name, value) in entry["env"].as_object().unwrap() {
        client.env(name, value.as_str().unwrap());
    }
    let mut bridge = Bridge::spawn(client);
    bridge.ask(request(1, "a")).await;
    assert_eq!(server.all("a")[0].header("x-token"), Some("from-entry"));
}

#[tokio::test]
async fn clients_that_replace_variables_themselves_cannot_send_another_value() {
    // They do so in arguments and variables, by what the shell has in which they were started.
    let shell = [("SECRET", "from-shell"), ("OTHER", "other-from-shell")];
    for (client, file, key) in [
        ("claude-code", ".claude.json", "mcpServers"),
        ("gemini-cli", ".gemini/settings.json", "mcpServers"),
    ] {
        let server = Server::start(polite).await;
        let home = Home::new();
        let args = [
            &["install", client, &server.url, "--name", "s", "--header", "X-Token: a${SECRET}z"],
            &["--timeout", "9", "--header", "X-Other: ${OTHER}", "--env", "SECRET=from-entry"][..],
        ]
        .concat();
        let done = home.run(&args).await;
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        assert!(!done.stdout.contains("from-entry"), "{}", done.stdout);
        let written: Value = serde_json::from_str(&read(&home.path(file))).unwrap();
        let entry = &written[key]["s"];
        let as_the_client_does = |text: &Value| {
            let text = text.as_str().unwrap().to_owned();
            shell
                .iter()
                .fold(text, |text, (name, value)| text.replace(&format!("${{{name}}}"), value))
        };
        let words: Vec<String> =
            entry["args"].as_array().unwrap().iter().map(as_the_client_does).collect();
        let env: Vec<(String, String)> = entry["env"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| (name.clone(), as_the_client_does(value)))
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut env: Vec<(&str, &str)> = env.iter().map(|(n, v)| (&**n, &**v)).collect();
        env.push(("OTHER", "other-from-shell"));
        let mut bridge = Bridge::start_with(&words, &env);
        assert_eq!(bridge.ask(request(1, "a")).await["id"], 1);
        let asked = &server.all("a")[0];
        assert_eq!(asked.header("x-token"), Some("afrom-entryz"), "{client}");
        assert_eq!(asked.header("x-other"), Some("other-from-shell"), "{client}");
    }
}

#[tokio::test]
async fn the_same_entry_twice_changes_nothing() {
    let home = Home::new();
    let file = home.file("cursor", "{}").await;
    assert_eq!(home.run(&["install", "cursor", URL]).await.code, Some(0));
    let before = read(&file);
    let again = home.run(&["install", "cursor", URL, "--json"]).await;
    assert_eq!(again.code, Some(0));
    let told: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(told["action"], "unchanged");
    assert_eq!(told["backup"], Value::Null);
    assert_eq!(read(&file), before);
    assert_eq!(names_in(file.parent().unwrap()), ["mcp.json", "mcp.json.mcp-span.bak"]);
}

#[tokio::test]
async fn another_entry_of_that_name_is_replaced_only_by_force() {
    let home = Home::new();
    let before = "{\n  \"mcpServers\": {\n    // by hand\n    \"notion\": {\"url\": \"https://x\"},\n    \"b\": {}\n  }\n}\n";
    let file = home.file("cursor", before).await;
    let refused = home.run(&["install", "cursor", URL]).await;
    assert_eq!(refused.code, Some(2));
    let place = format!("{}:4:", file.display());
    assert!(refused.stderr.contains(&place), "{}", refused.stderr);
    assert!(refused.stderr.contains("--force"), "{}", refused.stderr);
    assert_eq!(read(&file), before);
    let done = home.run(&["install", "cursor", URL, "--force", "--json"]).await;
    assert_eq!(done.code, Some(0));
    let told: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(told["action"], "replaced");
    assert_eq!(read(Path::new(told["backup"].as_str().unwrap())), before);
    let after = read(&file);
    assert!(after.starts_with("{\n  \"mcpServers\": {\n    // by hand\n    \"notion\": {\n"));
    assert!(after.ends_with("},\n    \"b\": {}\n  }\n}\n"), "{after}");
    let done = home.run(&["install", "cursor", URL, "--force", "--serial"]).await;
    let said = format!("Replaced notion in Cursor: {}\n", file.display());
    assert!(done.stdout.starts_with(&said), "{}", done.stdout);
    // Another name is another entry.
    assert_eq!(home.run(&["install", "cursor", URL, "--name", "two"]).await.code, Some(0));
    assert!(read(&file).contains("\"two\": {"));
}

#[tokio::test]
async fn an_entry_of_somebody_else_is_not_removed() {
    let home = Home::new();
    let before = "{\"mcpServers\": {\n\"a\": {\"command\": \"npx\"}, \"b\": {}}}";
    let file = home.file("windsurf", before).await;
    let refused = home.run(&["uninstall", "windsurf", "--name", "a"]).await;
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains(":2: 'a' does not run mcp-span"), "{}", refused.stderr);
    assert_eq!(read(&file), before);
    let done = home.run(&["uninstall", "windsurf", "--name", "a", "--force"]).await;
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_eq!(read(&file), "{\"mcpServers\": { \"b\": {}}}");
}

#[tokio::test]
async fn an_entry_is_found_by_its_url_by_its_name_or_by_being_the_only_one() {
    let home = Home::new();
    for name in ["one", "two"] {
        home.run(&["install", "kiro", "https://a.example/mcp", "--name", name]).await;
    }
    home.run(&["install", "kiro", "https://b.example/mcp", "--name", "three"]).await;
    for (target, part) in [
        (&[][..], "one, two, three"),
        (&["https://a.example/mcp"][..], "Choose one with --name"),
        (&["https://c.example/mcp"][..], "has that name or URL"),
        (&["--name", "four"][..], "has that name or URL"),
    ] {
        let refused = home.run(&[&["uninstall", "kiro"], target].concat()).await;
        assert_eq!(refused.code, Some(2), "{target:?}");
        assert!(refused.stderr.contains(part), "{target:?}: {}", refused.stderr);
    }
    for target in [&["https://b.example:443/mcp"][..], &["two"], &[]] {
        let done = home.run(&[&["uninstall", "kiro"], target].concat()).await;
        assert_eq!(done.code, Some(0), "{target:?}: {}", done.stderr);
    }
    let left: Value = serde_json::from_str(&read(&home.path(".kiro/settings/mcp.json"))).unwrap();
    assert_eq!(left, json!({"mcpServers": {}}));
    assert_eq!(home.run(&["uninstall", "kiro"]).await.code, Some(2));
    let missing = home.run(&["uninstall", "cursor"]).await;
    assert_eq!(missing.code, Some(2));
    assert!(missing.stderr.contains("nothing to remove: "), "{}", missing.stderr);
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_left_alone_and_its_place_is_named() {
    let home = Home::new();
    for (client, text, place) in [
        ("cursor", "{\n  \"mcpServers\": {\n    \"a\": {},,\n  }\n}", "3:13"),
        ("cursor", "{\"mcpServers\": 3}", "1:16"),
        ("zed", "{\n// fine\n  \"a\": tru\n}", "3:8"),
        ("codex", "model = \"x\"\n[mcp_servers.a\n", "2:15"),
        ("codex", "a = 1\na = 2\n", "2:1"),
    ] {
        let file = home.file(client, text).await;
        for args in [&["install", client, URL][..], &["uninstall", client, "--name", "notion"]] {
            let refused = home.run(args).await;
            assert_eq!(refused.code, Some(2), "{text}");
            let place = format!("{}:{place}:", file.display());
            assert!(refused.stderr.contains(&place), "{place} {}", refused.stderr);
            assert_eq!(read(&file), text);
            assert_eq!(names_in(file.parent().unwrap()).len(), 1);
        }
    }
    let file = home.file("cursor", "").await;
    std::fs::write(&file, b"{\n\"a\": \"\xff\"}").unwrap();
    let refused = home.run(&["install", "cursor", URL]).await;
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains(":2: invalid UTF-8"), "{}", refused.stderr);
}

#[tokio::test]
async fn there_is_one_backup_of_what_was_there_before_the_last_change() {
    let home = Home::new();
    let file = home.file("cursor", "{} // 0").await;
    let backup = beside(&file, ".mcp-span.bak");
    assert_eq!(home.run(&["install", "cursor", URL]).await.code, Some(0));
    assert_eq!(read(&backup), "{} // 0");
    let first = read(&file);
    assert_eq!(home.run(&["install", "cursor", URL, "--name", "b"]).await.code, Some(0));
    assert_eq!(read(&backup), first);
    assert_eq!(names_in(file.parent().unwrap()), ["mcp.json", "mcp.json.mcp-span.bak"]);
    // A backup of what is there is of no use.
    assert_eq!(home.run(&["uninstall", "cursor", "b"]).await.code, Some(0));
    assert_eq!(read(&file), first);
    assert_eq!(names_in(file.parent().unwrap()), ["mcp.json"]);
}

#[cfg(unix)]
#[tokio::test]
async fn a_backup_has_the_mode_of_the_file() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    let file = home.file("cursor", "{}").await;
    let backup = beside(&file, ".mcp-span.bak");
    for mode in [0o600, 0o644, 0o640, 0o600] {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let timeout = mode.to_string();
        let args = ["install", "cursor", URL, "--force", "--timeout", &timeout];
        assert_eq!(home.run(&args).await.code, Some(0));
        for path in [&file, &backup] {
            let found = path.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(found, mode, "{}", path.display());
        }
    }
}

#[tokio::test]
async fn backups_with_numbers_keep_nobody_from_installing() {
    let home = Home::new();
    let file = home.file("cursor", "{}").await;
    for number in 1..=1001 {
        std::fs::write(beside(&file, &format!(".mcp-span.bak.{number}")), "{}").unwrap();
    }
    let done = home.run(&["install", "cursor", URL, "--json"]).await;
    let told: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(told["backup"], beside(&file, ".mcp-span.bak").to_str().unwrap());
}

#[tokio::test]
async fn uninstall_leaves_no_secret_behind() {
    let home = Home::new();
    let before = "{\"mcpServers\": {\"a\": {\"command\": \"other\"}}}";
    let file = home.file("cursor", before).await;
    let install = |name: &'static str, secret: &'static str| {
        let home = &home;
        async move {
            let args = ["install", "cursor", URL, "--name", name, "--force", "--env", secret];
            assert_eq!(home.run(&args).await.code, Some(0));
        }
    };
    // In the one backup, and in those with numbers that older versions have made.
    install("notion", "KEY=s3cret-1").await;
    std::fs::copy(&file, beside(&file, ".mcp-span.bak.1")).unwrap();
    install("notion", "KEY=s3cret-2").await;
    std::fs::copy(&file, beside(&file, ".mcp-span.bak.2")).unwrap();
    std::fs::write(beside(&file, ".mcp-span.bak.3"), before).unwrap();
    install("other", "KEY=another").await;
    let done = home.run(&["uninstall", "cursor", "--name", "notion", "--json"]).await;
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));
    let told: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(told["backup"], Value::Null);
    let left = ["mcp.json", "mcp.json.mcp-span.bak.3"];
    assert_eq!(names_in(file.parent().unwrap()), left);
    assert!(!read(&file).contains("s3cret") && read(&file).contains("\"a\""));
    assert_eq!(home.run(&["uninstall", "cursor", "--name", "other"]).await.code, Some(0));
    assert_eq!(read(&file), before);
    assert_eq!(names_in(file.parent().unwrap()), left[..1]);
}

#[tokio::test]
async fn an_entry_of_somebody_elses_that_is_removed_by_force_is_in_the_backup() {
    let home = Home::new();
    let before = "{\"mcpServers\": {\"a\": {\"command\": \"other\"}}}";
    let file = home.file("cursor", before).await;
    let done = home.run(&["uninstall", "cursor", "--name", "a", "--force"]).await;
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_eq!(read(&beside(&file, ".mcp-span.bak")), before);
}

#[cfg(unix)]
#[tokio::test]
async fn links_and_permissions_stay() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let home = Home::new();
    let file = home.file("cursor", "").await;
    let real = home.path("dotfiles/cursor.json");
    std::fs::create_dir(home.path("dotfiles")).unwrap();
    std::fs::write(&real, "{}").unwrap();
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).unwrap();
    std::fs::remove_file(&file).unwrap();
    symlink("../dotfiles/cursor.json", &file).unwrap();
    assert_eq!(home.run(&["install", "cursor", URL]).await.code, Some(0));
    assert!(file.symlink_metadata().unwrap().is_symlink());
    assert!(read(&real).contains("notion"));
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&real), 0o640);
    // Beside the name by which the client knows the file, not among somebody's dotfiles.
    assert_eq!(mode(&beside(&file, ".mcp-span.bak")), 0o640);
    assert_eq!(names_in(&home.path("dotfiles")), ["cursor.json"]);
    // A link to what is not there yet is followed as well.
    std::fs::remove_file(&real).unwrap();
    assert_eq!(home.run(&["install", "cursor", URL]).await.code, Some(0));
    assert!(file.symlink_metadata().unwrap().is_symlink() && real.is_file());
    // Somebody has protected it.
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o440)).unwrap();
    let refused = home.run(&["uninstall", "cursor"]).await;
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("write-protected"), "{}", refused.stderr);
    assert!(read(&real).contains("notion"));
}

#[tokio::test]
async fn the_working_directory_is_written_to_only_when_asked() {
    let home = Home::new();
    for (client, file) in [
        ("claude-code", ".mcp.json"),
        ("cursor", ".cursor/mcp.json"),
        ("vscode", ".vscode/mcp.json"),
        ("codex", ".codex/config.toml"),
    ] {
        let here = home.path("here").join(file);
        std::fs::create_dir_all(here.parent().unwrap()).unwrap();
        std::fs::write(&here, "").unwrap();
        assert_eq!(home.run(&["install", client, URL]).await.code, Some(0));
        assert_eq!(read(&here), "", "{client}");
        let done = home.run(&["install", client, URL, "--scope", "project"]).await;
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        assert!(read(&here).contains("notion"), "{client}");
        let done = home.run(&["uninstall", client, "--scope", "project"]).await;
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        assert_eq!(read(&here), "", "{client}");
    }
    let refused = home.run(&["install", "claude-desktop", URL, "--scope", "project"]).await;
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.stderr.contains("Claude Desktop has no project configuration"),
        "{}",
        refused.stderr
    );
}

#[tokio::test]
async fn flags_are_written_as_they_were_typed() {
    let home = Home::new();
    std::fs::write(home.path("here").join("headers.txt"), "X-B: 1").unwrap();
    let args = [
        &["install", "cursor", "--timeout", "90", URL, "-v", "--header", "X-A: ${B}"][..],
        &["--header-file", "headers.txt", "--mcp-hub-mode", "3334", "--env", "B=c=d"],
        &["--print", "--json"],
    ];
    // What is in the environment is not the entry's.
    let done = home.run_with(&args.concat(), &[("MCP_SPAN_KEEP_ALIVE", "5")]).await;
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let told: Value = serde_json::from_str(&done.stdout).unwrap();
    // The client starts elsewhere, so paths are whole; and mcp-remote's port is a flag of ours.
    let headers = home.path("here").canonicalize().unwrap().join("headers.txt");
    let expected = json!([
        URL,
        "--timeout",
        "90",
        "--verbose",
        "--header",
        "X-A: ${B}",
        "--header-file",
        headers,
        "--mcp-hub-mode",
        "--oauth-callback-port",
        "3334",
    ]);
    assert_eq!(told["entry"]["args"], expected);
    assert_eq!(told["entry"]["env"], json!({"B": "c=d"}));
    assert_eq!(told["warnings"], json!([]));
    let hub = home.run(&["install", "cursor", "--mcp-hub", "--print"]).await;
    assert!(hub.stdout.contains("\"mcp-hub\": {"), "{}", hub.stdout);
    assert!(hub.stdout.contains("--mcp-hub=local"), "{}", hub.stdout);
    let program = ["install", "cursor", "--print", "--", "npx", "-y", "a-server", "--flag"];
    let program = home.run(&program).await;
    assert!(program.stdout.contains("\"a-server\": {"), "{}", program.stdout);
    assert!(program.stdout.contains(r#"["--", "npx", "-y", "a-server", "--flag"]"#));
}

#[tokio::test]
async fn files_that_the_entry_could_not_read_are_refused() {
    let home = Home::new();
    for flag in ["--header-file", "--bearer-file", "--ca-cert", "--oauth-private-key"] {
        let refused = home.run(&["install", "cursor", URL, flag, "missing", "--print"]).await;
        assert_eq!(refused.code, Some(2), "{flag}");
        let said = format!(
            "{flag}: {} does not exist",
            home.path("here").canonicalize().unwrap().join("missing").display()
        );
        assert!(refused.stderr.contains(&said), "{}", refused.stderr);
        std::fs::write(home.path("here").join("there"), "").unwrap();
        let done = home.run(&["install", "cursor", URL, flag, "there", "--print"]).await;
        assert_eq!(done.code, Some(0), "{}", done.stderr);
    }
    for flag in ["--log-file", "--trace-file", "--state-dir"] {
        let done = home.run(&["install", "cursor", URL, flag, "missing", "--print"]).await;
        assert_eq!(done.code, Some(0), "what it makes itself: {}", done.stderr);
    }
}

#[tokio::test]
async fn secrets_are_written_as_typed_warned_of_and_not_shown() {
    let home = Home::new();
    let header = "Authorization: Bearer s3cret";
    let done = home.run(&["install", "cursor", URL, "--header", header]).await;
    assert_eq!(done.code, Some(0));
    assert!(read(&home.path(".cursor/mcp.json")).contains(header));
    assert!(done.stderr.contains("in plain text") && done.stderr.contains("${TOKEN}"));
    assert!(!format!("{}{}", done.stdout, done.stderr).contains("s3cret"), "{}", done.stdout);
    let variable = "Authorization: Bearer ${NOTION}";
    let done = home.run(&["install", "kiro", URL, "--header", variable]).await;
    assert!(done.stderr.contains("NOTION must be set in the environment"), "{}", done.stderr);
    assert!(!done.stderr.contains("plain text"), "{}", done.stderr);
    let env = "NOTION=s3cret";
    let args = ["install", "kiro", URL, "--header", variable, "--env", env, "--force"];
    let done = home.run(&args).await;
    assert_eq!(done.stderr, "");
    assert!(!done.stdout.contains("s3cret"));
    let client = r#"{"client_id":"me","client_secret":"s3cret"}"#;
    let args = ["install", "cursor", URL, "--static-oauth-client-info", client, "--force"];
    let refused = home.run(&args).await;
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("--oauth-client-secret-env"), "{}", refused.stderr);
    assert!(!refused.stderr.contains("s3cret"), "{}", refused.stderr);
}

#[tokio::test]
async fn what_cannot_be_an_entry_is_refused() {
    let home = Home::new();
    for (args, part) in [
        (&["install", "emacs", URL][..], "possible values"),
        (&["install", "cursor"], "URL of an MCP server is missing"),
        (&["install", "cursor", "notion"], "is not a URL"),
        (&["install", "cursor", "http://example.com/"], "--allow-http"),
        (&["install", "cursor", URL, "--name", "a b"], "invalid name 'a b'"),
        (&["install", "cursor", URL, "--env", "A"], "--env NAME=VALUE"),
        (&["install", "cursor", URL, "--no-such-flag"], "--no-such-flag"),
        (&["install", "cursor", URL, "--timeout", "soon"], "--timeout"),
        (&["uninstall", "cursor", "x", "--name", "y"], "cannot be used with"),
    ] {
        let refused = home.run(args).await;
        assert_eq!(refused.code, Some(2), "{args:?}");
        assert!(refused.stderr.contains(part), "{args:?}: {}", refused.stderr);
    }
    assert_eq!(names_in(&home.path("")), ["here"]);
    let lost = home.run_with(&["install", "cursor", URL], &[("HOME", ""), ("USERPROFILE", "")]);
    let lost = lost.await;
    assert_eq!(lost.code, Some(2));
    assert!(lost.stderr.contains("home directory"), "{}", lost.stderr);
}

#[cfg(unix)]
#[tokio::test]
async fn the_name_of_the_program_is_enough_where_the_client_finds_it() {
    let home = Home::new();
    std::fs::create_dir(home.path("bin")).unwrap();
    let link = home.path("bin/mcp-span");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_mcp-span"), &link).unwrap();
    let path = home.path("bin");
    let env = [("PATH", path.to_str().unwrap())];
    for (args, command) in [
        (&["claude-code", URL][..], "mcp-span"),
        (&["cursor", URL, "--scope", "project"], "mcp-span"),
        // Programs with windows are often started with hardly any PATH; the link outlives versions.
        (&["cursor", URL], link.to_str().unwrap()),
    ] {
        let args = [&["install"], args, &["--print", "--json"]].concat();
        let told = home.run_with(&args, &env).await;
        let told: Value = serde_json::from_str(&told.stdout).unwrap();
        assert_eq!(told["entry"]["command"], command, "{args:?}");
    }
}

#[tokio::test]
async fn shells_and_readers_are_told_of_every_command() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = home.run(&["completions", shell]).await;
        assert_eq!(script.code, Some(0));
        assert!(script.stdout.contains("__complete"), "{shell} asks the program itself");
    }
    for shell in ["powershell", "elvish"] {
        let script = home.run(&["completions", shell]).await;
        assert_eq!(script.code, Some(0));
        for word in ["install", "header-file"] {
            assert!(script.stdout.contains(word), "{shell}: {word}");
        }
    }
    assert_eq!(home.run(&["completions", "tcsh"]).await.code, Some(2));
    let page = home.run(&["man"]).await;
    assert_eq!(page.code, Some(0));
    assert!(page.stdout.contains(".TH mcp-span 1"), "{}", page.stdout);
    for command in ["connect", "install", "uninstall", "completions", "man", "login"] {
        assert!(page.stdout.contains(&format!("\\fB{command}\\fR")), "{command}");
    }
    assert!(page.stdout.contains("\\-\\-header\\-file"));
}

#[tokio::test]
async fn many_installations_at_once_lose_nothing() {
    let home = std::sync::Arc::new(Home::new());
    let mut runs = tokio::task::JoinSet::new();
    for n in 0..12 {
        let home = home.clone();
        runs.spawn(async move {
            let url = format!("https://h{n}.example/mcp");
            let name = format!("h{n}");
            home.run(&["install", "cursor", &url, "--name", &name]).await
        });
    }
    while let Some(ended) = runs.join_next().await {
        let ended = ended.unwrap();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    }
    let file: Value = serde_json::from_str(&read(&home.path(".cursor/mcp.json"))).unwrap();
    assert_eq!(file["mcpServers"].as_object().unwrap().len(), 12);
}

#[tokio::test]
async fn an_entry_is_not_taken_for_another_that_leads_to_its_name_or_has_it_in_a_flag() {
    let home = Home::new();
    std::fs::create_dir_all(home.path("config/mcp-span")).unwrap();
    let ours = r#"{"mcpServers": {"docs": {"url": "https://a.example/mcp"}}}"#;
    std::fs::write(home.path("config/mcp-span/config.json"), ours).unwrap();
    for args in [
        &["docs", "--name", "foo"][..],
        &["https://b.example/mcp", "--name", "docs", "--proxy", "http://p.example:8080"],
    ] {
        let done = home.run(&[&["install", "cursor"], args].concat()).await;
        assert_eq!(done.code, Some(0), "{}", done.stderr);
    }
    for (target, part) in
        [("docs", "Choose one with --name"), ("http://p.example:8080", "has that name or URL")]
    {
        let refused = home.run(&["uninstall", "cursor", target]).await;
        assert_eq!(refused.code, Some(2), "{}", refused.stdout);
        assert!(refused.stderr.contains(part), "{target}: {}", refused.stderr);
    }
    for args in [&["--name", "docs"][..], &["docs"]] {
        let done = home.run(&[&["uninstall", "cursor"], args].concat()).await;
        assert_eq!(done.code, Some(0), "{}", done.stderr);
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_home_that_is_not_utf8_is_one_all_the_same() {
    use std::os::unix::ffi::OsStrExt;
    let home = Home::new();
    let folder = home.0.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9"));
    // Some systems have no such names.
    if std::fs::create_dir(&folder).is_err() {
        return;
    }
    for action in ["installed", "printed"] {
        let mut command = command(&["install", "cursor", URL, "--json"]);
        if action == "printed" {
            command.arg("--print");
        }
        command.env("HOME", &folder).env("XDG_CONFIG_HOME", home.path("config"));
        let output = soon("the end of the program", command.output()).await.unwrap();
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(told["action"], action);
        assert!(told["file"].as_str().unwrap().ends_with("/.cursor/mcp.json"), "{told}");
    }
    assert!(folder.join(".cursor/mcp.json").exists());
}

#[cfg(unix)]
#[tokio::test]
async fn a_secret_in_a_file_that_others_can_read_is_warned_of() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    let file = home.file("cursor", "{}").await;
    for (mode, has_warning) in [(0o644, true), (0o600, false)] {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let args = ["install", "cursor", URL, "--env", "API_KEY=s3cret", "--env", "A=b", "--force"];
        let done = home.run(&args).await;
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        let is_named = done.stderr.contains("which contains API_KEY");
        assert_eq!(is_named, has_warning, "{mode:o}: {}", done.stderr);
        assert!(!done.stderr.contains("s3cret"), "{}", done.stderr);
    }
    // The variable that the headers are moved to for this client was never typed.
    let file = home.file("claude-code", "{}").await;
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    for header in ["X-Api-Key: ${TOKEN}", "X-Api-Key: ${TOKEN:-none}"] {
        let more = ["--header", header, "--env", "TOKEN=s3cret", "--force"];
        let done = home.run(&[&["install", "claude-code", URL], &more[..]].concat()).await;
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        assert!(done.stderr.contains("which contains TOKEN"), "{}", done.stderr);
        assert!(std::fs::read_to_string(&file).unwrap().contains("MCP_SPAN_HEADER"));
    }
}

#[cfg(unix)]
#[tokio::test]
async fn what_is_no_file_or_cannot_be_written_is_left_alone_without_a_backup() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    let file = home.file("cursor", "{}").await;
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o444)).unwrap();
    let refused = home.run(&["install", "cursor", URL]).await;
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("write-protected"), "{}", refused.stderr);
    assert_eq!(names_in(&home.path(".cursor")), ["mcp.json"]);
    std::fs::remove_file(&file).unwrap();
    // Like a pipe, it is there and no file.
    std::fs::create_dir(&file).unwrap();
    let refused = home.run(&["install", "cursor", URL]).await;
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("is not a file"), "{}", refused.stderr);
}

/// The manual tells of the flags of each command, and of the exit codes.
#[tokio::test]
async fn the_manual_has_the_flags_of_every_command() {
    let page = Home::new().run(&["man"]).await.stdout;
    for word in
        ["MCP\\-SPAN CALL", "\\-\\-no\\-check", "\\-\\-strict", "\\-\\-notify", "EXIT STATUS"]
    {
        assert!(page.contains(word), "{word}: {page}");
    }
}

/// What needs no setting does not fail for one.
#[tokio::test]
async fn a_broken_configuration_does_not_keep_the_manual_or_completions_back() {
    let home = Home::new();
    let env = [("MCP_SPAN_CONFIG", "/nowhere/at/all.json"), ("MCP_SPAN_TIMEOUT", "never")];
    for args in [&["man"][..], &["completions", "bash"]] {
        let told = home.run_with(args, &env).await;
        assert_eq!(told.code, Some(0), "{args:?}: {}", told.stderr);
    }
}
