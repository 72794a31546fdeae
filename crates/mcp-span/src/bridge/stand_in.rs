//! Answers in the server's place while a person has to log in, so that the client does not time out. A
//! stage beside the engine: without it, `initialize` waits.

use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::debug;

use super::login_tool::{self, Needed};
use crate::engine::Engine;
use crate::error::Error;
use crate::limits;
use crate::message::{Head, Json, Message, Method, reply};
use crate::revision::Revision;
use crate::transport::LoginStage;

/// When to answer `initialize`, counted from its arrival.
pub(super) fn wake_at(engine: &Engine) -> Option<Instant> {
    let (login, (_, since)) = (engine.login()?, engine.opening()?);
    let patience = match login.stage {
        LoginStage::Page(_) => engine.policy.login_wait,
        LoginStage::UnderWay => engine.policy.login_wait.max(limits::LOGIN_PREPARATION),
    };
    Some(since + patience)
}

/// The response to an `initialize` that waits for a person, if it is time.
pub(super) fn on_time(engine: &mut Engine, now: Instant) -> Option<Message> {
    wake_at(engine).filter(|at| *at <= now)?;
    let (initialize, _) = engine.opening()?;
    let answer = reply::result(initialize.id()?, &welcome(initialize, engine.login_page()));
    debug!("a login is pending: the client is answered in the server's place");
    engine.promise_session(now);
    Some(answer)
}

/// The response to a request of the client's while there is no session. `None`: the message is for the
/// engine.
pub(super) fn on_client_message(
    engine: &mut Engine,
    message: &Message,
    now: Instant,
) -> Option<Message> {
    let (id, method) = match message.head() {
        // With `initialize`, the client starts over.
        Head::Request { id, method } if *method != Method::Initialize && engine.is_promised() => {
            (id, method)
        }
        _ => return None,
    };
    let is_login = login_tool::is_called(message);
    let in_place = match method {
        _ if is_login => Some(login_tool::result(needed(engine))),
        Method::ToolsList => Some(login_tool::list(needed(engine))),
        method => empty_answer(method),
    };
    // Clients in the background poll lists: those open no second page, and pings open none.
    let is_in_background = *method == Method::Ping || engine.has_shown_login();
    let is_worth_it = is_login || in_place.is_none() || !is_in_background;
    let answer = match in_place {
        Some(empty) => reply::result(id, &empty),
        None => reply::error(Some(id), &engine.pending_error()),
    };
    if is_worth_it && engine.login().is_none() {
        engine.open_promised(now);
    }
    Some(answer)
}

/// The answer to a request of the modern era that a login holds up, if it can have one: that era has no
/// handshake in which the client could be told.
pub(super) fn on_failed(engine: &Engine, request: &Message, error: &Error) -> Option<Message> {
    // After the end of input nobody logs in.
    let may_log_in = !engine.has_opened() && !engine.is_draining();
    let page = error.login_url.as_deref().filter(|_| may_log_in)?;
    let needed = Needed::Page(page.as_str());
    let answer = match request.method() {
        Some(Method::ToolsList) => login_tool::list(needed),
        _ if login_tool::is_called(request) => login_tool::result(needed),
        _ => return None,
    };
    Some(reply::result(request.id()?, &login_tool::modern(answer)).own())
}

/// What the user has to be told about the login.
fn needed(engine: &Engine) -> Needed<'_> {
    match (engine.login_page(), engine.login(), engine.last_error()) {
        (Some(page), ..) => Needed::Page(page),
        (None, None, Some(last_error)) => Needed::Again(&last_error.message),
        (None, ..) => Needed::Soon,
    }
}

/// What a server without anything answers.
fn empty_answer(method: &Method) -> Option<Value> {
    Some(match method {
        Method::Ping => json!({}),
        Method::PromptsList => json!({"prompts": []}),
        Method::ResourcesList => json!({"resources": []}),
        Method::ResourceTemplatesList => json!({"resourceTemplates": []}),
        _ => return None,
    })
}

/// An answer to `initialize` that promises nothing but news.
fn welcome(initialize: &Message, page: Option<&str>) -> Value {
    let wanted = initialize.get(&["params", "protocolVersion"]).and_then(Json::text);
    let version = wanted.filter(|wanted| Revision::is_legacy(wanted));
    let version = version.as_deref().unwrap_or(Revision::LATEST_LEGACY);
    let lists = json!({"listChanged": true});
    let instructions = match page {
        Some(page) => {
            format!("A login is pending; until it is done nothing can be called. Open {page}")
        }
        None => {
            "A login is under way; until it is done nothing can be called. What has to be done \
                 stands in the error of each call"
                .to_owned()
        }
    };
    json!({
        "protocolVersion": version,
        "capabilities": {"tools": lists, "resources": lists, "prompts": lists},
        "serverInfo": {"name": "mcp-span", "version": env!("CARGO_PKG_VERSION")},
        "instructions": instructions,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;
    use crate::bridge::Policy;
    use crate::engine::{Limits, Output};
    use crate::error::ErrorKind;
    use crate::limits::Timeouts;
    use crate::transport::{Command, Event, Send};

    const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#;
    const RESULT: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}"#;

    fn message(text: &str) -> Message {
        Message::parse(Bytes::copy_from_slice(text.as_bytes())).expect("a message")
    }

    fn request(id: u32, method: &str) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#)
    }

    /// The stage beside an engine, between a client and a link that do what a test says.
    struct Rig {
        engine: Engine,
        now: Instant,
        told: VecDeque<Value>,
        sent: VecDeque<Send>,
    }

    impl Rig {
        fn new() -> Self {
            let (policy, now) = (Policy::default(), Instant::now());
            let timeouts = Timeouts::default();
            let limits = Limits { parallel: 4, serial: false, timeouts, is_http_sse: false };
            Self {
                engine: Engine::new(policy, 7, Some(limits), now),
                now,
                told: VecDeque::new(),
                sent: VecDeque::new(),
            }
        }

        /// One whose client has been answered in the server's place.
        fn standing_in() -> Self {
            let mut rig = Self::new();
            rig.says(INITIALIZE);
            rig.login(Some(LoginStage::Page("https://as/login".to_owned())));
            let patience = Policy::default().login_wait;
            rig.wait(patience - Duration::from_millis(1));
            assert!(rig.told.is_empty(), "not before its time");
            rig.wait(Duration::from_millis(1));
            rig
        }

        fn says(&mut self, text: &str) {
            let message = message(text);
            match on_client_message(&mut self.engine, &message, self.now) {
                None => self.engine.on_client_message(message, self.now),
                answer => self.tell(answer),
            }
            self.settle();
        }

        fn login(&mut self, stage: Option<LoginStage>) {
            self.on(Event::LoginPending(stage));
        }

        fn on(&mut self, event: Event) {
            self.engine.on_event(event, self.now);
            self.settle();
        }

        fn wait(&mut self, time: Duration) {
            self.now += time;
            self.engine.on_time(self.now);
            let answer = on_time(&mut self.engine, self.now);
            self.tell(answer);
            self.settle();
        }

        fn wake_at(&self) -> Option<Instant> {
            [self.engine.deadline(), wake_at(&self.engine)].into_iter().flatten().min()
        }

        fn tell(&mut self, answer: Option<Message>) {
            self.told.extend(answer.map(|m| serde_json::from_slice(m.bytes()).unwrap()));
        }

        fn settle(&mut self) {
            while let Some(output) = self.engine.next_output() {
                self.tell(match output {
                    Output::Message(message) => Some(message),
                    Output::Failed { request, error } => Some(reply::error(request.id(), &error)),
                    Output::SessionLost => None,
                });
            }
            while let Some(command) = self.engine.next_command() {
                if let Command::Send(send) = command {
                    self.sent.push_back(*send);
                }
            }
        }

        /// What the client was told last.
        fn hears(&mut self) -> Value {
            self.told.drain(..).next_back().expect("something")
        }

        fn answer(&mut self) {
            let Send { ticket, message: asked, .. } = self.sent.pop_front().expect("a request");
            let id = asked.id().expect("a request");
            let answer = message(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{RESULT}}}"#));
            self.on(Event::Message { message: answer, answers: Some(ticket) });
        }

        fn fail(&mut self, error: Error) {
            let ticket = self.sent.pop_front().expect("a request").ticket;
            self.on(Event::Failed { ticket, error: error.into() });
        }

        fn methods(&self) -> Vec<&str> {
            self.sent.iter().filter_map(|send| send.message.method()).map(Method::name).collect()
        }
    }

    #[test]
    fn a_client_that_waits_for_a_person_is_told_so() {
        let mut rig = Rig::standing_in();
        let welcome = rig.hears();
        assert_eq!(
            (&welcome["id"], &welcome["result"]["protocolVersion"]),
            (&json!(1), &json!("2025-06-18"))
        );
        assert_eq!(welcome["result"]["capabilities"]["tools"]["listChanged"], true);
        assert!(welcome["result"]["instructions"].as_str().unwrap().contains("https://as/login"));
        rig.says(&request(2, "ping"));
        assert_eq!(rig.hears()["result"], json!({}));
        rig.says(&request(2, "tools/list"));
        let tool = rig.hears()["result"]["tools"][0].clone();
        assert_eq!(tool["name"], "mcp_span_login");
        assert!(tool["description"].as_str().unwrap().contains("https://as/login"), "{tool}");
        rig.says(
            r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"mcp_span_login"}}"#,
        );
        let result = rig.hears()["result"].clone();
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("https://as/login"), "{result}");
        rig.says(&request(3, "tools/call"));
        let error = rig.hears()["error"].clone();
        assert!(error["message"].as_str().unwrap().contains("https://as/login"), "{error}");
        assert_eq!(error["data"]["delivery"], "not-delivered");
        assert_eq!(rig.methods(), ["initialize"], "nothing else");
    }

    #[test]
    fn when_the_server_answers_at_last_the_client_learns_that_lists_have_changed() {
        let mut rig = Rig::standing_in();
        rig.told.clear();
        rig.says(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        rig.login(None);
        rig.answer();
        assert_eq!(rig.methods(), ["notifications/initialized"]);
        assert_eq!(rig.told.len(), 1, "the answer itself is swallowed: {:?}", rig.told);
        assert_eq!(rig.hears()["method"], "notifications/tools/list_changed");
        let confirmation = rig.sent.pop_front().unwrap().ticket;
        rig.on(Event::Accepted(confirmation));
        rig.says(&request(4, "tools/call"));
        assert_eq!(rig.methods(), ["tools/call"], "from now on it goes through");
    }

    #[test]
    fn a_login_that_failed_is_tried_again_with_the_next_request() {
        let mut rig = Rig::standing_in();
        rig.login(None);
        rig.fail(Error::new(ErrorKind::Login, "nobody came").not_delivered());
        rig.says(&request(5, "tools/call"));
        assert!(rig.hears()["error"]["message"].as_str().unwrap().contains("nobody came"));
        assert_eq!(rig.methods(), ["initialize"]);
    }

    #[test]
    fn pings_and_lists_begin_no_second_login() {
        let mut rig = Rig::standing_in();
        rig.login(None);
        rig.fail(Error::new(ErrorKind::Login, "nobody came").not_delivered());
        rig.wait(limits::LOGIN_PAUSE * 2);
        for method in ["ping", "tools/list", "prompts/list", "resources/list"] {
            rig.says(&request(5, method));
        }
        assert!(rig.sent.is_empty() && rig.wake_at().is_none());
        rig.says(&request(6, "tools/call"));
        assert_eq!(rig.methods(), ["initialize"]);
        // This one has bothered nobody: a list may try again, a ping may not.
        rig.fail(Error::new(ErrorKind::Login, "no metadata").not_delivered());
        rig.says(&request(7, "ping"));
        assert!(rig.sent.is_empty());
        rig.says(&request(8, "tools/list"));
        assert_eq!(rig.methods(), ["initialize"]);
    }

    #[test]
    fn a_server_that_fails_after_the_login_is_tried_again_with_growing_pauses() {
        let mut rig = Rig::standing_in();
        rig.login(None);
        for _ in 0..4 {
            assert_eq!(rig.methods(), ["initialize"], "one at a time");
            rig.fail(Error { status: Some(500), ..Error::new(ErrorKind::Status, "HTTP 500") });
            let next = rig.wake_at().expect("another");
            assert!(next > rig.now && next <= rig.now + limits::BACKOFF_CAP);
            rig.wait(next - rig.now);
        }
        rig.answer();
        assert_eq!(rig.hears()["method"], "notifications/tools/list_changed");
    }

    #[test]
    fn the_wait_counts_from_when_the_client_asked() {
        let mut rig = Rig::new();
        let wait = Policy::default().login_wait;
        rig.says(INITIALIZE);
        let asked = rig.now;
        rig.login(Some(LoginStage::UnderWay));
        rig.wait(wait / 2);
        rig.login(Some(LoginStage::Page("p".to_owned())));
        // Somebody was there, but the provider takes its time.
        rig.login(Some(LoginStage::UnderWay));
        assert_eq!(rig.wake_at(), Some(asked + wait));
        rig.wait(wait / 2);
        let welcome = rig.hears();
        assert!(welcome["result"]["instructions"].as_str().unwrap().contains("under way"));
        rig.says(&request(2, "tools/call"));
        let error = rig.hears()["error"].clone();
        assert_eq!(error["data"]["kind"], "login", "{error}");
        assert!(error["message"].as_str().unwrap().contains("under way"), "{error}");
    }

    #[test]
    fn those_who_wait_for_a_new_session_are_told_of_its_login() {
        let mut rig = Rig::new();
        rig.says(INITIALIZE);
        let session = Some(rig.sent[0].ticket);
        rig.answer();
        let lost = Error::new(ErrorKind::SessionLost, "lost").not_delivered();
        rig.on(Event::SessionLost { session, error: lost.into() });
        rig.says(&request(2, "tools/call"));
        rig.login(Some(LoginStage::Page("https://as/login".to_owned())));
        rig.told.clear();
        let wait = Policy::default().login_wait;
        assert_eq!(rig.wake_at(), Some(rig.now + wait));
        rig.wait(wait);
        let error = rig.hears()["error"]["data"].clone();
        assert_eq!(
            (&error["url"], &error["delivery"]),
            (&json!("https://as/login"), &json!("not-delivered"))
        );
        assert_eq!(rig.wake_at(), None);
    }

    #[test]
    fn a_client_that_leaves_waits_for_no_person() {
        for was_pending_before in [true, false] {
            let mut rig = Rig::new();
            rig.says(INITIALIZE);
            let page = || Some(LoginStage::Page("https://as/login".to_owned()));
            if was_pending_before {
                rig.login(page());
                rig.engine.on_client_closed(rig.now);
            } else {
                rig.engine.on_client_closed(rig.now);
                let late = rig.now + limits::LOGIN_DRAIN;
                assert!(rig.wake_at() > Some(late), "the server has its time");
                rig.login(page());
            }
            assert_eq!(rig.wake_at(), Some(rig.now + limits::LOGIN_DRAIN));
            rig.wait(limits::LOGIN_DRAIN);
            let error = rig.hears()["error"].clone();
            assert!(error["message"].as_str().unwrap().contains("https://as/login"), "{error}");
            assert!(rig.engine.is_finished());
        }
    }

    #[test]
    fn a_login_that_is_done_in_time_gives_the_server_its_time_back() {
        let mut rig = Rig::new();
        rig.says(INITIALIZE);
        rig.login(Some(LoginStage::Page("p".to_owned())));
        rig.engine.on_client_closed(rig.now);
        rig.login(None);
        rig.wait(limits::LOGIN_DRAIN);
        assert!(rig.told.is_empty());
    }

    #[test]
    fn a_server_that_answers_in_time_is_never_stood_in_for() {
        let mut rig = Rig::new();
        rig.says(INITIALIZE);
        rig.wait(Duration::from_secs(60));
        assert!(rig.told.is_empty(), "no login is pending");
        rig.login(Some(LoginStage::Page("p".to_owned())));
        rig.answer();
        assert_eq!(rig.told.len(), 1);
        rig.wait(Duration::from_secs(60));
        assert_eq!(rig.told.len(), 1);
    }
}
