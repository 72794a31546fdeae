//! The server_task's part with lists: asked for when a connection stands and when they change, one
//! question at a time for each.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::debug;

use super::{Outcome, ServerTask, Waiter};
use crate::client::Failure;
use crate::limits;
use crate::manager::failures::is_trouble;
use crate::manager::lists::{self, ListKind, Listed};
use crate::manager::state::Step;

/// How it stands with one list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Asking {
    #[default]
    Idle,
    /// It was asked for.
    UnderWay,
    /// It has changed since it was asked for.
    Again,
}

impl ServerTask {
    /// The server has answered; what is in doubt is asked for again if it was away.
    pub(super) fn worked(&mut self) {
        if self.machine.worked() {
            for kind in ListKind::ALL {
                let is_current = self.view.borrow().is_current(kind);
                if !is_current {
                    self.ask_for(kind, Duration::ZERO);
                }
            }
        }
    }

    pub(super) fn listed(
        &mut self,
        kind: ListKind,
        result: Result<Listed, Failure>,
    ) -> Vec<Step<Waiter>> {
        let asking = std::mem::take(&mut self.asking[kind as usize]);
        match result {
            Ok(listed) => {
                let is_news = self.view.send_if_modified(|view| view.put(listed));
                if asking == Asking::Again {
                    self.view.send_modify(|view| view.mark_stale(kind));
                    self.ask_for(kind, limits::RELIST_PAUSE);
                }
                self.worked();
                if is_news {
                    self.listeners.tell(&self.name, &kind.change());
                }
                Vec::new()
            }
            Err(why) => {
                debug!(server = &*self.name, ?kind, "not listed: {why}");
                self.view.send_modify(|view| view.settle(kind));
                let is_there = self.live.as_ref().is_some_and(|live| live.client.is_connected());
                if is_there && is_trouble(&why) {
                    return self.machine.troubled(why, Instant::now());
                }
                Vec::new()
            }
        }
    }

    pub(super) fn ask_for(&mut self, kind: ListKind, pause: Duration) {
        let Some(live) = &self.live else { return };
        let asking = &mut self.asking[kind as usize];
        if *asking != Asking::Idle {
            *asking = Asking::Again;
            return;
        }
        *asking = Asking::UnderWay;
        let (client, generation) = (live.client.clone(), self.generation);
        self.tasks.spawn(async move {
            sleep(pause).await;
            Outcome::Listed { generation, kind, result: lists::list(&client, kind).await }
        });
    }
}
