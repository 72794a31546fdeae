//! Asks authorization servers: short questions, within limits of time and size.

use std::sync::{Arc, OnceLock};

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tracing::debug;
use url::Url;

use crate::error::{Error, Kind};
use crate::limits;
use crate::message::{Id, edit, reply};
use crate::net::{Call, Content, Endpoint, HttpClient, Options, Progress};
use crate::secret::shown;
use crate::wire::{header, media};

/// What asks. Cookies and credentials of the MCP server are none of its business.
#[derive(Debug)]
pub(super) struct Web {
    options: Options,
    /// Made when the first question is asked: most servers want no login.
    client: OnceLock<HttpClient>,
}

/// A body as a form has it.
pub(super) type Form = Vec<(&'static str, String)>;

impl Web {
    pub(super) fn new(options: Options) -> Self {
        Self { options, client: OnceLock::new() }
    }

    fn client(&self) -> &HttpClient {
        self.client.get_or_init(|| HttpClient::new(&self.options))
    }

    /// A document, if there is one at `url` that can be read.
    pub(super) async fn document<T: DeserializeOwned>(&self, url: &Url) -> Option<T> {
        let asking = self.ask(Method::GET, url, HeaderMap::new(), Bytes::new());
        let answer = tokio::time::timeout(limits::METADATA_WAIT, asking).await;
        let (status, body) = match answer.unwrap_or_else(|_| Err(late(url))) {
            Ok(answer) => answer,
            Err(error) => {
                debug!("no metadata at {}: {error}", shown(url));
                return None;
            }
        };
        if !status.is_success() {
            return None;
        }
        serde_json::from_slice(&body)
            .inspect_err(|error| debug!("the metadata at {} is none: {error}", shown(url)))
            .ok()
    }

    /// Says something harmless to an MCP server, to hear what it wants first.
    pub(super) async fn knock(&self, server: &Url) -> Result<(StatusCode, HeaderMap), Error> {
        let id = Id::string("mcp-span-login");
        let body = reply::request(&id, "ping").bytes().clone();
        let headers = HeaderMap::from_iter([
            (CONTENT_TYPE, header::JSON),
            (ACCEPT, header::ACCEPT_BOTH),
            (USER_AGENT, header::AGENT),
        ]);
        let (endpoint, progress) = (Arc::new(Endpoint::new(server)?), Progress::default());
        let method = Method::POST;
        let call = Call { method, endpoint, headers, body, urgent: false, progress };
        let response =
            tokio::time::timeout(limits::LOGIN_QUESTION, self.client().send(&call)).await;
        let response = response.map_err(|_| late(server))??;
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
        let mut headers = HeaderMap::new();
        let media = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(CONTENT_TYPE, media);
        headers.extend(basic.map(|basic| (AUTHORIZATION, basic)));
        self.value(url, headers, coded.into()).await
    }

    /// Posts JSON.
    pub(super) async fn json(&self, url: &Url, body: &Value) -> Result<(StatusCode, Value), Error> {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, header::JSON)]);
        self.value(url, headers, body.to_string().into()).await
    }

    async fn value(
        &self,
        url: &Url,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<(StatusCode, Value), Error> {
        let (status, body) = self.ask(Method::POST, url, headers, body).await?;
        let value = serde_json::from_slice(&body).unwrap_or_else(|_| {
            // Not repeated beyond its beginning: it is a stranger's web page, most likely.
            let text = String::from_utf8_lossy(&body[..body.len().min(limits::ERROR_TEXT)]);
            Value::String(edit::excerpt(&text, limits::LOGIN_TEXT))
        });
        Ok((status, value))
    }

    async fn ask(
        &self,
        method: Method,
        url: &Url,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), Error> {
        headers.insert(ACCEPT, header::JSON);
        headers.insert(USER_AGENT, header::AGENT);
        let endpoint = Arc::new(Endpoint::new(url)?);
        let progress = Progress::default();
        let call = Call { method, endpoint, headers, body, urgent: false, progress };
        let asking = async {
            let response = Content::of(self.client().send(&call).await?, url)?;
            if media::of(response.headers()) == media::Media::EventStream {
                // It has no end that could be waited for.
                let message = format!("{} answers with a stream of events", shown(url));
                return Err(Error::new(Kind::Login, message));
            }
            let (parts, mut content) = response.into_parts();
            let mut collected = BytesMut::new();
            while let Some(piece) = content.next(url).await? {
                collected.extend_from_slice(&piece);
                if collected.len() > limits::METADATA_SIZE {
                    let message = format!("The answer of {} is too large", shown(url));
                    return Err(Error::new(Kind::Login, message));
                }
            }
            Ok((parts.status, collected.freeze()))
        };
        match tokio::time::timeout(limits::LOGIN_QUESTION, asking).await {
            Ok(answer) => answer.map_err(Error::not_delivered),
            Err(_) => Err(late(url)),
        }
    }
}

fn late(url: &Url) -> Error {
    let message = format!("{} did not answer in time", shown(url));
    Error::new(Kind::Login, message).not_delivered()
}
