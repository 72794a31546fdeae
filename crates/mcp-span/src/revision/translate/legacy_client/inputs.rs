//! What a modern server wants to know before it can answer: put to the client as requests, and its
//! answers brought along when the call is made again.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::{Asked, Translation, TranslatorContext};
use crate::error::{Error, ErrorKind};
use crate::limits;
use crate::message::{Head, Id, Json, Members, Message, Method, reply};

/// One call that waits for answers of the client's, and what was asked for it.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) asked: Asked,
    /// Goes back to the server as it came.
    state: Option<String>,
    /// The questions that are open, by our id, and the server's name for each.
    open: BTreeMap<Id, String>,
    /// The answers, by the server's names.
    answers: Members<'static>,
    /// Without questions: when to call again. With some: when to stop waiting for the client.
    pub(super) at: Instant,
}

impl Round {
    /// Takes back what is still asked of the client.
    pub(super) fn take_back(&self, reason: &str, cx: &mut TranslatorContext) {
        for own in self.open.keys() {
            cx.send_to_client(reply::cancelled(own, reason));
        }
    }

    /// The call ends with `answer`.
    fn end(&self, answer: Message, cx: &mut TranslatorContext) {
        self.take_back("The call has ended", cx);
        cx.send_to_client(answer);
    }

    pub(super) fn fail(&self, error: &Error, cx: &mut TranslatorContext) {
        self.end(reply::error(self.asked.request.id(), error), cx);
    }
}

impl Translation {
    /// The server has asked back.
    pub(super) fn ask_client(
        &mut self,
        mut asked: Asked,
        result: &Members<'_>,
        cx: &mut TranslatorContext,
    ) {
        asked.rounds += 1;
        let questions = match questions(asked.rounds, result, cx) {
            Ok(questions) => questions,
            Err(message) => {
                let error = Error::new(ErrorKind::BadResponse, message);
                return cx.send_to_client(reply::error(asked.request.id(), &error));
            }
        };
        let ask = |(id, name, question)| {
            cx.send_to_client(question);
            (id, name)
        };
        let open: BTreeMap<_, _> = questions.into_iter().map(ask).collect();
        let pause = if open.is_empty() { limits::INPUT_PAUSE } else { limits::INPUT_WAIT };
        let (state, at) = (result.get("requestState").map(str::to_owned), cx.now + pause);
        self.rounds.push(Round { asked, state, open, answers: Members::default(), at });
    }

    /// The client has answered one of our questions.
    pub(super) fn client_answers(&mut self, answer: &Message, cx: &mut TranslatorContext) {
        let Head::Response { id: Some(id), is_error } = answer.head() else { return };
        let asked = |round: &Round| round.open.contains_key(id);
        let Some(at) = self.rounds.iter().position(asked) else { return };
        let mut round = self.rounds.swap_remove(at);
        let name = round.open.remove(id).unwrap_or_default();
        let member = |name| answer.get(&[name]).map_or("{}", Json::as_str);
        if *is_error {
            // There is no way to tell the server: the call ends with what the client said.
            return round.end(reply::raw_error(round.asked.request.id(), member("error")), cx);
        }
        round.answers.set(name, member("result").to_owned());
        if round.open.is_empty() {
            self.call_again(round, cx);
        } else {
            self.rounds.push(round);
        }
    }

    fn call_again(&mut self, round: Round, cx: &mut TranslatorContext) {
        let id = cx.number();
        let call = round.asked.request.edited_with_id(&id, |call| {
            let params = call.object("params");
            cx.introduction.fill(params);
            if !round.answers.is_empty() {
                params.set("inputResponses", round.answers.to_json());
            }
            if let Some(state) = &round.state {
                params.set("requestState", state.as_str());
            }
        });
        cx.send_to_server(call.with_timeout(round.asked.request.timeout()));
        self.asked.insert(id, round.asked);
    }

    /// What time brings: calls that were only to be made again later, and clients that never answer.
    pub(super) fn resume_rounds(&mut self, cx: &mut TranslatorContext) {
        while let Some(at) = self.rounds.iter().position(|round| round.at <= cx.now) {
            let round = self.rounds.swap_remove(at);
            if round.open.is_empty() {
                self.call_again(round, cx);
            } else {
                let message = "The client did not answer what the server asked for";
                round.fail(&Error::new(ErrorKind::Timeout, message), cx);
            }
        }
    }
}

/// What the server wants to know: our id for each question, the server's name for it, and the
/// request that puts it to the client. An error says why the client cannot be asked.
fn questions(
    rounds: u32,
    result: &Members<'_>,
    cx: &mut TranslatorContext,
) -> Result<Vec<(Id, String, Message)>, String> {
    if rounds > limits::INPUT_ROUNDS {
        return Err(format!("The server asked back more than {} times", limits::INPUT_ROUNDS));
    }
    let requests = result.get("inputRequests").and_then(Json::parse).and_then(Json::members);
    let mut questions = Vec::new();
    for (name, request) in requests.into_iter().flatten() {
        let id = cx.string();
        let question = question(&id, request)
            .ok_or_else(|| format!("The server wants input of no known kind: {name}"))?;
        questions.push((id, name.into_owned(), question));
    }
    if questions.is_empty() && !result.has("requestState") {
        return Err("The server wants input and does not say which".to_owned());
    }
    Ok(questions)
}

/// The request that puts a question of the server's to the client; `None`: not one that it knows.
fn question(id: &Id, request: Json<'_>) -> Option<Message> {
    let [method, params] = request.get_all([&["method"], &["params"]])?;
    let method = method?.text()?;
    let params = params.map_or("{}", Json::as_str);
    match Method::named(&method) {
        Method::Elicit => {
            let mut params = Members::of(params)?;
            if params.text("mode").as_deref() == Some("url") {
                // Known only to the older revision, which insists on it.
                params.add("elicitationId", id.as_json().to_owned());
            }
            Some(reply::request(id, &method, Some(&params.to_json())))
        }
        Method::CreateMessage | Method::RootsList => {
            Some(reply::request(id, &method, Some(params)))
        }
        _ => None,
    }
}
