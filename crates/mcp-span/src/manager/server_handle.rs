//! What callers want of one server: the near end of its task.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout};

use super::errors::{closed, may_repeat, shows_absence};
use super::lists::View;
use super::server_task::{Command, Waiter};
use super::{ServerState, ToolFilter};
use crate::client::{CallResult, Client};
use crate::error::{Error, ErrorKind};
use crate::limits;

/// The task lives as long as one of these does, or until it is told to close.
#[derive(Clone, Debug)]
pub(super) struct ServerHandle {
    pub(super) name: Arc<str>,
    pub(super) tools: ToolFilter,
    /// The server's task holds the other end.
    pub(super) commands: mpsc::Sender<Command>,
    /// So does it of this.
    pub(super) view: watch::Receiver<View>,
    pub(super) ready_timeout: Duration,
}

impl ServerHandle {
    pub(super) async fn client(&self) -> Result<Client, Error> {
        self.ask(Command::Want).await
    }

    /// Everybody who asks is answered: by a connection, by why there is none, or in the end by the
    /// task's own time limit.
    pub(super) async fn ask(&self, wish: fn(Waiter, Instant) -> Command) -> Result<Client, Error> {
        let (waiter, answer) = oneshot::channel();
        let until = Instant::now() + self.ready_timeout;
        let gone = || closed(&self.name);
        self.commands.send(wish(waiter, until)).await.map_err(|_| gone())?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: impl Serialize,
    ) -> Result<CallResult, Error> {
        let client = self.client().await?;
        match self.call_over(&client, tool, &arguments).await {
            // While a connection stands, the link below it has done what can be done.
            Err(error) if may_repeat(&error) && !client.is_connected() => {
                let client = self.client().await?;
                self.call_over(&client, tool, &arguments).await
            }
            result => result,
        }
    }

    async fn call_over(
        &self,
        client: &Client,
        tool: &str,
        arguments: impl Serialize,
    ) -> Result<CallResult, Error> {
        let result = client.call(tool, arguments).await;
        let is_degraded = matches!(self.view.borrow().state, ServerState::Degraded(_));
        let report = match &result {
            // The task itself notices the end of a connection.
            Err(error) if shows_absence(error) => {
                client.is_connected().then(|| Command::Unreachable(error.clone()))
            }
            Err(error) if error.kind != ErrorKind::Rpc => None,
            _ => is_degraded.then_some(Command::Answered),
        };
        if let Some(report) = report {
            self.tell(report).await;
        }
        result
    }

    /// Whether the task is still there is of no interest.
    pub(super) async fn tell(&self, command: Command) {
        let _ = self.commands.send(command).await;
    }

    /// Ends when the server is gone.
    pub(super) async fn close(mut self) {
        let closing = async {
            self.tell(Command::Close).await;
            let _ = self.view.wait_for(|view| view.state == ServerState::Closed).await;
        };
        // The task has its own limit; this is for a runtime that does not run it.
        let _ = timeout(limits::MANAGER_CLOSES.saturating_mul(2), closing).await;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::error::Delivery;
    use crate::manager::CachedLists;
    use crate::message::reply;
    use crate::transport::{Incoming, Link, memory};

    /// A client of a server that answers everything, `answers` times.
    async fn client(answers: usize) -> Client {
        let (near, mut far) = memory::pair();
        tokio::spawn(async move {
            let Link { outbox, inbox, .. } = &mut far;
            let mut left = answers;
            while let Some(Incoming::Message(message)) = inbox.recv().await {
                let Some(id) = message.id() else { continue };
                if left == 0 {
                    return;
                }
                left -= 1;
                let _ = outbox.send(reply::result(id, &json!({"n": left}))).await;
            }
        });
        Client::builder(near).connect().await.unwrap()
    }

    /// A handle whose task serves these, one after the other.
    fn serving(clients: Vec<Client>) -> ServerHandle {
        let (commands, mut wishes) = mpsc::channel(1);
        let view =
            watch::Sender::new(View::new(ServerState::Ready, CachedLists::default())).subscribe();
        tokio::spawn(async move {
            let mut clients = clients.into_iter();
            while let Some(wish) = wishes.recv().await {
                if let (Command::Want(waiter, _), Some(client)) = (wish, clients.next()) {
                    let _ = waiter.send(Ok(client));
                }
            }
        });
        let ready_timeout = Duration::from_secs(1);
        ServerHandle {
            name: "a".into(),
            tools: ToolFilter::default(),
            commands,
            view,
            ready_timeout,
        }
    }

    #[tokio::test]
    async fn what_was_not_sent_is_sent_once_more_over_the_next_connection() {
        let (gone, good) = (client(1).await, client(2).await);
        gone.close().await;
        let result = serving(vec![gone.clone(), good.clone()]).call("t", Value::Null).await;
        assert!(result.is_ok(), "{result:?}");
        let failure = serving(vec![gone.clone(), gone, good]).call("t", Value::Null).await;
        let failure = failure.unwrap_err();
        assert_eq!((failure.kind, failure.delivery), (ErrorKind::Closed, Delivery::NotDelivered));
    }

    #[tokio::test]
    async fn what_may_have_been_carried_out_is_not_sent_again() {
        // It takes the call and ends.
        let (ending, good) = (client(1).await, client(9).await);
        let failure = serving(vec![ending, good]).call("t", Value::Null).await.unwrap_err();
        assert_eq!((failure.kind, failure.delivery), (ErrorKind::Closed, Delivery::Unknown));
    }

    #[tokio::test]
    async fn nobody_waits_for_a_task_that_is_gone() {
        let handle = serving(Vec::new());
        let failure = handle.client().await.unwrap_err();
        assert_eq!((failure.kind, failure.delivery), (ErrorKind::Closed, Delivery::NotDelivered));
    }
}
