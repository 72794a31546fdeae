//! Completion of command lines, by the shells themselves.

use std::path::Path;
use std::process::{Command, Output};

use crate::BRIDGE;

/// A folder with the program in it, a configuration file with two servers, and scripts.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("it works");
        let bin = folder.path().join("bin");
        std::fs::create_dir(&bin).expect("it works");
        std::os::unix::fs::symlink(BRIDGE, bin.join("mcp-span")).expect("it works");
        // Whoever connected to one of them would be seen to wait.
        let servers = r#"{"mcpServers": {"docs": {"url": "http://127.0.0.1:9/mcp"},
            "with blank": {"command": "touch", "args": ["/nonexistent/started"]}}}"#;
        std::fs::write(folder.path().join("config.json"), servers).expect("it works");
        std::fs::write(folder.path().join("a-file"), "").expect("it works");
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// What `shell` says when it runs `script`.
    fn ask(&self, shell: &str, args: &[&str], script: &str) -> String {
        let file = self.path().join("script");
        std::fs::write(&file, script).expect("it works");
        let path =
            format!("{}/bin:{}", self.path().display(), std::env::var("PATH").expect("it works"));
        let asked = Command::new(shell)
            .args(args)
            .arg(&file)
            .env("PATH", path)
            .env("HOME", self.path())
            .env("MCP_SPAN_CONFIG", self.path().join("config.json"))
            .current_dir(self.path())
            .output();
        let Output { stdout, stderr, .. } = asked.unwrap_or_else(|error| {
            panic!("{shell} cannot be run ({error}): install it (Debian: apt install {shell})")
        });
        assert_eq!(String::from_utf8_lossy(&stderr), "", "{shell}");
        String::from_utf8(stdout).expect("a text")
    }
}

fn script(shell: &str) -> String {
    let made = Command::new(BRIDGE).args(["completions", shell]).output().expect("it runs");
    String::from_utf8(made.stdout).expect("a text")
}

#[test]
fn bash_offers_commands_and_servers_first_and_flags_behind_a_dash() {
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
    let home = Home::new();
    let told = home.ask("bash", &[], &(script("bash") + ask));
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

#[test]
fn zsh_gets_the_same_with_what_each_means() {
    // The rest of its completion needs a terminal: what is handed over to it is looked at.
    let before = "compdef() { : }\n_files() { print files }\n\
        _describe() { print -rl -- \"${(@P)3}\" }\n";
    let ask = "\nt() { words=(\"$@\"); CURRENT=$#; _mcp-span }\n\
        t mcp-span sta\nt mcp-span tools ''\nt mcp-span trace ''\n";
    let home = Home::new();
    let all = before.to_owned() + &script("zsh") + ask;
    let told = home.ask("zsh", &["-f"], &all);
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines[0].starts_with("status:Show who is logged in"), "{told}");
    let about = "a server of the configuration file";
    assert_eq!(lines[1..3], [format!("docs:{about}"), format!("with blank:{about}")], "{told}");
    assert_eq!(lines[3..], ["files"], "{told}");
}

#[test]
fn fish_completes_with_what_each_means() {
    let ask = "\ncomplete -C 'mcp-span sta'\ncomplete -C 'mcp-span tools d'\n\
        complete -C 'mcp-span completions z'\ncomplete -C 'mcp-span trace a-f'\n";
    let home = Home::new();
    let told = home.ask("fish", &["--no-config"], &(script("fish") + ask));
    let words: Vec<&str> =
        told.lines().map(|line| line.split('\t').next().expect("it works")).collect();
    assert_eq!(words, ["status", "docs", "zsh", "a-file"], "{told}");
    assert!(told.starts_with("status\tShow who is logged in"), "{told}");
}
