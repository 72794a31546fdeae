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
use super::opening::Server;
use super::{ModernClient, Waits, json_string};
use crate::error::{Error, Kind};
use crate::limits;
use crate::message::{Head, Id, Json, Members, Message, Method, peek, reply};
use crate::revision::translate::{Step, Steps};

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

pub(super) struct Question {
    key: String,
    source: Source,
}

/// Where a question comes from.
enum Source {
    /// A request of the server's, which wants an answer.
    Request(Message),
    /// An error that names pages to be visited; the parameters of one, as JSON.
    Page(String),
}

impl Question {
    fn write<'a>(&'a self, request: &mut Members<'a>) {
        match &self.source {
            Source::Request(message) => {
                request.set("method", json_string(message.method().map_or("", Method::name)));
                if let Some(params) = message.get(&["params"]).map(Json::as_str) {
                    let is_page = is_url_mode(Some(params));
                    request.set("params", params);
                    if is_page {
                        // The modern era has no word that a page was left, and no name for it.
                        request.object("params").remove("elicitationId");
                    }
                }
            }
            Source::Page(params) => {
                request.set("method", "\"elicitation/create\"");
                request.set("params", params.as_str());
                request.object("params").remove("elicitationId");
                request.object("params").add("mode", "\"url\"");
            }
        }
    }

    /// Hands the client's answer on to the server.
    fn answered(&self, json: &str, out: &mut Steps) {
        if let Some(id) = self.server_id() {
            let head = Head::Response { id: Some(id.clone()), is_error: false };
            let mut answer = Members::headed(&head);
            answer.set("result", json);
            out.push_back(Step::ToServer(answer.into_message(head)));
        }
    }

    fn server_id(&self) -> Option<&Id> {
        match &self.source {
            Source::Request(message) => message.id(),
            Source::Page(_) => None,
        }
    }
}

impl Parked {
    fn new(what: &What, upstream: Upstream, now: Instant) -> Self {
        let until = now + limits::PARKED_WAIT;
        Self { what: what.clone(), upstream, questions: Vec::new(), count: 0, until }
    }

    fn add(&mut self, source: Source) {
        self.count += 1;
        self.questions.push(Question { key: format!("input-{}", self.count), source });
    }

    fn is_about(&self, what: &What) -> bool {
        self.what.method == what.method && self.what.fingerprint == what.fingerprint
    }

    /// The answer that asks the client.
    fn ask(&self, id: &Id, handle: &str, server: Option<&Server>) -> Message {
        let head = Head::Response { id: Some(id.clone()), is_error: false };
        let mut answer = Members::headed(&head);
        let result = answer.object("result");
        result.set("resultType", "\"input_required\"");
        let requests = result.object("inputRequests");
        for question in &self.questions {
            question.write(requests.object(&question.key));
        }
        result.set("requestState", json_string(handle));
        if let Some(server) = server {
            server.sign(result);
        }
        answer.into_message(head)
    }
}

impl ModernClient {
    /// The server wants something of the client.
    pub(super) fn server_asks(
        &mut self,
        id: &Id,
        method: &Method,
        message: Message,
        now: Instant,
        out: &mut Steps,
    ) {
        if *method == Method::Ping {
            return out.push_back(Step::ToServer(reply::result(id, &json!({}))));
        }
        if self.has_left {
            return out.push_back(Step::ToServer(reply::refusal(id, -32603, LEFT)));
        }
        let mut members = Members::of_message(&message).unwrap_or_default();
        let params = members.remove("params");
        let newest = self
            .calls
            .iter()
            .filter(|(_, call)| call.what.method.properties().may_ask_input)
            .filter(|(_, call)| call.what.abilities.cover(method, params.as_deref()))
            .max_by_key(|(_, call)| call.order);
        let Some(upstream) = newest.map(|(upstream, _)| upstream.clone()) else {
            return out.push_back(Step::ToServer(reply::method_not_found(id, method.name())));
        };
        drop(members);
        if !self.park(&upstream, message, now, out) {
            let text = "The client has too many questions to answer already";
            out.push_back(Step::ToServer(reply::refusal(id, -32603, text)));
        }
    }

    /// Puts a question to whoever waits for the call; `false` if there is no room for it.
    fn park(&mut self, upstream: &Id, question: Message, now: Instant, out: &mut Steps) -> bool {
        let Some(call) = self.calls.get_mut(upstream) else { return false };
        call.has_asked = true;
        match &call.waiter {
            Waiter::Parked(handle) => match self.parked.get_mut(handle) {
                Some(parked) if parked.questions.len() < limits::QUESTIONS => {
                    parked.add(Source::Request(question));
                    true
                }
                _ => false,
            },
            Waiter::Client(id) => {
                let handle = random_text().filter(|_| self.parked.len() < limits::PARKED);
                let Some(handle) = handle else { return false };
                let id = id.clone();
                let running = Upstream::Running(upstream.clone());
                let mut parked = Parked::new(&call.what, running, now);
                parked.add(Source::Request(question));
                call.waiter = Waiter::Parked(handle.clone());
                self.waiting.close_exactly(&id);
                out.push_back(Step::ToClient(parked.ask(&id, &handle, self.server())));
                self.parked.insert(handle, parked);
                true
            }
        }
    }

    /// The server has refused a call until pages were visited: the client is asked to, and sends
    /// the call again. `false`: it cannot be asked.
    pub(super) fn park_for_pages(
        &mut self,
        what: &What,
        id: &Id,
        answer: &Message,
        now: Instant,
        out: &mut Steps,
    ) -> bool {
        if !what.method.properties().may_ask_input || !what.abilities.url || self.has_left {
            return false;
        }
        let mut parked = Parked::new(what, Upstream::Refused, now);
        for page in pages(answer).into_iter().take(limits::QUESTIONS) {
            parked.add(Source::Page(page));
        }
        let handle = random_text().filter(|_| self.parked.len() < limits::PARKED);
        let Some(handle) = handle.filter(|_| !parked.questions.is_empty()) else { return false };
        out.push_back(Step::ToClient(parked.ask(id, &handle, self.server())));
        self.parked.insert(handle, parked);
        true
    }

    /// A request goes on with a parked call. `true`: it is sent to the server as a new one.
    pub(super) fn resume(
        &mut self,
        handle: &str,
        id: &Id,
        what: &What,
        asks: &Asks<'_>,
        now: Instant,
        out: &mut Steps,
    ) -> bool {
        let handle = Json::parse(handle).and_then(Json::to_text).unwrap_or_default();
        let found = self.parked.get_mut(&handle).ok_or(
            "Invalid params: the request state is unknown, or its call was given up because no answer came in time",
        );
        let parked = match found {
            Ok(parked) if parked.is_about(what) => parked,
            other => {
                let other_call = "Invalid params: the request state belongs to another call";
                let text = other.err().unwrap_or(other_call);
                out.push_back(Step::ToClient(reply::refusal(id, -32602, text)));
                return false;
            }
        };
        let responses = asks.responses.as_deref().and_then(Members::of).unwrap_or_default();
        parked.questions.retain(|question| {
            let response = responses.get(&question.key).filter(|json| json.starts_with('{'));
            if let Some(json) = response {
                question.answered(json, out);
            }
            response.is_none()
        });
        parked.until = now + limits::PARKED_WAIT;
        if !parked.questions.is_empty() {
            let parked = &self.parked[&handle];
            out.push_back(Step::ToClient(parked.ask(id, &handle, self.server())));
            return false;
        }
        match self.parked.remove(&handle).map(|parked| parked.upstream) {
            Some(Upstream::Refused) => return true,
            Some(Upstream::Answered(answer)) => self.finish(what, id, &answer, now, out),
            Some(Upstream::Running(upstream)) => self.reattach(&upstream, id, what, asks, out),
            None => {}
        }
        false
    }

    /// The call has somebody again who waits for it.
    fn reattach(&mut self, upstream: &Id, id: &Id, what: &What, asks: &Asks<'_>, out: &mut Steps) {
        if let Some(call) = self.calls.get_mut(upstream) {
            call.waiter = Waiter::Client(id.clone());
            call.what.abilities = what.abilities;
            call.wants_logs = asks.log_level.is_some();
            call.token.clone_from(&asks.token);
            self.waiting.open(id, Waits::Call(upstream.clone()));
        } else {
            let error = Error::new(Kind::NoResponse, "The call that was to go on has ended");
            out.push_back(Step::ToClient(reply::error(Some(id), &error)));
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
            |question: &Question| question.server_id().is_none_or(|own| !own.resembles(&id));
        for parked in self.parked.values_mut() {
            parked.questions.retain(is_other);
        }
    }

    pub(super) fn expire(&mut self, now: Instant, out: &mut Steps) {
        let is_due = |parked: &Parked| parked.until <= now;
        let due = self.parked.iter().filter(|(_, parked)| is_due(parked));
        let due: Vec<String> = due.map(|(handle, _)| handle.clone()).collect();
        for handle in due {
            if let Some(parked) = self.parked.remove(&handle) {
                self.give_up(&parked, "The client did not answer in time", out);
            }
        }
    }

    /// None of them can go on, for this reason.
    pub(super) fn end_parked(&mut self, reason: &str, out: &mut Steps) {
        for (_, parked) in std::mem::take(&mut self.parked) {
            self.give_up(&parked, reason, out);
        }
    }

    fn give_up(&mut self, parked: &Parked, reason: &str, out: &mut Steps) {
        for id in parked.questions.iter().filter_map(Question::server_id) {
            out.push_back(Step::ToServer(reply::refusal(id, -32603, reason)));
        }
        if let Upstream::Running(upstream) = &parked.upstream
            && self.drop_call(upstream).is_some()
        {
            out.push_back(Step::ToServer(reply::cancelled(upstream, reason)));
        }
    }
}

/// The pages that an error wants to have visited, as JSON.
fn pages(answer: &Message) -> Vec<String> {
    let listed = answer.get(&["error", "data", "elicitations"]).and_then(Json::elements);
    let objects = listed.into_iter().flatten().filter(|json| json.is_object());
    objects.map(|json| json.as_str().to_owned()).collect()
}

/// A text of 128 random bits; `None` where the system has none.
pub(super) fn random_text() -> Option<String> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bytes))
}
