//! Stands in for a server that cannot answer yet because a person has to log in: the client is told
//! so in place of being kept waiting until it gives up.

use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::debug;

use super::core::{Core, Out, Own};
use crate::error::{Error, Kind};
use crate::message::{Head, Id, Message, reply};
use crate::revision::Revision;

/// A login that somebody has to finish.
#[derive(Clone, Debug)]
pub(super) struct Login {
    /// Where.
    page: String,
    since: Instant,
}

impl Core {
    /// A login has begun, or is over.
    pub(super) fn login_pending(&mut self, page: Option<String>, now: Instant) {
        self.login = page.map(|page| Login { page, since: now });
        if self.is_left() {
            // It may be the reason why nothing comes, or be that no more.
            self.leaving = Some(now + self.farewell());
        }
    }

    /// Whether nothing can come before somebody has logged in: the session waits for it.
    pub(super) fn waits_for_person(&self) -> bool {
        let is_opening =
            self.opening.is_some() || self.own.values().any(|own| *own == Own::StoodIn);
        self.login.is_some() && is_opening
    }

    /// When the client has waited long enough.
    pub(super) fn stand_in_at(&self) -> Option<Instant> {
        let login = self.login.as_ref()?;
        self.opening.as_ref().map(|_| login.since + self.policy.login_wait)
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
        out.client(reply::result(&id, &welcome(&initialize, &login.page)));
    }

    /// What the client says while there is nobody to say it to. `true`: it was dealt with.
    pub(super) fn says_to_stand_in(&mut self, message: &Message, out: &mut Out) -> bool {
        if !self.stands_in {
            return false;
        }
        match message.head() {
            Head::Request { method, .. } if &**method == "initialize" => {
                // The client begins anew.
                self.stands_in = false;
                return false;
            }
            Head::Request { id, method } => {
                out.client(self.answer_in_place(id, method));
                let is_asked = self.own.values().any(|o| matches!(o, Own::StoodIn | Own::Session));
                if self.login.is_none() && !is_asked {
                    self.ask_for_session(out);
                }
            }
            Head::Notification { .. } => self.record.client_says(message),
            Head::Response { .. } => {}
        }
        true
    }

    fn answer_in_place(&self, id: &Id, method: &str) -> Message {
        let empty = match method {
            "ping" => json!({}),
            "tools/list" => json!({"tools": []}),
            "prompts/list" => json!({"prompts": []}),
            "resources/list" => json!({"resources": []}),
            "resources/templates/list" => json!({"resourceTemplates": []}),
            _ => return reply::error(Some(id), &self.pending_error()),
        };
        reply::result(id, &empty)
    }

    pub(super) fn pending_error(&self) -> Error {
        let error = match (&self.login, &self.trouble) {
            (Some(login), _) => {
                let message = format!("A login is pending: open {}", login.page);
                Error::new(Kind::Login, message).hint("Log in there, then try again")
            }
            (None, Some(trouble)) => trouble.clone(),
            (None, None) => Error::new(Kind::Login, "The server is not there yet"),
        };
        error.not_delivered()
    }

    /// The server has answered at last: what the client was told is made good.
    pub(super) fn stood_in_answered(&mut self, answer: &Message, now: Instant, out: &mut Out) {
        if matches!(answer.head(), Head::Response { is_error: true, .. }) {
            let error = Error::new(Kind::Login, "The server refused to open a session");
            return self.stood_in_failed(&error);
        }
        self.reopened(answer, now, out);
    }

    /// It will not: the next thing that the client says tries again.
    pub(super) fn stood_in_failed(&mut self, error: &Error) {
        self.trouble = Some(error.clone());
    }
}

/// An answer to `initialize` that promises nothing but news.
fn welcome(initialize: &Message, page: &str) -> Value {
    let asked: Value = serde_json::from_slice(initialize.bytes()).unwrap_or_default();
    let wanted = asked["params"]["protocolVersion"].as_str().unwrap_or_default();
    let version = if Revision::is_legacy(wanted) { wanted } else { Revision::LATEST_LEGACY };
    let lists = json!({"listChanged": true});
    json!({
        "protocolVersion": version,
        "capabilities": {"tools": lists, "resources": lists, "prompts": lists},
        "serverInfo": {"name": "mcp-span", "version": env!("CARGO_PKG_VERSION")},
        "instructions": format!("A login is pending; until it is done nothing can be called. Open {page}"),
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

    fn told(out: &mut Out) -> Vec<Value> {
        out.to_client.drain(..).map(|m| serde_json::from_slice(m.bytes()).unwrap()).collect()
    }

    /// A core whose client has been answered in the server's place.
    fn standing_in(now: Instant) -> (Core, Out) {
        let (mut core, mut out) = (Core::new(Policy::default(), now), Out::default());
        core.client_says(says(INITIALIZE), now, &mut out);
        core.server_says(Incoming::LoginPending(Some("https://as/login".into())), now, &mut out);
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
        for (text, answer) in [
            (r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#, json!({"tools": []})),
            (r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#, json!({})),
        ] {
            core.client_says(says(text), now, &mut out);
            assert_eq!(told(&mut out)[0]["result"], answer);
        }
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
        let methods: Vec<&str> = out.to_server.iter().filter_map(Message::method).collect();
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
        core.server_says(Incoming::Failed { message: initialize, error }, now, &mut out);
        core.client_says(says(r#"{"jsonrpc":"2.0","id":5,"method":"tools/call"}"#), now, &mut out);
        assert!(told(&mut out)[0]["error"]["message"].as_str().unwrap().contains("nobody came"));
        assert_eq!(out.to_server.len(), 1);
        assert_eq!(out.to_server[0].method(), Some("initialize"));
    }

    #[test]
    fn a_client_that_leaves_waits_for_no_person() {
        let now = Instant::now();
        let late = now + limits::LOGIN_FAREWELL;
        for was_pending_before in [true, false] {
            let (mut core, mut out) = (Core::new(Policy::default(), now), Out::default());
            core.client_says(says(INITIALIZE), now, &mut out);
            let pending = Incoming::LoginPending(Some("https://as/login".into()));
            if was_pending_before {
                core.server_says(pending, now, &mut out);
                core.client_leaves(now, &mut out);
            } else {
                core.client_leaves(now, &mut out);
                assert!(core.wake_at() > Some(late), "the server has its time");
                core.server_says(pending, now, &mut out);
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
        core.server_says(Incoming::LoginPending(Some("p".into())), now, &mut out);
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
        core.server_says(Incoming::LoginPending(Some("p".into())), now, &mut out);
        core.server_says(says(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), now, &mut out);
        assert_eq!(told(&mut out).len(), 1);
        core.tick(now + Duration::from_secs(60), &mut out);
        assert!(out.to_client.is_empty());
    }
}
