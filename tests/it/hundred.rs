//! A hundred servers at once, in a process of their own: what they cost can be told from what other
//! tests cost, and what they leave behind is nobody else's.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::time::{Duration, Instant};

use mcp_span::manager::Manager;
use serde_json::Value;

use crate::manager::{SERVER, child, hasty, url, with_tool};
use crate::support::children::Nursery;
use crate::support::process::resident;
use crate::support::{PATIENCE, Reply, Server, soon};

#[tokio::test]
async fn a_hundred_servers_good_and_bad_cost_little_and_leave_nothing_behind() {
    let mut command = tokio::process::Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "hundred::in_a_process_of_its_own", "--ignored"]);
    let output = tokio::time::timeout(4 * PATIENCE, command.kill_on_drop(true).output()).await;
    let output = output.expect("it ends").expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

/// Who is there, and what becomes of them.
const SORTS: [(&str, usize, &str); 7] = [
    ("program", 35, "ready"),
    ("remote", 25, "ready"),
    ("hanging-program", 10, "connecting"),
    ("hanging-remote", 10, "connecting"),
    ("absent", 8, "failed"),
    ("crashing", 6, "suspended"),
    ("broken", 6, "failed"),
];

#[tokio::test]
#[ignore = "the test above runs it"]
async fn in_a_process_of_its_own() {
    let (nursery, remote) = (Nursery::new(), Server::start(with_tool).await);
    let hanging = Server::start(|_| Reply::nothing().hang()).await;
    let absent = Server::start(with_tool).await;
    let nobody = absent.url.clone();
    absent.stop().await;
    let entry = |sort: &str| match sort {
        "program" => child(&nursery, SERVER),
        "remote" => url(&remote.url),
        "hanging-program" => child(&nursery, "sleep 1000 & while :; do sleep 0.2; done"),
        "hanging-remote" => url(&hanging.url),
        "absent" => url(&nobody),
        "crashing" => child(&nursery, "hello; exit 3"),
        _ => child(&nursery, "exit 4"),
    };
    let servers = SORTS.iter().flat_map(|(sort, count, _)| {
        (0..*count).map(move |number| (format!("{sort}-{number}"), entry(sort)))
    });
    let manager = Manager::start(servers, hasty());
    assert_eq!(manager.states().len(), 100);
    // Those that are well work, whatever becomes of the others.
    let mut calls = tokio::task::JoinSet::new();
    for (sort, count, _) in SORTS.iter().filter(|(_, _, state)| *state == "ready") {
        for number in 0..*count {
            let (manager, name) = (manager.clone(), format!("{sort}-{number}"));
            calls.spawn(async move { manager.call_on(&name, "x", Value::Null).await });
        }
    }
    for result in soon("all answers", calls.join_all()).await {
        result.expect("an answer");
    }
    soon("their fate", until_all_is_as_expected(&manager)).await;
    let memory = resident(std::process::id());
    assert!(memory < 128, "{memory} MiB");
    let start = Instant::now();
    soon("goodbye", manager.close()).await;
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    // No zombie, no orphan. Who was killed is there until it has its next turn.
    let mut left = left_in(nursery.path());
    for _ in 0..100 {
        if left.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        left = left_in(nursery.path());
    }
    assert_eq!(left, Vec::<String>::new());
}

async fn until_all_is_as_expected(manager: &Manager) {
    loop {
        let states = manager.states();
        let expected = |sort: &str| SORTS.iter().find(|(name, ..)| *name == sort).map(|s| s.2);
        let all_are = states.iter().all(|(name, state)| {
            let sort = name.rsplit_once('-').map_or("", |(sort, _)| sort);
            expected(sort) == Some(state.as_str())
        });
        if all_are {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The processes that this one has started, or that work in `folder`.
fn left_in(folder: &Path) -> Vec<String> {
    let own = std::process::id().to_string();
    let folder = folder.canonicalize().expect("a folder");
    let processes = std::fs::read_dir("/proc").expect("processes");
    let are_left = processes.filter_map(Result::ok).filter_map(|entry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let after_name = stat.rsplit_once(')')?.1;
        let is_ours = after_name.split_whitespace().nth(1) == Some(&own);
        let works_there = std::fs::read_link(entry.path().join("cwd")).is_ok_and(|p| p == folder);
        (is_ours || works_there).then_some(stat)
    });
    are_left.collect()
}
