//! Serves `subscriptions/listen` from what a legacy server tells by itself.

use std::collections::{HashMap, HashSet};

use super::json_string;
use super::session::{LegacySession, Own};
use crate::error::{Error, ErrorKind};
use crate::limits;
use crate::message::{Id, Json, Members, Message, Method, reply};
use crate::revision::subscription::{Changes, Promise, told_for};
use crate::revision::translate::{SUBSCRIPTION_ID, TranslatorContext};

/// The subscriptions of the client, and what the server was told because of them.
#[derive(Default)]
pub(super) struct Subscriptions {
    listens: Vec<Listen>,
    /// How it stands with the resources that somebody wants, or wanted, to hear of.
    resources: HashMap<String, Standing>,
}

/// One `subscriptions/listen`.
struct Listen {
    id: Id,
    /// What it hears of.
    promise: Promise,
    /// What came before the acknowledgement, which has to be first; `None` once that was sent.
    early: Option<Vec<Message>>,
}

/// How it stands with a resource at the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// `resources/subscribe` is under way.
    Asked,
    Subscribed,
    /// `resources/unsubscribe` is under way.
    Leaving,
}

impl Listen {
    fn wants(&self, method: &Method, uri: Option<&str>) -> bool {
        self.promise.lists.iter().any(|list| list.changed == *method)
            || uri.is_some_and(|uri| self.promise.resources.iter().any(|w| is_within(uri, w)))
    }

    /// The notification that says what will be heard.
    fn acknowledgement(&self) -> Message {
        let mut params = Members::default();
        params.object("_meta").set(SUBSCRIPTION_ID, self.id.as_json());
        self.promise.write(params.object("notifications"));
        reply::notification(Method::Acknowledged.name(), Some(&params.to_json()))
    }

    fn tell(&mut self, message: &Message, cx: &mut TranslatorContext) {
        let notice = told_for(&self.id, message);
        match &mut self.early {
            None => cx.send_to_client(notice),
            // They say that something is new, which once is enough.
            Some(early) if early.contains(&notice) || early.len() >= limits::EARLY_NOTICES => {}
            Some(early) => early.push(notice),
        }
    }
}

impl Subscriptions {
    /// What `message` asks for, cut down to what the server has and there is room for: the rest is
    /// not acknowledged. `None` if it cannot be read.
    fn promise(&self, message: &Message, offered: &Changes) -> Option<Promise> {
        let wanted = message.get(&["params", "notifications"]).filter(|json| json.is_object())?;
        let uris = wanted.get(&["resourceSubscriptions"]).filter(|list| !list.is_null());
        if offered.resources && uris.is_some_and(|list| list.elements().is_none()) {
            return None;
        }
        let mut promise = Promise::read(wanted);
        promise.lists.retain(|list| offered.lists.contains(list));
        let (mut named, mut all) = (HashSet::new(), self.resources.len());
        promise.resources.retain(|uri| {
            let is_known = self.resources.contains_key(uri);
            let is_new = named.insert(uri.clone()) && named.len() <= limits::LISTEN_RESOURCES;
            all += usize::from(is_new && !is_known);
            offered.resources && is_new && (is_known || all <= limits::SUBSCRIBED_RESOURCES)
        });
        Some(promise)
    }

    fn is_wanted(&self, uri: &String) -> bool {
        self.listens.iter().any(|listen| listen.promise.resources.contains(uri))
    }

    /// Acknowledges those for which the server has agreed to everything.
    fn acknowledge(&mut self, cx: &mut TranslatorContext) {
        for listen in &mut self.listens {
            let is_agreed = |uri: &String| self.resources.get(uri) == Some(&Standing::Subscribed);
            if listen.promise.resources.iter().all(is_agreed)
                && let Some(early) = listen.early.take()
            {
                cx.send_to_client(listen.acknowledgement());
                early.into_iter().for_each(|notice| cx.send_to_client(notice));
            }
        }
    }

    /// Something has changed: each subscription that wants to hear of it does.
    pub(super) fn tell(&mut self, method: &Method, message: &Message, cx: &mut TranslatorContext) {
        let uri = match method {
            Method::ResourceUpdated => message.get(&["params", "uri"]).and_then(Json::to_text),
            _ => None,
        };
        let listens = self.listens.iter_mut();
        listens
            .filter(|listen| listen.wants(method, uri.as_deref()))
            .for_each(|listen| listen.tell(message, cx));
    }
}

impl LegacySession {
    pub(super) fn listen(&mut self, id: &Id, message: &Message) {
        if self.listening.listens.len() >= limits::LISTENS {
            let text = format!("More than {} subscriptions are open already", limits::LISTENS);
            let error = Error::new(ErrorKind::Overloaded, text).not_delivered();
            return self.cx.fail(id, &error);
        }
        let Some(promise) =
            self.listening.promise(message, &Changes::of(&self.server.capabilities))
        else {
            let text = "Invalid params: \"notifications\" does not say what to listen for";
            return self.cx.refuse(id, text);
        };
        if self.has_left {
            return self.cx.send_to_client(self.listened(id));
        }
        self.waiting.open(id, None);
        let uris = promise.resources.clone();
        self.listening.listens.push(Listen { id: id.clone(), promise, early: Some(Vec::new()) });
        for uri in uris {
            // One that is being left is asked for again when that is done.
            if !self.listening.resources.contains_key(&uri) {
                self.ask_about(uri, Standing::Asked);
            }
        }
        self.listening.acknowledge(&mut self.cx);
    }

    /// Asks the server for news of a resource, or for none of it any more.
    fn ask_about(&mut self, uri: String, standing: Standing) {
        let is_left = standing == Standing::Leaving;
        let method =
            if is_left { Method::ResourcesUnsubscribe } else { Method::ResourcesSubscribe };
        let params = format!(r#"{{"uri":{}}}"#, json_string(&uri));
        self.listening.resources.insert(uri.clone(), standing);
        self.ask(Own::Resource(uri), |id| reply::request(id, method.name(), Some(&params)));
    }

    /// The server has answered that.
    pub(super) fn resource_answered(&mut self, uri: String, is_agreed: bool) {
        let is_wanted = self.listening.is_wanted(&uri);
        match self.listening.resources.remove(&uri) {
            Some(Standing::Asked) if !is_agreed => {
                for listen in &mut self.listening.listens {
                    listen.promise.resources.retain(|wanted| *wanted != uri);
                }
            }
            Some(Standing::Asked) if is_wanted => {
                self.listening.resources.insert(uri, Standing::Subscribed);
            }
            Some(Standing::Asked) => self.ask_about(uri, Standing::Leaving),
            _ if is_wanted => self.ask_about(uri, Standing::Asked),
            _ => {}
        }
        self.listening.acknowledge(&mut self.cx);
    }

    /// The client no longer listens.
    pub(super) fn end_listen(&mut self, id: &Id) {
        let is_it = |listen: &Listen| listen.id.canonical() == id.canonical();
        let Some(at) = self.listening.listens.iter().position(is_it) else { return };
        let listen = self.listening.listens.remove(at);
        for uri in listen.promise.resources {
            let is_left = self.listening.resources.get(&uri) == Some(&Standing::Subscribed);
            // When the client leaves, so does the session, with all that is subscribed in it.
            if is_left && !self.has_left && !self.listening.is_wanted(&uri) {
                self.ask_about(uri, Standing::Leaving);
            }
        }
    }

    /// All subscriptions end, and the client is told so.
    pub(super) fn end_listens(&mut self) {
        while let Some(id) = self.listening.listens.first().map(|listen| listen.id.clone()) {
            self.waiting.close_exactly(&id);
            self.cx.send_to_client(self.listened(&id));
            self.end_listen(&id);
        }
    }

    /// The answer to a subscription that has ended.
    pub(super) fn listened(&self, id: &Id) -> Message {
        let mut result = Members::default();
        result.object("_meta").set(SUBSCRIPTION_ID, id.as_json());
        self.complete(&mut result, false);
        reply::raw_result(Some(id), &result.to_json())
    }
}

/// Whether `uri` is `wanted` or something below it: servers may report the part that changed.
fn is_within(uri: &str, wanted: &str) -> bool {
    let Some(rest) = uri.strip_prefix(wanted) else { return false };
    rest.is_empty() || wanted.ends_with('/') || rest.starts_with(['/', '?', '#'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_resource_belongs_to_it_and_a_longer_name_does_not() {
        assert!(is_within("file:///a", "file:///a"));
        assert!(is_within("file:///a/b", "file:///a"));
        assert!(is_within("file:///a/b", "file:///a/"));
        assert!(is_within("file:///a#b", "file:///a"));
        assert!(!is_within("file:///ab", "file:///a"));
        assert!(!is_within("file:///", "file:///a"));
    }
}
