//! Completion of command lines, by the shells themselves where they are installed.
#![cfg(unix)]

use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::run;

/// A folder with the program in it, a configuration file with two servers, and scripts.
struct Desk(tempfile::TempDir);

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_mcp-span"), bin.join("mcp-span")).unwrap();
        // Whoever connected to one of them would be seen to wait.
        let servers = r#"{"mcpServers": {"docs": {"url": "http://127.0.0.1:9/mcp"},
            "with blank": {"command": "touch", "args": ["/nonexistent/started"]}}}"#;
        std::fs::write(folder.path().join("config.json"), servers).unwrap();
        std::fs::write(folder.path().join("a-file"), "").unwrap();
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// What `shell` says when it runs `script`; `None` if it is not installed.
    fn ask(&self, shell: &str, args: &[&str], script: &str) -> Option<String> {
        let file = self.path().join("script");
        std::fs::write(&file, script).unwrap();
        let path = format!("{}/bin:{}", self.path().display(), std::env::var("PATH").unwrap());
        let asked = Command::new(shell)
            .args(args)
            .arg(&file)
            .env("PATH", path)
            .env("HOME", self.path())
            .env("MCP_SPAN_CONFIG", self.path().join("config.json"))
            .current_dir(self.path())
            .output();
        let Output { stdout, stderr, .. } = match asked {
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            asked => asked.unwrap(),
        };
        assert_eq!(String::from_utf8_lossy(&stderr), "", "{shell}");
        Some(String::from_utf8(stdout).unwrap())
    }
}

async fn script(shell: &str) -> String {
    String::from_utf8(run(&["completions", shell], &[], "").await.stdout).unwrap()
}

#[tokio::test]
async fn bash_offers_commands_and_servers_first_and_flags_behind_a_dash() {
    let ask = r#"
t() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
      _mcp_span mcp-span "${@: -1}" "${@: -2:1}"; (IFS='|'; echo "${COMPREPLY[*]}"); }
t mcp-span ''
t mcp-span --no-oa
t mcp-span tools ''
t mcp-span call docs ''
t mcp-span call --no-ch
t mcp-span completions z
t mcp-span docs --transport = s
t mcp-span install claude-code http : //h/mcp --scope u
t mcp-span docs --header-file a-f
"#;
    let desk = Desk::new();
    let Some(told) = desk.ask("bash", &[], &(script("bash").await + ask)) else { return };
    let lines: Vec<&str> = told.lines().collect();
    let first: Vec<&str> = lines[0].split('|').collect();
    assert_eq!(first[0], "connect", "{told}");
    assert_eq!(first[first.len() - 2..], ["docs", r"with\ blank"], "{told}");
    assert!(first.len() < 30 && first.iter().all(|word| !word.starts_with('-')), "{told}");
    assert_eq!(
        lines[1..],
        ["--no-oauth", r"docs|with\ blank", "", "--no-check", "zsh", "sse", "user", "a-file"],
        "{told}"
    );
}

#[tokio::test]
async fn zsh_gets_the_same_with_what_each_means() {
    // The rest of its completion needs a terminal: what is handed over to it is looked at.
    let before = "compdef() { : }\n_files() { print files }\n\
        _describe() { print -rl -- \"${(@P)3}\" }\n";
    let ask = "\nt() { words=(\"$@\"); CURRENT=$#; _mcp-span }\n\
        t mcp-span sta\nt mcp-span tools ''\nt mcp-span trace ''\n";
    let desk = Desk::new();
    let all = before.to_owned() + &script("zsh").await + ask;
    let Some(told) = desk.ask("zsh", &["-f"], &all) else { return };
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines[0].starts_with("status:Show who is logged in"), "{told}");
    let about = "a server of the configuration file";
    assert_eq!(lines[1..3], [format!("docs:{about}"), format!("with blank:{about}")], "{told}");
    assert_eq!(lines[3..], ["files"], "{told}");
}

#[tokio::test]
async fn fish_completes_with_what_each_means() {
    let ask = "\ncomplete -C 'mcp-span sta'\ncomplete -C 'mcp-span tools d'\n\
        complete -C 'mcp-span completions z'\ncomplete -C 'mcp-span trace a-f'\n";
    let desk = Desk::new();
    let Some(told) = desk.ask("fish", &["--no-config"], &(script("fish").await + ask)) else {
        return;
    };
    let words: Vec<&str> = told.lines().map(|line| line.split('\t').next().unwrap()).collect();
    assert_eq!(words, ["status", "docs", "zsh", "a-file"], "{told}");
    assert!(told.starts_with("status\tShow who is logged in"), "{told}");
}

#[tokio::test]
async fn a_configuration_that_is_wrong_leaves_the_commands() {
    let desk = Desk::new();
    std::fs::write(desk.path().join("config.json"), "{ not json").unwrap();
    let config = desk.path().join("config.json");
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
