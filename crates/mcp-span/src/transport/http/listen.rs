//! Keeps a subscription open: its stream is opened again whenever it ends without a last word.

use tracing::debug;

use super::SendOptions;
use super::answer::{Answer, Refusal, unreadable};
use super::events::{Events, Item, Position};
use super::ping::own_id;
use super::post::Exchange;
use super::stream::{NotNow, Opened, Reopening};
use crate::error::{Error, ErrorKind};
use crate::limits;
use crate::message::{Message, Method};
use crate::net::Content;
use crate::revision::subscription::{self, Promise};
use crate::traffic::{self, Recovery};

impl Exchange {
    /// Whether it is the request for a stream that stays.
    pub(super) fn is_subscription(&self) -> bool {
        self.send.envelope.is_some() && self.is(&Method::Listen)
    }

    /// Whether it is such a request that broke on the way. If nobody could be reached at all, it goes
    /// the way of all requests; else it may be sent once more, since to subscribe twice does no harm.
    pub(super) fn is_cut_subscription(&self, error: &Error) -> bool {
        self.is_subscription() && error.kind == ErrorKind::Closed && !error.is_unreachable()
    }

    /// Delivers what the subscription brings, on the `first` stream and on those that follow it, until
    /// the server ends it, or the task is dropped.
    pub(super) async fn listen(&mut self, first: Option<Content>) -> Result<(), Error> {
        let mut reopening = Reopening::new(&self.context);
        let mut opened = first.map_or(Opened::NotNow(NotNow::Soon), Opened::Stream);
        loop {
            let not_now = match opened {
                Opened::Stream(body) => {
                    self.read_subscription(body, &mut reopening.position).await;
                    if self.is_settled || self.send.progress.is_abandoned() {
                        return Ok(());
                    }
                    reopening.ended();
                    NotNow::Soon
                }
                Opened::NotNow(not_now) => not_now,
                Opened::Never | Opened::Suspicious => return Ok(()),
            };
            reopening.rest(not_now).await;
            reopening.begin();
            opened = self.open_again().await?;
            if matches!(opened, Opened::Stream(_)) {
                traffic::recovery(Recovery::StreamReopened, None);
            }
        }
    }

    /// Delivers what one connection brings behind `position`. No limit on silence: there may be
    /// nothing to tell for days.
    async fn read_subscription(&mut self, body: Content, position: &mut Position) {
        let mut events =
            Events::new(body, &self.context, std::mem::take(position)).skipping_oversized();
        let mut may_have_missed = self.promise.clone();
        while !self.is_settled {
            let message = match events.next(None).await {
                Ok(Some(Item::Message(message))) => self.as_subscribed(message),
                Ok(Some(Item::Oversized(_))) => continue,
                end => {
                    let why = end.err().map(|error| self.context.scrubbed(error));
                    traffic::stream_cut(traffic::StreamKind::Own, why.as_ref(), None);
                    break;
                }
            };
            let Some(promise) = Promise::of(&message) else {
                self.deliver(message).await;
                continue;
            };
            if self.promise.is_none() {
                self.promise = Some(promise);
                self.deliver(message).await;
            } else if let Some(promise) = may_have_missed.take() {
                // The client knows nothing of another stream: it hears what that is about.
                let id = self.request_id().cloned();
                for message in promise.missed(id.as_ref()) {
                    self.deliver(message).await;
                }
            }
        }
        *position = events.position;
    }

    /// The client knows the subscription by the id of its own request.
    fn as_subscribed(&self, message: Message) -> Message {
        match (self.request_id(), &self.alias) {
            (Some(own), Some(_)) => subscription::of_request(message, own),
            _ => message,
        }
    }

    /// Asks for the stream once more. If there is `Never` to be one, the request has ended.
    async fn open_again(&mut self) -> Result<Opened, Error> {
        // To the server it is another request.
        self.alias = Some(own_id());
        self.send.progress.reset();
        let call = self.written();
        // Nobody is bothered with a login for it; a client that is told of the end can ask again.
        let sending = self.context.send(call, SendOptions::aside());
        let limit = self.context.settings.timeouts.quick.unwrap_or(limits::QUICK_TIMEOUT);
        let Ok(answer) = tokio::time::timeout(limit, sending).await else {
            return Ok(Opened::NotNow(NotNow::Silent));
        };
        self.context.note_answer(&answer);
        let response = match answer {
            Ok(response) => response,
            // Trying again would not help, or do harm: a proxy may lock accounts.
            Err(error)
                if matches!(
                    error.kind,
                    ErrorKind::ProxyAuth | ErrorKind::Redirect | ErrorKind::BadUrl
                ) =>
            {
                return Err(error);
            }
            Err(error) => {
                debug!("no stream for a subscription: {}", self.context.scrubbed(error));
                return Ok(Opened::NotNow(NotNow::Unreachable));
            }
        };
        match Answer::of(&response) {
            Answer::Events => return Ok(Opened::Stream(response.into_body())),
            Answer::Json => self.read_json(response.into_body()).await?,
            Answer::Other => return Err(unreadable(&response, self.context.endpoint.url())),
            Answer::Refused if matches!(response.status().as_u16(), 408 | 425 | 429 | 500..) => {
                let error = Refusal::read(response, &self.context, self.request_id()).await.error;
                debug!("no stream for a subscription: {error}");
                return Ok(Opened::NotNow(NotNow::Busy(error.retry_after)));
            }
            Answer::Refused => self.refused(response).await?,
        }
        Ok(Opened::Never)
    }
}
