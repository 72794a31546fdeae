//! Judges what a client has seen at a server: every check that both can, against what it must be.

use serde_json::{Map, Value, json};

use crate::matrix_peers::{CLIENTS, Client, Era, SERVERS, STEPS, ServerKind};

/// The checks in the order in which they are made, each with a letter in the table.
pub(crate) const CHECKS: [&str; 6] =
    ["tools", "call", "progress", "elicitation", "list_changed", "cancellation"];
const LETTERS: [char; 6] = ['T', 'C', 'P', 'E', 'L', 'X'];

/// What each client saw at each server.
pub(crate) type Visits = Vec<Vec<Value>>;

pub(crate) struct Cell {
    /// As it stands in the table.
    pub(crate) shown: String,
    pub(crate) faults: Vec<String>,
}

pub(crate) fn judge(client: &Client, server: &ServerKind, visits: &Visits) -> Cell {
    let seen = &seen(client, server, visits)["bridged"];
    let place = format!("{} at {}", client.name, server.name);
    let mut cell = Cell { shown: String::new(), faults: Vec::new() };
    if !is_of(client.own_era(server), &seen["version"]) || seen.get("error").is_some() {
        cell.faults.push(format!("{place} is not connected: {seen}"));
    }
    let possible = server.features(client.upstream_era(server));
    for (check, letter) in CHECKS.into_iter().zip(LETTERS) {
        if !possible.contains(&check) {
            cell.shown.push('·');
        } else if is_right(check, client, server, visits) {
            cell.shown.push(letter);
        } else {
            cell.shown.push('✗');
            cell.faults.push(format!("{place}, {check}: {}", brief(&seen[check])));
        }
    }
    if client.is_translated(server) {
        cell.shown.push_str(" *translated*");
    }
    cell
}

fn is_of(era: Era, version: &Value) -> bool {
    match era {
        Era::Modern => version == "2026-07-28",
        // The hub has not got the newest one of its era.
        Era::Legacy => version == "2025-11-25" || version == "2025-06-18",
    }
}

fn is_right(check: &str, client: &Client, server: &ServerKind, visits: &Visits) -> bool {
    let got = &seen(client, server, visits)["bridged"][check];
    match check {
        "tools" => {
            let direct = tools_as_seen_directly(client, server, visits);
            let is_list = got.as_array().is_some_and(|tools| !tools.is_empty());
            let is_same = || {
                *got == direct
                    || client.is_translated(server) && without_tasks(got) == without_tasks(&direct)
            };
            is_list && is_same()
        }
        "call" | "cancellation" => *got == server.echoed(),
        "progress" => {
            let told = got["steps"].as_array().into_iter().flatten().filter_map(whole);
            told.eq(1..=STEPS) && got["text"].as_str().is_some_and(|text| !text.is_empty())
        }
        "elicitation" => got.as_str().is_some_and(|text| text.contains("Ada")),
        "list_changed" => *got == true,
        _ => false,
    }
}

/// Whether a tool can be a task is a matter of the legacy era, and some clients of the other drop it.
fn without_tasks(tools: &Value) -> Value {
    let mut tools = tools.clone();
    for tool in tools.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        tool.remove("execution");
    }
    tools
}

/// Python says 1.0.
fn whole(number: &Value) -> Option<u64> {
    let number = number.as_f64()?;
    (1..=STEPS).find(|&step| (number - step as f64).abs() < 0.1)
}

/// What the client was told directly; or one of its family that could connect, there or where the
/// same server has another transport; or anybody.
fn tools_as_seen_directly(client: &Client, server: &ServerKind, visits: &Visits) -> Value {
    let told = |other: &Client, server: &ServerKind| {
        let tools = &seen(other, server, visits)["direct"]["tools"];
        tools.is_array().then(|| tools.clone())
    };
    // Within a family the capabilities are the same, and these servers list their tools by them.
    let family = || CLIENTS.iter().filter(|other| other.family == client.family);
    let elsewhere = || SERVERS.iter().filter(|other| server.has_the_tools_of(other));
    told(client, server)
        .or_else(|| family().find_map(|other| told(other, server)))
        .or_else(|| elsewhere().find_map(|there| family().find_map(|other| told(other, there))))
        .or_else(|| {
            CLIENTS.iter().find_map(|other| told(other, server)).map(|tools| as_rust_has_it(&tools))
        })
        .unwrap_or_default()
}

/// The Rust SDK, which alone has no client for HTTP+SSE, keeps those members of a tool that it knows.
fn as_rust_has_it(tools: &Value) -> Value {
    const KNOWN: [&str; 8] = [
        "name",
        "title",
        "description",
        "inputSchema",
        "outputSchema",
        "annotations",
        "icons",
        "_meta",
    ];
    let trimmed = |tool: &Value| -> Map<String, Value> {
        let members = tool.as_object().into_iter().flatten();
        let known = members.filter(|(name, _)| KNOWN.contains(&name.as_str()));
        known.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    tools.as_array().into_iter().flatten().map(trimmed).map(Value::from).collect()
}

fn seen<'a>(client: &Client, server: &ServerKind, visits: &'a Visits) -> &'a Value {
    let row = CLIENTS.iter().position(|other| other.name == client.name);
    let column = SERVERS.iter().position(|other| other.name == server.name);
    let (row, column) = row.zip(column).expect("both are in the matrix");
    &visits[row][column]
}

fn brief(value: &Value) -> String {
    const SHOWN: usize = 600;
    json!(value).to_string().chars().take(SHOWN).collect()
}
