//! One POST: told to the server, and acknowledged or not. The answer comes elsewhere.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::driver::Report;
use crate::error::Error;
use crate::net::Call;
use crate::transport::Alarm;
use crate::transport::http::answer::{Refusal, drain};
use crate::transport::http::{Context, Manner, posters};

/// What became of a POST.
#[derive(Debug)]
pub(super) enum Posted {
    /// Any success is an acknowledgement, whatever it says (C11).
    Accepted,
    /// The server does not know the session.
    SessionLost(Error),
    /// Anything else.
    Failed(Error),
}

/// A message with this ticket, the request that carries it, and to whom it is reported.
pub(super) struct Errand {
    pub(super) ticket: u64,
    pub(super) call: Call,
    pub(super) manner: Manner,
    pub(super) reports: mpsc::Sender<Report>,
}

impl posters::Errand for Errand {
    fn ticket(&self) -> u64 {
        self.ticket
    }

    async fn run(self, context: Arc<Context>, mut alarm: Alarm) -> Alarm {
        let Self { ticket, call, manner, reports } = self;
        let (posted, body) = match context.send_by(call, manner, &mut alarm).await {
            Ok(response) if response.status().is_success() => {
                (Posted::Accepted, Some(response.into_body()))
            }
            Ok(response) => {
                let refusal = Refusal::read(response, &context).await;
                let posted = if refusal.tells_of_lost_session() {
                    Posted::SessionLost(context.scrubbed(refusal.lost_session()))
                } else {
                    Posted::Failed(context.scrubbed(refusal.error()))
                };
                (posted, None)
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
