//! Starts the real servers, each on a port of its own, and stops them with the test.

use std::net::TcpListener;
use std::time::Duration;

use crate::peers::Peers;
use crate::process::Process;

const START: Duration = Duration::from_secs(20);
const REACTION: Duration = Duration::from_secs(5);

pub(crate) struct Server {
    process: Process,
    url: String,
}

impl Server {
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Fails unless the server prints such a line now or soon.
    pub(crate) fn expect_line(&mut self, part: &str) {
        if self.process.wait_for_line(REACTION, |line| line.contains(part)).is_none() {
            panic!("the server did not print {part:?} but:\n{}", self.process.output());
        }
    }
}

/// The reference server with nearly every feature of the protocol, up to 2025-11-25.
pub(crate) fn everything(peers: &Peers) -> Server {
    let program = peers.package_file("@modelcontextprotocol/server-everything/dist/index.js");
    let mut output = String::new();
    // It cannot tell a port that the system chose, and a port that is free now may soon be taken.
    for _ in 0..5 {
        let port = free_port();
        let mut command = peers.node();
        command.arg(&program).arg("streamableHttp").env("PORT", port.to_string());
        let mut process = Process::start(&mut command);
        if process.wait_for_line(START, |line| line.contains("listening on port")).is_some() {
            return Server { process, url: format!("http://127.0.0.1:{port}/mcp") };
        }
        output = process.output();
    }
    panic!("the everything server does not start:\n{output}");
}

/// A small server that speaks 2026-07-28 and the older revisions, without sessions.
pub(crate) fn modern(peers: &Peers) -> Server {
    let mut process = Process::start(&mut peers.node_script("servers/modern.mjs"));
    match process.wait_for_line(START, |line| line.starts_with("http://")) {
        Some(url) => Server { process, url },
        None => panic!("the modern server does not start:\n{}", process.output()),
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("the machine has a free port");
    listener.local_addr().expect("a bound socket has an address").port()
}
