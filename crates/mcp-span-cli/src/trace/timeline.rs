//! Tells a trace to a person: one line an event, and what all of them come to. Pure.

use std::collections::{HashMap, hash_map};

use serde_json::value::RawValue;

use super::line::{Entry, Sort, Told, canonical, plain};
use super::summary::Summary;
use super::words::{Chunk, Exchange, Incident, duration, label, seconds};

/// What is to be shown; nothing in it means everything.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    pub(crate) id: Option<String>,
    pub(crate) method: Option<String>,
}

impl Filter {
    fn is_empty(&self) -> bool {
        self.id.is_none() && self.method.is_none()
    }

    fn wants(&self, id: Option<&str>, method: Option<&str>) -> bool {
        // An id is typed as it is written in JSON, or without the quotes of a string.
        let is_it = |wanted: &str, id: &str| {
            id.trim_matches('"') == wanted || canonical(wanted).as_deref() == Some(id)
        };
        self.id.as_deref().is_none_or(|wanted| id.is_some_and(|id| is_it(wanted, id)))
            && self.method.as_deref().is_none_or(|wanted| method == Some(wanted))
    }
}

/// Who says something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Client,
    Server,
}

/// A request without an answer so far.
#[derive(Debug)]
struct Asked {
    method: String,
    /// Of the tool, the prompt or the resource that it is about.
    name: Option<String>,
    at: i64,
    is_wanted: bool,
    is_cancelled: bool,
}

impl Asked {
    fn label(&self, id: Option<&str>) -> String {
        label(id, Some(&self.method), self.name.as_deref())
    }
}

/// A line for a person.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// When, and from whom to whom: as wide as that of any other.
    pub(crate) head: String,
    pub(crate) what: String,
}

/// What has been told so far.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    filter: Filter,
    start: Option<i64>,
    readable: usize,
    unreadable: usize,
    has_shown: bool,
    /// This run is between a client and the server; else it asks itself, as `mcp-span tools` does.
    has_client: bool,
    by_client: HashMap<String, Asked>,
    by_server: HashMap<String, Asked>,
    summary: Summary,
}

impl Timeline {
    pub(crate) fn new(filter: Filter) -> Self {
        Self { filter, ..Self::default() }
    }

    /// Whether there were more than `many` lines, and none of them of a trace.
    pub(crate) fn is_nonsense(&self, many: usize) -> bool {
        self.readable == 0 && self.unreadable >= many
    }

    /// What was to be shown, if nothing was.
    pub(crate) fn asked_in_vain(&self) -> Option<String> {
        let Filter { id, method } = &self.filter;
        let flags = [("--id", id), ("--method", method)].into_iter();
        let asked = flags.filter_map(|(flag, text)| Some(format!("{flag} {}", text.as_ref()?)));
        let asked = asked.collect::<Vec<_>>().join(" and ");
        (!asked.is_empty() && !self.has_shown).then_some(asked)
    }

    /// What a line of the trace says; nothing if that is of no interest.
    pub(crate) fn line(&mut self, line: &str) -> Vec<Shown> {
        if line.trim().is_empty() {
            return Vec::new();
        }
        let Some(entry) = Entry::read(line) else {
            self.unreadable += 1;
            return Vec::new();
        };
        self.readable += 1;
        let since = *self.start.get_or_insert(entry.at);
        let time = format!("{:+.3}", seconds(entry.at - since));
        let direction = plain(&entry.direction).replace("->", " → ");
        let all = self.tell(&entry);
        self.has_shown |= !all.is_empty();
        let head = format!("{time:>9}  {direction:<15}  ");
        all.into_iter().map(|what| Shown { head: head.clone(), what }).collect()
    }

    /// What all of it comes to.
    pub(crate) fn summary(mut self) -> String {
        self.end_run();
        self.summary.text(self.unreadable)
    }

    fn tell(&mut self, entry: &Entry<'_>) -> Vec<String> {
        match &*entry.kind {
            "STDIN" => {
                self.has_client = true;
                self.crossing(entry.data, Side::Client, entry.at)
            }
            "STDOUT" => self.crossing(entry.data, Side::Server, entry.at),
            "HTTP_REQ" => {
                let exchange: Exchange = entry.data();
                if let (false, Some(id), Some(method)) =
                    (self.has_client, exchange.id(), exchange.rpc_method())
                {
                    self.asks(Side::Client, id, method, exchange.name(), entry.at);
                }
                self.exchange(&exchange, exchange.request())
            }
            "HTTP_RES" => {
                let exchange: Exchange = entry.data();
                self.exchange(&exchange, exchange.answer())
            }
            "HTTP_BODY" | "CHILD_STDOUT" => self.server_says(entry.data, entry.at),
            // The same line was told when the client sent it.
            "CHILD_STDIN" if self.has_client => Vec::new(),
            "CHILD_STDIN" => self.crossing(entry.data, Side::Client, entry.at),
            "SSE_CHUNK" => self.event(&entry.data(), entry.at),
            kind => {
                let incident: Incident = entry.data();
                let is_shown = match incident.is_retry() {
                    true => self.wants_try(&incident),
                    false => self.concerns(),
                };
                match kind {
                    "START" => self.end_run(),
                    "RECOVERY" if is_shown => self.summary.recovery(&incident.sort()),
                    _ => {}
                }
                if is_shown { vec![incident.words(kind)] } else { Vec::new() }
            }
        }
    }

    /// Whether what befalls all is to be shown: it befalls somebody who is.
    fn concerns(&self) -> bool {
        self.filter.is_empty() || self.by_client.values().any(|asked| asked.is_wanted)
    }

    /// Whether the message that was tried again is to be shown. The stream is nobody's.
    fn wants_try(&self, incident: &Incident) -> bool {
        self.filter.wants(incident.id().as_deref(), incident.rpc_method().as_deref())
    }

    /// Messages of `from` that have reached the other side, or are about to.
    fn crossing(&mut self, data: &RawValue, from: Side, at: i64) -> Vec<String> {
        Told::all(data).iter().filter_map(|told| self.message(told, from, at)).collect()
    }

    /// Messages that have come from the server. They are on their way, if there is a client: then
    /// they are shown, and change nothing.
    fn server_says(&mut self, data: &RawValue, at: i64) -> Vec<String> {
        if !self.has_client {
            return self.crossing(data, Side::Server, at);
        }
        Told::all(data).iter().filter_map(|told| self.describe(told)).collect()
    }

    /// A request of `from`; the same one may be sent again. Whether it is to be shown.
    fn asks(
        &mut self,
        from: Side,
        id: String,
        method: String,
        name: Option<String>,
        at: i64,
    ) -> bool {
        let is_wanted = self.filter.wants(Some(&id), Some(&method));
        let asked = Asked { method, name, at, is_wanted, is_cancelled: false };
        let all = if from == Side::Client { &mut self.by_client } else { &mut self.by_server };
        if let hash_map::Entry::Vacant(place) = all.entry(id) {
            place.insert(asked);
            self.summary.requests += usize::from(is_wanted && from == Side::Client);
        }
        is_wanted
    }

    fn message(&mut self, told: &Told, from: Side, at: i64) -> Option<String> {
        let what = self.describe(told);
        if let (Sort::Request, Some(id), Some(method)) = (told.sort, &told.id, &told.method) {
            let is_wanted = self.asks(from, id.clone(), method.clone(), told.name.clone(), at);
            return what.filter(|_| is_wanted);
        }
        let (asks, answers) = match from {
            Side::Client => (&mut self.by_client, &mut self.by_server),
            Side::Server => (&mut self.by_server, &mut self.by_client),
        };
        if let Some(asked) = told.cancels.as_ref().and_then(|id| asks.get_mut(id)) {
            asked.is_cancelled = true;
        }
        let is_answer = matches!(told.sort, Sort::Answer | Sort::Error);
        let asked = told.id.as_ref().filter(|_| is_answer).and_then(|id| answers.remove(id));
        let Some(asked) = asked else { return what };
        let took = at - asked.at;
        if asked.is_wanted && from == Side::Server {
            let label = asked.label(told.id.as_deref());
            self.summary.answered(told.sort == Sort::Error, took, label);
        }
        what.map(|what| format!("{what}, after {}", duration(took)))
    }

    fn describe(&self, told: &Told) -> Option<String> {
        let id = told.id.as_deref().or(told.cancels.as_deref());
        let asked = id.and_then(|id| self.by_client.get(id).or_else(|| self.by_server.get(id)));
        let is_answer = matches!(told.sort, Sort::Answer | Sort::Error);
        let related = asked.filter(|_| is_answer || told.cancels.is_some());
        let method = told.method.as_deref();
        let of = related.map(|asked| asked.method.as_str());
        if !self.filter.wants(id, of.or(method)) {
            return None;
        }
        let of = || related.map_or_else(|| label(id, None, None), |asked| asked.label(id));
        let size = told.size.map_or(String::new(), |size| format!(" ({size} bytes)"));
        let what = match told.sort {
            Sort::Request => label(id, method, told.name.as_deref()),
            Sort::Notification if told.cancels.is_some() => {
                format!("{} of {}", method.unwrap_or_default(), of())
            }
            Sort::Notification => label(None, method, told.name.as_deref()),
            Sort::Answer => format!("answer to {}", of()),
            Sort::Error => {
                let error = told.error.as_deref().unwrap_or("without more");
                match id {
                    Some(_) => format!("error to {}: {error}", of()),
                    // The sender could not read what it is about.
                    None => format!("error without an id: {error}"),
                }
            }
            Sort::Other => match told.text.as_deref() {
                Some(text) if text.trim().is_empty() => "no message: an empty text".to_owned(),
                text => format!("no message: {}", text.unwrap_or("something else")),
            },
        };
        Some(what + &size)
    }

    fn exchange(&self, exchange: &Exchange, what: String) -> Vec<String> {
        let (id, rpc) = (exchange.id(), exchange.rpc_method());
        let asked = id.as_ref().and_then(|id| self.by_client.get(id));
        let method = rpc.or(asked.map(|asked| asked.method.clone()));
        let is_wanted = self.filter.wants(id.as_deref(), method.as_deref());
        if is_wanted { vec![what] } else { Vec::new() }
    }

    fn event(&mut self, data: &Chunk, at: i64) -> Vec<String> {
        let name = data.event.as_deref().filter(|name| *name != "message").map(plain);
        let is_empty = |content: &RawValue| {
            serde_json::from_str::<&str>(content.get()).is_ok_and(|text| text.trim().is_empty())
        };
        let Some(content) = data.data.as_deref().filter(|content| !is_empty(content)) else {
            let what = "an event without data".to_owned();
            return if self.filter.is_empty() { vec![what] } else { Vec::new() };
        };
        if let (Some("endpoint"), Ok(url)) = (name.as_deref(), serde_json::from_str(content.get()))
        {
            let what = format!("the address for messages: {}", plain(url));
            return if self.filter.is_empty() { vec![what] } else { Vec::new() };
        }
        let name = name.map_or("event".to_owned(), |name| format!("event '{name}'"));
        self.server_says(content, at).into_iter().map(|what| format!("{name}: {what}")).collect()
    }

    /// What a run has left open stays so.
    fn end_run(&mut self) {
        self.has_client = false;
        self.by_server.clear();
        let mut open: Vec<(String, Asked)> = self.by_client.drain().collect();
        open.sort_unstable_by_key(|(_, asked)| asked.at);
        for (id, asked) in open.into_iter().filter(|(_, asked)| asked.is_wanted) {
            let at = seconds(asked.at - self.start.unwrap_or_default());
            let note = if asked.is_cancelled { ", cancelled by the client" } else { "" };
            let label = asked.label(Some(&id));
            self.summary.open(asked.is_cancelled, format!("{label}, asked at {at:+.3}{note}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trace of lines `second type data`.
    fn tell(filter: Filter, lines: &[&str]) -> (String, String) {
        let mut timeline = Timeline::new(filter);
        let mut told = String::new();
        for line in lines {
            let mut parts = line.splitn(3, ' ');
            let (at, kind, data) = (parts.next().unwrap(), parts.next().unwrap(), parts.next());
            let shown = timeline.line(&format!(
                r#"{{"timestamp":"2026-11-15T14:05:{at}Z","direction":"a->b","type":"{kind}","data":{}}}"#,
                data.unwrap()
            ));
            told.extend(shown.into_iter().map(|Shown { head, what }| format!("{head}{what}\n")));
        }
        (told, timeline.summary())
    }

    const TALK: [&str; 13] = [
        r#"00.000 START {"version":"1.2.3","system":"linux"}"#,
        r#"00.001 STDIN {"id":1,"method":"initialize"}"#,
        r#"00.002 HTTP_REQ {"method":"POST","url":"http://h/mcp","size":9,"id":1,"rpcMethod":"initialize"}"#,
        r#"00.100 HTTP_RES {"status":200,"headers":{"content-type":"application/json"},"ms":98.5,"id":1,"rpcMethod":"initialize"}"#,
        r#"00.101 HTTP_BODY {"id":1,"result":{}}"#,
        r#"00.102 STDOUT {"id":1,"result":{}}"#,
        r#"01.000 STDIN {"id":"x","method":"tools/call","params":{"name":"add"}}"#,
        r#"01.100 RECOVERY {"what":"session-lost","why":"HTTP 404"}"#,
        r#"02.000 STDIN {"id":2,"method":"tools/list"}"#,
        r#"02.100 SSE_CHUNK {"data":{"id":"x","error":{"code":-32601,"message":"no"}}}"#,
        r#"02.500 STDOUT {"id":"x","error":{"code":-32601,"message":"no"}}"#,
        r#"03.000 STDOUT {"id":"s","method":"roots/list"}"#,
        r#"03.250 STDIN {"id":"s","result":{}}"#,
    ];

    #[test]
    fn what_is_empty_or_about_nobody_is_told_as_such() {
        let (told, _) = tell(
            Filter::default(),
            &[
                r#"00.000 SSE_CHUNK {"data":""}"#,
                r#"00.000 HTTP_BODY """#,
                r#"00.000 STDOUT {"id":null,"error":{"code":-32700,"message":"Parse error"}}"#,
            ],
        );
        let ends: Vec<&str> = told.lines().map(|line| &line[line.len().min(30)..]).collect();
        let expected = [
            "an event without data",
            "no message: an empty text",
            "error without an id: -32700 Parse error",
        ];
        assert_eq!(ends, expected, "{told}");
    }

    #[test]
    fn tries_of_others_and_of_the_stream_are_not_those_of_a_request() {
        let lines = [
            r#"00.000 STDIN {"id":3,"method":"ping"}"#,
            r#"00.001 RECOVERY {"what":"server-away"}"#,
            r#"00.002 RECOVERY {"what":"retry","number":1,"method":"GET"}"#,
            r#"00.003 RECOVERY {"what":"retry","number":1,"method":"POST","id":3,"rpcMethod":"ping"}"#,
            r#"00.004 RECOVERY {"what":"retry","number":0,"method":"POST","id":4,"rpcMethod":"a"}"#,
        ];
        let id = |id: &str| Filter { id: Some(id.to_owned()), ..Filter::default() };
        let (told, summary) = tell(id("3"), &lines);
        assert!(told.contains("cannot be reached") && told.contains("retry 1 of ping #3"));
        assert!(!told.contains("GET") && !told.contains("#4"), "{told}");
        assert!(summary.contains("Recoveries: server away 1, retry 1\n"), "{summary}");
        let mut timeline = Timeline::new(id("99"));
        assert_eq!(timeline.line(""), []);
        assert_eq!(timeline.asked_in_vain().as_deref(), Some("--id 99"));
        assert_eq!(Timeline::new(Filter::default()).asked_in_vain(), None);
    }

    #[test]
    fn a_conversation_is_told_in_words() {
        let (told, summary) = tell(Filter::default(), &TALK);
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(lines[0], "   +0.000  a → b            mcp-span 1.2.3 starts (linux)");
        assert!(lines[2].ends_with("POST http://h/mcp initialize #1, 9 bytes"), "{told}");
        assert!(
            lines[3].ends_with("200 application/json to initialize #1, after 98.5 ms"),
            "{told}"
        );
        assert!(
            lines[5].ends_with("+0.102  a → b            answer to initialize #1, after 101.0 ms")
        );
        assert!(lines[7].ends_with("** the server has lost the session: HTTP 404"), "{told}");
        assert!(lines[9].ends_with("event: error to tools/call add #\"x\": -32601 no"), "{told}");
        assert!(
            lines[10].ends_with("error to tools/call add #\"x\": -32601 no, after 1.50 s"),
            "{told}"
        );
        assert!(lines[12].ends_with("answer to roots/list #\"s\", after 250.0 ms"), "{told}");
        assert_eq!(
            summary,
            "\nNever answered:\n  tools/list #2, asked at +2.000\n\n\
             3 requests: 1 answered, 1 with an error, 1 never answered\n\
             Slowest: tools/call add #\"x\" 1.50 s, initialize #1 101.0 ms\n\
             Recoveries: session lost 1\n"
        );
    }

    #[test]
    fn a_run_without_a_client_asks_itself() {
        let (told, summary) = tell(
            Filter::default(),
            &[
                r#"00.000 START {}"#,
                r#"00.001 CHILD_STDIN {"id":1,"method":"initialize"}"#,
                r#"00.002 CHILD_STDOUT {"id":1,"result":{}}"#,
                r#"01.000 START {}"#,
                r#"01.001 HTTP_REQ {"method":"POST","url":"http://h/","id":1,"rpcMethod":"tools/call","name":"add"}"#,
                r#"01.002 HTTP_REQ {"method":"POST","url":"http://h/","id":1,"rpcMethod":"tools/call","name":"add"}"#,
                r#"01.500 SSE_CHUNK {"data":{"id":1,"error":{"code":-32601,"message":"no"}}}"#,
                r#"01.600 HTTP_REQ {"method":"POST","url":"http://h/","id":2,"rpcMethod":"tools/list"}"#,
                r#"02.600 HTTP_BODY {"id":2,"result":{}}"#,
            ],
        );
        assert!(told.contains("initialize #1\n"), "{told}");
        assert!(told.contains("answer to initialize #1, after 1.0 ms\n"), "{told}");
        assert!(told.contains("event: error to tools/call add #1: -32601 no, after 499.0 ms"));
        assert!(told.contains("answer to tools/list #2, after 1.00 s"), "{told}");
        assert!(summary.contains("3 requests: 2 answered, 1 with an error\n"), "{summary}");
        assert!(summary.contains("Slowest: tools/list #2 1.00 s"), "{summary}");
    }

    #[test]
    fn filters_show_what_belongs_to_a_request_and_what_befell_it() {
        let filter = |id: Option<&str>, method: Option<&str>| Filter {
            id: id.map(str::to_owned),
            method: method.map(str::to_owned),
        };
        for filter in [filter(Some("x"), None), filter(None, Some("tools/call"))] {
            let (told, summary) = tell(filter, &TALK);
            assert_eq!(told.lines().count(), 4, "{told}");
            assert!(told.contains("lost the session") && !told.contains("initialize"), "{told}");
            assert!(summary.contains("1 request: 0 answered, 1 with an error\n"), "{summary}");
        }
        let (told, _) = tell(filter(Some("1"), None), &TALK);
        assert_eq!(told.lines().count(), 5, "{told}");
        let (told, summary) = tell(filter(Some("nobody"), None), &TALK);
        assert!(told.is_empty() && summary.contains("0 requests"), "{told}{summary}");
    }

    #[test]
    fn an_id_may_be_used_again_by_a_later_run_and_cancelled_is_not_unanswered() {
        let (_, summary) = tell(
            Filter::default(),
            &[
                r#"00.0 STDIN {"id":1,"method":"a"}"#,
                r#"01.0 START {}"#,
                r#"02.0 STDIN {"id":1,"method":"b"}"#,
                r#"03.0 STDIN {"method":"notifications/cancelled","params":{"requestId":1}}"#,
            ],
        );
        assert!(summary.contains("a #1, asked at +0.000\n"), "{summary}");
        assert!(summary.contains("b #1, asked at +2.000, cancelled by the client"), "{summary}");
        assert!(
            summary.contains("2 requests: 0 answered, 1 cancelled, 1 never answered"),
            "{summary}"
        );
    }

    #[test]
    fn lines_that_are_none_are_counted() {
        let mut timeline = Timeline::default();
        assert!(timeline.is_nonsense(0));
        for line in ["garbage", "{}", "", "{\"timestamp\":\"x\"}"] {
            assert_eq!(timeline.line(line), []);
        }
        assert!(timeline.is_nonsense(3) && !timeline.is_nonsense(4));
        timeline.line(r#"{"timestamp":"2026-11-15T14:05:00Z","direction":"","type":"","data":7}"#);
        assert!(!timeline.is_nonsense(0));
        assert!(timeline.summary().ends_with("3 lines could not be read\n"));
    }
}
