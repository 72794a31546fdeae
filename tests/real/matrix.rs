//! Every real client at every real server, through the bridge: one table, asserted cell by cell.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::BRIDGE;
use crate::matrix_cells::{CHECKS, Cell, Visits, judge};
use crate::matrix_peers::{CLIENTS, Client, SERVERS, ServerKind, Started};
use crate::peers::Peers;
use crate::process::Process;

/// A client visits all servers in this time; a check that hangs gives up after ten seconds.
const CLIENT_TIME: Duration = Duration::from_secs(150);
/// How many clients are at work at the same time.
const AT_ONCE: usize = 3;

/// What the client is told to do, and where.
fn plan(client: &Client, urls: &[String], state: &str) -> Value {
    let job = |(server, url): (&ServerKind, &String)| {
        let checks = server.features(client.upstream_era(server));
        json!({
            "server": server.name,
            "url": url,
            "sse": server.is_sse,
            "direct": client.reaches_directly(server),
            "checks": CHECKS.iter().filter(|check| checks.contains(check)).collect::<Vec<_>>(),
            "calls": server.calls(client),
        })
    };
    let jobs: Vec<Value> = SERVERS.iter().zip(urls).map(job).collect();
    let (mode, flags) = (client.mode, client.flags);
    json!({ "mode": mode, "flags": flags, "bridge": BRIDGE, "state": state, "jobs": jobs })
}

/// The outcome at each server, in the order of `SERVERS`; null where there is none.
fn visit(peers: &Peers, client: &Client, urls: &[String]) -> Vec<Value> {
    let state = tempfile::tempdir().expect("a folder for what the bridge remembers");
    let state_path = state.path().to_str().expect("a temporary folder has a plain name");
    let plan = plan(client, urls, state_path).to_string();
    let mut process = Process::start(client.command(peers).arg(plan));
    let status = process.wait(CLIENT_TIME);
    let lines: Vec<Value> =
        process.stdout().lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    if !status.is_some_and(|status| status.success()) || lines.len() != SERVERS.len() {
        panic!("{} ended with {status:?}:\n{}", client.name, process.output());
    }
    SERVERS
        .iter()
        .map(|server| lines.iter().find(|line| line["server"] == server.name).cloned())
        .map(Option::unwrap_or_default)
        .collect()
}

/// All clients, a few at a time, each at all servers.
fn visit_all(peers: &Peers, urls: &[String]) -> Visits {
    let next = Mutex::new(0);
    let visits: Vec<Mutex<Vec<Value>>> = CLIENTS.iter().map(|_| Mutex::default()).collect();
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let index = {
                        let mut next = next.lock().expect("a worker only counts here");
                        *next += 1;
                        *next - 1
                    };
                    let Some(client) = CLIENTS.get(index) else { return };
                    let seen = visit(peers, client, urls);
                    *visits[index].lock().expect("each place has one writer") = seen;
                }
            });
        }
    });
    visits.iter().map(|seen| seen.lock().expect("all writers are gone").clone()).collect()
}

fn table(cells: &[Vec<Cell>]) -> String {
    let mut text = String::from("| Client |");
    for server in &SERVERS {
        text.push_str(&format!(" {} |", server.name));
    }
    text.push_str(&format!("\n|---|{}\n", "---|".repeat(SERVERS.len())));
    for (client, row) in CLIENTS.iter().zip(cells) {
        text.push_str(&format!("| {} |", client.name));
        for cell in row {
            text.push_str(&format!(" {} |", cell.shown));
        }
        text.push('\n');
    }
    text
}

const LEGEND: &str = "T tools as seen directly, C call, P progress, E elicitation, L list_changed, \
X cancellation; · what this server does not have in the era that is spoken to it. *Translated*: the \
two have no era in common.\n";

// C22, C33: every client reaches every server, whatever their eras and the transport.
#[test]
fn every_client_reaches_every_server() {
    let peers = Peers::find();
    let started_at = Instant::now();
    let started: Vec<Started> = std::thread::scope(|scope| {
        let starting = SERVERS.iter().map(|server| scope.spawn(|| (server.start)(&peers)));
        let starting: Vec<_> = starting.collect();
        starting.into_iter().map(|thread| thread.join().expect("the server starts")).collect()
    });
    let urls: Vec<String> = started.iter().map(|started| started.url().to_owned()).collect();
    let visits = visit_all(&peers, &urls);
    let cells: Vec<Vec<Cell>> = CLIENTS
        .iter()
        .map(|client| SERVERS.iter().map(|server| judge(client, server, &visits)).collect())
        .collect();

    let table = format!("{}\n{LEGEND}", table(&cells));
    eprintln!("{table}\n{:?}", started_at.elapsed());
    std::fs::write(peers.installed().join("matrix.md"), table).expect("the table can be written");
    let faults: Vec<&str> =
        cells.iter().flatten().flat_map(|cell| &cell.faults).map(|s| &**s).collect();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}
