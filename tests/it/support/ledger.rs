//! A server that keeps account of what it carried out, and fails in every way on the way there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::chance::Chance;
use super::hub::{acknowledged, session_of};
use super::{Feed, Reply, Request, Streams, polite, result};

/// One tool that looks, and one that must not be used twice.
const TOOLS: &str =
    r#"{"tools":[{"name":"look","annotations":{"readOnlyHint":true}},{"name":"pay"}]}"#;

/// What happened at the server, across its restarts.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    account: Mutex<Account>,
}

#[derive(Debug, Default)]
struct Account {
    /// How many times each marker was carried out.
    carried_out: HashMap<u64, u32>,
    session: u64,
    /// What is still to come after an event id.
    to_resume: HashMap<String, Vec<String>>,
    faults: u64,
}

impl Ledger {
    pub(crate) fn carried_out(&self, marker: u64) -> u32 {
        *self.lock().carried_out.get(&marker).unwrap_or(&0)
    }

    /// Sessions that were begun or thrown away, and calls that were mistreated.
    pub(crate) fn totals(&self) -> (u64, u64) {
        let account = self.lock();
        (account.session, account.faults)
    }

    /// Forgets all sessions, as a restart does.
    pub(crate) fn forget_sessions(&self) {
        self.lock().session += 1;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Account> {
        self.account.lock().expect("no panic under the lock")
    }

    /// The script of a server that writes into this ledger.
    pub(crate) fn script(
        self: &Arc<Self>,
        chance: &Arc<Chance>,
    ) -> impl Fn(&Request) -> Reply + Send + Sync + 'static {
        let (ledger, chance) = (Arc::clone(self), Arc::clone(chance));
        move |r: &Request| ledger.reply(r, &chance)
    }

    fn reply(&self, r: &Request, chance: &Chance) -> Reply {
        let what = r.what();
        if what == "initialize" {
            let mut account = self.lock();
            account.session += 1;
            let answer = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}"#;
            let session = format!("s{}", account.session);
            return Reply::json(result(r.id(), answer)).header("Mcp-Session-Id", &session);
        }
        let session = format!("s{}", self.lock().session);
        if r.header("mcp-session-id") != Some(&session) {
            return Reply::status(404, "text/plain", "unknown session");
        }
        match &*what {
            "GET" => self.resume(r),
            "tools/list" => Reply::json(result(r.id(), TOOLS)),
            "tools/call" => self.call(r, chance),
            _ => polite(r),
        }
    }

    fn call(&self, r: &Request, chance: &Chance) -> Reply {
        let marker = r.json()["params"]["arguments"]["marker"].as_u64().expect("a marker");
        let fate = chance.below(100);
        let mut account = self.lock();
        account.faults += u64::from(fate >= 60);
        // These turn the call away.
        if let 90..=94 = fate {
            return Reply::status(503, "", "").header("Retry-After", "0");
        }
        *account.carried_out.entry(marker).or_default() += 1;
        let answer = result(r.id(), &format!(r#"{{"marker":{marker}}}"#));
        let notes: Vec<String> = (0..chance.below(5)).map(|n| note(marker, n)).collect();
        let told = notes.iter().fold(Reply::sse(), Reply::event);
        match fate {
            0..=39 => Reply::json(answer),
            40..=64 => told.event(answer).end(),
            65..=69 => Reply::nothing().cut(),
            70..=74 => told.reset(),
            75..=79 => told.end(),
            80..=86 => {
                let mut rest = notes;
                rest.push(answer);
                let id = format!("e{marker}-{}", account.to_resume.len());
                account.to_resume.insert(id.clone(), rest);
                Reply::sse().chunk(format!("id: {id}\nretry: 100\ndata: \n\n")).end()
            }
            87..=89 => Reply::status(500, "text/plain", "after the fact"),
            95..=96 => Reply::status(200, "text/html", "<p>hello"),
            97 => Reply::nothing().hang(),
            _ => Reply::nothing().raw("HTTP/1.1 200 OK\r\nContent-Type: appl").cut(),
        }
    }

    /// The script of an HTTP+SSE server that writes into this ledger.
    pub(crate) fn hub_script(
        self: &Arc<Self>,
        chance: &Arc<Chance>,
    ) -> impl Fn(&Request, &Streams) -> Option<Reply> + Send + Sync + 'static {
        let (ledger, chance) = (Arc::clone(self), Arc::clone(chance));
        move |r: &Request, streams: &Streams| {
            let session = match session_of(r) {
                None if chance.percent(5) => return Some(Reply::status(500, "", "not yet")),
                None => {
                    ledger.lock().session += 1;
                    return None;
                }
                Some(session) if !streams.knows(session) => return None,
                Some(session) => session,
            };
            match &*r.what() {
                "tools/list" => {
                    streams.of(session).event(result(r.id(), TOOLS));
                    Some(acknowledged())
                }
                "tools/call" => Some(ledger.hub_call(r, &streams.of(session), &chance)),
                _ => None,
            }
        }
    }

    fn hub_call(&self, r: &Request, stream: &Feed, chance: &Chance) -> Reply {
        let marker = r.json()["params"]["arguments"]["marker"].as_u64().expect("a marker");
        let fate = chance.below(1000);
        let mut account = self.lock();
        account.faults += u64::from(fate >= 700);
        // These turn the call away.
        match fate {
            700..=749 => return Reply::status(413, "text/html", "<p>too large"),
            750..=799 => return Reply::status(503, "", "").header("Retry-After", "0"),
            _ => {}
        }
        *account.carried_out.entry(marker).or_default() += 1;
        if let 800..=849 = fate {
            return Reply::status(500, "text/plain", "after the fact");
        }
        if !matches!(fate, 850..=889) {
            for n in 0..chance.below(4) {
                stream.event(note(marker, n));
            }
            stream.event(result(r.id(), &format!(r#"{{"marker":{marker}}}"#)));
        }
        match fate {
            890..=929 => Reply::nothing().cut(),
            930..=969 => Reply::nothing().reset(),
            970..=995 => Reply::nothing().hang(),
            996 => {
                stream.end();
                acknowledged()
            }
            997 => {
                stream.cut();
                acknowledged()
            }
            _ => acknowledged(),
        }
    }

    fn resume(&self, r: &Request) -> Reply {
        let rest = r.header("last-event-id").and_then(|id| self.lock().to_resume.get(id).cloned());
        match rest {
            Some(rest) => rest.iter().fold(Reply::sse(), Reply::event).end(),
            None => Reply::status(405, "", ""),
        }
    }
}

fn note(marker: u64, n: u64) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/note","params":[{marker},{n}]}}"#)
}
