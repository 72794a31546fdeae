//! One POST and its answer, with nothing of MCP in it.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::TokioExecutor;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

/// A pool of connections.
pub(crate) type HttpClient<C = HttpConnector> = Client<C, Full<Bytes>>;

/// Whatever went wrong.
pub(crate) type Fault = Box<dyn Error + Send + Sync>;

const EVENT_STREAM: &[u8] = b"text/event-stream";

/// A client that connects on first use.
pub(crate) fn client() -> HttpClient {
    Client::builder(TokioExecutor::new()).build(connector())
}

/// The same over TLS, for a server that the certificate at `root` vouches for.
pub(crate) fn secure_client(
    root: &Path,
) -> Result<HttpClient<HttpsConnector<HttpConnector>>, Fault> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(root)?)?;
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut connector = connector();
    connector.enforce_http(false);
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_only()
        .enable_http1()
        .wrap_connector(connector);
    Ok(Client::builder(TokioExecutor::new()).build(connector))
}

fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector
}

/// Sends `line` and waits for the head of the answer.
pub(crate) async fn post<C>(
    client: &HttpClient<C>,
    uri: &Uri,
    line: Bytes,
) -> Result<Response<Incoming>, Fault>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let mut request = Request::new(Full::new(line));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = uri.clone();
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    successful(client.request(request).await?)
}

/// Opens a stream.
pub(crate) async fn open<C>(client: &HttpClient<C>, uri: &Uri) -> Result<Response<Incoming>, Fault>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let mut request = Request::new(Full::new(Bytes::new()));
    *request.uri_mut() = uri.clone();
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    successful(client.request(request).await?)
}

fn successful(response: Response<Incoming>) -> Result<Response<Incoming>, Fault> {
    if response.status().is_success() {
        return Ok(response);
    }
    Err(format!("HTTP {}", response.status()).into())
}

/// Whether the answer comes as events.
pub(crate) fn is_event_stream(response: &Response<Incoming>) -> bool {
    response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes() == EVENT_STREAM)
}
