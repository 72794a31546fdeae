//! Asks an HTTP proxy for a tunnel: CONNECT, and what it answers.

use std::io;

use bytes::Bytes;
use http::header::{HOST, PROXY_AUTHORIZATION};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::ext::ReasonPhrase;
use hyper::rt::{Read, Write};

use super::fault::causes;
use super::proxy_fault::{ProxyFault, Refused};
use crate::limits;
use crate::wire::page;

/// Makes `stream`, a fresh connection to a proxy, one to `target`, a `host:port`.
pub(super) async fn establish<T: Read + Write + Unpin>(
    stream: T,
    target: &str,
    authorization: Option<&HeaderValue>,
) -> Result<T, ProxyFault> {
    let mut request = Request::connect(target).header(HOST, target);
    if let Some(value) = authorization {
        request = request.header(PROXY_AUTHORIZATION, value);
    }
    let request = request.body(Empty::<Bytes>::new()).map_err(io::Error::other)?;
    let mut http1 = http1::Builder::new();
    // As proxies know them that are older than the rule that case makes no difference.
    http1.title_case_headers(true).ignore_invalid_headers_in_responses(true);
    http1.max_buf_size(limits::PROXY_HEAD).max_headers(limits::HTTP1_HEADERS);
    let (mut sender, connection) = http1.handshake(stream).await.map_err(broken)?;
    let asking = async move {
        let response = sender.send_request(request).await.map_err(broken)?;
        if response.status().is_success() { Ok(()) } else { Err(refusal(response).await) }
    };
    let (asked, left) = tokio::join!(asking, connection.without_shutdown());
    asked?;
    let left = left.map_err(broken)?;
    // Who is behind it waits for our first word.
    match left.read_buf.is_empty() {
        true => Ok(left.io),
        false => Err(ProxyFault::Garbage("bytes follow its answer")),
    }
}

/// There is no answer, or none in HTTP.
fn broken(error: hyper::Error) -> ProxyFault {
    if error.is_parse_too_large() {
        return ProxyFault::Garbage("the head of its answer has no end");
    }
    for cause in causes(&error) {
        if let Some(cause) = cause.downcast_ref::<io::Error>() {
            return ProxyFault::Broken(io::Error::new(cause.kind(), cause.to_string()));
        }
        if cause.downcast_ref().is_some_and(hyper::Error::is_incomplete_message) {
            return ProxyFault::Broken(io::ErrorKind::UnexpectedEof.into());
        }
    }
    ProxyFault::Garbage("its answer is not HTTP")
}

async fn refusal(response: Response<Incoming>) -> ProxyFault {
    let mut said = Refused::of(&response);
    if let Some(reason) = response.extensions().get::<ReasonPhrase>() {
        let reason = String::from_utf8_lossy(reason.as_bytes());
        said.text = format!("{} {reason}", response.status().as_str()).trim().to_owned();
    }
    let wants_login = response.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED;
    let (mut body, mut beginning) = (response.into_body(), Vec::new());
    // What it says beyond its status, as far as it comes soon.
    let reading = async {
        while beginning.len() < limits::PROXY_BODY
            && let Some(Ok(frame)) = body.frame().await
        {
            beginning.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
        }
    };
    let _ = tokio::time::timeout(limits::PROXY_BODY_WAIT, reading).await;
    beginning.truncate(limits::PROXY_BODY);
    let body = page::readable(String::from_utf8_lossy(&beginning).trim()).into_owned();
    said.body = Some(body).filter(|body| !body.is_empty());
    if wants_login { ProxyFault::Login(said) } else { ProxyFault::Refused(said) }
}

#[cfg(test)]
mod tests {
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// What comes of an answer, and what the proxy got before.
    async fn answered(answer: &[u8], pieces: usize) -> (Result<(), ProxyFault>, String) {
        let (ours, mut theirs) = tokio::io::duplex(64 * 1024);
        let value = HeaderValue::from_static("Basic abc");
        let answering = async {
            for piece in answer.chunks(pieces.max(1)) {
                let _ = theirs.write_all(piece).await;
            }
            let _ = theirs.shutdown().await;
            let mut got = vec![0; 1024];
            let n = theirs.read(&mut got).await.unwrap();
            String::from_utf8(got[..n].to_vec()).unwrap()
        };
        let ours = TokioIo::new(ours);
        let establishing = async { establish(ours, "host:443", Some(&value)).await.map(drop) };
        tokio::join!(establishing, answering)
    }

    async fn trouble(answer: &[u8]) -> ProxyFault {
        answered(answer, 1000).await.0.unwrap_err()
    }

    #[tokio::test]
    async fn any_success_is_a_tunnel_however_it_is_cut() {
        for answer in [
            "HTTP/1.1 200 Connection established\r\n\r\n",
            "HTTP/1.0 200\r\nVia: x\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Fine\nA: b\n\n",
        ] {
            for pieces in 1..answer.len() {
                let (established, got) = answered(answer.as_bytes(), pieces).await;
                assert!(established.is_ok(), "{answer}: {established:?}");
                let expected = "CONNECT host:443 HTTP/1.1\r\nHost: host:443\r\n\
                                Proxy-Authorization: Basic abc\r\n\r\n";
                assert_eq!(got, expected);
            }
        }
    }

    #[tokio::test]
    async fn a_refusal_is_kept_with_its_text_and_the_beginning_of_its_body() {
        let answer = b"HTTP/1.1 403 No Way\r\nContent-Length: 4\r\n\r\nmineothers";
        let ProxyFault::Refused(said) = trouble(answer).await else { panic!("refused") };
        assert_eq!((said.status, &*said.text), (Some(403), "403 No Way"));
        assert_eq!(said.body.as_deref(), Some("mine"));
        let long = format!("HTTP/1.1 502 Bad\r\n\r\n{}", "x".repeat(50_000));
        let ProxyFault::Refused(said) = trouble(long.as_bytes()).await else { panic!("refused") };
        assert_eq!(said.body.unwrap().len(), limits::PROXY_BODY);
        let answer = b"HTTP/1.1 407 Auth\r\nProxy-Authenticate: NTLM\r\n\
                       proxy-authenticate: Basic realm=\"x\"\r\n\r\n";
        let ProxyFault::Login(said) = trouble(answer).await else { panic!("a login") };
        assert_eq!((said.offers, said.body), (vec!["NTLM".to_owned(), "Basic".to_owned()], None));
    }

    #[tokio::test]
    async fn what_is_no_answer_is_told_from_one_that_is_cut_off() {
        for answer in
            [&b"SSH-2.0-x\r\n"[..], b"\x05\x00", b"HTTP/1.1 2000 OK\r\n\r\n", b"HTTP/1.1\n\n"]
        {
            assert!(matches!(trouble(answer).await, ProxyFault::Garbage(_)), "{answer:?}");
        }
        let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(limits::PROXY_HEAD));
        assert!(matches!(trouble(endless.as_bytes()).await, ProxyFault::Garbage(_)));
        let early = b"HTTP/1.1 200 OK\r\n\r\nwelcome";
        assert!(matches!(trouble(early).await, ProxyFault::Garbage(_)));
        for answer in [&b""[..], b"HTTP/1", b"HTTP/1.1 200 OK\r\nA: b\r\n"] {
            assert!(matches!(trouble(answer).await, ProxyFault::Broken(_)), "{answer:?}");
        }
    }
}
