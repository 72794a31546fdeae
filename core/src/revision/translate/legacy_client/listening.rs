//! The subscription through which a legacy client hears of changes: opened when its handshake is
//! done, opened anew when it wants to hear of other resources, and again when it was lost.
//!
//! At most one request for it is unacknowledged at a time. What the client changes meanwhile is
//! gathered for the next one; if that is refused, the changes are tried one by one, so that each
//! gets an answer of its own.

use std::collections::{BTreeSet, VecDeque};

use tokio::time::Instant;
use tracing::debug;

use super::calls::{parameter, subscription};
use super::{Translation, TranslatorContext};
use crate::error::{Error, Kind};
use crate::limits;
use crate::message::{Head, Id, Json, Members, Message, Method, peek, reply};
use crate::net::backoff::doubled;
use crate::revision::subscription::{Changes, Promise};

/// One request for it.
#[derive(Debug)]
struct ListenStream {
    id: Id,
    uris: BTreeSet<String>,
    /// When the server has acknowledged it.
    since: Option<Instant>,
}

/// A `resources/subscribe` or `resources/unsubscribe` that is not in force yet.
#[derive(Debug)]
struct Change {
    /// The request that is answered when it is.
    id: Id,
    uri: String,
    is_wanted: bool,
}

impl Change {
    fn apply(&self, uris: &mut BTreeSet<String>) {
        if self.is_wanted {
            uris.insert(self.uri.clone());
        } else {
            uris.remove(&self.uri);
        }
    }
}

/// The subscription as it stands.
#[derive(Debug, Default)]
pub(super) struct Subscription {
    /// What the server announces.
    offered: Changes,
    /// The resources that the client hears of, or will when the stream is there again.
    uris: BTreeSet<String>,
    /// What it wants to be different, in the order of its requests.
    changes: VecDeque<Change>,
    /// The handshake is done.
    is_ready: bool,
    /// The stream that brings what is new.
    standing: Option<ListenStream>,
    /// The one that replaces it once it is acknowledged: nothing is missed in between.
    opening: Option<ListenStream>,
    /// How many of the changes `opening` would bring into force.
    taken: usize,
    /// Several changes were refused together: they are tried one by one.
    is_careful: bool,
    /// When the changes are taken to be in force all the same.
    answer_at: Option<Instant>,
    /// When to try again.
    retry_at: Option<Instant>,
    tries: u32,
    /// A stream was lost: something may have happened meanwhile.
    has_gap: bool,
    /// The server has acknowledged one, so it knows the method.
    was_taken_up: bool,
    /// The server does not know the method.
    is_refused: bool,
}

impl Subscription {
    pub(super) fn new(offered: Changes) -> Self {
        Self { offered, ..Self::default() }
    }

    /// Whether `id` is one of its streams.
    pub(super) fn is(&self, id: &Id) -> bool {
        self.standing.iter().chain(&self.opening).any(|stream| stream.id == *id)
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        [self.answer_at, self.retry_at].into_iter().flatten().min()
    }

    /// Nobody will be listened to.
    pub(super) fn end_all(mut self, error: &Error, cx: &mut TranslatorContext) {
        for stream in self.standing.take().into_iter().chain(self.opening.take()) {
            close(&stream, cx);
        }
        self.refuse_all(cx, |id| reply::error(Some(id), error));
    }

    /// The first `count` changes are in force.
    fn settle(&mut self, count: usize, cx: &mut TranslatorContext) {
        for change in self.changes.drain(..count.min(self.changes.len())) {
            change.apply(&mut self.uris);
            cx.send_to_client(reply::raw_result(Some(&change.id), "{}"));
        }
        self.taken = 0;
        self.is_careful &= !self.changes.is_empty();
        if self.changes.is_empty() {
            self.answer_at = None;
        }
    }

    /// No change comes into force.
    fn refuse_all(&mut self, cx: &mut TranslatorContext, answer: impl Fn(&Id) -> Message) {
        (self.taken, self.is_careful, self.answer_at) = (0, false, None);
        for change in self.changes.drain(..) {
            cx.send_to_client(answer(&change.id));
        }
    }

    /// Whether the newest stream asks for something else than what is wanted.
    fn is_outdated(&self) -> bool {
        let newest = self.opening.as_ref().or(self.standing.as_ref());
        newest.is_none_or(|stream| stream.uris != self.uris)
    }

    /// A stream that had been acknowledged, or would have been, is no more.
    fn lost(&mut self, stream: &ListenStream, now: Instant) {
        if stream.since.is_some_and(|since| now >= since + limits::STREAM_STEADY) {
            self.tries = 0;
        }
        self.has_gap = true;
        if self.standing.is_none() && self.opening.is_none() {
            self.try_later(now);
        }
    }

    /// Pauses double from one try to the next.
    fn try_later(&mut self, now: Instant) {
        self.retry_at = Some(now + doubled(limits::BACKOFF_BASE, self.tries, limits::BACKOFF_CAP));
        self.tries += 1;
        self.has_gap = true;
    }

    /// The client has been told of everything that may have happened without a stream.
    fn tell_gap(&mut self, cx: &mut TranslatorContext) {
        if !std::mem::take(&mut self.has_gap) {
            return;
        }
        for list in &self.offered.lists {
            cx.send_to_client(reply::notification(list.changed.name()));
        }
        for uri in &self.uris {
            cx.send_to_client(reply::resource_updated(uri));
        }
    }
}

impl Translation {
    /// The client's handshake is done: it wants to hear of changes from now on.
    pub(super) fn listen(&mut self, cx: &mut TranslatorContext) {
        self.listening.is_ready = true;
        if self.listening.standing.is_none() {
            self.open_stream(cx);
        }
    }

    /// Asks for the stream that is wanted now, unless an answer about one is awaited.
    fn open_stream(&mut self, cx: &mut TranslatorContext) {
        let listening = &mut self.listening;
        if listening.opening.is_some() {
            return;
        }
        listening.retry_at = None;
        let taken = if listening.is_careful { 1 } else { listening.changes.len() };
        let mut uris = listening.uris.clone();
        listening.changes.iter().take(taken).for_each(|change| change.apply(&mut uris));
        let is_wanted = !(listening.offered.lists.is_empty() && uris.is_empty());
        if !is_wanted || !listening.is_ready || listening.is_refused {
            listening.standing.take().iter().for_each(|stream| close(stream, cx));
            return listening.settle(usize::MAX, cx);
        }
        let id = cx.number();
        let mut params = Members::default();
        let lists = listening.offered.lists.clone();
        let resources = uris.iter().cloned().collect();
        Promise { lists, resources }.write(params.object("notifications"));
        let request = reply::raw_request(&id, "subscriptions/listen", &params.to_json());
        cx.send_to_server(self.introduction.put_around(&request, None));
        listening.taken = taken;
        listening.opening = Some(ListenStream { id, uris, since: None });
    }

    /// `resources/subscribe` and `resources/unsubscribe`.
    pub(super) fn change_subscriptions(&mut self, request: &Message, cx: &mut TranslatorContext) {
        let Head::Request { id, method } = request.head() else { return };
        let listening = &mut self.listening;
        if !listening.offered.resources || listening.is_refused {
            return cx.send_to_client(reply::method_not_found(id, method.name()));
        }
        let Some(uri) = parameter(request, "uri") else {
            return cx.refuse(id, "The parameter uri is missing");
        };
        let is_wanted = *method == Method::ResourcesSubscribe;
        if listening.changes.is_empty() && listening.uris.contains(&uri) == is_wanted {
            // It is in force already, or will be when the stream is there again.
            return cx.send_to_client(reply::raw_result(Some(id), "{}"));
        }
        if listening.changes.len() + listening.uris.len() >= limits::LISTEN_RESOURCES && is_wanted {
            let limit = limits::LISTEN_RESOURCES;
            let text = format!("More than {limit} resources cannot be subscribed to at once");
            let error = Error::new(Kind::Overloaded, text).not_delivered();
            return cx.fail(id, &error);
        }
        listening.changes.push_back(Change { id: id.clone(), uri, is_wanted });
        listening.answer_at.get_or_insert(cx.now + limits::LISTEN_PATIENCE);
        self.open_stream(cx);
    }

    /// The server has taken a subscription up.
    pub(super) fn acknowledged(&mut self, message: &Message, cx: &mut TranslatorContext) {
        let listening = &mut self.listening;
        let Some(id) = subscription(message) else { return };
        let Some(mut stream) = listening.opening.take_if(|opening| opening.id == id) else {
            return;
        };
        stream.since = Some(cx.now);
        listening.was_taken_up = true;
        if let Some(former) = listening.standing.replace(stream) {
            close(&former, cx);
        }
        listening.tell_gap(cx);
        listening.settle(listening.taken, cx);
        if !listening.changes.is_empty() || listening.is_outdated() {
            self.open_stream(cx);
        }
    }

    /// The server has ended a subscription or does not take it up, or it was lost on its way.
    pub(super) fn listening_ended(
        &mut self,
        id: &Id,
        end: Result<&Message, &Error>,
        cx: &mut TranslatorContext,
    ) {
        let listening = &mut self.listening;
        if let Some(stream) = listening.standing.take_if(|standing| standing.id == *id) {
            return listening.lost(&stream, cx.now);
        }
        let Some(stream) = listening.opening.take_if(|opening| opening.id == *id) else { return };
        match end {
            Ok(answer) if matches!(answer.head(), Head::Response { is_error: true, .. }) => {
                debug!(what = ?answer, "the server takes up no subscription");
                self.refused(answer, cx);
            }
            Ok(_) => listening.lost(&stream, cx.now),
            Err(error) => {
                debug!("the subscription was lost: {error}");
                listening.lost(&stream, cx.now);
                listening.refuse_all(cx, |id| reply::error(Some(id), error));
            }
        }
    }

    /// What was asked for last is not to be had; what there was before it stays.
    fn refused(&mut self, answer: &Message, cx: &mut TranslatorContext) {
        let listening = &mut self.listening;
        let error = answer.get(&["error"]).map_or("{}", Json::as_str);
        let is_unknown = peek::error_code(answer).is_some_and(|(code, _)| code == -32601);
        if is_unknown && !listening.was_taken_up {
            listening.is_refused = true;
            return listening.refuse_all(cx, |id| reply::raw_error(Some(id), error));
        }
        match listening.taken {
            // What was granted yesterday and is refused today may be granted tomorrow.
            0 if listening.is_outdated() => return listening.try_later(cx.now),
            0 => return,
            1 => {
                if let Some(change) = listening.changes.pop_front() {
                    cx.send_to_client(reply::raw_error(Some(&change.id), error));
                }
                listening.settle(0, cx);
            }
            _ => listening.is_careful = true,
        }
        if listening.changes.is_empty() && listening.standing.is_some() {
            return;
        }
        self.open_stream(cx);
    }

    pub(super) fn tick_listening(&mut self, cx: &mut TranslatorContext) {
        let now = cx.now;
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let listening = &mut self.listening;
        if is_due(listening.answer_at) {
            // Some servers never say that they listen: then the newest request replaces the last.
            listening.settle(usize::MAX, cx);
            if listening.retry_at.is_none() && listening.is_outdated() {
                let unheard = listening.opening.take();
                self.open_stream(cx);
                unheard.iter().for_each(|stream| close(stream, cx));
            }
        }
        if is_due(self.listening.retry_at) {
            self.open_stream(cx);
        }
    }
}

fn close(stream: &ListenStream, cx: &mut TranslatorContext) {
    cx.send_to_server(reply::cancelled(&stream.id, "replaced"));
}
