//! Thousands of calls over a damaged wire to a server that fails, forgets and restarts: at the end
//! the books must balance.
//!
//! `MCP_SPAN_SOAK_SECONDS` and `MCP_SPAN_SOAK_SEED` make it longer, or the same again.

#![expect(clippy::print_stdout, reason = "what happened is worth a look, with --nocapture")]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::chance::Chance;
use crate::support::ledger::Ledger;
use crate::support::relay::{Fault, Relay};
use crate::support::{Bridge, Hub, PATIENCE, Server, request, soon};

/// Calls that are under way at once.
const IN_FLIGHT: usize = 40;

/// Connections at once: one for each call, and for those whose answer is over but not their stream,
/// or which were cancelled a moment ago.
const CONNECTIONS: usize = 3 * IN_FLIGHT;

/// How much the bridge may grow, in MiB: what is under way takes some, and memory that was given
/// back to the allocator is not given back to the system at once.
const MEMORY: usize = 16;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |value| value.parse().expect("a number"))
}

fn damage(chance: &Chance) -> Fault {
    let bytes = usize::try_from(chance.below(900)).expect("a small number");
    match chance.below(100) {
        0..=2 => Fault::CutRequest(bytes),
        3..=5 => Fault::CutAnswer(bytes),
        6..=8 => Fault::ResetAnswer(bytes),
        9 => Fault::Split,
        10..=11 => Fault::Delay(Duration::from_millis(chance.below(30))),
        12 => Fault::Refuse,
        13 => Fault::Swallow,
        14 => Fault::StallAnswer(bytes),
        _ => Fault::None,
    }
}

/// What the client knows of its calls.
#[derive(Default)]
struct Book {
    /// Sent and not answered: marker to tool.
    open: HashMap<u64, &'static str>,
    cancelled: HashSet<u64>,
    /// Marker to what it ended with: `Ok`, or the error's kind and delivery.
    ended: BTreeMap<u64, Result<(), (String, String)>>,
    /// The last note that came for a marker.
    notes: HashMap<u64, u64>,
}

impl Book {
    fn note(&mut self, message: &Value) {
        if message["method"] == "notifications/note" {
            let (marker, n) =
                (message["params"][0].as_u64().unwrap(), message["params"][1].as_u64().unwrap());
            // A safe call that was sent again begins anew.
            let last = self.notes.insert(marker, n);
            assert!(n == 0 || last == Some(n - 1), "note {n} of {marker} after {last:?}");
            return;
        }
        let Some(marker) = message["id"].as_u64() else {
            let method = message["method"].as_str().unwrap_or("nothing");
            assert!(method.ends_with("list_changed"), "{message}");
            return;
        };
        let end = match message["error"].as_object() {
            None => {
                assert_eq!(message["result"]["marker"], marker, "{message}");
                Ok(())
            }
            Some(error) => {
                let data = &error["data"];
                let text = |name: &str| data[name].as_str().unwrap_or("the server's").to_owned();
                Err((text("kind"), text("delivery")))
            }
        };
        assert!(self.open.remove(&marker).is_some(), "{marker} ended twice: {message}");
        self.ended.insert(marker, end);
    }

    /// `retried` are the calls that the bridge has sent once more after they may have been delivered.
    fn balance(&self, ledger: &Ledger, tools: &HashMap<u64, &'static str>, retried: &HashSet<u64>) {
        let missing: Vec<&u64> = self.open.keys().filter(|m| !self.cancelled.contains(m)).collect();
        assert!(missing.is_empty(), "never ended: {missing:?}");
        for (marker, tool) in tools {
            let times = ledger.carried_out(*marker);
            let most = if *tool == "look" { 2 } else { 1 };
            assert!(times <= most, "{tool} {marker} was carried out {times} times");
            match self.ended.get(marker) {
                Some(Ok(())) => assert!(times > 0, "{marker} succeeded without being carried out"),
                Some(Err((kind, delivery))) if delivery == "not-delivered" => {
                    assert_eq!(
                        times, 0,
                        "{marker} ended '{kind}', not delivered, but was carried out"
                    );
                }
                // D1: what a cut ends was cut twice, if it is safe.
                Some(Err((kind, _))) if *tool == "look" && is_cut(kind) => {
                    assert!(retried.contains(marker), "{marker} ended '{kind}' without a retry");
                }
                _ => {}
            }
        }
    }
}

/// Whether an error is what a cut connection or stream leads to.
fn is_cut(kind: &str) -> bool {
    matches!(kind, "closed" | "no-response")
}

/// The calls that were retried, by the log.
fn retried(log: &Path) -> HashSet<u64> {
    let log = std::fs::read_to_string(log).expect("a log");
    let lines = log.lines().filter(|line| line.contains("retry 1 of 1"));
    let ids = lines.filter_map(|line| line.split_once(" id=")?.1.split(' ').next()?.parse().ok());
    ids.collect()
}

/// A server of either transport.
enum Peer {
    Streamable(Server),
    Hub(Hub),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Streamable,
    Sse,
}

impl Peer {
    async fn start(
        transport: Transport,
        address: SocketAddr,
        ledger: &Arc<Ledger>,
        chance: &Arc<Chance>,
    ) -> Self {
        match transport {
            Transport::Streamable => {
                Self::Streamable(Server::start_at(address, ledger.script(chance)).await)
            }
            Transport::Sse => Self::Hub(Hub::start_at(address, ledger.hub_script(chance)).await),
        }
    }

    async fn stop(self) {
        match self {
            Self::Streamable(server) => server.stop().await,
            Self::Hub(hub) => hub.server.stop().await,
        }
    }

    fn forget_sessions(&self, ledger: &Ledger) {
        match self {
            Self::Streamable(_) => ledger.forget_sessions(),
            Self::Hub(hub) => hub.streams.forget_all(),
        }
    }
}

/// Stops the server now and then and starts it again at the same address, or lets it forget us.
async fn restarts(
    transport: Transport,
    address: SocketAddr,
    ledger: Arc<Ledger>,
    chance: Arc<Chance>,
    over: Arc<AtomicBool>,
) -> u64 {
    let mut count = 0;
    let mut peer = Peer::start(transport, address, &ledger, &chance).await;
    while !over.load(Ordering::SeqCst) {
        // Five new sessions in half a minute are the most that a server is asked for.
        let pause = if count < 4 { 1000 } else { 6500 };
        tokio::time::sleep(Duration::from_millis(pause + chance.below(1000))).await;
        if over.load(Ordering::SeqCst) {
            break;
        }
        if chance.percent(60) {
            peer.stop().await;
            tokio::time::sleep(Duration::from_millis(chance.below(400))).await;
            peer = Peer::start(transport, address, &ledger, &chance).await;
        }
        peer.forget_sessions(&ledger);
        count += 1;
    }
    // It stays until whoever waits for its answers has them.
    tokio::time::sleep(PATIENCE).await;
    drop(peer);
    count
}

#[tokio::test]
async fn after_any_number_of_faults_the_books_balance() {
    soak(Transport::Streamable).await;
}

#[tokio::test]
async fn after_any_number_of_faults_the_books_balance_over_http_and_sse() {
    soak(Transport::Sse).await;
}

async fn soak(transport: Transport) {
    let seed = setting("MCP_SPAN_SOAK_SEED", 42);
    let duration = Duration::from_secs(setting("MCP_SPAN_SOAK_SECONDS", 8));
    println!("{transport:?}, seed {seed}, {duration:?}");
    let chance = Arc::new(Chance::new(seed));
    let ledger = Arc::new(Ledger::default());
    let over = Arc::new(AtomicBool::new(false));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let life =
        restarts(transport, address, Arc::clone(&ledger), Arc::clone(&chance), Arc::clone(&over));
    let life = tokio::spawn(life);
    let plan = Arc::clone(&chance);
    let relay =
        Relay::start(address, move |n| if n < 3 { Fault::None } else { damage(&plan) }).await;
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let path = log.to_str().expect("UTF-8");
    let args = [&*relay.url, "--timeout", "2", "--away-wait", "4", "--no-server-stream"];
    let args = [&args[..], &["--log-level", "debug", "--log-file", path]].concat();
    let mut bridge = Bridge::ready(&args).await;
    bridge.send(request("\"tools\"", "tools/list")).await;
    while bridge.receive().await["id"] != "tools" {}
    let before = memory(&bridge);
    let most = Arc::new(Most::default());
    let watch = tokio::spawn(watch(Arc::clone(&most), relay.counter(), bridge.pid()));
    let (book, tools) = converse(&mut bridge, &chance, duration).await;
    watch.abort();
    over.store(true, Ordering::SeqCst);
    most.check();
    let after = memory(&bridge);
    assert!(after < before + MEMORY, "{before} MiB before, {after} MiB after");
    happened(&ledger, tools.len(), duration);
    let (_, status, _) = bridge.finish().await;
    assert_eq!(status.code(), Some(0));
    let retried = retried(&log);
    book.balance(&ledger, &tools, &retried);
    let closed = async {
        while relay.open_connections() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon("the end of all connections", closed).await;
    life.abort();
    report(&book, &ledger, &tools, &retried, (before, after));
}

/// The most that there was at any time.
#[derive(Debug, Default)]
struct Most {
    connections: AtomicUsize,
    files: AtomicUsize,
}

impl Most {
    /// While it lives, the bridge keeps nothing that it does not need.
    fn check(&self) {
        let connections = self.connections.load(Ordering::SeqCst);
        let files = self.files.load(Ordering::SeqCst);
        println!("at most {connections} connections, {files} open files");
        assert!(connections <= CONNECTIONS, "{connections} connections at once");
        assert!(files <= CONNECTIONS + 30, "{files} open files at once");
    }
}

/// Looks again and again how much is open.
async fn watch(most: Arc<Most>, open: impl Fn() -> usize, pid: u32) {
    loop {
        most.connections.fetch_max(open(), Ordering::SeqCst);
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
        most.files.fetch_max(files, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// That enough has happened for the books to mean something.
fn happened(ledger: &Ledger, calls: usize, duration: Duration) {
    let (sessions, faults) = ledger.totals();
    let seconds = duration.as_secs();
    assert!(calls as u64 >= 20 * seconds, "{calls} calls");
    assert!(faults >= 4 * seconds, "{faults} mistreated");
    // A machine that is busy gets through few restarts.
    assert!(sessions >= 2, "{sessions} sessions");
}

/// Calls and cancels at random until the time is over and everything has ended.
async fn converse(
    bridge: &mut Bridge,
    chance: &Chance,
    duration: Duration,
) -> (Book, HashMap<u64, &'static str>) {
    let mut book = Book::default();
    let mut tools = HashMap::new();
    let start = Instant::now();
    while start.elapsed() < duration || !book.open.keys().all(|m| book.cancelled.contains(m)) {
        let waiting = book.open.len() - book.cancelled.len();
        if start.elapsed() < duration && waiting < IN_FLIGHT {
            let marker = tools.len() as u64;
            let tool = if chance.percent(30) { "look" } else { "pay" };
            tools.insert(marker, tool);
            book.open.insert(marker, tool);
            bridge.send(format!(r#"{{"jsonrpc":"2.0","id":{marker},"method":"tools/call","params":{{"name":"{tool}","arguments":{{"marker":{marker}}}}}}}"#)).await;
            if chance.percent(3) {
                book.cancelled.insert(marker);
                bridge.send(format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{marker}}}}}"#)).await;
            }
            continue;
        }
        let message = bridge.receive().await;
        book.note(&message);
        book.cancelled.retain(|marker| book.open.contains_key(marker));
    }
    (book, tools)
}

fn report(
    book: &Book,
    ledger: &Ledger,
    tools: &HashMap<u64, &'static str>,
    retried: &HashSet<u64>,
    memory: (usize, usize),
) {
    let calls = tools.len();
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for end in book.ended.values() {
        let name = match end {
            Ok(()) => "answered".to_owned(),
            Err((kind, delivery)) => format!("{kind}, {delivery}"),
        };
        *kinds.entry(name).or_default() += 1;
    }
    let (sessions, faults) = ledger.totals();
    println!("{calls} calls, {faults} mistreated by the server, {sessions} sessions: {kinds:?}");
    let looks = tools.iter().filter(|(_, tool)| **tool == "look");
    let cut = looks.filter(
        |(marker, _)| matches!(book.ended.get(marker), Some(Err((kind, _))) if is_cut(kind)),
    );
    println!("{} safe calls were cut twice, {} retried", cut.count(), retried.len());
    println!("memory: {} MiB before, {} MiB after", memory.0, memory.1);
}

#[cfg(target_os = "linux")]
fn memory(bridge: &Bridge) -> usize {
    bridge.resident()
}

#[cfg(not(target_os = "linux"))]
fn memory(_: &Bridge) -> usize {
    0
}
