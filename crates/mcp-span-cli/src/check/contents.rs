//! What a server holds, seen by the client that every other command uses: lists and round trips.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::exchange::late;
use super::finding::{Finding, counted, ms};
use crate::report::plain;
use mcp_span::bridge::HiddenTools;
use mcp_span::client::{Client, Options, Spec};
use mcp_span::lenient::lenient;
use mcp_span::{Error, ErrorKind, limits};

/// Who the server is, and what it can do; of the answer to `initialize`, or of a modern server's.
pub(super) fn server(said: &Value, info: &Value) -> Finding {
    let word = |value: &Value| value.as_str().map(plain).unwrap_or_default();
    let (name, version) = (word(&info["name"]), word(&info["version"]));
    let able: Vec<String> =
        said["capabilities"].as_object().into_iter().flatten().map(able).collect();
    let able = if able.is_empty() { "none".to_owned() } else { able.join(", ") };
    let capabilities = format!("capabilities: {able}");
    if name.is_empty() {
        return Finding::warning("server", "no name")
            .meaning("serverInfo.name is required; strict clients refuse a server without it")
            .next_step("The server has to send serverInfo.name in the answer to `initialize`")
            .detail(capabilities);
    }
    let summary = format!("{name} {version}");
    Finding::ok("server", summary.trim_end()).detail(capabilities)
}

/// `tools (listChanged)`
fn able((name, more): (&String, &Value)) -> String {
    let more =
        more.as_object().into_iter().flatten().filter(|(_, value)| value.as_bool() == Some(true));
    let more: Vec<&str> = more.map(|(name, _)| name.as_str()).collect();
    let name = plain(name);
    if more.is_empty() { name } else { format!("{name} ({})", more.join(", ")) }
}

/// A failure of the client, in its own words.
pub(super) fn of_failure(check: &'static str, failure: &Error) -> Finding {
    let mut finding = Finding::failed(check, failure.to_string());
    let reason = failure.reason.as_deref();
    finding.details.extend(reason.into_iter().flat_map(str::lines).map(str::to_owned));
    finding.next_step.clone_from(&failure.hint);
    let meaning = match failure.kind {
        ErrorKind::Rpc => "The server answered with an error",
        _ => "The client that all commands of mcp-span use fails",
    };
    finding.meaning(meaning)
}

/// Connects as every other command does, but not for ever: a server that sends something now and
/// then, and never its answer, would keep a request's own limit from ending it.
pub(super) async fn connect(
    spec: Spec,
    options: Options,
    limit: Duration,
) -> Result<Client, Error> {
    let begun = Instant::now();
    let connecting = Client::builder(spec).options(options);
    match connecting.connect_unless(sleep(limit)).await {
        Err(_) if begun.elapsed() >= limit => Err(late(limit)),
        connected => connected,
    }
}

/// How many items there are of each sort that the server offers; each list has `limit`.
pub(super) async fn count(client: &Client, hidden: &HiddenTools, limit: Duration) -> Finding {
    let sorts = [
        ("tools", "tools/list", "tools", "tool"),
        ("resources", "resources/list", "resources", "resource"),
        ("resources", "resources/templates/list", "resourceTemplates", "template"),
        ("prompts", "prompts/list", "prompts", "prompt"),
    ];
    let (mut counts, mut failures) = (Vec::new(), Vec::new());
    let (mut faults, mut out_of_sight) = (Vec::new(), None);
    for (capability, method, member, what) in sorts {
        if !client.has_capability(capability) {
            continue;
        }
        let late = |_| Err(late(limit));
        let listed = timeout(limit, client.pages(method, member)).await.unwrap_or_else(late);
        match listed {
            Ok(listed) => {
                let count = counted(listed.entries.len(), what);
                counts.push(match listed.pages {
                    0..=1 => count,
                    pages => format!("{count} on {pages} pages"),
                });
                let entries = listed.entries.iter().map(|entry| lenient(entry.get()));
                if what == "tool" {
                    let tools: Vec<Value> = entries.collect();
                    faults = faults_of_tools(&tools);
                    out_of_sight = hidden_of(&tools, hidden);
                }
            }
            // Some servers offer resources, and know nothing of templates.
            Err(failure) if what == "template" && failure.code() == -32601 => {}
            Err(failure) => failures.push(format!("{what}s: {failure}")),
        }
    }
    let summary = if counts.is_empty() { "nothing listed".to_owned() } else { counts.join(", ") };
    let finding = if !failures.is_empty() {
        Finding::failed("contents", format!("{summary}; some lists failed"))
            .meaning("The server announces these capabilities, but does not list them")
            .next_step("Read the server's log")
    } else if !faults.is_empty() {
        Finding::warning("contents", format!("{summary}; some tools are invalid"))
            .meaning("Strict clients refuse such a tool, or the whole list with it")
            .next_step("Give each tool a unique name and an inputSchema of the type \"object\"")
    } else {
        Finding::ok("contents", summary)
    };
    finding.details(failures).details(faults).details(out_of_sight)
}

/// What strict clients would not take, one line for each tool.
fn faults_of_tools(tools: &[Value]) -> Vec<String> {
    let mut names = HashSet::new();
    let mut fault = |tool: &Value| {
        let Some(name) = tool["name"].as_str() else {
            return Some("a tool has no name".to_owned());
        };
        let shown = plain(name);
        match &tool["inputSchema"] {
            _ if !names.insert(name.to_owned()) => Some(format!("{shown}: listed twice")),
            Value::Null => Some(format!("{shown}: no inputSchema")),
            Value::Object(schema) if schema.get("type").is_some_and(|kind| kind == "object") => {
                None
            }
            _ => Some(format!("{shown}: inputSchema is not of the type \"object\"")),
        }
    };
    let mut faults: Vec<String> = tools.iter().filter_map(&mut fault).collect();
    if let Some(more) = faults.len().checked_sub(limits::CHECK_FAULTS).filter(|more| *more > 0) {
        faults.truncate(limits::CHECK_FAULTS);
        faults.push(format!("{more} more"));
    }
    faults
}

fn hidden_of(tools: &[Value], hidden: &HiddenTools) -> Option<String> {
    let names = tools.iter().filter_map(|tool| tool["name"].as_str());
    let count = names.filter(|name| hidden.pattern_hiding(name).is_some()).count();
    (count > 0).then(|| format!("hidden by --ignore-tool: {}", counted(count, "tool")))
}

/// A few questions, one after the other.
pub(super) async fn round_trips(client: &Client, question: &str, limit: Duration) -> Finding {
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..limits::ROUND_TRIPS {
        let begun = Instant::now();
        let answered = timeout(limit, client.request(question, Value::Null).raw()).await;
        match answered.unwrap_or_else(|_| Err(late(limit))) {
            Ok(_) => times.push(begun.elapsed()),
            // It is an answer all the same.
            Err(failure) if failure.kind == ErrorKind::Rpc => times.push(begun.elapsed()),
            Err(failure) => return of_failure("round-trip", &failure),
        }
    }
    measured(times, if question == "ping" { "pings" } else { "questions" })
}

fn measured(mut times: Vec<Duration>, what: &str) -> Finding {
    times.sort_unstable();
    let (Some(median), Some(most)) = (times.get(times.len() / 2).copied(), times.last().copied())
    else {
        return Finding::skipped("round-trip", "nothing was measured");
    };
    let summary = format!("median {}, slowest {} ({} {what})", ms(median), ms(most), times.len());
    let mut finding = if median > limits::SLOW_ROUND_TRIP {
        Finding::warning("round-trip", summary)
            .meaning("Every call takes at least this long")
            .next_step("Compare with the time of the connection: the rest is spent in the server")
    } else {
        Finding::ok("round-trip", summary)
    };
    finding.times = times;
    finding
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::finding::Status;
    use super::*;

    #[test]
    fn a_server_is_told_by_its_name_and_what_it_can_do() {
        let said = json!({
            "serverInfo": { "name": "s\u{1b}[2J", "version": "1" },
            "capabilities": { "tools": { "listChanged": true, "x": false }, "logging": {} },
        });
        let found = server(&said, &said["serverInfo"]);
        assert_eq!(found.summary, "s[2J 1");
        assert_eq!(found.details, ["capabilities: logging, tools (listChanged)"]);
        let nobody = server(&json!({}), &Value::Null);
        assert_eq!(
            (nobody.status, nobody.details[0].as_str()),
            (Status::Warning, "capabilities: none")
        );
    }

    #[test]
    fn tools_that_strict_clients_refuse_are_named() {
        let schema = json!({ "type": "object" });
        let tools = [
            json!({ "name": "good", "inputSchema": schema }),
            json!({ "name": "good", "inputSchema": schema }),
            json!({ "name": "bare" }),
            json!({ "name": "odd", "inputSchema": { "type": "string" } }),
            json!({ "title": "nameless", "inputSchema": schema }),
        ];
        let expected = [
            "good: listed twice",
            "bare: no inputSchema",
            "odd: inputSchema is not of the type \"object\"",
            "a tool has no name",
        ];
        assert_eq!(faults_of_tools(&tools), expected);
        assert!(faults_of_tools(&tools[..1]).is_empty());
        let many: Vec<Value> = (0..30).map(|n| json!({ "name": format!("t{n}") })).collect();
        assert_eq!(faults_of_tools(&many).last().unwrap(), "20 more");
        let hidden = HiddenTools::new(["g*"]);
        assert_eq!(hidden_of(&tools, &hidden).unwrap(), "hidden by --ignore-tool: 2 tools");
    }

    #[test]
    fn slow_servers_are_a_warning() {
        let of = |ms: &[u64]| {
            measured(ms.iter().map(|ms| Duration::from_millis(*ms)).collect(), "pings")
        };
        assert_eq!(of(&[30, 10, 20]).summary, "median 20 ms, slowest 30 ms (3 pings)");
        assert_eq!(of(&[30, 2000, 10]).status, Status::Ok, "one slow one is bad luck");
        assert_eq!(of(&[2000, 2000, 10]).status, Status::Warning);
        assert_eq!(of(&[]).status, Status::Skipped);
    }
}
