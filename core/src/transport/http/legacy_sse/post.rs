//! One POST: told to the server, and acknowledged or not. The answer comes elsewhere.

use std::sync::Arc;

use http::HeaderMap;

use crate::error::Error;
use crate::message::{Head, Message, Method};
use crate::net::{Call, Endpoint};
use crate::transport::http::answer::{Refusal, drain};
use crate::transport::http::command::Ticket;
use crate::transport::http::ping::{self, Refused};
use crate::transport::http::report::Report;
use crate::transport::http::session_loss::Fate;
use crate::transport::http::{Context, SendOptions};

/// What became of a POST.
#[derive(Debug)]
pub(in super::super) enum Posted {
    /// Any success is an acknowledgement, whatever it says (C11).
    Accepted,
    /// The server does not know the session.
    SessionLost(Error),
    /// An answer under the id of the request, in place of an acknowledgement.
    Answered(Message),
    /// The same, but the session is lost by now.
    AnsweredThenLost(Message, Error),
    /// Anything else.
    Failed(Error),
}

/// Sends `call`, which carries the message with this ticket.
pub(super) async fn post(
    context: Arc<Context>,
    ticket: Ticket,
    call: Call,
    send_options: SendOptions,
) -> Report {
    let (endpoint, headers) = (Arc::clone(&call.endpoint), Arc::clone(&call.headers));
    let sent = call.body.clone();
    let posted = match context.send(call, send_options).await {
        Ok(response) if response.status().is_success() => {
            // The acknowledgement counts, whatever becomes of its body.
            context.report(Report::Posted { ticket, posted: Posted::Accepted });
            drain(response.into_body()).await;
            return Report::Ended;
        }
        Ok(response) => {
            let refusal = Refusal::read(response, &context).await;
            let sent = Message::parse(sent).ok();
            judge(&context, &refusal, sent.as_ref(), &endpoint, &headers).await
        }
        Err(error) => Posted::Failed(context.scrubbed(error)),
    };
    Report::Posted { ticket, posted }
}

/// What the refusal of the message `sent` means, by a ping to the same address if need be.
async fn judge(
    context: &Context,
    refusal: &Refusal,
    sent: Option<&Message>,
    endpoint: &Arc<Endpoint>,
    headers: &Arc<HeaderMap>,
) -> Posted {
    let own = sent.and_then(|sent| match sent.head() {
        Head::Request { id, .. } => Some(id),
        _ => None,
    });
    let method = sent.and_then(Message::method);
    if method == Some(&Method::Initialize) {
        // It opens a session: there was none to be lost.
        return Posted::Failed(context.scrubbed(refusal.error()));
    }
    let refused = Refused { refusal, id: own, method, endpoint, headers };
    match (ping::fate(context, refused).await, own.and_then(|own| refusal.answer_to(own))) {
        (Fate::Lost, _) => Posted::SessionLost(context.scrubbed(refusal.lost_session())),
        (Fate::AnsweredThenLost, Some(answer)) => {
            let lost = context.scrubbed(refusal.lost_session());
            Posted::AnsweredThenLost(answer, lost)
        }
        (_, Some(answer)) => Posted::Answered(answer),
        (_, None) => Posted::Failed(context.scrubbed(refusal.error())),
    }
}
