//! Stands in for a server that cannot answer yet because a person has to log in: the client is told
//! so in place of being kept waiting until it gives up.

use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::debug;

use super::core::{Core, Out, Own};
use super::delivery::{Again, again};
use super::login_tool::{self, Needed};
use crate::error::{Delivery, Error, Kind};
use crate::limits;
use crate::message::{Head, Message, Method, reply};
use crate::revision::Revision;
use crate::transport::LoginStage;

/// A login that the server's answers wait for.
#[derive(Clone, Debug)]
pub(super) struct Login {
    stage: LoginStage,
    /// When it came so far.
    since: Instant,
}

impl Login {
    /// What a person has to do, if it is their turn.
    fn page(&self) -> Option<&str> {
        match &self.stage {
            LoginStage::Page(page) => Some(page),
            LoginStage::UnderWay => None,
        }
    }
}

impl Core {
    /// A login has begun, has come further, or is over.
    pub(super) fn login_pending(&mut self, stage: Option<LoginStage>, now: Instant) {
        self.login = stage.map(|stage| Login { stage, since: now });
        self.was_shown |= self.waits_for_person();
        if self.is_left() {
            // It may be the reason why nothing comes, or be that no more.
            self.leaving = Some(now + self.farewell());
        }
    }

    /// Whether somebody has to log in. What is in flight then most likely waits for that.
    pub(super) fn waits_for_person(&self) -> bool {
        self.login.as_ref().is_some_and(|login| login.page().is_some())
    }

    /// For what is in flight when the client has left during a login. What was sent in a session
    /// may have reached the server before the others came to wait.
    pub(super) fn left_during_login(&self) -> Error {
        let delivery =
            if self.opening.is_some() { Delivery::NotDelivered } else { Delivery::Unknown };
        Error { delivery, ..self.pending_error() }
    }

    /// When the client has waited long enough, by what it was asked at.
    pub(super) fn stand_in_at(&self) -> Option<Instant> {
        let (login, _) = (self.login.as_ref()?, self.opening.as_ref()?);
        let patience = match login.stage {
            LoginStage::Page(_) => self.policy.login_wait,
            LoginStage::UnderWay => self.policy.login_wait.max(limits::LOGIN_PREPARATION),
        };
        let asked = self.from_client.notes().find(|asked| asked.method == Method::Initialize)?;
        Some(asked.since + patience)
    }

    /// Answers an `initialize` that waits for a person.
    pub(super) fn stand_in(&mut self, now: Instant, out: &mut Out) {
        let due = self.stand_in_at().is_some_and(|at| at <= now);
        let (Some(login), true) = (self.login.clone(), due) else { return };
        let Some(initialize) = self.opening.take() else { return };
        let Some(id) = initialize.id().cloned() else { return };
        let Some((id, _)) = self.close(&id, now) else { return };
        debug!("a login is pending: the client is answered in the server's place");
        // The real answer still comes, under the same id; it is ours now.
        self.own.insert(id.clone(), Own::StoodIn);
        self.stands_in = true;
        // What it opens is a session like one that was lost.
        self.recovery.session_lost(now);
        out.client(reply::result(&id, &welcome(&initialize, login.page())));
    }

    /// When those who wait for a session have waited long enough for a person.
    pub(super) fn give_up_on_person_at(&self) -> Option<Instant> {
        let login = self.login.as_ref().filter(|login| login.page().is_some())?;
        let is_waited_for = self.recovery.is_reopening() && self.waiting.has_requests();
        is_waited_for.then(|| login.since + self.policy.login_wait)
    }

    /// Ends requests that wait for a session that waits for a person.
    pub(super) fn give_up_on_person(&mut self, now: Instant, out: &mut Out) {
        if self.give_up_on_person_at().is_some_and(|at| at <= now) {
            let error = self.pending_error();
            while let Some(id) = self.waiting.pop_request() {
                self.end(&id, &error, now, out);
            }
        }
    }

    /// What the client says while there is nobody to say it to. `true`: it was dealt with.
    pub(super) fn says_to_stand_in(
        &mut self,
        message: &Message,
        now: Instant,
        out: &mut Out,
    ) -> bool {
        if !self.stands_in {
            return false;
        }
        match message.head() {
            Head::Request { method, .. } if *method == Method::Initialize => {
                // The client begins anew.
                self.stands_in = false;
                return false;
            }
            Head::Request { id, method } => {
                let is_login = login_tool::is_called(message);
                let in_place = match method {
                    _ if is_login => Some(login_tool::result(self.login_needed())),
                    Method::ToolsList => Some(login_tool::list(self.login_needed())),
                    method => empty_answer(method),
                };
                // Lists are asked for without end by clients that nobody looks at: they open no
                // second page, and pings open none.
                let is_worth_it = match &in_place {
                    Some(_) if is_login => true,
                    Some(_) => *method != Method::Ping && !self.was_shown,
                    None => true,
                };
                out.client(match in_place {
                    Some(empty) => reply::result(id, &empty),
                    None => reply::error(Some(id), &self.pending_error()),
                });
                if is_worth_it {
                    self.hasten_session(now, out);
                }
            }
            Head::Notification { .. } => self.record.client_says(message),
            // The server itself has asked, while it is being opened.
            Head::Response { .. } => return false,
        }
        true
    }

    /// Asks for the session that the client believes to have, unless that is under way.
    fn hasten_session(&mut self, now: Instant, out: &mut Out) {
        let is_asked = self.own.values().any(|o| matches!(o, Own::StoodIn | Own::Session));
        if self.login.is_none() && !is_asked && self.recovery.session_lost(now) {
            self.was_shown = false;
            self.ask_for_session(out);
        }
    }

    /// What the user has to be told about the login.
    fn login_needed(&self) -> Needed<'_> {
        match (&self.login, &self.trouble) {
            (Some(Login { stage: LoginStage::Page(page), .. }), _) => Needed::Page(page),
            (Some(_), _) | (None, None) => Needed::Soon,
            (None, Some(trouble)) => Needed::Again(&trouble.message),
        }
    }

    /// The answer to a request of the modern era that a login holds up, if it can have one: that
    /// era has no handshake in which the client could be told.
    pub(super) fn answer_during_login(&self, message: &Message, error: &Error) -> Option<Value> {
        let page = error.page.as_deref().filter(|_| self.record.initialize().is_none())?;
        let needed = Needed::Page(page);
        match message.method() {
            Some(Method::ToolsList) => Some(login_tool::modern(login_tool::list(needed))),
            _ if login_tool::is_called(message) => {
                Some(login_tool::modern(login_tool::result(needed)))
            }
            _ => None,
        }
    }

    pub(super) fn pending_error(&self) -> Error {
        match (&self.login, &self.trouble) {
            (Some(Login { stage: LoginStage::Page(page), .. }), _) => Error::login_pending(page),
            (Some(_), _) => Error::new(Kind::Login, "A login is under way, but not done yet")
                .hint("Try again in a moment")
                .not_delivered(),
            (None, Some(trouble)) => trouble.clone().not_delivered(),
            (None, None) => Error::new(Kind::Login, "The server is not there yet").not_delivered(),
        }
    }

    /// The server has answered at last: what the client was told is made good.
    pub(super) fn stood_in_answered(&mut self, answer: &Message, now: Instant, out: &mut Out) {
        if matches!(answer.head(), Head::Response { is_error: true, .. }) {
            let error = Error::new(Kind::Login, "The server refused to open a session");
            return self.stood_in_failed(&error, now);
        }
        self.reopened(answer, now, out);
    }

    /// It has not. A server that is away or not in order is tried again like any other; else the
    /// next call of the client's does that.
    pub(super) fn stood_in_failed(&mut self, error: &Error, now: Instant) {
        self.trouble = Some(error.clone());
        let is_out_of_order =
            error.kind == Kind::Status && error.status.is_some_and(|status| status >= 500);
        match again(Some(&Method::Initialize), error, true, false) {
            Again::After(pause) => self.recovery.rest(now, pause),
            Again::No if !is_out_of_order => self.recovery.client_opens(),
            Again::WhenBack | Again::Now | Again::No => self.recovery.unreachable(now, false),
        }
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
    let asked: Value = serde_json::from_slice(initialize.bytes()).unwrap_or_default();
    let wanted = asked["params"]["protocolVersion"].as_str().unwrap_or_default();
    let version = if Revision::is_legacy(wanted) { wanted } else { Revision::LATEST_LEGACY };
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
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;
    use crate::bridge::Policy;
    use crate::limits;
    use crate::transport::Incoming;

    const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#;

    fn says(text: &str) -> Incoming {
        Incoming::Message(
            Message::parse(Bytes::copy_from_slice(text.as_bytes())).expect("a message"),
        )
    }

    fn pending(page: &str) -> Incoming {
        Incoming::LoginPending(Some(LoginStage::Page(page.to_owned())))
    }

    fn told(out: &mut Out) -> Vec<Value> {
        out.to_client.drain(..).map(|m| serde_json::from_slice(m.bytes()).unwrap()).collect()
    }

    /// A core whose client has been answered in the server's place.
    fn standing_in(now: Instant) -> (Core, Out) {
        let (mut core, mut out) = (Core::new(Policy::default(), now), Out::default());
        core.client_says(says(INITIALIZE), now, &mut out);
        core.server_says(pending("https://as/login"), now, &mut out);
        let patience = Policy::default().login_wait;
        core.tick(now + patience - Duration::from_millis(1), &mut out);
        assert!(out.to_client.is_empty(), "not before its time");
        core.tick(now + patience, &mut out);
        (core, out)
    }

    #[test]
    fn a_client_that_waits_for_a_person_is_told_so() {
        let (mut core, mut out) = standing_in(Instant::now());
        let welcome = told(&mut out).remove(0);
        assert_eq!(
            (&welcome["id"], &welcome["result"]["protocolVersion"]),
            (&json!(1), &json!("2025-06-18"))
        );
        assert_eq!(welcome["result"]["capabilities"]["tools"]["listChanged"], true);
        assert!(welcome["result"]["instructions"].as_str().unwrap().contains("https://as/login"));
        let now = Instant::now();
        core.client_says(says(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#), now, &mut out);
        assert_eq!(told(&mut out)[0]["result"], json!({}));
        core.client_says(says(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#), now, &mut out);
        let tool = told(&mut out)[0]["result"]["tools"][0].clone();
        assert_eq!(tool["name"], "mcp_span_login");
        assert!(tool["description"].as_str().unwrap().contains("https://as/login"), "{tool}");
        let call =
            r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"mcp_span_login"}}"#;
        core.client_says(says(call), now, &mut out);
        let result = told(&mut out)[0]["result"].clone();
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("https://as/login"), "{result}");
        core.client_says(says(r#"{"jsonrpc":"2.0","id":3,"method":"tools/call"}"#), now, &mut out);
        let error = told(&mut out)[0]["error"].clone();
        assert!(error["message"].as_str().unwrap().contains("https://as/login"), "{error}");
        assert_eq!(error["data"]["delivery"], "not-delivered");
        assert_eq!(out.to_server.len(), 1, "nothing but the initialize");
    }

    #[test]
    fn when_the_server_answers_at_last_the_client_learns_that_lists_have_changed() {
        let now = Instant::now();
        let (mut core, mut out) = standing_in(now);
        told(&mut out);
        out.to_server.clear();
        core.client_says(
            says(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#),
            now,
            &mut out,
        );
        assert!(out.to_server.is_empty());
        core.server_says(Incoming::LoginPending(None), now, &mut out);
        let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}}"#;
        core.server_says(says(answer), now, &mut out);
        let methods: Vec<&str> =
            out.to_server.iter().filter_map(Message::method).map(Method::name).collect();
        assert_eq!(methods, ["notifications/initialized"]);
        let told = told(&mut out);
        assert_eq!(told.len(), 1, "the answer itself is swallowed: {told:?}");
        assert_eq!(told[0]["method"], "notifications/tools/list_changed");
        core.client_says(says(r#"{"jsonrpc":"2.0","id":4,"method":"tools/call"}"#), now, &mut out);
        assert_eq!(out.to_server.len(), 2, "from now on it goes through");
    }

    #[test]
    fn a_login_that_failed_is_tried_again_with_the_next_request() {
        let now = Instant::now();
        let (mut core, mut out) = standing_in(now);
        let initialize = out.to_server.pop_front().unwrap();
        told(&mut out);
        core.server_says(Incoming::LoginPending(None), now, &mut out);
        let error = Error::new(Kind::Login, "nobody came").not_delivered();
        core.server_says(
            Incoming::Failed { message: initialize, error: error.into() },
            now,
            &mut out,
        );
        core.client_says(says(r#"{"jsonrpc":"2.0","id":5,"method":"tools/call"}"#), now, &mut out);
        assert!(told(&mut out)[0]["error"]["message"].as_str().unwrap().contains("nobody came"));
        assert_eq!(out.to_server.len(), 1);
        assert_eq!(out.to_server[0].method(), Some(&Method::Initialize));
    }

    #[test]
    fn pings_and_lists_begin_no_second_login() {
        let now = Instant::now();
        let (mut core, mut out) = standing_in(now);
        let initialize = out.to_server.pop_front().unwrap();
        core.server_says(Incoming::LoginPending(None), now, &mut out);
        let error = Error::new(Kind::Login, "nobody came").not_delivered();
        core.server_says(
            Incoming::Failed { message: initialize, error: error.into() },
            now,
            &mut out,
        );
        for method in ["ping", "tools/list", "prompts/list", "resources/list"] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":5,"method":"{method}"}}"#);
            core.client_says(says(&text), now + limits::LOGIN_PAUSE * 2, &mut out);
        }
        assert!(out.to_server.is_empty() && core.wake_at().is_none());
        core.client_says(says(r#"{"jsonrpc":"2.0","id":6,"method":"tools/call"}"#), now, &mut out);
        let tried = out.to_server.pop_front().unwrap();
        assert_eq!(tried.method(), Some(&Method::Initialize));
        // This one has bothered nobody: a list may try again, a ping may not.
        let error = Error::new(Kind::Login, "no metadata").not_delivered();
        core.server_says(Incoming::Failed { message: tried, error: error.into() }, now, &mut out);
        core.client_says(says(r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#), now, &mut out);
        assert!(out.to_server.is_empty());
        core.client_says(says(r#"{"jsonrpc":"2.0","id":8,"method":"tools/list"}"#), now, &mut out);
        assert_eq!(out.to_server.len(), 1);
    }

    #[test]
    fn a_server_that_fails_after_the_login_is_tried_again_with_growing_pauses() {
        let mut now = Instant::now();
        let (mut core, mut out) = standing_in(now);
        told(&mut out);
        core.server_says(Incoming::LoginPending(None), now, &mut out);
        for _ in 0..4 {
            let tried = out.to_server.pop_front().expect("a try");
            assert!(out.to_server.is_empty(), "one at a time");
            let mut error = Error::new(Kind::Status, "HTTP 500");
            error.status = Some(500);
            core.server_says(
                Incoming::Failed { message: tried, error: error.into() },
                now,
                &mut out,
            );
            let next = core.wake_at().expect("another");
            assert!(next > now && next <= now + limits::BACKOFF_CAP);
            now = next;
            core.tick(now, &mut out);
        }
        let last = out.to_server.pop_front().unwrap();
        let answer = format!(
            r#"{{"jsonrpc":"2.0","id":{},"result":{{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{}}}}}}}}"#,
            last.id().unwrap()
        );
        core.server_says(says(&answer), now, &mut out);
        assert_eq!(told(&mut out)[0]["method"], "notifications/tools/list_changed");
    }

    #[test]
    fn the_wait_counts_from_when_the_client_asked() {
        let now = Instant::now();
        let wait = Policy::default().login_wait;
        let (mut core, mut out) = (Core::new(Policy::default(), now), Out::default());
        core.client_says(says(INITIALIZE), now, &mut out);
        let under_way = || Incoming::LoginPending(Some(LoginStage::UnderWay));
        core.server_says(under_way(), now, &mut out);
        core.server_says(pending("p"), now + wait / 2, &mut out);
        // Somebody was there, but the provider takes its time.
        core.server_says(under_way(), now + wait / 2, &mut out);
        assert_eq!(core.wake_at(), Some(now + wait));
        core.tick(now + wait, &mut out);
        let welcome = told(&mut out).remove(0);
        assert!(welcome["result"]["instructions"].as_str().unwrap().contains("under way"));
        core.client_says(
            says(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call"}"#),
            now + wait,
            &mut out,
        );
        let error = told(&mut out)[0]["error"].clone();
        assert_eq!(error["data"]["kind"], "login", "{error}");
        assert!(error["message"].as_str().unwrap().contains("under way"), "{error}");
    }

    #[test]
    fn those_who_wait_for_a_new_session_are_told_of_its_login() {
        let now = Instant::now();
        let (mut core, mut out) = (Core::new(Policy::default(), now), Out::default());
        core.client_says(says(INITIALIZE), now, &mut out);
        core.server_says(says(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), now, &mut out);
        core.server_says(Incoming::SessionLost, now, &mut out);
        core.client_says(says(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call"}"#), now, &mut out);
        core.server_says(pending("https://as/login"), now, &mut out);
        told(&mut out);
        let late = now + Policy::default().login_wait;
        assert_eq!(core.wake_at(), Some(late));
        core.tick(late, &mut out);
        let error = told(&mut out)[0]["error"]["data"].clone();
        assert_eq!(
            (&error["url"], &error["delivery"]),
            (&json!("https://as/login"), &json!("not-delivered"))
        );
        assert_eq!(core.wake_at(), None);
    }

    #[test]
    fn a_client_that_leaves_waits_for_no_person() {
        let now = Instant::now();
        let late = now + limits::LOGIN_FAREWELL;
        for was_pending_before in [true, false] {
            let (mut core, mut out) = (Core::new(Policy::default(), now), Out::default());
            core.client_says(says(INITIALIZE), now, &mut out);
            let is_pending = pending("https://as/login");
            if was_pending_before {
                core.server_says(is_pending, now, &mut out);
                core.client_leaves(now, &mut out);
            } else {
                core.client_leaves(now, &mut out);
                assert!(core.wake_at() > Some(late), "the server has its time");
                core.server_says(is_pending, now, &mut out);
            }
            assert_eq!(core.wake_at(), Some(late));
            core.tick(late, &mut out);
            let error = told(&mut out)[0]["error"].clone();
            assert!(error["message"].as_str().unwrap().contains("https://as/login"), "{error}");
            assert!(core.is_finished());
        }
    }

    #[test]
    fn a_login_that_is_done_in_time_gives_the_server_its_time_back() {
        let now = Instant::now();
        let (mut core, mut out) = (Core::new(Policy::default(), now), Out::default());
        core.client_says(says(INITIALIZE), now, &mut out);
        core.server_says(pending("p"), now, &mut out);
        core.client_leaves(now, &mut out);
        core.server_says(Incoming::LoginPending(None), now, &mut out);
        core.tick(now + limits::LOGIN_FAREWELL, &mut out);
        assert!(out.to_client.is_empty());
    }

    #[test]
    fn a_server_that_answers_in_time_is_never_stood_in_for() {
        let now = Instant::now();
        let (mut core, mut out) = (Core::new(Policy::default(), now), Out::default());
        core.client_says(says(INITIALIZE), now, &mut out);
        core.tick(now + Duration::from_secs(60), &mut out);
        assert!(out.to_client.is_empty(), "no login is pending");
        core.server_says(pending("p"), now, &mut out);
        core.server_says(says(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), now, &mut out);
        assert_eq!(told(&mut out).len(), 1);
        core.tick(now + Duration::from_secs(60), &mut out);
        assert!(out.to_client.is_empty());
    }
}
