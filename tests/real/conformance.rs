//! The official conformance suite, judging the bridge together with a plain stdio client.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use crate::BRIDGE;
use crate::conformance_list::{
    Forced, LEGACY, MODERN, NEVER, REQUIRED_OF_LEGACY, REQUIRED_OF_MODERN, Run, client_scenarios,
    passed_in, runs,
};
use crate::peers::Peers;
use crate::process::Process;

/// The suite gives a client 30 seconds.
const SUITE_TIME: Duration = Duration::from_secs(60);
/// How many scenarios run at the same time.
const AT_ONCE: usize = 3;

fn suite(peers: &Peers) -> Command {
    let mut command = peers.node();
    command.arg(peers.package_file("@modelcontextprotocol/conformance/dist/index.js"));
    command
}

/// How many checks were passed, or what went wrong.
fn play(peers: &Peers, run: &Run) -> Result<usize, String> {
    let results = fresh_folder(run);
    let state = tempfile::tempdir().expect("a folder for tokens");
    let mut command = suite(peers);
    command
        // The suite splits the command at spaces, so no path may stand in it.
        .args(["client", "--command", "node conformance-client.mjs"])
        .args(["--scenario", run.scenario, "--spec-version", run.revision, "-o"])
        .arg(&results)
        .current_dir(peers.scripts())
        // It plays the browser, which agrees to everything.
        .env("BROWSER", "curl -sL -o /dev/null")
        .env("MCP_SPAN_STATE_DIR", state.path())
        .env("PATH", peers.path_with_node())
        .env("BRIDGE", BRIDGE)
        .env_remove("FORCE_ERA")
        .envs(run.forced.map(|era| ("FORCE_ERA", era.name())));
    if run.scenario.starts_with("auth/client-credentials") {
        // An extension, which is in no revision's list.
        command.arg("--force");
    }
    let mut suite = Process::start(&mut command);
    let status = suite.wait(SUITE_TIME);
    if !status.is_some_and(|status| status.success()) {
        return Err(format!("it ended with {status:?}:\n{}", suite.output()));
    }
    match passed_checks(&results) {
        0 => Err(format!("it checked nothing:\n{}", suite.output())),
        passed => Ok(passed),
    }
}

fn fresh_folder(run: &Run) -> PathBuf {
    let client = run.forced.map_or("", Forced::name);
    let scenario = run.scenario.replace('/', "-");
    let name = format!("conformance-{}-{scenario}-{client}", run.revision);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).expect("results of an earlier run can be removed");
    }
    folder
}

/// The suite writes one `checks.json` into a folder with the time in its name; below another one
/// if there is a slash in the scenario's.
fn passed_checks(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).expect("the suite has written its results");
    let paths = entries.map(|entry| entry.expect("the results can be listed").path());
    paths
        .map(|path| match path {
            folder if folder.is_dir() => passed_checks(&folder),
            file if file.ends_with("checks.json") => {
                passed_in(&std::fs::read_to_string(file).expect("the checks can be read"))
            }
            _ => 0,
        })
        .sum()
}

/// A few at a time, in any order.
fn play_all(peers: &Peers, runs: &[Run]) -> Vec<Result<usize, String>> {
    let waiting = Mutex::new((0..runs.len()).collect::<Vec<_>>());
    let outcomes = Mutex::new(vec![Err("it was not run".to_owned()); runs.len()]);
    let next = || waiting.lock().expect("a worker only takes a number here").pop();
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(index) = next() {
                    let outcome = play(peers, &runs[index]);
                    outcomes.lock().expect("a worker only notes here")[index] = outcome;
                }
            });
        }
    });
    outcomes.into_inner().expect("all workers are done")
}

/// Each client that the suite's scenarios are run with.
const COLUMNS: [(&str, &str, Option<Forced>); 4] = [
    ("2025-11-25, legacy client", LEGACY, None),
    ("2025-11-25, modern client", LEGACY, Some(Forced::Modern)),
    ("2026-07-28, modern client", MODERN, None),
    ("2026-07-28, legacy client", MODERN, Some(Forced::Legacy)),
];

fn table(runs: &[Run], outcomes: &[Result<usize, String>]) -> String {
    let mut text = String::from("| Scenario |");
    COLUMNS.iter().for_each(|(name, ..)| text.push_str(&format!(" {name} |")));
    text.push_str("\n|---|---|---|---|---|\n");
    let mut seen = BTreeSet::new();
    for scenario in runs.iter().map(|run| run.scenario).filter(|name| seen.insert(*name)) {
        text.push_str(&format!("| {scenario} |"));
        for (_, revision, forced) in COLUMNS {
            let is_it = |run: &Run| {
                // The two of 2025-03-26 stand with their era.
                let revision_fits =
                    run.revision == revision || run.revision < LEGACY && revision == LEGACY;
                run.scenario == scenario && revision_fits && run.forced == forced
            };
            let cell =
                match runs.iter().position(is_it).map(|index| (&runs[index], &outcomes[index])) {
                    None => String::new(),
                    Some((_, Ok(passed))) => format!("{passed} checks"),
                    Some((run, Err(_))) => {
                        run.not_yet.map_or("FAILED".into(), |why| format!("not yet: {why}"))
                    }
                };
            text.push_str(&format!(" {cell} |"));
        }
        text.push('\n');
    }
    for (scenario, reason) in NEVER {
        text.push_str(&format!("\n- {scenario} is not run: {reason}."));
    }
    text.push('\n');
    text
}

fn required(
    runs: &[Run],
    outcomes: &[Result<usize, String>],
    revision: &str,
    count: usize,
) -> String {
    let required = runs.iter().zip(outcomes).filter(|(run, _)| {
        let scenarios: &[&str] =
            if revision == LEGACY { &REQUIRED_OF_LEGACY } else { &REQUIRED_OF_MODERN };
        run.revision == revision && run.forced.is_none() && scenarios.contains(&run.scenario)
    });
    let passed = required.filter(|(_, outcome)| outcome.is_ok()).count();
    format!("{revision}: {passed} of {count} required scenarios pass.\n")
}

#[test]
fn the_scenarios_for_clients_pass_with_clients_of_both_eras() {
    assert!(
        Command::new("curl").arg("--version").output().is_ok_and(|output| output.status.success()),
        "curl plays the browser here and was not found: install it (Debian: apt install curl)"
    );
    let (peers, runs) = (Peers::find(), runs());
    let outcomes = play_all(&peers, &runs);
    let text = format!(
        "{}{}\n{}",
        required(&runs, &outcomes, LEGACY, REQUIRED_OF_LEGACY.len()),
        required(&runs, &outcomes, MODERN, REQUIRED_OF_MODERN.len()),
        table(&runs, &outcomes)
    );
    eprintln!("{text}");
    std::fs::write(peers.installed().join("conformance.md"), text).expect("it can be written");
    let fault = |(run, outcome): (&Run, &Result<usize, String>)| {
        let name = format!("{} ({}, {:?})", run.scenario, run.revision, run.forced);
        match (outcome, run.not_yet) {
            (Ok(_), Some(_)) => Some(format!("{name} passes now: take it off the list NOT_YET")),
            (Err(why), None) => Some(format!("{name}: {why}")),
            _ => None,
        }
    };
    let faults: Vec<String> = runs.iter().zip(&outcomes).filter_map(fault).collect();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// Nothing that the suite has, or requires, is missing here.
#[test]
fn every_scenario_for_clients_is_on_the_list() {
    let peers = Peers::find();
    let list = |arguments: &[&str]| {
        let mut printing = Process::start(suite(&peers).arg("list").args(arguments));
        assert!(printing.wait(SUITE_TIME).is_some(), "the suite lists its scenarios and ends");
        printing.stdout()
    };
    let sorted = |names: &[&'static str]| names.iter().copied().collect::<BTreeSet<_>>();
    for (revision, required) in
        [(LEGACY, &REQUIRED_OF_LEGACY[..]), (MODERN, &REQUIRED_OF_MODERN[..])]
    {
        let text = list(&["--requirements", revision]);
        let named: BTreeSet<&str> = client_scenarios(&text).into_iter().collect();
        assert_eq!(named, sorted(required), "required by {revision}");
    }
    let known = runs().iter().map(|run| run.scenario).chain(NEVER.map(|(name, _)| name)).collect();
    let text = list(&[]);
    let named: BTreeSet<&str> = client_scenarios(&text).into_iter().collect();
    assert_eq!(named, known);
}
