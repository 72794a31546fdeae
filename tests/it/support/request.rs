//! An HTTP request as the scripted server saw it.

use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncReadExt};

/// One request: everything is kept as it came.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) http_method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// The next request of a connection; `None` when the peer has closed it.
    pub(crate) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Option<Self> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.ok()?);
        }
        let head = String::from_utf8(head).expect("a head in ASCII");
        let mut lines = head.lines();
        let mut first = lines.next().expect("a request line").split(' ');
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let mut request = Self {
            http_method: first.next().expect("a method").to_owned(),
            path: first.next().expect("a path").to_owned(),
            headers,
            body: Vec::new(),
        };
        let length = request.header("content-length").map_or(0, |n| n.parse().expect("a length"));
        request.body = vec![0; length];
        stream.read_exact(&mut request.body).await.ok()?;
        Some(request)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a body in UTF-8")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The JSON-RPC method; for a GET, DELETE or an answer, the HTTP method.
    pub(crate) fn what(&self) -> String {
        self.json()["method"].as_str().unwrap_or(&self.http_method).to_owned()
    }

    /// The exact text of the JSON-RPC id.
    pub(crate) fn id(&self) -> String {
        #[derive(serde::Deserialize)]
        struct WithId<'a> {
            #[serde(borrow)]
            id: &'a RawValue,
        }
        let with_id: WithId<'_> = serde_json::from_slice(&self.body).expect("a body with an id");
        with_id.id.get().to_owned()
    }
}
