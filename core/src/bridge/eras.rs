//! Where the two sides have no era in common, what crosses is translated on its way into the core
//! and out of it; where they have one, it passes as it is.
//!
//! The core speaks the legacy era as soon as either side does: so sessions, recovery and the table
//! of what may be sent again are the same for all. A modern client is translated between its link
//! and the core, a modern server between the core and its link.

use std::collections::VecDeque;

use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::Policy;
use super::core::{Core, Out};
use super::hidden_tools::{HiddenTools, Passage};
use super::repeats::Repeats;
use crate::error::Error;
use crate::limits;
use crate::message::Message;
use crate::net::backoff::entropy;
use crate::revision::translate::legacy_client::LegacyClient;
use crate::revision::translate::modern_client::ModernClient;
use crate::revision::translate::{Memory, Protocol, Step, Steps};
use crate::revision::{Envelope, Era};
use crate::transport::{Incoming, weight};

/// Which eras are offered and tried, and what is known of the server.
#[derive(Clone, Debug, Default)]
pub struct Eras {
    /// What is offered to the client and tried with the server.
    pub protocol: Protocol,
    /// Where the server's era is remembered from one run to the next.
    pub memory: Option<Memory>,
}

/// The two translations, each asleep unless it is needed.
pub(super) struct Translators {
    modern_client: ModernClient,
    legacy_client: LegacyClient,
    steps: Steps,
    memory: Option<Memory>,
    writing: Option<JoinHandle<()>>,
}

impl Translators {
    pub(super) fn new(eras: Eras) -> Self {
        let known = eras.memory.as_ref().and_then(Memory::recall);
        Self {
            modern_client: ModernClient::new(eras.protocol, known),
            legacy_client: LegacyClient::new(eras.protocol, known, entropy()),
            steps: Steps::new(),
            memory: eras.memory,
            writing: None,
        }
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        let both = [self.modern_client.wake_at(), self.legacy_client.wake_at()];
        both.into_iter().flatten().min()
    }

    /// Whether a message for the server is to be translated: only for a legacy client, since a
    /// modern one is translated, if at all, before the core.
    fn takes_for_server(&self, message: &Message) -> bool {
        self.modern_client.client_era() != Some(Era::Modern) && self.legacy_client.takes(message)
    }

    /// Whether a server that was legacy may have become modern, under a legacy client.
    fn is_alarmed(&mut self, message: &Message, now: Instant) -> bool {
        self.modern_client.client_era() != Some(Era::Modern)
            && self.legacy_client.is_alarmed(message, now)
    }

    fn remember(&mut self) {
        let found = self.modern_client.take_finding().or_else(|| self.legacy_client.take_finding());
        if let Some(era) = found
            && let Some(memory) = self.memory.clone()
        {
            let before = self.writing.take();
            self.writing = Some(tokio::spawn(async move {
                // The last word is the one that stays.
                if let Some(before) = before {
                    let _ = before.await;
                }
                // Not on this thread: a disk may be slow.
                let _ = tokio::task::spawn_blocking(move || memory.keep(era)).await;
            }));
        }
    }

    /// Waits until what was found out is written down, but not long.
    pub(super) async fn finish(self) {
        if let Some(writing) = self.writing {
            let _ = timeout(limits::FLUSH, writing).await;
        }
    }
}

/// The core, and the words in which both sides hear of what it decides.
pub(super) struct Crossing {
    pub(super) core: Core,
    /// What the core wants to be written, in the words of the era that it speaks.
    pub(super) out: Out,
    pub(super) translators: Translators,
    repeats: Repeats,
    hidden_tools: HiddenTools,
    /// The same in the words of those who will read it.
    pub(super) for_client: VecDeque<Message>,
    pub(super) for_server: VecDeque<Message>,
}

impl Crossing {
    pub(super) fn new(policy: Policy, eras: Eras) -> Self {
        Self {
            hidden_tools: policy.hidden_tools.clone(),
            core: Core::new(policy, Instant::now()),
            out: Out::default(),
            translators: Translators::new(eras),
            repeats: Repeats::default(),
            for_client: VecDeque::new(),
            for_server: VecDeque::new(),
        }
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        [self.core.wake_at(), self.translators.wake_at()].into_iter().flatten().min()
    }

    /// Whether anything is to be written, to either side.
    pub(super) fn has_to_pass_on(&self) -> bool {
        let Out { to_client, to_server, .. } = &self.out;
        let queues = [to_client, to_server, &self.for_client, &self.for_server];
        queues.into_iter().any(|queue| !queue.is_empty())
    }

    /// Whether more of the client's messages are taken in.
    pub(super) fn has_room(&self) -> bool {
        self.core.has_room(&self.out) && !self.translators.modern_client.is_full()
    }

    /// Takes out the next for the server.
    pub(super) fn next_for_server(&mut self) -> Option<Message> {
        let message = self.for_server.pop_front()?;
        self.out.told -= weight(&message);
        Some(message)
    }

    /// The server had no room for it.
    pub(super) fn put_back(&mut self, message: Message) {
        self.out.told += weight(&message);
        self.for_server.push_front(message);
    }

    fn for_server(&mut self, message: Message) {
        self.out.told += weight(&message);
        self.for_server.push_back(message);
    }

    /// What the server's link has said about its end.
    pub(super) fn why_it_ended(&mut self) -> Option<Error> {
        self.core.ended.take()
    }

    /// Everything that is in flight ends with this error.
    pub(super) fn end_all(&mut self, error: &Error) {
        self.core.end_all(error, &mut self.out);
        self.translate(Instant::now());
    }

    pub(super) fn client_says(&mut self, incoming: Incoming, now: Instant) {
        let incoming = match incoming {
            Incoming::Message(message) if !self.hidden_tools.is_empty() => {
                match self.hidden_tools.client_says(message) {
                    Passage::Passes(message) => Incoming::Message(message),
                    Passage::Refused(error) => return self.for_client.push_back(error),
                    Passage::Dropped => return,
                }
            }
            other => other,
        };
        let translators = &mut self.translators;
        match incoming {
            Incoming::Message(message) if !translators.modern_client.is_through() => {
                translators.modern_client.client_says(message, now, &mut translators.steps);
                self.walk_from_client(now);
            }
            incoming => self.core.client_says(incoming, now, &mut self.out),
        }
    }

    pub(super) fn client_leaves(&mut self, now: Instant) {
        // First: it may have something to tell the server.
        self.translators.modern_client.client_leaves(now, &mut self.translators.steps);
        self.walk_from_client(now);
        self.core.client_leaves(now, &mut self.out);
    }

    /// Whether the client has left and everything that it may expect has come.
    pub(super) fn is_finished(&self) -> bool {
        self.core.is_finished() && !self.translators.modern_client.is_holding()
    }

    /// Whether nothing can come before somebody has logged in.
    pub(super) fn waits_for_person(&self) -> bool {
        self.core.waits_for_person()
    }

    pub(super) fn server_says(&mut self, incoming: Incoming, now: Instant) {
        let incoming = self.repeats.restore(incoming);
        let translators = &mut self.translators;
        if translators.legacy_client.is_through() {
            let is_alarmed = match &incoming {
                Incoming::Message(message) => translators.is_alarmed(message, now),
                _ => false,
            };
            match incoming {
                Incoming::SessionLost => self.session_lost(now),
                incoming => self.core.server_says(incoming, now, &mut self.out),
            }
            if is_alarmed {
                self.session_lost(now);
            }
            return;
        }
        match incoming {
            Incoming::Message(message) => {
                translators.legacy_client.server_says(message, now, &mut translators.steps);
            }
            Incoming::Failed { message, error } => {
                translators.legacy_client.failed(message, *error, now, &mut translators.steps);
            }
            other => self.core.server_says(other, now, &mut self.out),
        }
        self.walk_from_server(now);
    }

    /// The core opens another session; what was asked in the old one is over.
    fn session_lost(&mut self, now: Instant) {
        self.core.server_says(Incoming::SessionLost, now, &mut self.out);
        if !self.translators.modern_client.is_through() {
            self.translators.modern_client.session_lost(now, &mut self.translators.steps);
            self.walk_from_client(now);
        }
    }

    pub(super) fn tick(&mut self, now: Instant) {
        self.core.tick(now, &mut self.out);
        self.translators.legacy_client.tick(now, &mut self.translators.steps);
        self.walk_from_server(now);
        self.translators.modern_client.tick(now, &mut self.translators.steps);
        self.walk_from_client(now);
    }

    /// Brings what the core has written into the words of those who will read it.
    pub(super) fn translate(&mut self, now: Instant) {
        self.pass_to_client(now);
        while let Some(message) = self.out.next_for_server() {
            self.pass_to_server(message, now);
            self.pass_to_client(now);
        }
    }

    fn pass_to_client(&mut self, now: Instant) {
        if self.out.to_client.is_empty() {
            return;
        }
        if self.translators.legacy_client.is_retrying() {
            let translators = &mut self.translators;
            for message in &self.out.to_client {
                translators.legacy_client.client_hears(message, &mut translators.steps);
            }
            self.walk_from_server(now);
        }
        if self.translators.modern_client.is_through() {
            if self.translators.modern_client.client_era() == Some(Era::Modern) {
                for message in &self.out.to_client {
                    self.translators.modern_client.client_hears(message);
                }
            }
            // One, as a rule: for that, to join queues takes longer than to move it.
            if self.hidden_tools.is_empty() {
                return self.for_client.extend(self.out.to_client.drain(..));
            }
            let hidden = &self.hidden_tools;
            let heard = self.out.to_client.drain(..).map(|message| hidden.client_hears(message));
            return self.for_client.extend(heard);
        }
        while let Some(message) = self.out.to_client.pop_front() {
            let translators = &mut self.translators;
            translators.modern_client.server_says(message, now, &mut translators.steps);
            self.walk_from_client(now);
        }
    }

    fn pass_to_server(&mut self, message: Message, now: Instant) {
        let translators = &mut self.translators;
        if !translators.takes_for_server(&message) {
            let is_again = self.core.is_repeated(&message) && Envelope::of(&message).is_some();
            let message = match is_again {
                true => self.repeats.rename(message),
                false => self.repeats.cancels(message),
            };
            return self.for_server(message);
        }
        translators.legacy_client.client_says(message, now, &mut translators.steps);
        self.walk_from_server(now);
    }

    /// Does what the translation of the client's side has led to.
    fn walk_from_client(&mut self, now: Instant) {
        while let Some(step) = self.translators.steps.pop_front() {
            match step {
                Step::ToServer(message) => {
                    self.core.client_says(Incoming::Message(message), now, &mut self.out);
                }
                Step::ToClient(message) => {
                    self.for_client.push_back(self.hidden_tools.client_hears(message));
                }
                // Nothing fails on this side of the core.
                Step::Failed { .. } | Step::SessionLost => {}
            }
        }
        self.translators.remember();
    }

    /// Does what the translation of the server's side has led to.
    fn walk_from_server(&mut self, now: Instant) {
        while let Some(step) = self.translators.steps.pop_front() {
            let incoming = match step {
                Step::ToServer(message) => {
                    self.for_server(message);
                    continue;
                }
                Step::ToClient(message) => Incoming::Message(message),
                Step::Failed { message, error } => {
                    Incoming::Failed { message, error: error.into() }
                }
                Step::SessionLost => Incoming::SessionLost,
            };
            self.core.server_says(incoming, now, &mut self.out);
        }
        self.out.aside = self.translators.legacy_client.held_bytes();
        self.translators.remember();
    }
}
