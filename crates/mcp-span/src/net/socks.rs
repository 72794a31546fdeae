//! Asks a SOCKS5 proxy for a connection (RFC 1928, and RFC 1929 for user and password).

use std::net::IpAddr;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::proxy::ProxyCredentials;
use super::proxy_fault::{ProxyFault, Refused};

const VERSION: u8 = 5;
const LOGIN_VERSION: u8 = 1;
const NO_LOGIN: u8 = 0;
const BY_PASSWORD: u8 = 2;
const CONNECT: u8 = 1;

/// Where the proxy is to connect to.
#[derive(Clone, Copy, Debug)]
pub(super) enum SocksTarget<'a> {
    /// A name that the proxy resolves.
    Name(&'a str),
    Address(IpAddr),
}

/// Makes `stream`, a fresh connection to a proxy, one to this port of `target`.
pub(super) async fn establish(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    target: SocksTarget<'_>,
    port: u16,
    login: Option<&ProxyCredentials>,
) -> Result<(), ProxyFault> {
    let request = request(target, port)?;
    let offer: &[u8] = match login {
        None => &[VERSION, 1, NO_LOGIN],
        Some(_) => &[VERSION, 2, NO_LOGIN, BY_PASSWORD],
    };
    match (say(stream, offer).await?, login) {
        ([VERSION, NO_LOGIN], _) => {}
        ([VERSION, BY_PASSWORD], Some(login)) => {
            let [_, verdict] = say(stream, &password(login)).await?;
            if verdict != 0 {
                return Err(ProxyFault::Login(said("user and password are refused")));
            }
        }
        ([VERSION, _], _) => {
            return Err(ProxyFault::Login(said("no offered way of logging in will do")));
        }
        _ => return Err(ProxyFault::Garbage("its answer is not SOCKS5")),
    }
    let [version, verdict, _, kind] = say(stream, &request).await?;
    match (version, verdict) {
        (VERSION, 0) => skip_address(stream, kind).await,
        (VERSION, code) => Err(ProxyFault::Refused(said(meaning(code)))),
        _ => Err(ProxyFault::Garbage("its answer is not SOCKS5")),
    }
}

/// Sends something and gives the first bytes of what comes back.
async fn say<const N: usize>(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    bytes: &[u8],
) -> Result<[u8; N], ProxyFault> {
    let mut answer = [0; N];
    let talk = async {
        stream.write_all(bytes).await?;
        stream.flush().await?;
        stream.read_exact(&mut answer).await
    };
    talk.await?;
    Ok(answer)
}

/// The address that the proxy connects from is of no interest, but has to be read.
async fn skip_address(stream: &mut (impl AsyncRead + Unpin), kind: u8) -> Result<(), ProxyFault> {
    let length = match kind {
        1 => 4,
        3 => usize::from(stream.read_u8().await?),
        4 => 16,
        _ => return Err(ProxyFault::Garbage("its answer has an address of no known kind")),
    };
    let port = 2;
    stream.read_exact(&mut vec![0; length + port]).await?;
    Ok(())
}

fn request(target: SocksTarget<'_>, port: u16) -> Result<Vec<u8>, ProxyFault> {
    let mut request = vec![VERSION, CONNECT, 0];
    match target {
        SocksTarget::Name(name) => {
            let length = u8::try_from(name.len())
                .map_err(|_| ProxyFault::Refused(said("the host's name is too long for SOCKS")))?;
            request.extend([3, length]);
            request.extend(name.bytes());
        }
        SocksTarget::Address(IpAddr::V4(ip)) => {
            request.push(1);
            request.extend(ip.octets());
        }
        SocksTarget::Address(IpAddr::V6(ip)) => {
            request.push(4);
            request.extend(ip.octets());
        }
    }
    request.extend(port.to_be_bytes());
    Ok(request)
}

fn password(login: &ProxyCredentials) -> Vec<u8> {
    let mut bytes = vec![LOGIN_VERSION];
    for text in [&login.user, &login.password] {
        // Longer ones were refused when the proxy's URL was read.
        let length = u8::try_from(text.len()).unwrap_or(u8::MAX);
        bytes.push(length);
        bytes.extend(&text[..length.into()]);
    }
    bytes
}

fn said(text: &str) -> Refused {
    Refused { text: text.to_owned(), ..Refused::default() }
}

fn meaning(code: u8) -> &'static str {
    match code {
        1 => "general failure",
        2 => "its rules forbid it",
        3 => "the network cannot be reached",
        4 => "the host cannot be reached",
        5 => "the host refused the connection",
        6 => "the way was too long",
        7 => "it cannot connect at all",
        8 => "it does not know this kind of address",
        _ => "for a reason that SOCKS has no name for",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::proxy::Proxy;
    use super::*;

    /// What comes of these answers, and all that the proxy got.
    async fn answered(
        answers: &[u8],
        (target, port): (SocksTarget<'_>, u16),
        login: bool,
    ) -> (Result<(), ProxyFault>, Vec<u8>) {
        let proxy = Proxy::parse("socks5://me:pass@proxy", "").unwrap();
        let (mut ours, mut theirs) = tokio::io::duplex(4096);
        let talk = async {
            theirs.write_all(answers).await.unwrap();
            theirs.shutdown().await.unwrap();
            let mut got = Vec::new();
            theirs.read_to_end(&mut got).await.unwrap();
            got
        };
        let establishing = async {
            let login = proxy.login.as_ref().filter(|_| login);
            let result = establish(&mut ours, target, port, login).await;
            drop(ours);
            result
        };
        tokio::join!(establishing, talk)
    }

    const NAME: (SocksTarget<'_>, u16) = (SocksTarget::Name("a.b"), 443);

    #[tokio::test]
    async fn the_words_are_those_of_the_standard() {
        let (done, got) = answered(b"\x05\0\x05\0\0\x01\x7f\0\0\x01\0\x50", NAME, false).await;
        assert!(done.is_ok());
        assert_eq!(got, b"\x05\x01\0\x05\x01\0\x03\x03a.b\x01\xbb");
        let v6 = (SocksTarget::Address("::2".parse().unwrap()), 80);
        let answers = b"\x05\x02\x01\0\x05\0\0\x03\x01x\0\x50";
        let (done, got) = answered(answers, v6, true).await;
        assert!(done.is_ok());
        let expected =
            [&b"\x05\x02\0\x02\x01\x02me\x04pass\x05\x01\0\x04"[..], &[0; 15], &[2, 0, 80]];
        assert_eq!(got, expected.concat());
        let v4 = (SocksTarget::Address("192.0.2.1".parse().unwrap()), 80);
        let answers = [&b"\x05\0\x05\0\0\x04"[..], &[0; 18]].concat();
        let (done, got) = answered(&answers, v4, true).await;
        assert!(done.is_ok());
        assert_eq!(got, b"\x05\x02\0\x02\x05\x01\0\x01\xc0\0\x02\x01\0\x50");
    }

    #[tokio::test]
    async fn refusals_are_told_apart() {
        let trouble = |answers: &'static [u8], login| async move {
            answered(answers, NAME, login).await.0.unwrap_err()
        };
        for (answers, login) in [
            (&b"\x05\xff"[..], false),
            (b"\x05\xff", true),
            (b"\x05\x02", false),
            (b"\x05\x02\x01\x01", true),
        ] {
            let trouble = trouble(answers, login).await;
            assert!(matches!(trouble, ProxyFault::Login(_)), "{trouble:?}");
        }
        let refused = trouble(b"\x05\0\x05\x05\0\x01", false).await;
        assert!(refused.to_string().contains("refused the connection"), "{refused}");
        assert!(matches!(refused, ProxyFault::Refused(_)));
        for answers in [&b"HTTP/1.1 400 Bad"[..], b"\x05\0\x04\0\0\x01", b"\x05\0\x05\0\0\x09"] {
            assert!(matches!(trouble(answers, false).await, ProxyFault::Garbage(_)), "{answers:?}");
        }
        for answers in [&b""[..], b"\x05", b"\x05\0\x05\0", b"\x05\0\x05\0\0\x03\x09abc"] {
            assert!(matches!(trouble(answers, false).await, ProxyFault::Broken(_)), "{answers:?}");
        }
        let name = "x".repeat(256);
        let (done, got) = answered(b"", (SocksTarget::Name(&name), 1), false).await;
        assert!(matches!(done, Err(ProxyFault::Refused(_))) && got.is_empty());
    }

    proptest! {
        #[test]
        fn no_answer_panics(answers in prop::collection::vec(any::<u8>(), 0..40), login: bool) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let answers = [&[5, if login { 2 } else { 0 }], &*answers].concat();
            let _ = runtime.block_on(answered(&answers, NAME, login));
        }
    }
}
