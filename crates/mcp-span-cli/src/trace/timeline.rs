//! Follows a trace: which events to show, which request they belong to, and how that ended. Pure.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use mcp_span::message::Json;

use super::line::{Line, Message, MessageKind, Subject, canonical, plain, text};
use super::summary::Summary;
use super::words;

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

    fn wants(&self, subject: &Subject) -> bool {
        // An id is typed as it is written in JSON, or without the quotes of a string.
        let is_it = |wanted: &str, id: &str| {
            id.trim_matches('"') == wanted || canonical(wanted).as_deref() == Some(id)
        };
        let Self { id, method } = self;
        id.as_ref().is_none_or(|wanted| subject.id.as_ref().is_some_and(|id| is_it(wanted, id)))
            && (method.is_none() || *method == subject.method)
    }
}

/// The sender of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Side {
    Client,
    Server,
}

impl Side {
    fn other(self) -> Self {
        if self == Self::Client { Self::Server } else { Self::Client }
    }
}

/// A request without an answer so far.
#[derive(Debug)]
struct Request {
    subject: Subject,
    at: f64,
    is_cancelled: bool,
    /// When its exchange has failed, in a run without a client: there will be no answer.
    failed_at: Option<f64>,
}

/// Something to show.
pub(crate) struct Event<'a> {
    /// In seconds since the first line.
    pub(crate) elapsed: f64,
    pub(crate) subject: Subject,
    pub(crate) text: String,
    /// In seconds, if it answers a request.
    pub(crate) took: Option<f64>,
    /// A failure, or the end of one.
    pub(crate) is_notable: bool,
    pub(crate) data: Json<'a>,
}

/// What is known after the lines so far.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    filter: Filter,
    start: Option<f64>,
    readable: usize,
    unreadable: usize,
    has_shown: bool,
    /// The run is a bridge's; else the requests are its own, as those of `mcp-span tools`.
    has_client: bool,
    /// By the asker and the id.
    open: HashMap<(Side, String), Request>,
    summary: Summary,
}

impl Timeline {
    pub(crate) fn new(filter: Filter) -> Self {
        Self { filter, ..Self::default() }
    }

    /// Whether there were at least so many lines, and none of them of a trace.
    pub(crate) fn is_no_trace(&self, lines: usize) -> bool {
        self.readable == 0 && self.unreadable >= lines
    }

    /// The filter, if nothing was shown because of it.
    pub(crate) fn unmatched_filter(&self) -> Option<String> {
        let Filter { id, method } = &self.filter;
        let flags = [("--id", id), ("--method", method)].into_iter();
        let flags = flags.filter_map(|(flag, text)| Some(format!("{flag} {}", text.as_ref()?)));
        let flags = flags.collect::<Vec<_>>().join(" and ");
        (!flags.is_empty() && !self.has_shown).then_some(flags)
    }

    /// Reads a line; `None` if it is none of a trace.
    pub(crate) fn read<'a>(&mut self, text: &'a str) -> Option<Line<'a>> {
        let line = Line::parse(text);
        self.readable += usize::from(line.is_some());
        self.unreadable += usize::from(line.is_none() && !text.trim().is_empty());
        line
    }

    /// The events of a line that are to be shown.
    pub(crate) fn events<'a>(&mut self, line: &Line<'a>) -> Vec<Event<'a>> {
        self.start.get_or_insert(line.at);
        let events = match &*line.kind {
            // The same line came from the client.
            "CHILD_STDIN" if self.has_client => Vec::new(),
            kind @ ("STDIN" | "CHILD_STDIN") => {
                self.has_client = kind == "STDIN";
                self.messages(line.data, Side::Client, line)
            }
            "STDOUT" | "HTTP_BODY" | "CHILD_STDOUT" => self.messages(line.data, Side::Server, line),
            "SSE_CHUNK" => self.stream_event(line),
            kind => self.other(kind, line).into_iter().collect(),
        };
        self.has_shown |= !events.is_empty();
        events
    }

    /// Counts, what was never answered, the slowest, and recoveries.
    pub(crate) fn summary(mut self) -> Vec<(&'static str, String)> {
        self.end_run();
        self.summary.lines(self.unreadable)
    }

    /// One message of `from`, or several.
    fn messages<'a>(&mut self, data: Json<'a>, from: Side, line: &Line<'a>) -> Vec<Event<'a>> {
        match data.elements() {
            Some(batch) => batch.filter_map(|one| self.message(one, from, line)).collect(),
            None => self.message(data, from, line).into_iter().collect(),
        }
    }

    fn message<'a>(&mut self, data: Json<'a>, from: Side, line: &Line<'a>) -> Option<Event<'a>> {
        // What is on its way from or to a client is seen there once more, and counted there.
        let is_counted = !self.has_client || matches!(&*line.kind, "STDIN" | "STDOUT");
        let message = Message::parse(data);
        let asker = match message.kind {
            MessageKind::Cancellation => Some(from),
            MessageKind::Response | MessageKind::Error(_) => Some(from.other()),
            _ => None,
        };
        // The request that it answers or cancels.
        let key = asker.zip(message.subject.id.clone());
        let request = key.as_ref().and_then(|key| self.open.get_mut(key));
        let known = request.as_ref().map(|request| request.subject.clone());
        let text = words::message(&message, known.as_ref());
        let subject = known.unwrap_or(message.subject);
        let is_error = matches!(message.kind, MessageKind::Error(_));
        let mut took = None;
        match (&message.kind, request, key) {
            _ if !is_counted => {}
            (MessageKind::Request, ..) => self.ask(from, &subject, line.at),
            (MessageKind::Cancellation, Some(request), _) => request.is_cancelled = true,
            (_, Some(request), Some(key)) => {
                took = Some(line.at - request.at);
                if let Some(request) = self.open.remove(&key).filter(|_| from == Side::Server) {
                    self.answered(&request, line.at, is_error);
                }
            }
            _ => {}
        }
        let after = took.map(|took| format!(", after {}", words::in_words(took)));
        let text = text + &after.unwrap_or_default();
        let event = Event { took, is_notable: is_error, ..self.event(subject, text, data, line) };
        self.filter.wants(&event.subject).then_some(event)
    }

    /// Notes a request; the same one may be sent again.
    fn ask(&mut self, from: Side, subject: &Subject, at: f64) {
        let Some(id) = &subject.id else { return };
        if let Entry::Vacant(place) = self.open.entry((from, id.clone())) {
            let subject = subject.clone();
            place.insert(Request { subject, at, is_cancelled: false, failed_at: None });
        }
    }

    /// A request of the client has an answer.
    fn answered(&mut self, request: &Request, at: f64, is_error: bool) {
        if self.filter.wants(&request.subject) {
            self.summary.answered(is_error, at - request.at, request.subject.to_string());
        }
    }

    /// An event of a stream: mostly a message.
    fn stream_event<'a>(&mut self, line: &Line<'a>) -> Vec<Event<'a>> {
        let is_empty =
            |content: &Json<'_>| content.text().is_some_and(|text| text.trim().is_empty());
        let content = line.data.get(&["data"]).filter(|content| !is_empty(content));
        let name = text(line.data, &["event"]).filter(|name| name != "message");
        let what = match (content, content.and_then(Json::text), name) {
            (None, ..) => "an event without data".to_owned(),
            (_, Some(url), Some(name)) if name == "endpoint" => {
                format!("endpoint for messages: {}", plain(&url))
            }
            (Some(content), _, name) => {
                let name = name.map_or("event".to_owned(), |name| format!("event '{name}'"));
                let mut events = self.messages(content, Side::Server, line);
                events.iter_mut().for_each(|event| event.text = format!("{name}: {}", event.text));
                return events;
            }
        };
        let subject = Subject::default();
        let is_shown = self.filter.wants(&subject);
        is_shown.then(|| self.event(subject, what, line.data, line)).into_iter().collect()
    }

    /// What is no message: an HTTP exchange, or something that happens to the bridge.
    fn other<'a>(&mut self, kind: &str, line: &Line<'a>) -> Option<Event<'a>> {
        let subject = Subject::of_exchange(line.data).unwrap_or_default();
        let recovery = words::recovery_name(line.data);
        let is_shown = match (kind, &*recovery) {
            ("HTTP_REQ" | "HTTP_RES", _) | (_, "retry") => self.filter.wants(&subject),
            // What happens to the bridge concerns the requests that are open.
            _ => self.filter.is_empty() || self.requests().any(|asked| self.filter.wants(asked)),
        };
        let is_notable = words::is_notable(kind, line.data);
        match kind {
            "START" => self.end_run(),
            "RECOVERY" if is_shown => self.summary.recovery(&recovery),
            "HTTP_REQ" if !self.has_client && subject.method.is_some() => {
                self.ask(Side::Client, &subject, line.at);
            }
            _ => {}
        }
        if let ("HTTP_REQ" | "HTTP_RES", false, Some(id)) = (kind, self.has_client, &subject.id)
            && let Some(request) = self.open.get_mut(&(Side::Client, id.clone()))
        {
            request.failed_at = is_notable.then_some(line.at);
        }
        let text = words::event(kind, line.data);
        let event = Event { is_notable, ..self.event(subject, text, line.data, line) };
        is_shown.then_some(event)
    }

    fn event<'a>(
        &self,
        subject: Subject,
        text: String,
        data: Json<'a>,
        line: &Line<'_>,
    ) -> Event<'a> {
        let elapsed = line.at - self.start.unwrap_or(line.at);
        Event { elapsed, subject, text, took: None, is_notable: false, data }
    }

    /// Requests of the client without an answer.
    fn requests(&self) -> impl Iterator<Item = &Subject> {
        let open = self.open.iter().filter(|((side, _), _)| *side == Side::Client);
        open.map(|(_, asked)| &asked.subject)
    }

    /// What a run leaves open is not answered by the next.
    fn end_run(&mut self) {
        self.has_client = false;
        let open = self.open.drain().filter(|((side, _), _)| *side == Side::Client);
        let mut open: Vec<Request> = open.map(|(_, asked)| asked).collect();
        open.sort_unstable_by(|a, b| a.at.total_cmp(&b.at));
        for request in open {
            match request.failed_at {
                Some(at) => self.answered(&request, at, true),
                None if self.filter.wants(&request.subject) => {
                    let at = request.at - self.start.unwrap_or_default();
                    let note = if request.is_cancelled { ", cancelled by the client" } else { "" };
                    let line = format!("{}, asked at {at:+.3}{note}", request.subject);
                    self.summary.open(request.is_cancelled, line);
                }
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trace of lines `second type data`.
    fn show(filter: Filter, lines: &[&str]) -> (String, String) {
        let mut timeline = Timeline::new(filter);
        let mut shown = String::new();
        for line in lines {
            let mut parts = line.splitn(3, ' ');
            let (at, kind, data) = (parts.next().unwrap(), parts.next().unwrap(), parts.next());
            let line = format!(
                r#"{{"timestamp":"2026-11-15T14:05:{at}Z","direction":"a->b","type":"{kind}","data":{}}}"#,
                data.unwrap()
            );
            let line = timeline.read(&line).unwrap();
            let events = timeline.events(&line);
            shown.extend(events.iter().map(|e| format!("{:+.3} {}\n", e.elapsed, e.text)));
        }
        let summary = timeline.summary();
        (shown, summary.into_iter().map(|(head, text)| format!("{head}{text}\n")).collect())
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
    fn what_is_empty_or_about_no_request_is_shown_as_such() {
        let (shown, _) = show(
            Filter::default(),
            &[
                r#"00.000 SSE_CHUNK {"data":""}"#,
                r#"00.000 HTTP_BODY """#,
                r#"00.000 STDOUT {"id":null,"error":{"code":-32700,"message":"Parse error"}}"#,
            ],
        );
        let ends: Vec<&str> = shown.lines().map(|line| line.split_once(' ').unwrap().1).collect();
        let expected = [
            "an event without data",
            "not a message: empty",
            "error without an id: -32700 Parse error",
        ];
        assert_eq!(ends, expected, "{shown}");
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
        let (shown, summary) = show(id("3"), &lines);
        assert!(shown.contains("cannot be reached") && shown.contains("retry 1 of ping #3"));
        assert!(!shown.contains("GET") && !shown.contains("#4"), "{shown}");
        assert!(summary.contains("Recoveries: server away 1, retry 1\n"), "{summary}");
        let mut timeline = Timeline::new(id("99"));
        assert!(timeline.read("").is_none());
        assert_eq!(timeline.unmatched_filter().as_deref(), Some("--id 99"));
        assert_eq!(Timeline::new(Filter::default()).unmatched_filter(), None);
    }

    #[test]
    fn a_conversation_is_shown_in_words() {
        let (shown, summary) = show(Filter::default(), &TALK);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "+0.000 mcp-span 1.2.3 starts (linux)");
        assert!(lines[2].ends_with("POST http://h/mcp initialize #1, 9 bytes"), "{shown}");
        assert!(
            lines[3].ends_with("HTTP 200 application/json to initialize #1, after 98.5 ms"),
            "{shown}"
        );
        assert!(lines[5].ends_with("+0.102 answer to initialize #1, after 101.0 ms"));
        assert!(lines[7].ends_with("** the server has lost the session: HTTP 404"), "{shown}");
        assert!(lines[9].ends_with("event: error to tools/call add #\"x\": -32601 no"), "{shown}");
        assert!(
            lines[10].ends_with("error to tools/call add #\"x\": -32601 no, after 1.50 s"),
            "{shown}"
        );
        assert!(lines[12].ends_with("answer to roots/list #\"s\", after 250.0 ms"), "{shown}");
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
        let (shown, summary) = show(
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
        assert!(shown.contains("initialize #1\n"), "{shown}");
        assert!(shown.contains("answer to initialize #1, after 1.0 ms\n"), "{shown}");
        assert!(shown.contains("event: error to tools/call add #1: -32601 no, after 499.0 ms"));
        assert!(shown.contains("answer to tools/list #2, after 1.00 s"), "{shown}");
        assert!(summary.contains("3 requests: 2 answered, 1 with an error\n"), "{summary}");
        assert!(summary.contains("Slowest: tools/list #2 1.00 s"), "{summary}");
    }

    #[test]
    fn filters_show_what_belongs_to_a_request_and_what_happened_meanwhile() {
        let filter = |id: Option<&str>, method: Option<&str>| Filter {
            id: id.map(str::to_owned),
            method: method.map(str::to_owned),
        };
        for filter in [filter(Some("x"), None), filter(None, Some("tools/call"))] {
            let (shown, summary) = show(filter, &TALK);
            assert_eq!(shown.lines().count(), 4, "{shown}");
            assert!(shown.contains("lost the session") && !shown.contains("initialize"), "{shown}");
            assert!(summary.contains("1 request: 0 answered, 1 with an error\n"), "{summary}");
        }
        let (shown, _) = show(filter(Some("1"), None), &TALK);
        assert_eq!(shown.lines().count(), 5, "{shown}");
        let (shown, summary) = show(filter(Some("nobody"), None), &TALK);
        assert!(shown.is_empty() && summary.contains("0 requests"), "{shown}{summary}");
    }

    #[test]
    fn an_id_may_be_used_again_by_a_later_run_and_cancelled_is_not_unanswered() {
        let (_, summary) = show(
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
        assert!(timeline.is_no_trace(0));
        for line in ["garbage", "{}", "", "{\"timestamp\":\"x\"}"] {
            assert!(timeline.read(line).is_none());
        }
        assert!(timeline.is_no_trace(3) && !timeline.is_no_trace(4));
        let line = r#"{"timestamp":"2026-11-15T14:05:00Z","direction":"","type":"","data":7}"#;
        assert!(timeline.read(line).is_some());
        assert!(!timeline.is_no_trace(0));
        assert_eq!(timeline.summary().pop().unwrap().1, "3 lines could not be read");
    }
}
