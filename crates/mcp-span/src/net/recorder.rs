//! Keeps what an HTTP client sends and receives, for whoever draws conclusions from it afterwards.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode, Version};
use tokio::sync::watch;
use url::Url;

use super::body::Inbound;
use super::client::{Call, final_endpoint};
use crate::error::Error;
use crate::limits;
use crate::secret::shown;

/// The exchanges of one client, in the order in which they began. Clones share them.
///
/// Nothing is hidden in it: credentials stand in headers as they were sent.
#[derive(Clone, Debug, Default)]
pub struct Recorder(Arc<watch::Sender<Vec<RecordedExchange>>>);

/// A request, and what came of it so far.
#[derive(Clone)]
pub struct RecordedExchange {
    /// The HTTP method.
    pub method: Method,
    /// Where it was sent to, before any redirect.
    pub url: Url,
    /// All headers but those that HTTP itself needs.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// When it was sent.
    pub since: Instant,
    /// `None` as long as there is neither an answer nor an error: for ever if it was given up.
    pub outcome: Option<Result<RecordedResponse, Error>>,
}

/// The answer to a request.
#[derive(Clone)]
pub struct RecordedResponse {
    /// Its status.
    pub status: StatusCode,
    /// The version of HTTP.
    pub version: Version,
    /// Its headers.
    pub headers: HeaderMap,
    /// Where redirects have led.
    pub redirected_to: Option<Url>,
    /// The address of whoever has answered; `None` if a proxy stands in between.
    pub peer: Option<IpAddr>,
    /// The beginning of the body, as far as it was read.
    pub body: Vec<u8>,
    /// From the request to the last byte that was read.
    pub took: Duration,
    /// Nothing more comes.
    pub has_ended: bool,
}

impl Recorder {
    /// All exchanges until now.
    #[must_use]
    pub fn exchanges(&self) -> Vec<RecordedExchange> {
        self.0.borrow().clone()
    }

    /// Completes when `test` is true of the exchanges.
    pub async fn wait_for(&self, mut test: impl FnMut(&[RecordedExchange]) -> bool) {
        // It fails only if the sender is gone, which is here.
        let _ = self.0.subscribe().wait_for(|exchanges| test(exchanges)).await;
    }

    pub(super) fn begin(&self, call: &Call) -> Recording {
        let exchange = RecordedExchange {
            method: call.method.clone(),
            url: call.endpoint.url().clone(),
            headers: (*call.headers).clone(),
            body: call.body.clone(),
            since: Instant::now(),
            outcome: None,
        };
        let mut index = 0;
        self.0.send_modify(|exchanges| {
            index = exchanges.len();
            exchanges.push(exchange);
        });
        Recording { recorder: self.clone(), index }
    }
}

/// The place of one exchange, which its body keeps to add what is read of it.
#[derive(Debug)]
pub(super) struct Recording {
    recorder: Recorder,
    index: usize,
}

impl Recording {
    pub(super) fn answered(self, answer: &mut Result<Response<Inbound>, Error>) {
        self.change(|exchange| {
            exchange.outcome = Some(match answer {
                Ok(response) => Ok(RecordedResponse {
                    status: response.status(),
                    version: response.version(),
                    headers: response.headers().clone(),
                    redirected_to: final_endpoint(response).map(|to| to.url().clone()),
                    peer: response.body().peer,
                    body: Vec::new(),
                    took: exchange.since.elapsed(),
                    has_ended: false,
                }),
                Err(error) => Err(error.clone()),
            });
        });
        if let Ok(response) = answer {
            response.body_mut().recording = Some(Box::new(self));
        }
    }

    /// A piece of the body was read, or its end.
    pub(super) fn read(&self, piece: &Result<Option<Bytes>, Error>) {
        self.change(|exchange| {
            let took = exchange.since.elapsed();
            let Some(Ok(response)) = &mut exchange.outcome else { return };
            response.took = took;
            match piece {
                Ok(Some(piece)) => {
                    let room = limits::RECORDED_BODY.saturating_sub(response.body.len());
                    response.body.extend_from_slice(&piece[..piece.len().min(room)]);
                }
                Ok(None) | Err(_) => response.has_ended = true,
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut RecordedExchange)) {
        self.recorder.0.send_modify(|exchanges| {
            if let Some(exchange) = exchanges.get_mut(self.index) {
                change(exchange);
            }
        });
    }
}

/// Its headers are secrets, its body may be anything.
impl fmt::Debug for RecordedExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {:?}", self.method, shown(&self.url), self.outcome)
    }
}

impl fmt::Debug for RecordedResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with {} bytes", self.status, self.body.len())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::super::{Content, Endpoint, HttpClient, Lane, Options, Progress};
    use super::*;

    #[tokio::test]
    async fn an_exchange_is_kept_with_what_is_read_of_its_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url: Url = format!("http://{}/mcp", listener.local_addr().unwrap()).parse().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 1024]).await;
            let answer = "HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\ngone";
            stream.write_all(answer.as_bytes()).await.unwrap();
        });
        let recorder = Recorder::default();
        let options = Options { recorder: Some(recorder.clone()), ..Options::default() };
        let call = Call {
            method: Method::POST,
            endpoint: Arc::new(Endpoint::new(&url).unwrap()),
            headers: Arc::default(),
            body: Bytes::from_static(b"{}"),
            lane: Lane::Calls,
            progress: Progress::default(),
        };
        let response = HttpClient::new(&options).send(&call).await.unwrap();
        let head = recorder.exchanges().remove(0);
        assert_eq!((&head.url, &head.body[..]), (&url, &b"{}"[..]));
        let head = head.outcome.unwrap().unwrap();
        assert!(head.body.is_empty() && !head.has_ended);
        let mut body = Content::of(response, &url).unwrap().into_body();
        while body.next(&url).await.unwrap().is_some() {}
        recorder.wait_for(|exchanges| !exchanges.is_empty()).await;
        let response = recorder.exchanges().remove(0).outcome.unwrap().unwrap();
        assert_eq!((response.status.as_u16(), &response.body[..]), (404, &b"gone"[..]));
        assert!(response.has_ended);
    }
}
