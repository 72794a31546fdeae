//! Asks an HTTP proxy for a tunnel: CONNECT, and what it answers.

use std::io;

use http::HeaderValue;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::proxy_fault::{Refused, Trouble};
use crate::limits;
use crate::wire::page;

/// Makes `stream`, a fresh connection to a proxy, one to `target`, a `host:port`.
pub(super) async fn establish(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    target: &str,
    authorization: Option<&HeaderValue>,
) -> Result<(), Trouble> {
    let request = request(target, authorization);
    stream.write_all(&request).await.map_err(Trouble::Broken)?;
    stream.flush().await.map_err(Trouble::Broken)?;
    let mut buffer = Vec::with_capacity(1024);
    let head = loop {
        match ResponseHead::read(&buffer).map_err(Trouble::Garbage)? {
            // Something in between, with the answer behind it.
            Some(head) if (100..200).contains(&head.status) => {
                buffer.drain(..head.length);
                continue;
            }
            Some(head) => break head,
            None if buffer.len() < limits::PROXY_HEAD => {}
            None => return Err(Trouble::Garbage("the head of its answer has no end")),
        }
        if stream.read_buf(&mut buffer).await.map_err(Trouble::Broken)? == 0 {
            return Err(Trouble::Broken(io::ErrorKind::UnexpectedEof.into()));
        }
    };
    let rest = buffer.split_off(head.length);
    if !(200..300).contains(&head.status) {
        let body = body(stream, rest, head.body).await;
        return Err(head.refusal(body));
    }
    // Who is behind it waits for our first word.
    if rest.is_empty() { Ok(()) } else { Err(Trouble::Garbage("bytes follow its answer")) }
}

fn request(target: &str, authorization: Option<&HeaderValue>) -> Vec<u8> {
    let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n").into_bytes();
    if let Some(value) = authorization {
        request.extend_from_slice(b"Proxy-Authorization: ");
        request.extend_from_slice(value.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    request
}

/// What a refusal says beyond its status, as far as it comes soon.
async fn body(
    stream: &mut (impl AsyncRead + Unpin),
    mut body: Vec<u8>,
    length: Option<usize>,
) -> Option<String> {
    let length = length.unwrap_or(limits::PROXY_BODY).min(limits::PROXY_BODY);
    let reading = async {
        while body.len() < length && stream.read_buf(&mut body).await.is_ok_and(|n| n > 0) {}
    };
    let _ = tokio::time::timeout(limits::PROXY_BODY_WAIT, reading).await;
    body.truncate(length);
    let text = page::readable(String::from_utf8_lossy(&body).trim()).into_owned();
    (!text.is_empty()).then_some(text)
}

/// The head of an answer.
#[derive(Debug, PartialEq, Eq)]
struct ResponseHead {
    status: u16,
    /// The status with its text.
    text: String,
    /// How many bytes it takes.
    length: usize,
    /// How long its body is.
    body: Option<usize>,
    /// The ways of logging in that it names.
    offers: Vec<String>,
}

impl ResponseHead {
    /// Reads what has come so far; `None` if the head does not end in it.
    fn read(bytes: &[u8]) -> Result<Option<Self>, &'static str> {
        const START: &[u8] = b"HTTP/1.";
        const WRONG: &str = "its answer is not HTTP";
        let seen = bytes.len().min(START.len());
        if bytes.get(..seen) != START.get(..seen) {
            return Err(WRONG);
        }
        let end = |mark: &[u8]| memchr::memmem::find(bytes, mark).map(|at| at + mark.len());
        let ends = [end(b"\r\n\r\n"), end(b"\n\n")];
        let Some(length) = ends.into_iter().flatten().min() else { return Ok(None) };
        let text = String::from_utf8_lossy(bytes.get(..length).unwrap_or_default());
        Self::parse(&text, length).ok_or(WRONG).map(Some)
    }

    fn parse(text: &str, length: usize) -> Option<Self> {
        let mut lines = text.lines();
        let (_version, status) = lines.next()?.split_once(' ')?;
        let text = status.trim().to_owned();
        let digits = text.split(' ').next().filter(|digits| digits.len() == 3)?;
        let status = digits.parse().ok()?;
        let mut head = Self { status, text, length, body: None, offers: Vec::new() };
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            match name.trim().to_ascii_lowercase().as_str() {
                "content-length" => head.body = value.trim().parse().ok(),
                "proxy-authenticate" => head.offers.extend(scheme(value)),
                _ => {}
            }
        }
        Some(head)
    }

    fn refusal(self, body: Option<String>) -> Trouble {
        let Self { status, text, offers, .. } = self;
        let said = Refused { status: Some(status), text, body, offers };
        if status == 407 { Trouble::Login(said) } else { Trouble::Refused(said) }
    }
}

/// The scheme at the beginning of a challenge.
pub(super) fn scheme(challenge: &str) -> Option<String> {
    challenge.split_whitespace().next().map(|scheme| scheme.trim_end_matches(',').to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What comes of an answer, and what the proxy got before.
    async fn answered(answer: &[u8], pieces: usize) -> (Result<(), Trouble>, String) {
        let (mut ours, mut theirs) = tokio::io::duplex(64 * 1024);
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
        tokio::join!(establish(&mut ours, "host:443", Some(&value)), answering)
    }

    async fn trouble(answer: &[u8]) -> Trouble {
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
        let Trouble::Refused(said) = trouble(answer).await else { panic!("refused") };
        assert_eq!((said.status, &*said.text), (Some(403), "403 No Way"));
        assert_eq!(said.body.as_deref(), Some("mine"));
        let long = format!("HTTP/1.1 502 Bad\r\n\r\n{}", "x".repeat(50_000));
        let Trouble::Refused(said) = trouble(long.as_bytes()).await else { panic!("refused") };
        assert_eq!(said.body.unwrap().len(), limits::PROXY_BODY);
        let answer = b"HTTP/1.1 407 Auth\r\nProxy-Authenticate: NTLM\r\n\
                       proxy-authenticate: Basic realm=\"x\"\r\n\r\n";
        let Trouble::Login(said) = trouble(answer).await else { panic!("a login") };
        assert_eq!((said.offers, said.body), (vec!["NTLM".to_owned(), "Basic".to_owned()], None));
    }

    #[tokio::test]
    async fn what_is_no_answer_is_told_from_one_that_is_cut_off() {
        for answer in
            [&b"SSH-2.0-x\r\n"[..], b"\x05\x00", b"HTTP/1.1 2000 OK\r\n\r\n", b"HTTP/1.1\n\n"]
        {
            assert!(matches!(trouble(answer).await, Trouble::Garbage(_)), "{answer:?}");
        }
        let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(limits::PROXY_HEAD));
        assert!(matches!(trouble(endless.as_bytes()).await, Trouble::Garbage(_)));
        let early = b"HTTP/1.1 200 OK\r\n\r\nwelcome";
        assert!(matches!(trouble(early).await, Trouble::Garbage(_)));
        for answer in [&b""[..], b"HTTP/1", b"HTTP/1.1 200 OK\r\nA: b\r\n"] {
            assert!(matches!(trouble(answer).await, Trouble::Broken(_)), "{answer:?}");
        }
    }

    proptest! {
        #[test]
        fn no_answer_panics_and_more_of_one_changes_no_verdict(
            bytes in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..60),
                "HTTP/1\\.[01] [0-9a ]{0,5}(\r?\n[A-Za-z-]{0,3}:? ?[0-9]{0,2}){0,4}\r?\n\r?\n?"
                    .prop_map(String::into_bytes),
            ],
            cut in 0usize..80,
        ) {
            let whole = ResponseHead::read(&bytes);
            let part = ResponseHead::read(&bytes[..cut.min(bytes.len())]);
            prop_assert!(part == Ok(None) || part == whole);
        }
    }
}
