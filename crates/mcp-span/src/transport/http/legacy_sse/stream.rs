//! Opens the stream of an HTTP+SSE server and waits for the address that it announces first.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Response};
use tracing::debug;

use super::address::Address;
use crate::auth::Login;
use crate::error::{Error, ErrorKind};
use crate::limits;
use crate::message::Id;
use crate::net::{Call, Content, Endpoint, Lane, final_endpoint};
use crate::secret::shown;
use crate::transport::Ticket;
use crate::transport::http::answer::{Answer, Refusal};
use crate::transport::http::events::{Events, Payload, Position, timeout};
use crate::transport::http::session::SessionHeaders;
use crate::transport::http::{Context, SendOptions};

/// A stream whose address is known.
#[derive(Debug)]
pub(in super::super) struct EventStream {
    pub(super) events: Events,
    pub(super) address: Address,
    /// The session lives as long as the stream. It has no id of its own in the headers.
    pub(super) headers: SessionHeaders,
    /// The `initialize` that waits for its answer.
    pub(super) initialize: Option<(Ticket, Id)>,
    /// How many times the machine had slept before it was opened.
    pub(super) sleeps: u64,
}

/// What must be the first event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum First {
    /// The address: anything else shows that it is another sort of server.
    Address,
    /// Whatever comes before the address is passed over.
    Anything,
}

/// Opens a stream. Whatever goes wrong, no message has been sent.
pub(in super::super) async fn open(
    context: &Context,
    first: First,
    login: Login,
) -> Result<Box<EventStream>, Error> {
    let limit = context.settings.timeouts.quick.unwrap_or(limits::QUICK_TIMEOUT);
    let headers = SessionHeaders::new(&context.settings);
    let call = context.call(Method::GET, headers.stream_headers(), Bytes::new());
    let call = Call { lane: Lane::Lasting, ..call };
    // A login on the way takes its own time.
    let what = "Stream";
    let options = SendOptions { login, limit: Some(limit), what, ..SendOptions::aside() };
    let opening = async {
        let response = context.send(call, options).await?;
        let what = "No address for messages came on the stream: timeout";
        let silent = |_| timeout(what, limit);
        let reading = read(context, response, headers, first);
        tokio::time::timeout(limit, reading).await.map_err(silent)?
    };
    opening.await.map_err(|error| context.scrubbed(error.not_delivered()))
}

/// Reads the head of the stream.
async fn read(
    context: &Context,
    response: Response<Content>,
    headers: SessionHeaders,
    first: First,
) -> Result<Box<EventStream>, Error> {
    let place = final_endpoint(&response).unwrap_or_else(|| Arc::clone(&context.endpoint));
    match Answer::of(&response) {
        Answer::Events => {}
        Answer::Refused => return Err(Refusal::read(response, context, None).await.error),
        _ => return Err(no_stream(&place, "it is not an event stream")),
    }
    let mut events =
        Events::new(response.into_body(), context, Position::default()).skipping_oversized();
    events.endpoint = Arc::clone(&place);
    loop {
        match events.next_payload(None).await? {
            Some(Payload::Event { name: Some(name), data }) if name == b"endpoint"[..] => {
                let address = Address::resolve(place.url(), &data)?;
                debug!(endpoint = %address.endpoint, "the stream is open");
                let sleeps = context.client.sleeps();
                let stream = EventStream { events, address, headers, initialize: None, sleeps };
                return Ok(Box::new(stream));
            }
            Some(_) if first == First::Address => {
                return Err(no_stream(&place, "it does not begin with an address for messages"));
            }
            Some(_) => debug!("an event before the address was passed over"),
            None if first == First::Address => {
                return Err(no_stream(&place, "it ends before any address for messages"));
            }
            None => {
                let message = format!("{} ended its stream at once", shown(place.url()));
                return Err(Error::new(ErrorKind::Closed, message));
            }
        }
    }
}

fn no_stream(place: &Endpoint, why: &str) -> Error {
    let message = format!("{place} is not an HTTP+SSE server");
    Error::new(ErrorKind::BadResponse, message)
        .because(why)
        .hint("Leave --transport out, or check that the URL is that of an MCP endpoint")
}
