//! The near end of one server's task: what callers want of it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout};

use super::State;
use super::keeper::{Command, Waiter, report};
use super::lists::View;
use super::outcome::{closed, may_repeat};
use crate::client::{Client, Failure, Transport};
use crate::limits;

/// The task lives as long as one of these does, or until it is told to close.
#[derive(Clone, Debug)]
pub(super) struct Handle {
    pub(super) name: Arc<str>,
    pub(super) transport: Transport,
    /// The server's task holds the other end.
    pub(super) commands: mpsc::Sender<Command>,
    /// So does it of this.
    pub(super) view: watch::Receiver<View>,
    pub(super) patience: Duration,
}

impl Handle {
    pub(super) async fn client(&self) -> Result<Client, Failure> {
        self.ask(Command::Want).await
    }

    pub(super) async fn reconnect(&self) -> Result<Client, Failure> {
        self.ask(Command::Reconnect).await
    }

    /// Everybody who asks is answered: by a connection, by why there is none, or in the end by the
    /// task's own patience.
    async fn ask(&self, wish: fn(Waiter, Instant) -> Command) -> Result<Client, Failure> {
        let (waiter, answer) = oneshot::channel();
        let until = Instant::now() + self.patience;
        let gone = || Failure::of(self.transport, closed(&self.name));
        self.commands.send(wish(waiter, until)).await.map_err(|_| gone())?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    pub(super) async fn call(&self, tool: &str, arguments: Value) -> Result<Value, Failure> {
        let client = self.client().await?;
        match self.call_over(&client, tool, arguments.clone()).await {
            // While a connection stands, the link below it has done what can be done.
            Err(failure) if may_repeat(&failure) && !client.is_connected() => {
                let client = self.client().await?;
                self.call_over(&client, tool, arguments).await
            }
            result => result,
        }
    }

    async fn call_over(
        &self,
        client: &Client,
        tool: &str,
        arguments: Value,
    ) -> Result<Value, Failure> {
        let result = client.call(tool, arguments).await;
        let is_in_doubt = matches!(self.view.borrow().state, State::Degraded(_));
        match report(client, result.as_ref().err()) {
            // That all is well is nothing new.
            Some(Command::Worked) if !is_in_doubt => {}
            Some(command) => drop(self.commands.send(command).await),
            None => {}
        }
        result
    }

    /// Ends when the server is gone.
    pub(super) async fn close(mut self) {
        let closing = async {
            let _ = self.commands.send(Command::Close).await;
            let _ = self.view.wait_for(|view| view.state == State::Closed).await;
        };
        // The task has its own limit; this is for a runtime that does not run it.
        let _ = timeout(limits::MANAGER_CLOSES.saturating_mul(2), closing).await;
    }
}
