//! Asks by a ping in a session whether the server still knows it.

use tokio::time::{Instant, timeout_at};
use tracing::debug;

use super::answer::{Answer, Refusal, drain};
use super::session_loss::{self, Complaint, Fate, LossVerdict, Proof};
use super::{Context, SendOptions, legacy_sse};
use crate::limits;
use crate::lock::lock;
use crate::message::{Id, Method, reply};
use crate::net::backoff::entropy;
use crate::net::{Call, Lane, Progress};
use crate::transport::Send;
use crate::wire::{header, media};

/// What becomes of the message that `sent` and `post` carried and `refusal` is about, and of its
/// session: by a ping if need be.
pub(super) async fn fate(context: &Context, refusal: &Refusal, sent: &Send, post: &Call) -> Fate {
    let session = session(post);
    let complaint = refusal.complaint(session.as_deref());
    let is_ping = sent.message.is_request(&Method::Ping);
    if is_ping {
        lock(&context.habits).note_refused_ping(session.as_deref(), &complaint);
    }
    let is_safe = sent.message.method().is_some_and(|method| method.properties().is_safe);
    let verdict = session_loss::of_message(&complaint, is_ping, &lock(&context.habits));
    let fate = match verdict {
        LossVerdict::Answer => Fate::Answered,
        LossVerdict::Lost => Fate::Lost,
        LossVerdict::Suspected | LossVerdict::Presumed => {
            let (proof, pinged) = ask(context, post).await;
            debug!(?verdict, ?proof, "a refusal may be about the session");
            session_loss::fate(verdict, proof, &complaint, pinged.as_ref(), is_safe)
        }
    };
    if fate == Fate::Lost && sent.is_last_try {
        lock(&context.habits).note_last_loss(&complaint);
    }
    fate
}

/// The session that `call` is sent in. The older transport has it in the address.
pub(super) fn session(call: &Call) -> Option<String> {
    let header = call.headers.get(header::SESSION_ID).and_then(|id| id.to_str().ok());
    header.map(str::to_owned).or_else(|| legacy_sse::session(call.endpoint.url()))
}

/// Sends a ping where `post` goes, judges the answer, and gives back what was said if it was not a
/// success.
pub(super) async fn ask(context: &Context, post: &Call) -> (Proof, Option<Complaint>) {
    let quick = context.settings.timeouts.quick.unwrap_or(limits::PROOF_WAIT);
    let deadline = Instant::now() + quick.min(limits::PROOF_WAIT);
    let id = own_id();
    let session = session(post);
    let call = Call {
        body: reply::request(&id, "ping", None).bytes().clone(),
        // An answer is kept back for it: it must not wait behind calls.
        lane: Lane::Urgent,
        progress: Progress::default(),
        ..post.clone()
    };
    let Ok(Ok(response)) = timeout_at(deadline, context.send(call, SendOptions::aside())).await
    else {
        return (Proof::Silence, None);
    };
    let is_success = response.status().is_success();
    if is_success && media::of(response.headers()) != media::Media::Json {
        lock(&context.habits).note_answered_ping();
        // So that the connection can be used again; but an event stream may stay open.
        if Answer::of(&response) != Answer::Events {
            let _ = timeout_at(deadline, drain(response.into_body())).await;
        }
        return (Proof::Lives, None);
    }
    let complaint = Refusal::read(response, context, Some(&id)).await.complaint(session.as_deref());
    let mut habits = lock(&context.habits);
    habits.note_refused_ping(session.as_deref(), &complaint);
    let proof = session_loss::of_ping(&complaint, &habits);
    if proof == Proof::Lives {
        habits.note_answered_ping();
    }
    (proof, Some(complaint))
}

/// An id for a request of the link's own.
pub(super) fn own_id() -> Id {
    Id::string(&format!("mcp-span-{:016x}", entropy()))
}
