//! Asks by a ping in a session whether the server still knows it.

use std::sync::Arc;

use http::{HeaderMap, Method, Response};
use tokio::time::{Instant, timeout_at};
use tracing::debug;

use super::answer::{Refusal, drain};
use super::session_loss::{self, Complaint, Proof, Verdict};
use super::{Context, Manner};
use crate::limits;
use crate::message::{Id, reply};
use crate::net::backoff::entropy;
use crate::net::{Call, Content, Endpoint, Lane, Progress};
use crate::wire::media;

/// Whether what a message was refused for means that the server does not know its session. `endpoint`
/// and `headers` are those of POSTs in it, for the ping if one is needed.
pub(super) async fn is_session_lost(
    context: &Context,
    complaint: &Complaint<'_>,
    is_ping: bool,
    endpoint: &Arc<Endpoint>,
    headers: &Arc<HeaderMap>,
) -> bool {
    let verdict = session_loss::of_message(complaint, is_ping, context.habits.get());
    match verdict {
        Verdict::Answer => false,
        Verdict::Lost => true,
        Verdict::Suspected | Verdict::Presumed => {
            let proof = prove(context, Arc::clone(endpoint), Arc::clone(headers)).await;
            debug!(?verdict, ?proof, "a refusal may be about the session");
            session_loss::is_lost(verdict, proof)
        }
    }
}

/// Sends a ping to `endpoint` with the `headers` of the session, and judges the answer.
pub(super) async fn prove(
    context: &Context,
    endpoint: Arc<Endpoint>,
    headers: Arc<HeaderMap>,
) -> Proof {
    let quick = context.settings.timeouts.quick.unwrap_or(limits::PROOF_WAIT);
    let deadline = Instant::now() + quick.min(limits::PROOF_WAIT);
    let id = Id::string(&format!("mcp-span-{:016x}", entropy()));
    let call = Call {
        method: Method::POST,
        endpoint,
        headers,
        body: reply::request(&id, "ping").bytes().clone(),
        // An answer is kept back for it: it must not wait behind calls.
        lane: Lane::Urgent,
        progress: Progress::default(),
    };
    let Ok(Ok(response)) = timeout_at(deadline, context.send(call, Manner::aside())).await else {
        return Proof::Silence;
    };
    let is_success = response.status().is_success();
    if is_success && media::of(response.headers()) != media::Media::Json {
        context.habits.note_answered_ping();
        let _ = timeout_at(deadline, read_rest(response)).await;
        return Proof::Lives;
    }
    let answer = Refusal::read(response, context).await;
    let proof = session_loss::of_ping(&answer.complaint(Some(&id)), context.habits.get());
    if proof == Proof::Lives {
        context.habits.note_answered_ping();
    }
    proof
}

/// So that the connection can be used again; but an event stream may stay open after the answer.
async fn read_rest(response: Response<Content>) {
    if media::of(response.headers()) != media::Media::EventStream {
        drain(response.into_body()).await;
    }
}
