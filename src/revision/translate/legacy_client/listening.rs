//! The subscription through which a legacy client hears of changes: opened when its handshake is
//! done, opened anew when it wants to hear of other resources, and again when it was lost.

use std::collections::BTreeSet;

use serde::Deserialize;
use tokio::time::Instant;
use tracing::debug;

use super::calls::{parameter, subscription};
use super::{Ids, Step, Steps, Translation};
use crate::error::Error;
use crate::limits;
use crate::message::{Head, Id, Members, Message, peek, reply};

/// What a client may hear of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Filter {
    tools: bool,
    prompts: bool,
    resources: bool,
    /// Whether single resources can be subscribed to.
    can_subscribe: bool,
    uris: BTreeSet<String>,
}

impl Filter {
    /// All lists that a server with these capabilities tells of.
    pub(super) fn of(capabilities: &str) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Capabilities {
            tools: Offered,
            prompts: Offered,
            resources: Offered,
        }
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Offered {
            list_changed: bool,
            subscribe: bool,
        }
        let offered: Capabilities = serde_json::from_str(capabilities).unwrap_or_default();
        Self {
            tools: offered.tools.list_changed,
            prompts: offered.prompts.list_changed,
            resources: offered.resources.list_changed,
            can_subscribe: offered.resources.subscribe,
            uris: BTreeSet::new(),
        }
    }

    fn is_empty(&self) -> bool {
        !(self.tools || self.prompts || self.resources) && self.uris.is_empty()
    }

    fn lists(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        [
            (self.tools, "toolsListChanged", "notifications/tools/list_changed"),
            (self.prompts, "promptsListChanged", "notifications/prompts/list_changed"),
            (self.resources, "resourcesListChanged", "notifications/resources/list_changed"),
        ]
        .into_iter()
        .filter_map(|(wanted, name, method)| wanted.then_some((name, method)))
    }

    /// The parameters of `subscriptions/listen`, as JSON.
    fn params(&self) -> String {
        let mut notifications = serde_json::Map::new();
        for (name, _) in self.lists() {
            notifications.insert(name.to_owned(), true.into());
        }
        if !self.uris.is_empty() {
            let uris: Vec<&str> = self.uris.iter().map(String::as_str).collect();
            notifications.insert("resourceSubscriptions".to_owned(), uris.into());
        }
        serde_json::json!({ "notifications": notifications }).to_string()
    }
}

/// One request for it.
#[derive(Debug)]
struct Stream {
    id: Id,
    uris: BTreeSet<String>,
    /// When the server has acknowledged it.
    since: Option<Instant>,
}

/// The subscription as it stands.
#[derive(Debug, Default)]
pub(super) struct Listening {
    wanted: Filter,
    /// The handshake is done.
    is_ready: bool,
    /// The stream that was asked for last.
    current: Option<Stream>,
    /// Those before it, which stay until it is acknowledged: nothing is missed in between.
    former: Vec<Stream>,
    /// Requests of the client's that are answered when the current stream is acknowledged.
    unanswered: Vec<Id>,
    /// When they are answered all the same.
    answer_at: Option<Instant>,
    /// When to try again.
    retry_at: Option<Instant>,
    tries: u32,
    /// A stream was lost: something may have happened meanwhile.
    has_gap: bool,
    /// The server does not know the method.
    is_refused: bool,
}

impl Listening {
    pub(super) fn new(wanted: Filter) -> Self {
        Self { wanted, ..Self::default() }
    }

    /// Whether `id` is one of its streams.
    pub(super) fn is(&self, id: &Id) -> bool {
        self.current.iter().chain(&self.former).any(|stream| stream.id == *id)
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        [self.answer_at, self.retry_at].into_iter().flatten().min()
    }

    /// Nobody will be listened to.
    pub(super) fn end_all(mut self, error: &Error, out: &mut Steps) {
        self.former.extend(self.current.take());
        self.close_former(out);
        self.answer_all(out, |id| reply::error(Some(id), error));
    }

    fn answer_all(&mut self, out: &mut Steps, answer: impl Fn(&Id) -> Message) {
        self.answer_at = None;
        for id in self.unanswered.drain(..) {
            out.push_back(Step::ToClient(answer(&id)));
        }
    }

    /// Takes the current stream out, if it is the one that has ended.
    fn ended(&mut self, id: &Id, now: Instant) -> Option<Stream> {
        self.former.retain(|former| former.id != *id);
        let stream = self.current.take_if(|current| current.id == *id)?;
        if stream.since.is_some_and(|since| now >= since + limits::STREAM_STEADY) {
            self.tries = 0;
        }
        Some(stream)
    }

    /// Pauses double from one try to the next.
    fn try_later(&mut self, now: Instant) {
        let pause = limits::BACKOFF_BASE.saturating_mul(1 << self.tries.min(16));
        self.tries += 1;
        self.retry_at = Some(now + pause.min(limits::BACKOFF_CAP));
        self.has_gap = true;
    }
}

impl Translation {
    /// The client's handshake is done: it wants to hear of changes from now on.
    pub(super) fn listen(&mut self, ids: &mut Ids, now: Instant, out: &mut Steps) {
        self.listening.is_ready = true;
        if self.listening.current.is_none() {
            self.open_stream(ids, now, out);
        }
    }

    fn open_stream(&mut self, ids: &mut Ids, now: Instant, out: &mut Steps) {
        let listening = &mut self.listening;
        listening.retry_at = None;
        listening.former.extend(listening.current.take());
        if listening.wanted.is_empty() || !listening.is_ready || listening.is_refused {
            listening.close_former(out);
            return listening.answer_all(out, |id| reply::raw_result(Some(id), "{}"));
        }
        let id = ids.number();
        let request = reply::raw_request(&id, "subscriptions/listen", &listening.wanted.params());
        out.push_back(Step::ToServer(self.envelope.put_around(&request, Some(&id))));
        let uris = listening.wanted.uris.clone();
        listening.current = Some(Stream { id, uris, since: None });
        if !listening.unanswered.is_empty() {
            listening.answer_at = Some(now + limits::LISTEN_PATIENCE);
        }
    }

    /// `resources/subscribe` and `resources/unsubscribe`.
    pub(super) fn change_subscriptions(
        &mut self,
        request: &Message,
        ids: &mut Ids,
        now: Instant,
        out: &mut Steps,
    ) {
        let Head::Request { id, method } = request.head() else { return };
        let listening = &mut self.listening;
        if !listening.wanted.can_subscribe || listening.is_refused {
            return out.push_back(Step::ToClient(reply::method_not_found(id, method)));
        }
        let Some(uri) = parameter(request, "uri") else {
            let answer = reply::refusal(id, -32602, "The parameter uri is missing");
            return out.push_back(Step::ToClient(answer));
        };
        let changes = match &**method {
            "resources/subscribe" => listening.wanted.uris.insert(uri),
            _ => listening.wanted.uris.remove(&uri),
        };
        listening.unanswered.push(id.clone());
        if changes {
            return self.open_stream(ids, now, out);
        }
        // It is in force already, or will be with the stream that is under way.
        if listening.current.as_ref().is_none_or(|current| current.since.is_some()) {
            listening.answer_all(out, |id| reply::raw_result(Some(id), "{}"));
        }
    }

    /// The server has taken a subscription up.
    pub(super) fn acknowledged(&mut self, message: &Message, now: Instant, out: &mut Steps) {
        let listening = &mut self.listening;
        let (Some(id), Some(current)) = (subscription(message), &mut listening.current) else {
            return;
        };
        if id != current.id {
            return;
        }
        current.since.get_or_insert(now);
        listening.close_former(out);
        if std::mem::take(&mut listening.has_gap) {
            for (_, method) in listening.wanted.lists() {
                out.push_back(Step::ToClient(reply::notification(method)));
            }
            for uri in &listening.wanted.uris {
                out.push_back(Step::ToClient(reply::resource_updated(uri)));
            }
        }
        listening.answer_all(out, |id| reply::raw_result(Some(id), "{}"));
    }

    /// The server has ended a subscription, or does not take it up.
    pub(super) fn listening_ended(
        &mut self,
        id: &Id,
        answer: &Message,
        now: Instant,
        out: &mut Steps,
    ) {
        let listening = &mut self.listening;
        if listening.ended(id, now).is_none() {
            return;
        }
        if !matches!(answer.head(), Head::Response { is_error: true, .. }) {
            return listening.try_later(now);
        }
        debug!(?answer, "the server takes up no subscription");
        // What was asked for last is not to be had; what there was before it stays.
        let before = listening.former.pop();
        listening.wanted.uris = before.as_ref().map(|b| b.uris.clone()).unwrap_or_default();
        listening.current = before;
        if listening.current.is_none() {
            listening.is_refused = peek::error_code(answer).is_some_and(|(code, _)| code == -32601);
            if !listening.is_refused && !listening.wanted.is_empty() {
                listening.try_later(now);
            }
        }
        let members = Members::of_message(answer).unwrap_or_default();
        let error = members.get("error").unwrap_or("{}");
        listening.answer_all(out, |id| reply::raw_error(Some(id), error));
    }

    /// A subscription was lost on its way.
    pub(super) fn listening_failed(
        &mut self,
        id: &Id,
        error: &Error,
        now: Instant,
        out: &mut Steps,
    ) {
        let listening = &mut self.listening;
        if listening.ended(id, now).is_some() {
            debug!("the subscription was lost: {error}");
            listening.try_later(now);
            listening.answer_all(out, |id| reply::error(Some(id), error));
        }
    }

    pub(super) fn tick_listening(&mut self, ids: &mut Ids, now: Instant, out: &mut Steps) {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if is_due(self.listening.answer_at) {
            self.listening.answer_all(out, |id| reply::raw_result(Some(id), "{}"));
        }
        if is_due(self.listening.retry_at) {
            self.open_stream(ids, now, out);
        }
    }
}

impl Listening {
    /// The streams before the current one have had their time.
    fn close_former(&mut self, out: &mut Steps) {
        for stream in self.former.drain(..) {
            out.push_back(Step::ToServer(reply::cancelled(&stream.id, "replaced")));
        }
    }
}
