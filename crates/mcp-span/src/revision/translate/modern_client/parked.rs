//! Calls that have met a question of the server's: the client is asked by the answer to its
//! request, and goes on with another request that brings its own answers.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::json;
use tokio::time::Instant;

use super::asks::is_url_mode;
use super::calls::{ServerCall, readdressed};
use super::json_string;
use super::session::{LEFT, LegacySession};
use crate::error::{Error, ErrorKind};
use crate::limits;
use crate::message::{Id, Json, Members, Message, Method, peek, reply};
use crate::revision::translate::ServerDescription;

/// A call that waits for the client.
pub(super) struct Parked {
    call: ServerCall,
    /// What the client goes on with.
    handle: String,
    server: Upstream,
    questions: Vec<Question>,
    /// How many there were in all: each has a key of its own.
    count: usize,
    /// When it is given up.
    pub(super) until: Instant,
}

/// How it stands with the call at the server.
enum Upstream {
    Running,
    /// Answered while the client was away.
    Answered(Message),
    /// Refused until the questions are answered; then it is sent again.
    Refused,
}

/// What the client is asked, and has not answered.
struct Question {
    key: String,
    /// The request of the server's that it is; `None`: a page that an error wants to have visited.
    server_id: Option<Id>,
    /// Its method and parameters, as JSON.
    request: String,
}

impl Parked {
    fn new(call: ServerCall, handle: String, server: Upstream, now: Instant) -> Self {
        let until = now + limits::PARKED_WAIT;
        Self { call, handle, server, questions: Vec::new(), count: 0, until }
    }

    /// Whether the server is still at work on it.
    fn is_running(&self) -> bool {
        matches!(self.server, Upstream::Running)
    }

    fn add(&mut self, server_id: Option<&Id>, method: &Method, params: Option<&str>) {
        self.count += 1;
        let mut request = Members::default();
        request.set("method", json_string(method.name()));
        if let Some(params) = params {
            let is_page = server_id.is_none() || is_url_mode(Some(params));
            request.set("params", if is_page { page(params) } else { params.to_owned() });
        }
        let (key, request) = (format!("input-{}", self.count), request.to_json());
        self.questions.push(Question { key, server_id: server_id.cloned(), request });
    }

    /// Asks the client, by the answer to its request `id`.
    fn ask(&self, id: &Id, server: &ServerDescription) -> Message {
        let mut result = Members::default();
        result.set("resultType", "\"input_required\"");
        let requests = result.object("inputRequests");
        for question in &self.questions {
            requests.set(question.key.as_str(), question.request.as_str());
        }
        result.set("requestState", json_string(&self.handle));
        server.sign(&mut result);
        reply::raw_result(Some(id), &result.to_json())
    }
}

impl LegacySession {
    /// The server wants something of the client.
    pub(super) fn server_asks(&mut self, id: &Id, method: &Method, message: &Message) {
        if *method == Method::Ping {
            return self.cx.send_to_server(reply::result(id, &json!({})));
        }
        if self.has_left {
            return self.cx.send_to_server(reply::refusal(id, -32603, LEFT));
        }
        let params = message.get(&["params"]).map(Json::as_str);
        let able = self.running().filter(|(_, call)| call.can_be_asked(method, params));
        let newest = able.max_by_key(|(_, call)| call.order).map(|(upstream, _)| upstream.clone());
        let Some(upstream) = newest else {
            return self.cx.send_to_server(reply::method_not_found(id, method.name()));
        };
        if let Some(parked) = self.parked.get_mut(&upstream) {
            if parked.questions.len() < limits::QUESTIONS {
                return parked.add(Some(id), method, params);
            }
        } else if let Some(handle) = self.handle()
            && let Some(call) = self.calls.remove(&upstream)
        {
            let mut parked = Parked::new(call, handle, Upstream::Running, self.cx.now);
            parked.add(Some(id), method, params);
            return self.park(upstream, parked);
        }
        let text = "The client has too many questions to answer already";
        self.cx.send_to_server(reply::refusal(id, -32603, text));
    }

    /// The calls that the server is at work on.
    pub(super) fn running(&self) -> impl Iterator<Item = (&Id, &ServerCall)> {
        let parked = self.parked.iter().filter(|(_, parked)| parked.is_running());
        self.calls.iter().chain(parked.map(|(upstream, parked)| (upstream, &parked.call)))
    }

    /// A handle for another parked call, of 128 random bits; `None` if there is no room for one, or the
    /// system has none of them.
    fn handle(&self) -> Option<String> {
        let mut bytes = [0; 16];
        SystemRandom::new().fill(&mut bytes).ok()?;
        (self.parked.len() < limits::PARKED).then(|| URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Asks the client, by the answer to its request, and keeps the call until it goes on.
    fn park(&mut self, upstream: Id, parked: Parked) {
        self.waiting.close_exactly(&parked.call.client);
        self.cx.send_to_client(parked.ask(&parked.call.client, &self.server));
        self.parked.insert(upstream, parked);
    }

    /// The server has refused a call until pages were visited: the client is asked to, and sends
    /// the call again. If it cannot be asked it gets the error.
    pub(super) fn park_for_pages(&mut self, upstream: &Id, call: ServerCall, answer: &Message) {
        let may_ask = call.can_be_asked(&Method::Elicit, Some(r#"{"mode":"url"}"#));
        let handle = self.handle().filter(|_| may_ask && !self.has_left);
        let pages = answer.get(&["error", "data", "elicitations"]).and_then(Json::elements);
        let mut pages = pages.into_iter().flatten().filter(|json| json.is_object()).peekable();
        let (Some(handle), Some(_)) = (handle, pages.peek()) else {
            return self.cx.send_to_client(readdressed(answer, &call.client));
        };
        let mut parked = Parked::new(call, handle, Upstream::Refused, self.cx.now);
        for page in pages.take(limits::QUESTIONS) {
            parked.add(None, &Method::Elicit, Some(page.as_str()));
        }
        self.park(upstream.clone(), parked);
    }

    /// The answer waits for the client; `false`: it is not for a parked call.
    pub(super) fn parked_answered(&mut self, upstream: &Id, answer: &Message) -> bool {
        let Some(parked) = self.parked.get_mut(upstream) else { return false };
        parked.server = Upstream::Answered(answer.clone());
        true
    }

    /// `call` goes on with a parked one. It is given back if it has to be sent to the server anew.
    pub(super) fn resume(
        &mut self,
        handle: &str,
        responses: Option<&str>,
        call: ServerCall,
    ) -> Option<ServerCall> {
        let handle = Json::parse(handle).and_then(Json::to_text).unwrap_or_default();
        let found = self.parked.iter_mut().find(|(_, parked)| parked.handle == handle);
        let problem = "is unknown, or its call was given up because no answer came in time";
        let (upstream, parked) = match found.ok_or(problem) {
            Ok((upstream, parked)) if parked.call.is_like(&call) => (upstream.clone(), parked),
            wrong => {
                let problem = wrong.err().unwrap_or("belongs to another call");
                let text = format!("Invalid params: the request state {problem}");
                self.cx.refuse(&call.client, &text);
                return None;
            }
        };
        let responses = responses.and_then(Members::of).unwrap_or_default();
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
            self.cx.send_to_client(parked.ask(&call.client, &self.server));
            return None;
        }
        let Parked { call: before, server, .. } = self.parked.remove(&upstream)?;
        match server {
            Upstream::Refused => return Some(call),
            Upstream::Answered(answer) => self.finish(&upstream, call, &answer),
            Upstream::Running => {
                let ServerCall { order, upstream_token, .. } = before;
                self.waiting.open(&call.client, Some(upstream.clone()));
                let call = ServerCall { order, upstream_token, has_asked: true, ..call };
                self.calls.insert(upstream, call);
            }
        }
        None
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

    /// The server no longer knows the session in which it has asked its questions: the answers
    /// reach nobody any more, so the calls that they are for end at once.
    pub(super) fn lost(&mut self) {
        let asked = self.calls.iter().filter(|(_, call)| call.has_asked);
        let mut asked: Vec<Id> = asked.map(|(upstream, _)| upstream.clone()).collect();
        for (upstream, parked) in self.parked.iter_mut().filter(|(_, parked)| parked.is_running()) {
            parked.questions.clear();
            asked.push(upstream.clone());
        }
        let text = "The server has lost the session in which it had asked something for this call";
        let error = Error::new(ErrorKind::SessionLost, text).hint("Make the call again");
        for upstream in asked {
            self.cx.send_to_server(reply::cancelled(&upstream, "The session was lost"));
            // Whoever goes on with a parked one hears why.
            self.answered(&upstream, &reply::error(Some(&upstream), &error));
        }
    }

    /// Parked calls that are over cannot go on, for this reason.
    pub(super) fn give_up(&mut self, reason: &str, is_over: impl Fn(&Parked) -> bool) {
        let over: Vec<_> = self.parked.extract_if(|_, parked| is_over(parked)).collect();
        for (upstream, parked) in over {
            for id in parked.questions.iter().filter_map(|question| question.server_id.as_ref()) {
                self.cx.send_to_server(reply::refusal(id, -32603, reason));
            }
            if parked.is_running() {
                self.cx.send_to_server(reply::cancelled(&upstream, reason));
            }
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
