//! Asks a server over HTTP, one exchange at a time, and keeps each as it may be shown.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Version};
use serde_json::Value;
use tokio::time::timeout;
use url::Url;

use super::finding::{Answer, Exchange};
use mcp_span::auth::Granted;
use mcp_span::error::{Error, Kind};
use mcp_span::limits;
use mcp_span::net::{Call, Content, Endpoint, HttpClient, Jar, Lane, Progress, final_endpoint};
use mcp_span::secret::{Scrubber, Secret, shown};
use mcp_span::traffic::shown_headers;
use mcp_span::transport::http::{HttpSettings, basic_authorization};
use mcp_span::untrusted::Untrusted;
use mcp_span::wire::sse::Decoder;
use mcp_span::wire::{header, media};

/// The way in. Cookies are kept, since they lead to the machine that knows the session.
pub(super) struct Door {
    client: HttpClient,
    endpoint: Arc<Endpoint>,
    base: HeaderMap,
    granted: Option<Granted>,
    version: Option<HeaderValue>,
    cookies: Option<Mutex<Jar>>,
    limit: Duration,
    scrubber: Scrubber,
}

/// One request.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    method: Method,
    headers: HeaderMap,
    body: Bytes,
    /// Elsewhere at the same origin, and without credentials.
    elsewhere: Option<Url>,
}

/// What came back.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) version: Version,
    pub(super) body: String,
    /// The JSON-RPC answer in it.
    pub(super) answer: Option<Value>,
    /// Where redirects have led.
    pub(super) moved: Option<String>,
    pub(super) peer: Option<IpAddr>,
    pub(super) exchange: Exchange,
    pub(super) took: Duration,
}

/// Nothing did.
#[derive(Debug)]
pub(super) struct Unheard {
    pub(super) error: Error,
    pub(super) exchange: Exchange,
}

impl Ask {
    /// A message.
    pub(super) fn post(message: &Value) -> Self {
        let headers =
            HeaderMap::from_iter([(CONTENT_TYPE, header::JSON), (ACCEPT, header::ACCEPT_BOTH)]);
        Self { method: Method::POST, headers, body: message.to_string().into(), elsewhere: None }
    }

    /// A stream.
    pub(super) fn stream() -> Self {
        let headers = HeaderMap::from_iter([(ACCEPT, header::ACCEPT_EVENTS)]);
        Self { method: Method::GET, headers, body: Bytes::new(), elsewhere: None }
    }

    /// The end of a session.
    pub(super) fn delete() -> Self {
        Self { method: Method::DELETE, headers: HeaderMap::new(), ..Self::stream() }
    }

    pub(super) fn header(mut self, name: http::HeaderName, value: &HeaderValue) -> Self {
        self.headers.insert(name, value.clone());
        self
    }

    /// The same elsewhere at this origin: what is for the endpoint does not go along.
    pub(super) fn at(mut self, url: Url) -> Self {
        self.elsewhere = Some(url);
        self
    }
}

impl Heard {
    pub(super) fn media(&self) -> media::Media {
        media::of(&self.headers)
    }

    /// A page for people.
    pub(super) fn is_page(&self) -> bool {
        let kind = self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let is_named = kind.is_some_and(|kind| kind.trim_start().starts_with("text/html"));
        let start = self.body.trim_start().get(..14).unwrap_or_default().to_ascii_lowercase();
        is_named || start.starts_with("<!doctype html") || start.starts_with("<html")
    }

    pub(super) fn result(&self) -> Option<&Value> {
        self.answer.as_ref()?.get("result")
    }

    /// The error of the answer, in words.
    pub(super) fn refusal(&self) -> Option<String> {
        let error = self.answer.as_ref()?.get("error")?;
        let message = error["message"].as_str().unwrap_or_default();
        Some(format!("MCP error {}: {}", error["code"], Untrusted(message).excerpt(200)))
    }
}

impl Door {
    pub(super) fn new(settings: &HttpSettings, limit: Duration) -> Result<Self, Error> {
        let mut base = settings.headers.clone();
        base.entry(USER_AGENT).or_insert(header::AGENT);
        if let Some(basic) = basic_authorization(&settings.url) {
            base.entry(AUTHORIZATION).or_insert(basic);
        }
        let from_headers = base.remove(header::PROTOCOL_VERSION);
        for name in [header::SESSION_ID, header::LAST_EVENT_ID, header::METHOD, header::NAME] {
            base.remove(name);
        }
        Ok(Self {
            client: HttpClient::new(&settings.net),
            endpoint: Arc::new(Endpoint::new(&settings.url)?),
            base,
            granted: None,
            version: settings.protocol_version.clone().or(from_headers),
            cookies: settings.cookies.then(Mutex::default),
            limit,
            scrubber: settings.scrubber.clone(),
        })
    }

    pub(super) fn url(&self) -> &Url {
        self.endpoint.url()
    }

    /// What is sent as `MCP-Protocol-Version` in place of what is negotiated.
    pub(super) fn version(&self) -> Option<&HeaderValue> {
        self.version.as_ref()
    }

    /// From now on with these credentials.
    pub(super) fn grant(&mut self, granted: Granted) {
        self.granted = Some(granted);
    }

    /// All headers that are the user's, credentials included.
    pub(super) fn headers(&self) -> HeaderMap {
        let mut headers = Arc::new(self.base.clone());
        if let Some(granted) = &self.granted {
            granted.apply(&mut headers);
        }
        Arc::unwrap_or_clone(headers)
    }

    /// Asks, and reads the answer: all of it or, of a stream, up to the answer.
    pub(super) async fn ask(&self, ask: Ask) -> Result<Heard, Unheard> {
        let (mut heard, mut content, endpoint) = self.open(ask).await?;
        let begun = Instant::now();
        let left = self.limit.saturating_sub(heard.took);
        let is_stream = heard.media() == media::Media::EventStream;
        let reading = async {
            if is_stream {
                return read_answer(&mut content, &mut heard, endpoint.url()).await;
            }
            heard.body = read_all(&mut content, endpoint.url()).await?;
            Ok(())
        };
        let read = timeout(left, reading).await.unwrap_or_else(|_| Err(late(self.limit)));
        heard.took += begun.elapsed();
        if heard.answer.is_none() {
            heard.answer = serde_json::from_str(&heard.body).ok().filter(is_answer);
        }
        let shown = self.shown_body(&heard.body);
        if let Some(answer) = &mut heard.exchange.answer {
            answer.body = shown;
        }
        match read {
            Ok(()) => Ok(heard),
            Err(error) => Err(Unheard { error, exchange: heard.exchange }),
        }
    }

    /// Asks, and gives back the body unread.
    pub(super) async fn open(&self, ask: Ask) -> Result<(Heard, Content, Arc<Endpoint>), Unheard> {
        let call = match self.call(&ask) {
            Ok(call) => call,
            Err(error) => return Err(Unheard { error, exchange: Exchange::default() }),
        };
        let url = call.endpoint.url().clone();
        let exchange = Exchange {
            method: call.method.to_string(),
            url: shown(&url),
            headers: shown_headers(&call.headers, &url),
            body: self.shown_body(&String::from_utf8_lossy(&call.body)),
            ..Exchange::default()
        };
        let begun = Instant::now();
        let sent = timeout(self.limit, self.client.send(&call)).await;
        let sent = sent.unwrap_or_else(|_| Err(late(self.limit)));
        let unheard = |error: Error| {
            let said = Some(error.message.clone());
            Unheard { error, exchange: Exchange { error: said, ..exchange.clone() } }
        };
        let response = sent.map_err(unheard)?;
        let (moved, peer) =
            (final_endpoint(&response).map(|to| shown(to.url())), response.body().peer);
        let response = Content::of(response, &url).map_err(unheard)?;
        self.note_cookies(&url, response.headers());
        let (parts, content) = Response::into_parts(response);
        let answer = Answer {
            status: parts.status.as_u16(),
            version: format!("{:?}", parts.version),
            headers: shown_headers(&parts.headers, &url),
            body: String::new(),
        };
        let heard = Heard {
            status: parts.status,
            headers: parts.headers,
            version: parts.version,
            body: String::new(),
            answer: None,
            moved,
            peer,
            exchange: Exchange { answer: Some(answer), ..exchange },
            took: begun.elapsed(),
        };
        Ok((heard, content, call.endpoint))
    }

    fn call(&self, ask: &Ask) -> Result<Call, Error> {
        let (mut headers, endpoint) = match &ask.elsewhere {
            None => (self.headers(), Arc::clone(&self.endpoint)),
            Some(url) => {
                let agent = self.base.get(USER_AGENT).cloned().unwrap_or(header::AGENT);
                (HeaderMap::from_iter([(USER_AGENT, agent)]), Arc::new(Endpoint::new(url)?))
            }
        };
        for (name, value) in &ask.headers {
            headers.insert(name, value.clone());
        }
        if ask.elsewhere.is_none()
            && let Some(jar) = &self.cookies
        {
            let jar = jar.lock().unwrap_or_else(PoisonError::into_inner);
            jar.apply(endpoint.url(), &mut headers, SystemTime::now());
        }
        let (method, body, headers) = (ask.method.clone(), ask.body.clone(), Arc::new(headers));
        Ok(Call {
            method,
            endpoint,
            headers,
            body,
            lane: Lane::Calls,
            progress: Progress::default(),
        })
    }

    fn note_cookies(&self, url: &Url, headers: &HeaderMap) {
        let Some(jar) = &self.cookies else { return };
        let mut jar = jar.lock().unwrap_or_else(PoisonError::into_inner);
        jar.note(url, headers, SystemTime::now());
        jar.values().for_each(|value| self.scrubber.add_passing(&Secret::new(value)));
    }

    /// The beginning of a body; secrets go before it is cut.
    fn shown_body(&self, body: &str) -> String {
        self.scrubber.excerpt(body, limits::CHECK_BODY_SHOWN)
    }
}

/// Nothing came in time.
pub(super) fn late(limit: Duration) -> Error {
    Error::new(Kind::Timeout, format!("No answer within {} ms", limit.as_millis()))
        .hint("Look whether the server is stuck, or allow more --timeout")
}

fn is_answer(value: &Value) -> bool {
    value.get("jsonrpc").is_some()
        && (value.get("result").is_some() || value.get("error").is_some())
}

async fn read_all(content: &mut Content, url: &Url) -> Result<String, Error> {
    let mut collected = BytesMut::new();
    while let Some(piece) = content.next(url).await? {
        collected.extend_from_slice(&piece);
        if collected.len() > limits::CHECK_BODY {
            break;
        }
    }
    Ok(String::from_utf8_lossy(&collected).into_owned())
}

/// Reads events up to an answer; the first things that come are kept for who wants to see them.
async fn read_answer(content: &mut Content, heard: &mut Heard, url: &Url) -> Result<(), Error> {
    let mut decoder = Decoder::new(limits::MESSAGE_SIZE);
    while let Some(piece) = content.next(url).await? {
        if heard.body.len() < limits::CHECK_BODY {
            heard.body.push_str(&String::from_utf8_lossy(&piece));
        }
        decoder.push(piece);
        let too_large = |_| Error::new(Kind::TooLarge, "An event is over the size limit");
        while let Some(event) = decoder.next_event().map_err(too_large)? {
            let message = event.data.and_then(|data| serde_json::from_slice::<Value>(&data).ok());
            if let Some(answer) = message.filter(is_answer) {
                heard.answer = Some(answer);
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The next event of a stream: its name, and its data.
pub(super) async fn next_event(content: &mut Content, url: &Url) -> Option<(String, String)> {
    let mut decoder = Decoder::new(limits::MESSAGE_SIZE);
    let text =
        |bytes: Option<Bytes>| String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned();
    while let Ok(Some(piece)) = content.next(url).await {
        decoder.push(piece);
        if let Ok(Some(event)) = decoder.next_event() {
            return Some((text(event.name), text(event.data)));
        }
    }
    None
}
