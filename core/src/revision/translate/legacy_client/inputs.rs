//! What a modern server wants to know before it can answer: put to the client as requests, and its
//! answers brought along when the call is made again.

use tokio::time::Instant;

use super::{Asked, Ids, Step, Steps, Translation};
use crate::error::{Error, Kind};
use crate::limits;
use crate::message::{Head, Id, Json, Members, Message, Method, reply};

/// Calls that wait for answers of the client's.
#[derive(Debug, Default)]
pub(super) struct Inputs(Vec<Round>);

/// One call, and what was asked for it.
#[derive(Debug)]
struct Round {
    asked: Asked,
    /// Goes back to the server as it came.
    state: Option<String>,
    /// The questions that are open, by our id, and the server's name for each.
    open: Vec<(Id, String)>,
    /// The answers, by the server's names.
    answers: Vec<(String, String)>,
    /// Without questions: when to call again. With some: when to stop waiting for the client.
    at: Instant,
}

impl Inputs {
    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.0.iter().map(|round| round.at).min()
    }

    /// The call `id` is no longer wanted; gives back the questions that are void.
    pub(super) fn withdraw(&mut self, id: &Id) -> Vec<Id> {
        match self.0.iter().position(|round| round.asked.is_for(id)) {
            Some(at) => self.0.swap_remove(at).open.into_iter().map(|(own, _)| own).collect(),
            None => Vec::new(),
        }
    }

    /// Nobody will call again.
    pub(super) fn end_all(self, error: &Error, out: &mut Steps) {
        for round in self.0 {
            let answer = reply::error(round.asked.request.id(), error);
            round.end(None, answer, out);
        }
    }

    /// The call for which the question `id` was asked.
    fn position(&self, id: &Id) -> Option<usize> {
        self.0.iter().position(|round| round.open.iter().any(|(own, _)| own == id))
    }
}

impl Translation {
    /// The server has asked back.
    pub(super) fn ask_client(
        &mut self,
        asked: Asked,
        result: &Members<'_>,
        ids: &mut Ids,
        now: Instant,
        out: &mut Steps,
    ) {
        let rounds = asked.rounds + 1;
        let asked = Asked { rounds, ..asked };
        let id = asked.request.id().cloned();
        let fail = |message: String, out: &mut Steps| {
            let error = Error::new(Kind::BadResponse, message);
            out.push_back(Step::ToClient(reply::error(id.as_ref(), &error)));
        };
        if rounds > limits::INPUT_ROUNDS {
            let limit = limits::INPUT_ROUNDS;
            return fail(format!("The server asked back more than {limit} times"), out);
        }
        let state = result.get("requestState").map(str::to_owned);
        let requests = result.get("inputRequests").and_then(Json::parse).and_then(Json::members);
        let mut requests = requests.into_iter().flatten().peekable();
        if state.is_none() && requests.peek().is_none() {
            return fail("The server wants input and does not say which".to_owned(), out);
        }
        let mut open = Vec::new();
        let mut questions = Vec::new();
        for (name, request) in requests {
            let own = ids.string();
            match question(&own, request) {
                Some(question) => questions.push(question),
                None => {
                    return fail(format!("The server wants input of no known kind: {name}"), out);
                }
            }
            open.push((own, name.into_owned()));
        }
        out.extend(questions.into_iter().map(Step::ToClient));
        let pause = if open.is_empty() { limits::INPUT_PAUSE } else { limits::INPUT_WAIT };
        self.inputs.0.push(Round { asked, state, open, answers: Vec::new(), at: now + pause });
    }

    /// The client has answered one of our questions.
    pub(super) fn client_answers(&mut self, answer: &Message, ids: &mut Ids, out: &mut Steps) {
        let Head::Response { id: Some(id), is_error } = answer.head() else { return };
        let Some(at) = self.inputs.position(id) else { return };
        let member = |name| answer.get(&[name]).map_or("{}", Json::as_str);
        if *is_error {
            // There is no way to tell the server: the call ends with what the client said.
            let round = self.inputs.0.swap_remove(at);
            let answer = reply::raw_error(round.asked.request.id(), member("error"));
            return round.end(Some(id), answer, out);
        }
        let round = &mut self.inputs.0[at];
        let Some(place) = round.open.iter().position(|(own, _)| own == id) else { return };
        let (_, name) = round.open.remove(place);
        round.answers.push((name, member("result").to_owned()));
        if round.open.is_empty() {
            let round = self.inputs.0.swap_remove(at);
            self.call_again(round, ids, out);
        }
    }

    fn call_again(&mut self, round: Round, ids: &mut Ids, out: &mut Steps) {
        let mut answers = Members::default();
        for (name, answer) in &round.answers {
            answers.set(&**name, &**answer);
        }
        let answers = (!answers.is_empty()).then(|| answers.to_json());
        let id = ids.number();
        let call = self.envelope.put_around_retry(&round.asked.request, &id, answers, round.state);
        out.push_back(Step::ToServer(call));
        self.asked.insert(id, round.asked);
    }

    /// What time brings: calls that were only to be made again later, and clients that never answer.
    pub(super) fn resume_rounds(&mut self, ids: &mut Ids, now: Instant, out: &mut Steps) {
        while let Some(at) = self.inputs.0.iter().position(|round| round.at <= now) {
            let round = self.inputs.0.swap_remove(at);
            if round.open.is_empty() {
                self.call_again(round, ids, out);
            } else {
                let message = "The client did not answer what the server asked for";
                let error = Error::new(Kind::Timeout, message);
                let answer = reply::error(round.asked.request.id(), &error);
                round.end(None, answer, out);
            }
        }
    }
}

impl Round {
    /// The call ends with `answer`; what is still asked of the client is taken back.
    fn end(self, answered: Option<&Id>, answer: Message, out: &mut Steps) {
        for (own, _) in self.open.iter().filter(|(own, _)| Some(own) != answered) {
            out.push_back(Step::ToClient(reply::cancelled(own, "The call has ended")));
        }
        out.push_back(Step::ToClient(answer));
    }
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
            Some(reply::raw_request(id, &method, &params.to_json()))
        }
        Method::CreateMessage | Method::RootsList => Some(reply::raw_request(id, &method, params)),
        _ => None,
    }
}
