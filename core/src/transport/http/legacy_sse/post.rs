//! One POST: told to the server, and acknowledged or not. The answer comes elsewhere.

use std::sync::Arc;

use http::HeaderMap;
use tokio::sync::mpsc;

use super::driver::Report;
use crate::error::Error;
use crate::message::{Head, Message, Method};
use crate::net::{Call, Endpoint};
use crate::transport::Alarm;
use crate::transport::http::answer::{Refusal, drain};
use crate::transport::http::command::Ticket;
use crate::transport::http::ping::{self, Refused};
use crate::transport::http::session_loss::Fate;
use crate::transport::http::{Context, Manner, posters};

/// What became of a POST.
#[derive(Debug)]
pub(super) enum Posted {
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

/// A message with this ticket, the request that carries it, and to whom it is reported.
pub(super) struct Errand {
    pub(super) ticket: Ticket,
    pub(super) call: Call,
    pub(super) manner: Manner,
    pub(super) reports: mpsc::Sender<Report>,
}

impl posters::Errand for Errand {
    fn ticket(&self) -> Ticket {
        self.ticket
    }

    async fn run(self, context: Arc<Context>, mut alarm: Alarm) -> Alarm {
        let Self { ticket, call, manner, reports } = self;
        let (endpoint, headers) = (Arc::clone(&call.endpoint), Arc::clone(&call.headers));
        let sent = call.body.clone();
        let (posted, body) = match context.send_by(call, manner, &mut alarm).await {
            Ok(response) if response.status().is_success() => {
                (Posted::Accepted, Some(response.into_body()))
            }
            Ok(response) => {
                let refusal = Refusal::read(response, &context).await;
                let sent = Message::parse(sent).ok();
                let judged = judge(&context, &refusal, sent.as_ref(), &endpoint, &headers);
                (Box::pin(judged).await, None)
            }
            Err(error) => (Posted::Failed(context.scrubbed(error)), None),
        };
        let _ = reports.send(Report::Posted { ticket, posted }).await;
        if let Some(body) = body {
            drain(body).await;
        }
        alarm
    }
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
