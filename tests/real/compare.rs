//! Runs a client script and compares what it saw directly with what it saw through the bridge.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::peers::Peers;
use crate::process::Process;

/// The scripts end by themselves within a minute.
const CLIENT_TIME: Duration = Duration::from_secs(90);
/// Lines that a failure shows of each side.
const SHOWN_LINES: usize = 30;
const SHOWN_WIDTH: usize = 400;

#[derive(Clone, Copy)]
enum Language {
    Node,
    Python,
}

/// A client script with its own arguments.
#[derive(Clone, Copy)]
pub(crate) struct ClientRun {
    language: Language,
    script: &'static str,
    arguments: &'static [&'static str],
}

impl ClientRun {
    pub(crate) const fn node(script: &'static str, arguments: &'static [&'static str]) -> Self {
        Self { language: Language::Node, script, arguments }
    }

    pub(crate) const fn python(script: &'static str) -> Self {
        Self { language: Language::Python, script, arguments: &[] }
    }

    /// The steps that the client took at this server, directly or through the bridge.
    pub(crate) fn steps(&self, peers: &Peers, url: &str, bridge: Option<&str>) -> Vec<Value> {
        let mut command = self.command(peers);
        command.arg(url).args(self.arguments).env_remove("BRIDGE");
        command.envs(bridge.map(|program| ("BRIDGE", program)));
        let how = if bridge.is_some() { "through the bridge" } else { "directly" };
        let mut process = Process::start(&mut command);
        let Some(status) = process.wait(CLIENT_TIME) else {
            panic!("{} {how} did not end, or left a process:\n{}", self.script, process.output());
        };
        assert!(status.success(), "{} {how} failed:\n{}", self.script, process.output());
        serde_json::from_str(&process.stdout())
            .unwrap_or_else(|error| panic!("{} {how} printed no JSON: {error}", self.script))
    }

    fn command(&self, peers: &Peers) -> Command {
        let script = format!("clients/{}", self.script);
        match self.language {
            Language::Node => peers.node_script(&script),
            Language::Python => peers.python_script(&script),
        }
    }
}

/// Fails at the first step in which the two runs differ.
pub(crate) fn assert_same_steps(direct: &[Value], bridged: &[Value]) {
    assert!(!direct.is_empty(), "the direct run took no step");
    for index in 0..direct.len().max(bridged.len()) {
        let (expected, got) = (direct.get(index), bridged.get(index));
        if expected == got {
            continue;
        }
        let name = expected.or(got).and_then(|step| step["step"].as_str()).unwrap_or("?");
        panic!("step {index} ({name}) differs:\n{}", difference(expected, got));
    }
}

/// The lines between the common beginning and the common end of the two.
fn difference(direct: Option<&Value>, bridged: Option<&Value>) -> String {
    let (direct, bridged) = (pretty_lines(direct), pretty_lines(bridged));
    let shorter = direct.len().min(bridged.len());
    let same = |pair: &(&String, &String)| pair.0 == pair.1;
    let head = direct.iter().zip(&bridged).take_while(same).count();
    let tail = direct.iter().rev().zip(bridged.iter().rev()).take_while(same).count();
    let tail = tail.min(shorter - head);
    let mut text = String::from("- directly\n+ through the bridge\n");
    for (sign, lines) in [('-', &direct), ('+', &bridged)] {
        for line in lines[head..lines.len() - tail].iter().take(SHOWN_LINES) {
            let shown: String = line.chars().take(SHOWN_WIDTH).collect();
            text.push_str(&format!("{sign} {shown}\n"));
        }
    }
    text
}

fn pretty_lines(step: Option<&Value>) -> Vec<String> {
    let Some(step) = step else {
        return vec!["(no such step)".to_owned()];
    };
    let text = serde_json::to_string_pretty(step).expect("a JSON value can be written");
    text.lines().map(str::to_owned).collect()
}
