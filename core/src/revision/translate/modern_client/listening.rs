//! Serves `subscriptions/listen` from what a legacy server tells by itself.

use std::collections::HashMap;

use super::opening::News;
use super::{ModernClient, Own, Waits, json_string};
use crate::error::{Error, Kind};
use crate::limits;
use crate::message::{Head, Id, Json, Members, Message, Method, reply};
use crate::revision::translate::{SUBSCRIPTION_ID, Step, Steps};

/// The subscriptions of the client, and what the server was told because of them.
#[derive(Default)]
pub(super) struct Listening {
    listens: Vec<Listen>,
    /// How it stands with the resources that somebody wants, or wanted, to hear of.
    resources: HashMap<String, Standing>,
}

/// One `subscriptions/listen`.
struct Listen {
    id: Id,
    tools: bool,
    prompts: bool,
    resources: bool,
    uris: Vec<String>,
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
    /// What `message` asks for, cut down to what the server has.
    fn of(id: &Id, message: &Message, news: News) -> Option<Self> {
        let wanted = message.get(&["params", "notifications"]).filter(|json| json.is_object())?;
        let is_wanted = |name: &str| wanted.get(&[name]).is_some_and(Json::is_true);
        let uris = match wanted.get(&["resourceSubscriptions"]) {
            Some(list) if news.updates && !list.is_null() => Some(list.elements()?),
            _ => None,
        };
        let mut named = Vec::new();
        for uri in uris.into_iter().flatten().filter_map(Json::to_text) {
            if named.len() < limits::LISTEN_RESOURCES && !named.contains(&uri) {
                named.push(uri);
            }
        }
        Some(Self {
            id: id.clone(),
            tools: news.tools && is_wanted("toolsListChanged"),
            prompts: news.prompts && is_wanted("promptsListChanged"),
            resources: news.resources && is_wanted("resourcesListChanged"),
            uris: named,
            early: Some(Vec::new()),
        })
    }

    fn wants(&self, method: &Method, uri: Option<&str>) -> bool {
        match method {
            Method::ToolsChanged => self.tools,
            Method::PromptsChanged => self.prompts,
            Method::ResourcesChanged => self.resources,
            _ => uri.is_some_and(|uri| self.uris.iter().any(|wanted| is_within(uri, wanted))),
        }
    }

    /// The notification that says what will be heard.
    fn acknowledgement(&self) -> Message {
        let head = Head::Notification { method: "notifications/subscriptions/acknowledged".into() };
        let mut notice = Members::headed(&head);
        let params = notice.object("params");
        params.object("_meta").set(SUBSCRIPTION_ID, self.id.as_json());
        let honoured = params.object("notifications");
        for (name, is_honoured) in [
            ("toolsListChanged", self.tools),
            ("promptsListChanged", self.prompts),
            ("resourcesListChanged", self.resources),
        ] {
            if is_honoured {
                honoured.set(name, "true");
            }
        }
        if !self.uris.is_empty() {
            let uris: Vec<String> = self.uris.iter().map(|uri| json_string(uri)).collect();
            honoured.set("resourceSubscriptions", format!("[{}]", uris.join(",")));
        }
        notice.into_message(head)
    }

    fn tell(&mut self, message: &Message, out: &mut Steps) {
        let mut members = Members::of_message(message).unwrap_or_default();
        let meta = members.object("params").object("_meta");
        meta.set(SUBSCRIPTION_ID, self.id.as_json().to_owned());
        let notice = members.into_message(message.head().clone());
        match &mut self.early {
            None => out.push_back(Step::ToClient(notice)),
            // They say that something is new, which once is enough.
            Some(early) if early.contains(&notice) || early.len() >= limits::EARLY_NOTICES => {}
            Some(early) => early.push(notice),
        }
    }
}

impl Listening {
    /// Takes out of what it wants to hear of that for which there is no room: it is not acknowledged.
    fn admit(&self, listen: &mut Listen) {
        let mut room = limits::SUBSCRIBED_RESOURCES.saturating_sub(self.resources.len());
        listen.uris.retain(|uri| {
            let is_known = self.resources.contains_key(uri);
            let fits = is_known || room > 0;
            room -= usize::from(fits && !is_known);
            fits
        });
    }

    fn is_wanted(&self, uri: &str) -> bool {
        self.listens.iter().any(|listen| listen.uris.iter().any(|wanted| wanted == uri))
    }

    /// Acknowledges those for which the server has agreed to everything.
    fn acknowledge(&mut self, out: &mut Steps) {
        for listen in &mut self.listens {
            let is_agreed = |uri: &String| self.resources.get(uri) == Some(&Standing::Subscribed);
            if listen.uris.iter().all(is_agreed)
                && let Some(early) = listen.early.take()
            {
                out.push_back(Step::ToClient(listen.acknowledgement()));
                out.extend(early.into_iter().map(Step::ToClient));
            }
        }
    }
}

impl ModernClient {
    pub(super) fn listen(&mut self, id: &Id, message: &Message, out: &mut Steps) {
        let Some(news) = self.server().map(|server| server.news) else { return };
        if self.listening.listens.len() >= limits::LISTENS {
            let text = format!("More than {} subscriptions are open already", limits::LISTENS);
            let error = Error::new(Kind::Overloaded, text).not_delivered();
            return out.push_back(Step::ToClient(reply::error(Some(id), &error)));
        }
        let Some(mut listen) = Listen::of(id, message, news) else {
            let text = "Invalid params: \"notifications\" does not say what to listen for";
            return out.push_back(Step::ToClient(reply::refusal(id, -32602, text)));
        };
        if self.has_left {
            return out.push_back(Step::ToClient(self.listened(id)));
        }
        self.listening.admit(&mut listen);
        let uris = listen.uris.clone();
        self.waiting.open(id, Waits::Listen);
        self.listening.listens.push(listen);
        for uri in uris {
            // One that is being left is asked for again when that is done.
            if !self.listening.resources.contains_key(&uri) {
                self.subscribe(uri, out);
            }
        }
        self.listening.acknowledge(out);
    }

    fn subscribe(&mut self, uri: String, out: &mut Steps) {
        self.listening.resources.insert(uri.clone(), Standing::Asked);
        self.ask_about(Own::Subscribe(uri.clone()), "resources/subscribe", &uri, out);
    }

    fn unsubscribe(&mut self, uri: String, out: &mut Steps) {
        self.listening.resources.insert(uri.clone(), Standing::Leaving);
        self.ask_about(Own::Unsubscribe(uri.clone()), "resources/unsubscribe", &uri, out);
    }

    fn ask_about(&mut self, own: Own, method: &str, uri: &str, out: &mut Steps) {
        self.ask(own, method, |params| params.set("uri", json_string(uri)), out);
    }

    /// The server has answered `resources/subscribe`.
    pub(super) fn subscribed(&mut self, uri: String, is_agreed: bool, out: &mut Steps) {
        if !is_agreed {
            self.listening.resources.remove(&uri);
            for listen in &mut self.listening.listens {
                listen.uris.retain(|wanted| *wanted != uri);
            }
        } else if self.listening.is_wanted(&uri) {
            self.listening.resources.insert(uri, Standing::Subscribed);
        } else {
            self.unsubscribe(uri, out);
        }
        self.listening.acknowledge(out);
    }

    /// The server has answered `resources/unsubscribe`.
    pub(super) fn unsubscribed(&mut self, uri: String, out: &mut Steps) {
        if self.listening.is_wanted(&uri) {
            self.subscribe(uri, out);
        } else {
            self.listening.resources.remove(&uri);
        }
    }

    /// The client no longer listens.
    pub(super) fn end_listen(&mut self, id: &Id, out: &mut Steps) {
        let is_it = |listen: &Listen| listen.id.canonical() == id.canonical();
        let Some(at) = self.listening.listens.iter().position(is_it) else { return };
        let listen = self.listening.listens.remove(at);
        for uri in listen.uris {
            let standing = self.listening.resources.get(&uri);
            let is_left = standing == Some(&Standing::Subscribed);
            // When the client leaves, so does the session, with all that is subscribed in it.
            if is_left && !self.has_left && !self.listening.is_wanted(&uri) {
                self.unsubscribe(uri, out);
            }
        }
    }

    /// All subscriptions end, and the client is told so.
    pub(super) fn end_listens(&mut self, out: &mut Steps) {
        let ids: Vec<Id> = self.listening.listens.iter().map(|listen| listen.id.clone()).collect();
        for id in ids {
            self.waiting.close_exactly(&id);
            out.push_back(Step::ToClient(self.listened(&id)));
            self.end_listen(&id, out);
        }
    }

    /// The answer to a subscription that has ended.
    pub(super) fn listened(&self, id: &Id) -> Message {
        let head = Head::Response { id: Some(id.clone()), is_error: false };
        let mut answer = Members::headed(&head);
        let result = answer.object("result");
        result.object("_meta").set(SUBSCRIPTION_ID, id.as_json());
        match self.server() {
            Some(server) => server.complete(result, false),
            None => result.add("resultType", "\"complete\""),
        }
        answer.into_message(head)
    }

    /// Something has changed: each subscription that wants to hear of it does.
    pub(super) fn tell_listeners(&mut self, method: &Method, message: &Message, out: &mut Steps) {
        let uri = match method {
            Method::ResourceUpdated => message.get(&["params", "uri"]).and_then(Json::to_text),
            _ => None,
        };
        for listen in &mut self.listening.listens {
            if listen.wants(method, uri.as_deref()) {
                listen.tell(message, out);
            }
        }
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
