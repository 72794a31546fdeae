//! Starts the real servers, each on a port of its own, and stops them with the test.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use rustix::process::Signal;

use crate::peers::Peers;
use crate::process::Process;

const START: Duration = Duration::from_secs(20);
const REACTION: Duration = Duration::from_secs(15);

pub(crate) struct Server {
    process: Process,
    url: String,
}

impl Server {
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The URL without its path, for a proxy.
    pub(crate) fn origin(&self) -> &str {
        self.url.rsplit_once('/').map_or(&self.url, |(origin, _)| origin)
    }

    /// Fails unless the server prints such a line now or soon.
    pub(crate) fn expect_line(&mut self, part: &str) {
        if self.process.wait_for_line(REACTION, |line| line.contains(part)).is_none() {
            panic!("the server did not print {part:?} but:\n{}", self.process.output());
        }
    }

    /// Lets it hang: connections are made, and nothing is answered until it is woken.
    pub(crate) fn freeze(&self) {
        self.process.signal(Signal::STOP);
    }

    pub(crate) fn wake(&self) {
        self.process.signal(Signal::CONT);
    }

    /// Ends it with SIGKILL, as dropping it does; its port is free when this returns.
    pub(crate) fn kill(self) {
        drop(self);
    }
}

/// One of the transports of the everything server.
struct Transport {
    argument: &'static str,
    path: &'static str,
    /// What it prints when it can be reached.
    ready: &'static str,
}

const STREAMABLE_HTTP: Transport =
    Transport { argument: "streamableHttp", path: "/mcp", ready: "listening on port" };
const HTTP_AND_SSE: Transport =
    Transport { argument: "sse", path: "/sse", ready: "Server is running on port" };

impl Transport {
    fn url_at(&self, port: u16) -> String {
        format!("http://127.0.0.1:{port}{}", self.path)
    }
}

/// The reference server with nearly every feature of the protocol, up to 2025-11-25.
pub(crate) fn everything(peers: &Peers) -> Server {
    let mut failure = String::new();
    // It cannot tell a port that the system chose, and a port that is free now may soon be taken.
    for _ in 0..5 {
        match try_everything(peers, &STREAMABLE_HTTP, free_port()) {
            Ok(server) => return server,
            Err(output) => failure = output,
        }
    }
    panic!("the everything server does not start:\n{failure}");
}

/// The same server at a port that the test knows before it runs, or after it has ended.
pub(crate) fn everything_at(peers: &Peers, port: u16) -> Server {
    try_everything(peers, &STREAMABLE_HTTP, port).unwrap_or_else(|output| {
        panic!("the everything server does not start on port {port}:\n{output}")
    })
}

pub(crate) fn url_at(port: u16) -> String {
    STREAMABLE_HTTP.url_at(port)
}

/// The same server with the transport of 2024: a GET stream that names the place for POSTs.
pub(crate) fn everything_sse(peers: &Peers) -> Server {
    // Not any free port: if it is taken, this server says that it runs, and ends.
    everything_sse_at(peers, lasting_port())
}

pub(crate) fn everything_sse_at(peers: &Peers, port: u16) -> Server {
    try_everything(peers, &HTTP_AND_SSE, port).unwrap_or_else(|output| {
        panic!("the everything server does not start with SSE on port {port}:\n{output}")
    })
}

pub(crate) fn sse_url_at(port: u16) -> String {
    HTTP_AND_SSE.url_at(port)
}

/// A failure comes with everything that the server printed.
fn try_everything(peers: &Peers, transport: &Transport, port: u16) -> Result<Server, String> {
    let mut command = peers.node();
    command.arg(everything_program(peers)).arg(transport.argument).env("PORT", port.to_string());
    let mut process = Process::start(&mut command);
    match process.wait_for_line(START, |line| line.contains(transport.ready)) {
        Some(_) => Ok(Server { process, url: transport.url_at(port) }),
        None => Err(process.output()),
    }
}

pub(crate) fn everything_program(peers: &Peers) -> PathBuf {
    peers.package_file("@modelcontextprotocol/server-everything/dist/index.js")
}

/// A small server that speaks 2026-07-28 and the older revisions, without sessions.
pub(crate) fn modern(peers: &Peers) -> Server {
    telling_its_url(&mut peers.node_script("servers/modern.mjs"))
}

/// The same server without the older revisions.
pub(crate) fn modern_only(peers: &Peers) -> Server {
    telling_its_url(peers.node_script("servers/modern.mjs").arg("strict"))
}

/// A small server on the Python SDK, of both eras.
pub(crate) fn python(peers: &Peers) -> Server {
    telling_its_url(&mut peers.python_script("servers/py2.py"))
}

/// The same on the Rust SDK.
pub(crate) fn rmcp(peers: &Peers) -> Server {
    telling_its_url(&mut peers.rmcp("server"))
}

/// Starts a server that prints its URL as soon as it can be reached there.
fn telling_its_url(command: &mut Command) -> Server {
    let mut process = Process::start(command);
    match process.wait_for_line(START, |line| line.starts_with("http://")) {
        Some(url) => Server { process, url },
        None => panic!("{command:?} does not start:\n{}", process.output()),
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("the machine has a free port");
    listener.local_addr().expect("a bound socket has an address").port()
}

/// A port that nobody is given by the system in the meantime: it lies below those that Linux hands
/// out, so it is still free when a server comes back to it.
pub(crate) fn lasting_port() -> u16 {
    const LOWEST: u64 = 20_000;
    const COUNT: u64 = 12_000;
    let candidates = (0..100_u32).map(|n| LOWEST + RandomState::new().hash_one(n) % COUNT);
    let mut candidates = candidates.filter_map(|port| u16::try_from(port).ok());
    // A port is free while its server is away, but it is not free for another test.
    static GIVEN: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);
    let mut given = GIVEN.lock().expect("nothing in here panics but for want of ports");
    candidates
        .find(|port| given.insert(*port) && TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .expect("the machine has a free port below those for connections")
}
