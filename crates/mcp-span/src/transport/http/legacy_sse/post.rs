//! One POST: told to the server, and acknowledged or refused. The answer comes elsewhere.

use std::sync::Arc;

use crate::error::Error;
use crate::message::{Message, Method};
use crate::net::Call;
use crate::transport::http::answer::{Refusal, drain};
use crate::transport::http::ping;
use crate::transport::http::report::Report;
use crate::transport::http::session_loss::Fate;
use crate::transport::http::{Context, SendOptions};
use crate::transport::{Event, Send};

/// A POST that was not acknowledged.
#[derive(Debug)]
pub(in super::super) struct RefusedPost {
    pub(super) send: Box<Send>,
    /// Which stream was open when it left.
    pub(super) stream: u64,
    pub(super) fate: Fate,
    /// An answer under the id of the request, in place of an acknowledgement.
    pub(super) answer: Option<Message>,
    pub(super) error: Error,
}

/// Sends `call`, which carries the message of `send`.
pub(super) async fn post(context: Arc<Context>, send: Box<Send>, stream: u64, call: Call) {
    let sent = context.send(call.clone(), SendOptions::of(&send.message)).await;
    context.note_answer(&sent);
    let (fate, answer, error) = match sent {
        // Any success is an acknowledgement, whatever it says (C11), and whatever becomes of its body.
        Ok(response) if response.status().is_success() => {
            context.events.push(Event::Accepted(send.ticket));
            return drain(response.into_body()).await;
        }
        Ok(response) => {
            let refusal = Refusal::read(response, &context, send.message.request_id()).await;
            // `initialize` opens a session: there was none to be lost.
            match send.message.is_request(&Method::Initialize) {
                true => (Fate::Answered, None, refusal.error),
                false => {
                    let fate = ping::fate(&context, &refusal, &send, &call).await;
                    (fate, refusal.answer.filter(|_| refusal.is_own), refusal.error)
                }
            }
        }
        Err(error) => (Fate::Answered, None, error),
    };
    let error = context.scrubbed(error);
    context.report(Report::Refused(RefusedPost { send, stream, fate, answer, error }));
}
