//! The subscription through which a legacy client hears of changes: opened when its handshake is
//! done, opened anew when it wants to hear of other resources, and again when it was lost.
//!
//! At most one request for it is unacknowledged at a time. What the client changes meanwhile is
//! gathered for the next one; if that is refused, the changes are tried one by one, so that each
//! gets an answer of its own.

use std::collections::{BTreeSet, VecDeque};

use tokio::time::Instant;
use tracing::debug;

use super::TranslatorContext;
use super::calls::subscription;
use crate::error::{Error, ErrorKind};
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
    /// When it is taken to be in force all the same.
    until: Instant,
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
    /// When to try again.
    retry_at: Option<Instant>,
    tries: u32,
    /// A stream was lost: something may have happened meanwhile.
    has_gap: bool,
    /// The server has acknowledged one: it knows the method.
    is_known: bool,
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
        let patience = self.changes.front().map(|change| change.until);
        patience.into_iter().chain(self.retry_at).min()
    }

    /// The client's handshake is done: it wants to hear of changes from now on.
    pub(super) fn listen(&mut self, cx: &mut TranslatorContext) {
        self.is_ready = true;
        if self.standing.is_none() {
            self.open(cx);
        }
    }

    /// Nobody will be listened to.
    pub(super) fn end_all(mut self, error: &Error, cx: &mut TranslatorContext) {
        close(self.standing.take(), cx);
        close(self.opening.take(), cx);
        self.refuse_all(cx, |id| reply::error(Some(id), error));
    }

    /// Asks for the stream that is wanted now, unless an answer about one is awaited.
    fn open(&mut self, cx: &mut TranslatorContext) {
        if self.opening.is_some() {
            return;
        }
        self.retry_at = None;
        let taken = if self.is_careful { 1 } else { self.changes.len() };
        let mut uris = self.uris.clone();
        self.changes.iter().take(taken).for_each(|change| change.apply(&mut uris));
        let is_wanted = !(self.offered.lists.is_empty() && uris.is_empty());
        if !is_wanted || !self.is_ready {
            close(self.standing.take(), cx);
            return self.settle(usize::MAX, cx);
        }
        let id = cx.number();
        let mut params = Members::default();
        self.promise(&uris).write(params.object("notifications"));
        cx.introduction.fill(&mut params);
        cx.send_to_server(reply::request(&id, Method::Listen.name(), Some(&params.to_json())));
        self.taken = taken;
        self.opening = Some(ListenStream { id, uris, since: None });
    }

    /// `resources/subscribe` and `resources/unsubscribe`.
    pub(super) fn change(&mut self, request: &Message, cx: &mut TranslatorContext) {
        let Head::Request { id, method } = request.head() else { return };
        if !self.offered.resources {
            return cx.send_to_client(reply::method_not_found(id, method.name()));
        }
        let Some(uri) = peek::subject(request) else {
            return cx.refuse(id, "The parameter uri is missing");
        };
        let is_wanted = *method == Method::ResourcesSubscribe;
        if self.changes.is_empty() && self.uris.contains(&uri) == is_wanted {
            // It is in force already, or will be when the stream is there again.
            return cx.send_to_client(reply::raw_result(Some(id), "{}"));
        }
        if self.changes.len() + self.uris.len() >= limits::LISTEN_RESOURCES && is_wanted {
            let limit = limits::LISTEN_RESOURCES;
            let text = format!("More than {limit} resources cannot be subscribed to at once");
            return cx.fail(id, &Error::new(ErrorKind::Overloaded, text).not_delivered());
        }
        let until = cx.now + limits::LISTEN_PATIENCE;
        self.changes.push_back(Change { id: id.clone(), uri, is_wanted, until });
        self.open(cx);
    }

    /// The server has taken a subscription up.
    pub(super) fn acknowledged(&mut self, message: &Message, cx: &mut TranslatorContext) {
        let Some(id) = subscription(message) else { return };
        let Some(mut stream) = self.opening.take_if(|opening| opening.id == id) else { return };
        stream.since = Some(cx.now);
        self.is_known = true;
        close(self.standing.replace(stream), cx);
        if std::mem::take(&mut self.has_gap) {
            // All that may have happened without a stream.
            let missed = self.promise(&self.uris).missed(None);
            missed.into_iter().for_each(|notice| cx.send_to_client(notice));
        }
        self.settle(self.taken, cx);
        if !self.changes.is_empty() || self.is_outdated() {
            self.open(cx);
        }
    }

    /// The server has ended a subscription or does not take it up, or it was lost on its way.
    pub(super) fn ended(
        &mut self,
        id: &Id,
        end: Result<&Message, &Error>,
        cx: &mut TranslatorContext,
    ) {
        if let Some(stream) = self.standing.take_if(|standing| standing.id == *id) {
            return self.lost(&stream, cx.now);
        }
        let Some(stream) = self.opening.take_if(|opening| opening.id == *id) else { return };
        match end {
            Ok(answer) if answer.is_error() => return self.refused(answer, cx),
            Ok(_) => {}
            Err(error) => {
                debug!("the subscription was lost: {error}");
                self.refuse_all(cx, |id| reply::error(Some(id), error));
            }
        }
        self.lost(&stream, cx.now);
    }

    /// What was asked for last is not to be had; what there was before it stays.
    fn refused(&mut self, answer: &Message, cx: &mut TranslatorContext) {
        debug!(what = ?answer, "the server takes up no subscription");
        let error = answer.get(&["error"]).map_or("{}", Json::as_str);
        let is_unknown = peek::error_code(answer).is_some_and(|(code, _)| code == -32601);
        if is_unknown && !self.is_known {
            // It announces nothing, whatever it says.
            (self.offered, self.uris) = Default::default();
            return self.refuse_all(cx, |id| reply::raw_error(Some(id), error));
        }
        match self.taken {
            // What was granted yesterday and is refused today may be granted tomorrow.
            0 if self.is_outdated() => return self.try_later(cx.now),
            0 => return,
            1 => {
                if let Some(change) = self.changes.pop_front() {
                    cx.send_to_client(reply::raw_error(Some(&change.id), error));
                }
                self.settle(0, cx);
            }
            _ => self.is_careful = true,
        }
        if !self.changes.is_empty() || self.standing.is_none() {
            self.open(cx);
        }
    }

    pub(super) fn tick(&mut self, cx: &mut TranslatorContext) {
        if self.changes.front().is_some_and(|change| change.until <= cx.now) {
            // Some servers never say that they listen: then the newest request replaces the last.
            self.settle(usize::MAX, cx);
            if self.retry_at.is_none() && self.is_outdated() {
                let unheard = self.opening.take();
                self.open(cx);
                close(unheard, cx);
            }
        }
        if self.retry_at.is_some_and(|at| at <= cx.now) {
            self.open(cx);
        }
    }

    /// The first `count` changes are in force.
    fn settle(&mut self, count: usize, cx: &mut TranslatorContext) {
        for change in self.changes.drain(..count.min(self.changes.len())) {
            change.apply(&mut self.uris);
            cx.send_to_client(reply::raw_result(Some(&change.id), "{}"));
        }
        self.taken = 0;
        self.is_careful &= !self.changes.is_empty();
    }

    /// No change comes into force.
    fn refuse_all(&mut self, cx: &mut TranslatorContext, answer: impl Fn(&Id) -> Message) {
        (self.taken, self.is_careful) = (0, false);
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

    /// What a stream for these resources promises.
    fn promise(&self, uris: &BTreeSet<String>) -> Promise {
        let lists = self.offered.lists.clone();
        Promise { lists, resources: uris.iter().cloned().collect() }
    }
}

fn close(stream: Option<ListenStream>, cx: &mut TranslatorContext) {
    if let Some(stream) = stream {
        cx.send_to_server(reply::cancelled(&stream.id, "replaced"));
    }
}
