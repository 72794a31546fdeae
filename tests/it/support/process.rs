//! The program under test, as a client starts it.

use std::process::{ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::tls::Authority;
use super::{INITIALIZE, INITIALIZED, soon};

/// A running bridge; killed when dropped.
pub(crate) struct Bridge {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<BufReader<ChildStdout>>,
    stderr: Arc<Mutex<String>>,
    stderr_done: tokio::task::JoinHandle<()>,
}

/// A file that stands for the platform's store of authorities, with one in it.
pub(crate) struct Store(tempfile::NamedTempFile);

impl Store {
    pub(crate) fn with(authority: &Authority) -> Self {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), &authority.root).expect("a file to write to");
        Self(file)
    }

    /// What to pass to a bridge that trusts this authority and no other.
    pub(crate) fn env(&self) -> [(&str, &str); 1] {
        [("SSL_CERT_FILE", self.0.path().to_str().expect("a path in UTF-8"))]
    }
}

/// The program with arguments, in an environment that holds nothing but what a client passes.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcp-span"));
    command.args(args).env_clear().kill_on_drop(true);
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command
}

/// Runs it to its end with `input` on stdin.
pub(crate) async fn run(args: &[&str], env: &[(&str, &str)], input: &str) -> Output {
    let mut command = command(args);
    command.envs(env.iter().copied());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    // A program that refuses its arguments does not read.
    let _ = stdin.write_all(input.as_bytes()).await;
    drop(stdin);
    soon("the end of the program", child.wait_with_output()).await.expect("an exit")
}

/// What a process has in memory, in MiB.
#[cfg(target_os = "linux")]
pub(crate) fn resident(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("its memory");
    let kib = line.split_whitespace().nth(1).expect("a number");
    kib.parse::<usize>().expect("a number") / 1024
}

impl Bridge {
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_with(args, &[])
    }

    pub(crate) fn start_with(args: &[&str], env: &[(&str, &str)]) -> Self {
        let mut command = command(args);
        command.envs(env.iter().copied());
        Self::spawn(command)
    }

    pub(crate) fn spawn(command: Command) -> Self {
        Self::spawn_with(command, Stdio::piped())
    }

    /// The same with a stderr that may lead elsewhere.
    pub(crate) fn spawn_with(mut command: Command, stderr: Stdio) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
        let mut child = command.spawn().expect("the program starts");
        let stderr = Arc::new(Mutex::new(String::new()));
        let pipe = child.stderr.take();
        let collected = Arc::clone(&stderr);
        let stderr_done = tokio::spawn(async move {
            let Some(mut pipe) = pipe else { return };
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = pipe.read(&mut buffer).await {
                let text = String::from_utf8_lossy(&buffer[..n]);
                collected.lock().expect("no panic under the lock").push_str(&text);
            }
        });
        Self {
            stdin: child.stdin.take(),
            stdout: child.stdout.take().map(BufReader::new),
            child,
            stderr,
            stderr_done,
        }
    }

    /// A bridge whose legacy handshake is done.
    pub(crate) async fn ready(args: &[&str]) -> Self {
        let mut bridge = Self::start(args);
        bridge.handshake().await;
        bridge
    }

    pub(crate) async fn handshake(&mut self) {
        self.send(INITIALIZE).await;
        let answer = self.receive().await;
        assert_eq!(answer["id"], "init", "{answer}");
        assert!(answer["result"].is_object(), "{answer}");
        self.send(INITIALIZED).await;
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("a running process")
    }

    /// What the process has in memory, in MiB.
    #[cfg(target_os = "linux")]
    pub(crate) fn resident(&self) -> usize {
        resident(self.pid())
    }

    /// Writes one line.
    pub(crate) async fn send(&mut self, line: impl AsRef<str>) {
        self.send_bytes(format!("{}\n", line.as_ref()).as_bytes()).await;
    }

    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        soon("room on stdin", stdin.write_all(bytes)).await.expect("stdin takes it");
    }

    /// The next line, as it is.
    pub(crate) async fn line(&mut self) -> String {
        self.next_line().await.expect("a line, not the end of stdout")
    }

    /// The next line; `None` at the end of stdout.
    pub(crate) async fn next_line(&mut self) -> Option<String> {
        let stdout = self.stdout.as_mut().expect("stdout is open");
        let mut line = String::new();
        let read = soon("a line on stdout", stdout.read_line(&mut line)).await.expect("UTF-8");
        (read > 0).then(|| line.strip_suffix('\n').expect("a whole line").to_owned())
    }

    /// The next line, as JSON.
    pub(crate) async fn receive(&mut self) -> Value {
        let line = self.line().await;
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Sends a request line and gives the next line.
    pub(crate) async fn ask(&mut self, line: impl AsRef<str>) -> Value {
        self.send(line).await;
        self.receive().await
    }

    /// The answer to `id`, and the methods of what came before it.
    pub(crate) async fn answer(&mut self, id: impl Into<Value>) -> (Value, Vec<String>) {
        let (id, mut before) = (id.into(), Vec::new());
        loop {
            let message = self.receive().await;
            if message["id"] == id && message["method"].is_null() {
                return (message, before);
            }
            before.push(message["method"].as_str().unwrap_or("?").to_owned());
        }
    }

    /// The next `count` answers, by their ids, and the methods of what came between them.
    pub(crate) async fn answers(&mut self, count: usize) -> (Vec<Value>, Vec<String>) {
        let (mut answers, mut told) = (Vec::new(), Vec::new());
        while answers.len() < count {
            let message = self.receive().await;
            match message["method"].as_str() {
                Some(method) => told.push(method.to_owned()),
                None => answers.push(message),
            }
        }
        answers.sort_by_key(|answer| answer["id"].as_u64());
        (answers, told)
    }

    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    pub(crate) fn close_stdout(&mut self) {
        self.stdout = None;
    }

    pub(crate) fn signal(&self, name: &str) {
        let status = std::process::Command::new("kill")
            .args([&format!("-{name}"), &self.pid().to_string()])
            .status()
            .expect("kill(1) is there");
        assert!(status.success());
    }

    /// Waits for the end of the process.
    pub(crate) async fn exit(&mut self) -> ExitStatus {
        soon("the end of the process", self.child.wait()).await.expect("an exit status")
    }

    /// Closes stdin and gives what still comes, the exit status, and all of stderr.
    pub(crate) async fn finish(mut self) -> (Vec<String>, ExitStatus, String) {
        self.close_stdin();
        let mut lines = Vec::new();
        while let Some(line) = self.next_line().await {
            lines.push(line);
        }
        let status = self.exit().await;
        soon("the end of stderr", &mut self.stderr_done).await.expect("no panic");
        (lines, status, self.stderr())
    }

    /// What was written to stderr so far.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().expect("no panic under the lock").clone()
    }
}
