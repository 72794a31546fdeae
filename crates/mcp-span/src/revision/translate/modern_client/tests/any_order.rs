//! Whatever comes in whatever order: every request ends once, and payloads stay what they were.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// Something that happens; numbers choose among what there is.
#[derive(Clone, Debug)]
enum Event {
    Asks(usize),
    Cancels(usize),
    Retries { which: usize, answers: bool },
    OpensAsLegacy,
    Answers { which: usize, how: usize },
    Questions(usize),
    Withdraws(usize),
    Tells(usize),
    TimePasses(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0usize..9).prop_map(Event::Asks),
        1 => (0usize..9).prop_map(Event::Cancels),
        3 => (0usize..9, any::<bool>())
            .prop_map(|(which, answers)| Event::Retries { which, answers }),
        8 => (0usize..9, 0usize..8).prop_map(|(which, how)| Event::Answers { which, how }),
        4 => (0usize..3).prop_map(Event::Questions),
        1 => (0usize..9).prop_map(Event::Withdraws),
        1 => (0usize..5).prop_map(Event::Tells),
        1 => (1u64..700).prop_map(Event::TimePasses),
    ]
}

/// The two peers, with a core in between that ends every request of ours.
struct World {
    rig: Rig,
    count: usize,
    /// The client's requests that have no answer.
    open: BTreeMap<String, Value>,
    ended: BTreeSet<String>,
    /// Handles that the client holds, with the request that each belongs to.
    parked: Vec<(Value, Value)>,
    /// What the server has to answer.
    upstream: Vec<Value>,
    /// What the server has asked, and waits for.
    questions: Vec<Value>,
}

impl World {
    fn new(protocol: Protocol, known: Option<Era>) -> Self {
        Self {
            rig: Rig::new(protocol, known),
            count: 0,
            open: BTreeMap::new(),
            ended: BTreeSet::new(),
            parked: Vec::new(),
            upstream: Vec::new(),
            questions: Vec::new(),
        }
    }

    fn note(&mut self, said: Said) {
        for message in said.to_server {
            let is_request = message.get("id").is_some() && message.get("method").is_some();
            if is_request {
                assert!(self.upstream.iter().all(|open| open["id"] != message["id"]), "{message}");
                self.upstream.push(message);
            } else if message["method"] == "notifications/cancelled" {
                self.upstream.retain(|open| open["id"] != message["params"]["requestId"]);
            } else if message.get("id").is_some() {
                let before = self.questions.len();
                self.questions.retain(|asked| *asked != message["id"]);
                assert_eq!(self.questions.len() + 1, before, "answered once: {message}");
            }
        }
        for message in said.to_client {
            if message.get("method").is_some() {
                continue;
            }
            let id = message["id"].to_string();
            let request = self.open.remove(&id);
            let request = request.unwrap_or_else(|| panic!("nobody waits for {message}"));
            assert!(self.ended.insert(id));
            if message["result"]["resultType"] == "input_required" {
                let state = message["result"]["requestState"].clone();
                self.parked.retain(|(known, _)| *known != state);
                self.parked.push((state, request));
            }
        }
    }

    fn ask(&mut self, method: &str, params: Value) {
        self.count += 1;
        let request = request(json!(self.count), method, params);
        self.open.insert(self.count.to_string(), request.clone());
        let said = self.rig.client(request);
        self.note(said);
    }

    fn happens(&mut self, event: &Event) {
        match *event {
            Event::Asks(which) => {
                let all =
                    json!({"toolsListChanged": true, "resourceSubscriptions": ["a:1", "a:2"]});
                match which {
                    0 => self.ask("server/discover", json!({})),
                    1 => self.ask("ping", json!({})),
                    2 => self.ask("subscriptions/listen", json!({"notifications": all})),
                    3 => self.ask("tools/list", json!({"_meta": {LOG_LEVEL: "info"}})),
                    4 => self.ask("resources/read", json!({"uri": "a:1"})),
                    n => {
                        let meta = json!({"progressToken": n});
                        self.ask("tools/call", json!({"name": n, "_meta": meta}));
                    }
                }
            }
            Event::Cancels(which) => {
                let Some(id) = self.open.keys().nth(which).cloned() else { return };
                self.open.remove(&id);
                let said = self.rig.client(cancel(id.parse().unwrap()));
                self.note(said);
            }
            Event::Retries { which, answers } => self.retry(which, answers),
            Event::OpensAsLegacy => {
                self.count += 1;
                let opening = plain(json!(self.count), "initialize", json!({}));
                self.open.insert(self.count.to_string(), opening.clone());
                let said = self.rig.client(opening);
                self.note(said);
            }
            Event::Answers { which, how } => self.answer(which, how),
            Event::Questions(which) => self.question(which),
            Event::Withdraws(which) => {
                if which < self.questions.len() {
                    let id = self.questions.remove(which);
                    let said = self.rig.server(cancel(id));
                    self.note(said);
                }
            }
            Event::Tells(which) => {
                let said = self.rig.server(match which {
                    0 => notice("notifications/tools/list_changed", json!({})),
                    1 => notice("notifications/resources/updated", json!({"uri": "a:1"})),
                    2 => notice("notifications/message", json!({})),
                    n => notice("notifications/progress", json!({"progressToken": n + 2})),
                });
                self.note(said);
            }
            Event::TimePasses(seconds) => {
                let said = self.rig.wait(Duration::from_secs(seconds));
                self.note(said);
            }
        }
    }

    fn retry(&mut self, which: usize, answers: bool) {
        if which >= self.parked.len() {
            return;
        }
        let (state, request) = self.parked.remove(which);
        let mut params = request["params"].clone();
        params["requestState"] = state;
        if answers {
            let all: BTreeMap<_, _> = (1..9).map(|n| (format!("input-{n}"), json!({}))).collect();
            params["inputResponses"] = json!(all);
        }
        let method = request["method"].as_str().unwrap().to_owned();
        self.ask(&method, params);
    }

    fn question(&mut self, which: usize) {
        if !self.rig.it.has_session() {
            return;
        }
        self.count += 1;
        let id = json!(format!("q{}", self.count));
        self.questions.push(id.clone());
        let method = ["elicitation/create", "sampling/createMessage", "ping"][which];
        let said = self.rig.server(plain(id, method, json!({})));
        self.note(said);
    }

    fn answer(&mut self, which: usize, how: usize) {
        if which >= self.upstream.len() {
            return;
        }
        let asked = self.upstream.remove(which);
        let method = asked["method"].as_str().unwrap();
        let page = json!({"url": "https://x", "message": "m"});
        let answer = match (how, method) {
            (0 | 1, "server/discover") => error(&asked, -32601, Value::Null),
            (2, "server/discover") => discovered(&asked, &[Revision::LATEST_MODERN]),
            (0..3, "initialize") => {
                let news = json!({"listChanged": true, "subscribe": true});
                opened(&asked, json!({"tools": news, "resources": news, "logging": {}}))
            }
            (0..3, _) => result(&asked, json!({})),
            (3, _) => error(&asked, -32042, json!({"elicitations": [page]})),
            (4, _) => error(&asked, -32602, Value::Null),
            (5, _) => bridge_error(&asked, Some(400)),
            (6, _) => bridge_error(&asked, None),
            _ => result(&asked, json!({"resultType": "complete"})),
        };
        let said = self.rig.server(answer);
        self.note(said);
    }

    /// The server answers all that it still can.
    fn calm_down(&mut self, how: usize) {
        for _ in 0..10_000 {
            if self.upstream.is_empty() {
                return;
            }
            self.answer(0, how);
        }
        panic!("it goes on for ever: {:?}", self.upstream);
    }
}

proptest! {
    #[test]
    fn every_request_ends_once(
        protocol in prop_oneof![Just(Protocol::Auto), Just(Protocol::Legacy), Just(Protocol::Modern)],
        known in prop_oneof![Just(None), Just(Some(Era::Legacy)), Just(Some(Era::Modern))],
        mut events in proptest::collection::vec(event(), 0..120),
        opens_at in proptest::option::weighted(0.1, 0usize..120),
        how in 0usize..8,
    ) {
        if let Some(at) = opens_at {
            events.insert(at.min(events.len()), Event::OpensAsLegacy);
        }
        let mut world = World::new(protocol, known);
        for event in &events {
            world.happens(event);
        }
        world.calm_down(how);
        let said = world.rig.leave();
        world.note(said);
        world.calm_down(how);
        prop_assert!(world.open.is_empty(), "never answered: {:?}", world.open);
        prop_assert!(world.questions.is_empty(), "never answered: {:?}", world.questions);
        prop_assert!(!world.rig.it.is_holding());
        prop_assert!(world.rig.it.wake_at().is_none());
        prop_assert!(world.rig.it.session.own.is_empty() && world.rig.it.session.calls.is_empty());
        prop_assert!(world.rig.it.passed.is_empty());
        prop_assert!(world.rig.it.session.waiting.is_empty());
    }

    #[test]
    fn payloads_stay_byte_for_byte(
        payload in "\\{( \"[a-c]\\\\u00e9\" : (-?[1-9][0-9]{0,30}(\\.[0-9]0)?|\\[ \\{\\} ,null\\]|\"\\\\/[ä-ö]?\"))?\\ ?\\}",
        answer in "\\{ (\"x\":\\[ ?[1-9][0-9]{0,20} ?\\] ?)?\\}",
    ) {
        let mut rig = Rig::serving(json!({}));
        let text = |id: u32, more: &str| {
            let meta = envelope();
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"_meta":{meta},"name":"a","arguments":{payload}{more}}}}}"#
            )
        };
        let said = rig.client_text(&text(1, ""));
        let tail = format!(r#""params":{{"name":"a","arguments":{payload}}}}}"#);
        prop_assert!(said.server_text[0].ends_with(&tail), "{}", said.server_text[0]);
        let upstream = said.to_server[0]["id"].clone();
        let said = rig.server_text(&format!(
            r#"{{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{payload}}}"#
        ));
        let asked = format!(r#"{{"input-1":{{"method":"sampling/createMessage","params":{payload}}}}}"#);
        prop_assert!(said.client_text[0].contains(&asked), "{}", said.client_text[0]);
        let state = &said.to_client[0]["result"]["requestState"];
        let more = format!(r#","requestState":{state},"inputResponses":{{"input-1":{answer}}}"#);
        let said = rig.client_text(&text(2, &more));
        prop_assert_eq!(&said.server_text, &[format!(r#"{{"jsonrpc":"2.0","id":"q","result":{answer}}}"#)]);
        let said = rig.server_text(&format!(
            r#"{{"jsonrpc":"2.0","id":{upstream},"result":{{"content":[{payload}],"structuredContent":{payload}}}}}"#
        ));
        let head = format!(
            r#"{{"jsonrpc":"2.0","id":2,"result":{{"content":[{payload}],"structuredContent":{payload},"#
        );
        prop_assert!(said.client_text[0].starts_with(&head), "{}", said.client_text[0]);
    }

    #[test]
    fn no_message_makes_it_panic(
        texts in proptest::collection::vec((
            any::<bool>(),
            "\\{\"jsonrpc\":\"2.0\",(\"id\":[1-3],)?(\"method\":\"(tools/call|ping|subscriptions/listen|notifications/progress|notifications/cancelled|elicitation/create|notifications/resources/updated|server/discover)\",\"params\":(null|\\[\\]|\\{\\}|5|\\{\"_meta\":(1|null|\\{\\})\\}|\\{\"requestId\":1\\})|\"result\":(null|5|\\{\"_meta\":1\\})|\"error\":(5|\\{\\}|\\{\"code\":-32042\\}))\\}",
        ), 0..30),
        is_open: bool,
    ) {
        let mut rig = if is_open { Rig::serving(json!({})) } else { Rig::new(Protocol::Auto, None) };
        for (from_client, text) in texts {
            let Ok(message) = Message::parse(Bytes::from(text)) else { continue };
            if from_client {
                rig.it.on_client_message(message, rig.now);
            } else {
                rig.it.on_server_message(message, rig.now);
            }
            while let Some(step) = rig.it.next_step() {
                let m = match step {
                    Step::ToClient(m) | Step::ToServer(m) => m,
                    Step::Found(_) => continue,
                    Step::Failed { .. } | Step::SessionLost => panic!("failed"),
                };
                let again = Message::parse(m.bytes().clone());
                prop_assert_eq!(again, Ok(m));
            }
        }
    }
}
