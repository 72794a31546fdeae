//! Calls that have met a question of the server's: the client is asked by the answer to its
//! request, and goes on with another request that brings its own answers.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::json;
use tokio::time::Instant;
use tracing::debug;

use super::asks::{Asks, is_url_mode};
use super::calls::{Waiter, What};
use super::{ModernClient, ServerDescription, Waits, json_string};
use crate::error::{Error, Kind};
use crate::limits;
use crate::message::{Id, Json, Members, Message, Method, peek, reply};

/// What a server hears whose question nobody will answer.
pub(super) const LEFT: &str = "The client has left";

/// A call that waits for the client.
pub(super) struct Parked {
    what: What,
    pub(super) upstream: Upstream,
    pub(super) questions: Vec<Question>,
    /// How many there were in all: each has a key of its own.
    count: usize,
    /// When it is given up.
    pub(super) until: Instant,
}

/// How it stands with the call at the server.
pub(super) enum Upstream {
    /// Under way, under this id.
    Running(Id),
    /// Answered while the client was away.
    Answered(Message),
    /// Refused until the questions are answered; then it is sent again.
    Refused,
}

/// What the client is asked, and has not answered.
pub(super) struct Question {
    key: String,
    /// The request of the server's that it is; `None`: a page that an error wants to have visited.
    pub(super) server_id: Option<Id>,
    method: String,
    params: Option<String>,
}

impl Parked {
    fn new(what: &What, upstream: Upstream, now: Instant) -> Self {
        let until = now + limits::PARKED_WAIT;
        Self { what: what.clone(), upstream, questions: Vec::new(), count: 0, until }
    }

    /// Adds a request of the server's, which wants an answer.
    fn add_request(&mut self, message: &Message) {
        let params = message.get(&["params"]).map(Json::as_str);
        let params = params.map(|params| match is_url_mode(Some(params)) {
            true => page(params),
            false => params.to_owned(),
        });
        self.add(message.id().cloned(), message.method().map_or("", Method::name), params);
    }

    fn add(&mut self, server_id: Option<Id>, method: &str, params: Option<String>) {
        self.count += 1;
        let (key, method) = (format!("input-{}", self.count), json_string(method));
        self.questions.push(Question { key, server_id, method, params });
    }

    fn is_about(&self, what: &What) -> bool {
        self.what.method == what.method && self.what.fingerprint == what.fingerprint
    }

    /// The answer that asks the client.
    fn ask(&self, id: &Id, handle: &str, server: Option<&ServerDescription>) -> Message {
        let mut result = Members::default();
        result.set("resultType", "\"input_required\"");
        let requests = result.object("inputRequests");
        for question in &self.questions {
            let request = requests.object(&question.key);
            request.set("method", question.method.as_str());
            if let Some(params) = &question.params {
                request.set("params", params.as_str());
            }
        }
        result.set("requestState", json_string(handle));
        if let Some(server) = server {
            server.sign(&mut result);
        }
        reply::raw_result(Some(id), &result.to_json())
    }
}

impl ModernClient {
    /// The server wants something of the client.
    pub(super) fn server_asks(&mut self, id: &Id, method: &Method, message: &Message) {
        if *method == Method::Ping {
            return self.cx.send_to_server(reply::result(id, &json!({})));
        }
        if self.has_left {
            return self.cx.send_to_server(reply::refusal(id, -32603, LEFT));
        }
        let params = message.get(&["params"]).map(Json::as_str);
        let newest = self
            .calls
            .iter()
            .filter(|(_, call)| call.what.method.properties().may_ask_input)
            .filter(|(_, call)| call.what.abilities.cover(method, params))
            .max_by_key(|(_, call)| call.order);
        let Some(upstream) = newest.map(|(upstream, _)| upstream.clone()) else {
            return self.cx.send_to_server(reply::method_not_found(id, method.name()));
        };
        if !self.park(&upstream, message) {
            let text = "The client has too many questions to answer already";
            self.cx.send_to_server(reply::refusal(id, -32603, text));
        }
    }

    /// Puts a question to whoever waits for the call; `false` if there is no room for it.
    fn park(&mut self, upstream: &Id, question: &Message) -> bool {
        let Some(call) = self.calls.get_mut(upstream) else { return false };
        call.has_asked = true;
        match &call.waiter {
            Waiter::Parked(handle) => match self.parked.get_mut(handle) {
                Some(parked) if parked.questions.len() < limits::QUESTIONS => {
                    parked.add_request(question);
                    true
                }
                _ => false,
            },
            Waiter::Client(id) => {
                let id = id.clone();
                let running = Upstream::Running(upstream.clone());
                let mut parked = Parked::new(&call.what, running, self.cx.now);
                parked.add_request(question);
                let Some(handle) = self.keep_parked(&id, parked) else { return false };
                self.waiting.close_exactly(&id);
                if let Some(call) = self.calls.get_mut(upstream) {
                    call.waiter = Waiter::Parked(handle);
                }
                true
            }
        }
    }

    /// Asks the client, by the answer to its request `id`, and keeps the call under a handle until it
    /// goes on; `None` if there is no room.
    fn keep_parked(&mut self, id: &Id, parked: Parked) -> Option<String> {
        let handle = random_text().filter(|_| self.parked.len() < limits::PARKED)?;
        self.cx.send_to_client(parked.ask(id, &handle, self.server()));
        self.parked.insert(handle.clone(), parked);
        Some(handle)
    }

    /// The server has refused a call until pages were visited: the client is asked to, and sends
    /// the call again. `false`: it cannot be asked.
    pub(super) fn park_for_pages(&mut self, what: &What, id: &Id, answer: &Message) -> bool {
        if !what.method.properties().may_ask_input || !what.abilities.url || self.has_left {
            return false;
        }
        let mut parked = Parked::new(what, Upstream::Refused, self.cx.now);
        let pages = answer.get(&["error", "data", "elicitations"]).and_then(Json::elements);
        let pages = pages.into_iter().flatten().filter(|json| json.is_object());
        for params in pages.take(limits::QUESTIONS) {
            parked.add(None, Method::Elicit.name(), Some(page(params.as_str())));
        }
        !parked.questions.is_empty() && self.keep_parked(id, parked).is_some()
    }

    /// A request goes on with a parked call. `true`: it is sent to the server as a new one.
    pub(super) fn resume(&mut self, handle: &str, id: &Id, what: &What, asks: &Asks<'_>) -> bool {
        let handle = Json::parse(handle).and_then(Json::to_text).unwrap_or_default();
        let is_known = self.parked.contains_key(&handle);
        let parked = self.parked.get_mut(&handle).filter(|parked| parked.is_about(what));
        let Some(parked) = parked else {
            let problem = match is_known {
                true => "belongs to another call",
                false => "is unknown, or its call was given up because no answer came in time",
            };
            self.cx.refuse(id, &format!("Invalid params: the request state {problem}"));
            return false;
        };
        let responses = asks.responses.as_deref().and_then(Members::of).unwrap_or_default();
        parked.questions.retain(|question| {
            let response = responses.get(&question.key).filter(|json| json.starts_with('{'));
            // Hands the client's answer on to the server.
            if let (Some(json), Some(id)) = (response, &question.server_id) {
                self.cx.send_to_server(reply::raw_result(Some(id), json));
            }
            response.is_none()
        });
        parked.until = self.cx.now + limits::PARKED_WAIT;
        if !parked.questions.is_empty() {
            let parked = &self.parked[&handle];
            self.cx.send_to_client(parked.ask(id, &handle, self.server()));
            return false;
        }
        match self.parked.remove(&handle).map(|parked| parked.upstream) {
            Some(Upstream::Refused) => return true,
            Some(Upstream::Answered(answer)) => self.finish(what, id, &answer),
            Some(Upstream::Running(upstream)) => self.reattach(&upstream, id, what, asks),
            None => {}
        }
        false
    }

    /// The call has somebody again who waits for it.
    fn reattach(&mut self, upstream: &Id, id: &Id, what: &What, asks: &Asks<'_>) {
        if let Some(call) = self.calls.get_mut(upstream) {
            call.waiter = Waiter::Client(id.clone());
            call.what.abilities = what.abilities;
            call.wants_logs = asks.log_level.is_some();
            call.token.clone_from(&asks.token);
            self.waiting.open(id, Waits::Call(upstream.clone()));
        } else {
            let error = Error::new(Kind::NoResponse, "The call that was to go on has ended");
            self.cx.fail(id, &error);
        }
    }

    pub(super) fn keep_answer(&mut self, handle: &str, answer: Message) {
        match self.parked.get_mut(handle) {
            Some(parked) => parked.upstream = Upstream::Answered(answer),
            None => debug!(what = ?answer, "dropped: the call was given up"),
        }
    }

    /// The server no longer wants an answer to a question of its.
    pub(super) fn withdraw_question(&mut self, notice: &Message) {
        let Some(id) = peek::cancelled_request(notice) else { return };
        let is_other =
            |question: &Question| question.server_id.as_ref().is_none_or(|own| !own.resembles(&id));
        for parked in self.parked.values_mut() {
            parked.questions.retain(is_other);
        }
    }

    pub(super) fn expire(&mut self) {
        let is_due = |parked: &Parked| parked.until <= self.cx.now;
        let due = self.parked.iter().filter(|(_, parked)| is_due(parked));
        let due: Vec<String> = due.map(|(handle, _)| handle.clone()).collect();
        for handle in due {
            if let Some(parked) = self.parked.remove(&handle) {
                self.give_up(&parked, "The client did not answer in time");
            }
        }
    }

    /// None of them can go on, for this reason.
    pub(super) fn end_parked(&mut self, reason: &str) {
        for (_, parked) in std::mem::take(&mut self.parked) {
            self.give_up(&parked, reason);
        }
    }

    fn give_up(&mut self, parked: &Parked, reason: &str) {
        for id in parked.questions.iter().filter_map(|question| question.server_id.as_ref()) {
            self.cx.send_to_server(reply::refusal(id, -32603, reason));
        }
        if let Upstream::Running(upstream) = &parked.upstream
            && self.drop_call(upstream).is_some()
        {
            self.cx.send_to_server(reply::cancelled(upstream, reason));
        }
    }
}

/// The parameters of a question to visit a page: the modern era has no word that a page was left, and
/// no name for it.
fn page(params: &str) -> String {
    let mut params = Members::of(params).unwrap_or_default();
    params.remove("elicitationId");
    params.add("mode", "\"url\"");
    params.to_json()
}

/// A text of 128 random bits; `None` where the system has none.
fn random_text() -> Option<String> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bytes))
}
