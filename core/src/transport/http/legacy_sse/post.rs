//! One POST: told to the server, and acknowledged or not. The answer comes elsewhere.

use std::sync::Arc;

use crate::error::Error;
use crate::message::{Message, Method};
use crate::net::Call;
use crate::transport::Send;
use crate::transport::http::answer::{Refusal, drain};
use crate::transport::http::ping;
use crate::transport::http::report::Report;
use crate::transport::http::session_loss::Fate;
use crate::transport::http::{Context, SendOptions};

/// What became of a POST.
#[derive(Debug)]
pub(in super::super) struct Posted {
    pub(super) send: Box<Send>,
    /// Which stream was open when it left.
    pub(super) stream: u64,
    /// An answer under the id of the request, in place of an acknowledgement.
    pub(super) answer: Option<Message>,
    /// Any success is an acknowledgement, whatever it says (C11).
    pub(super) outcome: Result<(), Error>,
}

/// Sends `call`, which carries the message of `send`.
pub(super) async fn post(context: Arc<Context>, send: Box<Send>, stream: u64, call: Call) {
    let (endpoint, headers) = (Arc::clone(&call.endpoint), Arc::clone(&call.headers));
    let (answer, outcome) = match context.send(call, SendOptions::of(&send.message)).await {
        Ok(response) if response.status().is_success() => {
            // The acknowledgement counts, whatever becomes of its body.
            let posted = Posted { send, stream, answer: None, outcome: Ok(()) };
            context.report(Report::Posted(posted));
            return drain(response.into_body()).await;
        }
        Ok(response) => {
            let refusal = Refusal::read(response, &context, send.message.request_id()).await;
            // `initialize` opens a session: there was none to be lost.
            let opens = send.message.is_request(&Method::Initialize);
            let fate = match opens {
                true => Fate::Answered,
                false => ping::fate(&context, &refusal, &send, &endpoint, &headers).await,
            };
            let lost = refusal.lost_session();
            match (fate, refusal.answer.filter(|_| refusal.is_own && !opens)) {
                (Fate::Lost, _) => (None, Err(lost)),
                (Fate::AnsweredThenLost, Some(answer)) => (Some(answer), Err(lost)),
                (_, Some(answer)) => (Some(answer), Ok(())),
                (_, None) => (None, Err(refusal.error)),
            }
        }
        Err(error) => (None, Err(error)),
    };
    let outcome = outcome.map_err(|error| context.scrubbed(error));
    context.report(Report::Posted(Posted { send, stream, answer, outcome }));
}
