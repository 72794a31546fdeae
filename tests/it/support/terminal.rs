//! The program at a terminal: `script(1)` of util-linux gives it one, a test plays the person.

use std::process::{ExitStatus, Stdio};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::soon;

/// A running program, and what it has shown so far.
pub(crate) struct Terminal {
    child: Child,
    keyboard: ChildStdin,
    screen: ChildStdout,
    pub(crate) shown: String,
}

impl Terminal {
    /// Starts the program with these arguments.
    pub(crate) fn start(args: &[&str], env: &[(&str, &str)]) -> Self {
        let words = [&[env!("CARGO_BIN_EXE_mcp-span")], args].concat();
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let mut script = Command::new("script");
        script.args(["-qec", &quoted.join(" "), "/dev/null"]).env_clear().kill_on_drop(true);
        script.env("TERM", "xterm").env("SHELL", "/bin/sh").envs(env.iter().copied());
        if let Some(path) = std::env::var_os("PATH") {
            script.env("PATH", path);
        }
        script.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = script.spawn().expect("script(1) is there (Debian: bsdutils)");
        let keyboard = child.stdin.take().expect("a pipe");
        let screen = child.stdout.take().expect("a pipe");
        Self { child, keyboard, screen, shown: String::new() }
    }

    /// Waits until `part` has been shown.
    pub(crate) async fn shows(&mut self, part: &str) {
        while !self.shown.contains(part) {
            assert!(self.look().await, "the end came before {part:?}: {:?}", self.shown);
        }
    }

    /// Types something.
    pub(crate) async fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).await.expect("a keyboard");
        self.keyboard.flush().await.expect("a keyboard");
    }

    /// All that was shown, and how it has ended.
    pub(crate) async fn ends(mut self) -> (String, ExitStatus) {
        while self.look().await {}
        let status = soon("the end of the program", self.child.wait()).await.expect("an exit");
        (self.shown, status)
    }

    async fn look(&mut self) -> bool {
        let mut buffer = [0; 4096];
        let reading = self.screen.read(&mut buffer);
        let read = soon("something on the screen", reading).await.unwrap_or(0);
        self.shown.push_str(&String::from_utf8_lossy(&buffer[..read]));
        read > 0
    }
}
