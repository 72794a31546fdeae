//! What a server holds, seen by the client that every other command uses: lists and round trips.

use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::door::late;
use super::finding::{Finding, counted};
use super::session::round_trips;
use mcp_span::client::{Client, Options, Spec};
use mcp_span::{Error, ErrorKind, limits};

/// Who the server is, and what it can do; of the answer to `initialize`, or of a modern server's.
pub(super) fn server(said: &Value, info: &Value) -> Finding {
    let word = |value: &Value| value.as_str().map(crate::report::plain).unwrap_or_default();
    let (name, version) = (word(&info["name"]), word(&info["version"]));
    let able: Vec<String> =
        said["capabilities"].as_object().into_iter().flatten().map(able).collect();
    let able = if able.is_empty() { "none".to_owned() } else { able.join(", ") };
    let capabilities = format!("capabilities: {able}");
    if name.is_empty() {
        return Finding::warning("server", "it does not say who it is")
            .meaning(
                "serverInfo with a name is required; strict clients refuse a server without it",
            )
            .next_step("The server has to name itself in the answer to the handshake")
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
    let name = crate::report::plain(name);
    if more.is_empty() { name } else { format!("{name} ({})", more.join(", ")) }
}

/// A failure of the client, in its own words.
pub(super) fn of_failure(check: &'static str, failure: &Error) -> Finding {
    let mut finding = Finding::failed(check, failure.to_string());
    let reason = failure.reason.as_deref();
    finding.details.extend(reason.into_iter().flat_map(str::lines).map(str::to_owned));
    finding.next_step.clone_from(&failure.hint);
    let meaning = match failure.kind {
        ErrorKind::Rpc => "The server answers, but with an error",
        _ => "The client that all commands of mcp-span use does not get through",
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
    let whole = limit.saturating_mul(limits::CHECK_HANDSHAKE);
    let connecting = Client::builder(spec).options(options);
    match connecting.connect_unless(sleep(whole)).await {
        Err(_) if begun.elapsed() >= whole => Err(late(whole)),
        connected => connected,
    }
}

/// How many items there are of each sort that the server offers; each list has `limit`.
pub(super) async fn count(client: &Client, limit: Duration) -> Finding {
    let sorts = [
        ("tools", "tools/list", "tools", "tool"),
        ("resources", "resources/list", "resources", "resource"),
        ("resources", "resources/templates/list", "resourceTemplates", "template"),
        ("prompts", "prompts/list", "prompts", "prompt"),
    ];
    let [tools, resources, templates, prompts] =
        sorts.map(|(capability, method, member, what)| async move {
            if client.has_capability(capability) {
                let listed = timeout(limit, client.pages(method, member)).await;
                let late = |_| Err(late(limit));
                Some((what, listed.unwrap_or_else(late)))
            } else {
                None
            }
        });
    let all = tokio::join!(tools, resources, templates, prompts);
    let all = [all.0, all.1, all.2, all.3];
    let mut counts = Vec::new();
    let mut failures = Vec::new();
    for (what, listed) in all.into_iter().flatten() {
        match listed {
            Ok(listed) => {
                let count = counted(listed.entries.len(), what);
                counts.push(match listed.pages {
                    0..=1 => count,
                    pages => format!("{count} on {pages} pages"),
                });
            }
            // Some servers offer resources, and know nothing of templates.
            Err(failure) if what == "template" && failure.code() == -32601 => {}
            Err(failure) => failures.push(format!("{what}s: {failure}")),
        }
    }
    let summary =
        if counts.is_empty() { "nothing is listed".to_owned() } else { counts.join(", ") };
    if failures.is_empty() {
        return Finding::ok("contents", summary);
    }
    Finding::failed("contents", format!("{summary}; not all can be listed"))
        .meaning("The server says that it offers these, but does not list them")
        .next_step("Look into the server's log")
        .details(failures)
}

/// A few pings, one after the other.
pub(super) async fn pings(client: &Client, limit: Duration) -> Finding {
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..limits::ROUND_TRIPS {
        let begun = Instant::now();
        let answered = timeout(limit, client.ping()).await;
        match answered.unwrap_or_else(|_| Err(late(limit))) {
            Ok(_) => times.push(begun.elapsed()),
            // It is an answer all the same.
            Err(failure) if failure.kind == ErrorKind::Rpc => times.push(begun.elapsed()),
            Err(failure) => return of_failure("round-trip", &failure),
        }
    }
    round_trips(times, "pings")
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
}
