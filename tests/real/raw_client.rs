//! A client that is nothing but JSON lines on the bridge's stdin and stdout, and so misses nothing.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::BRIDGE;
use crate::process::Process;

/// For an answer whose time is not what the test is about.
const PATIENCE: Duration = Duration::from_secs(20);

/// The bridge without arguments; settings in the environment of the test are none of its business.
pub(crate) fn bridge_command() -> Command {
    let mut command = Command::new(BRIDGE);
    command.env_clear();
    command
}

pub(crate) struct RawClient {
    bridge: Process,
    last_id: u64,
    /// What came while something else was waited for.
    aside: Vec<Value>,
}

impl RawClient {
    /// Starts the bridge and says nothing yet.
    pub(crate) fn start(url: &str) -> Self {
        Self::start_by(bridge_command().arg(url))
    }

    /// The same with a `bridge_command` that says how the server is reached.
    pub(crate) fn start_by(command: &mut Command) -> Self {
        Self { bridge: Process::start(command), last_id: 0, aside: Vec::new() }
    }

    /// Starts the bridge and opens a session.
    pub(crate) fn connect(url: &str, revision: &str) -> Self {
        Self::connect_by(bridge_command().arg(url), revision)
    }

    pub(crate) fn connect_by(command: &mut Command, revision: &str) -> Self {
        let mut client = Self::start_by(command);
        let id = client.send_initialize(revision);
        client.result(id);
        client.confirm();
        client
    }

    pub(crate) fn send_initialize(&mut self, revision: &str) -> u64 {
        let about = json!({ "name": "raw-client", "version": "1" });
        let params =
            json!({ "protocolVersion": revision, "capabilities": {}, "clientInfo": about });
        self.send("initialize", params)
    }

    /// Tells the server that its answer to `initialize` has come.
    pub(crate) fn confirm(&mut self) {
        self.notify("notifications/initialized", json!({}));
    }

    pub(crate) fn cancel(&mut self, id: u64) {
        self.notify("notifications/cancelled", json!({ "requestId": id }));
    }

    fn notify(&mut self, method: &str, params: Value) {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.bridge.write_line(&message.to_string());
    }

    /// Sends a request and returns its id.
    pub(crate) fn send(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.bridge.write_line(&message.to_string());
        id
    }

    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.result(id)
    }

    /// Calls a tool and returns the text of its answer.
    pub(crate) fn call_tool(&mut self, name: &str, arguments: Value) -> String {
        let result = self.request("tools/call", json!({ "name": name, "arguments": arguments }));
        let text = result["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("{name} did not answer with text: {result}")).to_owned()
    }

    /// The result of the request `id`; an error fails the test.
    pub(crate) fn result(&mut self, id: u64) -> Value {
        let mut answer = self.answer(id, PATIENCE);
        assert!(answer.get("result").is_some(), "the request {id} failed: {answer}");
        answer["result"].take()
    }

    /// The whole answer to the request `id`.
    pub(crate) fn answer(&mut self, id: u64, limit: Duration) -> Value {
        let is_it = |message: &Value| message["id"] == id && message.get("method").is_none();
        self.wait_for(limit, is_it).unwrap_or_else(|| {
            panic!("no answer to {id} in {limit:?}; the bridge said:\n{}", self.bridge.output())
        })
    }

    /// The next notification of this name that has not been waited for.
    pub(crate) fn notification(&mut self, method: &str, limit: Duration) -> Value {
        let is_it = |message: &Value| message["method"] == method;
        self.wait_for(limit, is_it).unwrap_or_else(|| {
            panic!("no {method} in {limit:?}; the bridge said:\n{}", self.bridge.output())
        })
    }

    /// Fails if anything is said within this time.
    pub(crate) fn expect_silence(&mut self, time: Duration) {
        if let Some(message) = self.next_message(time) {
            panic!("nothing was expected, but the bridge said {message}");
        }
    }

    /// The names of what came without having been waited for, as often as it came.
    pub(crate) fn take_aside(&mut self) -> Vec<String> {
        let name = |message: Value| message["method"].as_str().unwrap_or("an answer").to_owned();
        self.aside.drain(..).map(name).collect()
    }

    /// The steps of all progress that came without having been waited for.
    pub(crate) fn take_progress(&mut self) -> Vec<Value> {
        let is_progress = |message: &mut Value| message["method"] == "notifications/progress";
        let taken = self.aside.extract_if(.., is_progress);
        taken.map(|mut message| message["params"]["progress"].take()).collect()
    }

    /// Closes stdin: the bridge must end well, and must not have complained about anything.
    pub(crate) fn leave(self) {
        self.leave_within(PATIENCE);
    }

    /// The same when the time matters.
    pub(crate) fn leave_within(self, limit: Duration) {
        assert_eq!(self.end(limit), "", "the bridge printed something on stderr");
    }

    /// The same where it had to wait for the server, and has said so once.
    pub(crate) fn leave_after_waiting(self) {
        let words = self.end(PATIENCE);
        let is_told = words.lines().count() == 1 && words.contains("WARN Server not reachable");
        assert!(is_told, "one warning: {words}");
    }

    /// The same where it had something to say; returns that.
    pub(crate) fn leave_with_words(self) -> String {
        self.end(PATIENCE)
    }

    /// Ends the bridge without a word, as clients do that have no time.
    pub(crate) fn kill(&mut self) {
        self.bridge.kill();
    }

    fn end(mut self, limit: Duration) -> String {
        self.bridge.close_stdin();
        let status = self.bridge.wait(limit);
        assert!(status.is_some_and(|status| status.success()), "the bridge ended with {status:?}");
        self.bridge.stderr()
    }

    fn wait_for(&mut self, limit: Duration, fits: impl Fn(&Value) -> bool) -> Option<Value> {
        if let Some(index) = self.aside.iter().position(&fits) {
            return Some(self.aside.remove(index));
        }
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let message = self.next_message(left)?;
            if fits(&message) {
                return Some(message);
            }
            self.aside.push(message);
        }
    }

    fn next_message(&mut self, limit: Duration) -> Option<Value> {
        let line = self.bridge.next_stdout_line(limit)?;
        Some(serde_json::from_str(&line).expect("the bridge prints nothing but JSON on stdout"))
    }
}
