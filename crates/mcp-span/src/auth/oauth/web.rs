//! Asks authorization servers: short questions, within limits of time and size.

use std::sync::{Arc, Mutex, OnceLock};

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::debug;
use url::{Origin, Url};

use super::Given;
use super::address::{self, Reach};
use super::survey::{FoundMetadata, TriedPlace};
use super::words::login_error;
use crate::error::{Error, ErrorKind};
use crate::limits;
use crate::lock::lock;
use crate::message::{Id, reply};
use crate::net::{Addresses, Call, Content, Endpoint, HttpClient, Lane, Options, Progress};
use crate::secret::shown;
use crate::wire::{header, media};

/// What asks. Cookies and credentials of the MCP server are none of its business.
#[derive(Debug)]
pub(super) struct Web {
    pub(super) options: Options,
    /// The MCP server's own origin: what the user allows it, and shows it, is for nobody else.
    origin: Origin,
    /// For that origin. Each is made when the first question is asked: most servers want no login.
    own: OnceLock<HttpClient>,
    /// For other addresses that the user has named.
    named: OnceLock<HttpClient>,
    /// For addresses that the server, or somebody whom it named, has given.
    client: OnceLock<HttpClient>,
    /// How near the MCP server is: whatever it names must not be nearer.
    near: watch::Sender<Reach>,
    /// The token endpoint and the issuer that the user has named; they may lie anywhere.
    token_url: Option<Url>,
    issuer: Option<Origin>,
    /// Where metadata was looked for the last time.
    tried: Mutex<Vec<TriedPlace>>,
}

/// A body as a form has it.
pub(super) type Form = Vec<(&'static str, String)>;

impl Web {
    /// For what `server` names, and for what was `given`.
    pub(super) fn new(options: Options, server: &Url, given: &Given) -> Self {
        Self {
            options,
            origin: server.origin(),
            own: OnceLock::new(),
            named: OnceLock::new(),
            client: OnceLock::new(),
            near: watch::Sender::new(address::reach(server)),
            token_url: given.token_url.clone(),
            issuer: given.issuer_url().map(|url| url.origin()),
            tried: Mutex::default(),
        }
    }

    /// Where metadata was looked for since this was asked.
    pub(super) fn take_tried(&self) -> Vec<TriedPlace> {
        std::mem::take(&mut *lock(&self.tried))
    }

    /// How near the MCP server is, as far as that is known.
    pub(super) fn near(&self) -> Reach {
        *self.near.borrow()
    }

    /// Where the MCP server turned out to be: a name says nothing about it.
    pub(super) fn set_near(&self, reach: Reach) {
        self.near.send_replace(reach);
    }

    /// What asks at `url`.
    fn client_for(&self, url: &Url) -> &HttpClient {
        let elsewhere = |addresses| {
            let tls = self.options.tls.elsewhere();
            HttpClient::new(&Options { addresses, tls, ..self.options.clone() })
        };
        let origin = url.origin();
        if origin == self.origin {
            self.own.get_or_init(|| HttpClient::new(&self.options))
        } else if self.token_url.as_ref() == Some(url) || self.issuer.as_ref() == Some(&origin) {
            self.named.get_or_init(|| elsewhere(self.options.addresses.clone()))
        } else {
            self.client.get_or_init(|| {
                let near = self.near.subscribe();
                elsewhere(Addresses::only(move |ip| address::of_address(ip) <= *near.borrow()))
            })
        }
    }

    /// A document, if there is one at `url` that can be read; else the reason if there was no answer.
    pub(super) async fn fetch_metadata<T: DeserializeOwned>(
        &self,
        url: &Url,
    ) -> Result<T, Option<Error>> {
        let asking =
            async { self.ask(url, call(Method::GET, url, HeaderMap::new(), Bytes::new())?).await };
        let answer = timeout(limits::METADATA_WAIT, asking).await;
        let (found, read) = match answer.unwrap_or_else(|_| Err(late(url))) {
            Err(error) => (FoundMetadata::Nobody(error.message.clone()), Err(Some(error))),
            Ok((status, _)) if !status.is_success() => {
                (FoundMetadata::Status(status.as_u16()), Err(None))
            }
            Ok((_, value)) => match serde_json::from_value(value) {
                Ok(document) => (FoundMetadata::Document, Ok(document)),
                Err(_) => (FoundMetadata::Unreadable, Err(None)),
            },
        };
        let tried = TriedPlace { url: shown(url), found };
        debug!("metadata at {}: {:?}", tried.url, tried.found);
        lock(&self.tried).push(tried);
        read
    }

    /// Says something harmless to an MCP server, to hear what it wants first.
    ///
    /// A server of the older transport takes no messages there, but has a stream.
    pub(super) async fn probe_auth(&self, server: &Url) -> Result<(StatusCode, HeaderMap), Error> {
        let id = Id::string("mcp-span-login");
        let body = reply::request(&id, "ping", None).bytes().clone();
        let headers =
            HeaderMap::from_iter([(CONTENT_TYPE, header::JSON), (ACCEPT, header::ACCEPT_BOTH)]);
        let said = self.response_head(call(Method::POST, server, headers, body)?).await?;
        if said.0 == StatusCode::UNAUTHORIZED || !said.0.is_client_error() {
            return Ok(said);
        }
        let stream = HeaderValue::from_static("text/event-stream");
        let headers = HeaderMap::from_iter([(ACCEPT, stream)]);
        let call = call(Method::GET, server, headers, Bytes::new())?;
        let of_stream = self.response_head(call).await;
        Ok(of_stream.ok().filter(|(status, _)| *status == StatusCode::UNAUTHORIZED).unwrap_or(said))
    }

    /// The head of the server's answer.
    async fn response_head(&self, call: Call) -> Result<(StatusCode, HeaderMap), Error> {
        let server = call.endpoint.url();
        let response = timeout(limits::LOGIN_QUESTION, self.client_for(server).send(&call)).await;
        let response = response.map_err(|_| late(server))??;
        if let Some(ip) = response.body().peer {
            self.set_near(address::of_address(ip));
        }
        Ok((response.status(), response.headers().clone()))
    }

    /// Posts a form, with `more` fields behind it; `basic` are credentials for the header.
    pub(super) async fn form(
        &self,
        url: &Url,
        form: &Form,
        more: &[(String, String)],
        basic: Option<HeaderValue>,
    ) -> Result<(StatusCode, Value), Error> {
        // In one expression: it cannot be kept over an await.
        let coded = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(form)
            .extend_pairs(more)
            .finish();
        let media = HeaderValue::from_static("application/x-www-form-urlencoded");
        let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, media)]);
        headers.extend(basic.map(|basic| (AUTHORIZATION, basic)));
        self.ask(url, call(Method::POST, url, headers, coded.into())?).await
    }

    /// Posts JSON.
    pub(super) async fn json(&self, url: &Url, body: &Value) -> Result<(StatusCode, Value), Error> {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, header::JSON)]);
        self.ask(url, call(Method::POST, url, headers, body.to_string().into())?).await
    }

    /// Asks once; an answer that is no JSON is given back as text.
    async fn ask(&self, url: &Url, call: Call) -> Result<(StatusCode, Value), Error> {
        let asking = async {
            let response = Content::of(self.client_for(url).send(&call).await?, url)?;
            if media::of(response.headers()) == media::Media::EventStream {
                // It has no end that could be waited for.
                return Err(login_error(format!("{} answers with a stream of events", shown(url))));
            }
            let (parts, mut content) = response.into_parts();
            let mut collected = BytesMut::new();
            while let Some(piece) = content.next(url).await? {
                collected.extend_from_slice(&piece);
                if collected.len() > limits::METADATA_SIZE {
                    return Err(login_error(format!("The answer of {} is too large", shown(url))));
                }
            }
            let value = match serde_json::from_slice(&collected) {
                Ok(value) => value,
                // It may hold a token, in a form that we do not understand.
                Err(_) if parts.status.is_success() => Value::Null,
                // Whoever shows it shows its beginning, and takes out secrets before that: the cut
                // could go through one.
                Err(_) => Value::String(String::from_utf8_lossy(&collected).into_owned()),
            };
            Ok((parts.status, value))
        };
        match timeout(limits::LOGIN_QUESTION, asking).await {
            Ok(answer) => answer.map_err(|error| of_login(error, url.origin() == self.origin)),
            Err(_) => Err(late(url)),
        }
    }
}

/// A call that wants JSON, unless `headers` say something else.
fn call(method: Method, url: &Url, mut headers: HeaderMap, body: Bytes) -> Result<Call, Error> {
    headers.entry(ACCEPT).or_insert(header::JSON);
    headers.insert(USER_AGENT, header::AGENT);
    let (endpoint, headers) = (Arc::new(Endpoint::new(url)?), Arc::new(headers));
    Ok(Call { method, endpoint, headers, body, lane: Lane::Calls, progress: Progress::default() })
}

/// Whatever is wrong with them, the MCP server is there, and its URL is right.
fn of_login(error: Error, is_own: bool) -> Error {
    let error = match error.kind {
        ErrorKind::Tls if !is_own => error.hint(
            "Trust its certificate authority with --ca-cert; --insecure and --client-cert are for \
             the MCP server's own origin, not for authorization servers",
        ),
        ErrorKind::Redirect => error.hint(
            "What belongs to a login is not sent on. Ask who runs the authorization server for the \
             right address, or give that of the token endpoint with --oauth-token-url",
        ),
        _ => error,
    };
    Error { kind: ErrorKind::Login, ..error.not_delivered() }
}

fn late(url: &Url) -> Error {
    login_error(format!("{} did not answer in time", shown(url)))
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_name_that_leads_into_a_private_network_is_refused_where_it_is_resolved() {
        // peers c 6: metadata that sends us into our own network
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = Url::parse("https://mcp.example.com/mcp").unwrap();
        let web = Web::new(Options::default(), &server, &Given::default());
        // A name as good as any that a name server resolves to this address.
        let place = Url::parse(&format!("http://localhost:{port}/token")).unwrap();
        let error = web.form(&place, &Vec::new(), &[], None).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Login);
        assert!(error.message.contains("private network"), "{error}");
        assert!(web.fetch_metadata::<Value>(&place).await.is_err());
        let silence = std::time::Duration::from_millis(100);
        assert!(timeout(silence, listener.accept()).await.is_err(), "nobody came");
        // A server of this machine may send us there, also if only its address shows where it is.
        web.set_near(address::of_address(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        let asking =
            tokio::spawn(async move { web.form(&place, &Vec::new(), &[], None).await.is_ok() });
        assert!(listener.accept().await.is_ok());
        asking.abort();
    }

    #[tokio::test]
    async fn what_the_user_has_given_may_lie_anywhere() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let place = format!("http://localhost:{}/token", listener.local_addr().unwrap().port());
        let place = Url::parse(&place).unwrap();
        let server = Url::parse("https://mcp.example.com/mcp").unwrap();
        let given = Given { token_url: Some(place.clone()), ..Given::default() };
        let web = Web::new(Options::default(), &server, &given);
        let other = place.join("/other").unwrap();
        assert!(web.form(&other, &Vec::new(), &[], None).await.is_err(), "only this");
        let asking = tokio::spawn(async move { web.form(&place, &Vec::new(), &[], None).await });
        assert!(listener.accept().await.is_ok());
        asking.abort();
    }

    #[tokio::test]
    async fn the_address_that_answers_shows_how_near_the_server_is() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = Url::parse(&format!("http://127.0.0.1:{port}/mcp")).unwrap();
        let web = Web::new(Options::default(), &server, &Given::default());
        web.set_near(Reach::Public);
        let answering = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 4096]).await;
            let answer = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n";
            stream.write_all(answer).await.unwrap();
        });
        assert_eq!(web.probe_auth(&server).await.unwrap().0, StatusCode::UNAUTHORIZED);
        answering.await.unwrap();
        assert_eq!(web.near(), Reach::Loopback);
    }
}
