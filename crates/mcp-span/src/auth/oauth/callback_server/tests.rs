//! Tests of the server of a login, with connections of all sorts.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::auth::oauth::pages::Facts;
use crate::auth::oauth::tests::settings;
use crate::auth::oauth::{CallbackPlace, OAuthSettings};
use crate::net::Options;

const LONG: Duration = Duration::from_secs(10);

async fn ask(port: u16, head: &str, host: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let request = format!("{head} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await.map(|_| text)
}

async fn get(port: u16, path: &str) -> String {
    ask(port, &format!("GET {path}"), &format!("127.0.0.1:{port}")).await.unwrap()
}

fn location(response: &str) -> String {
    let line = response.lines().find_map(|line| line.strip_prefix("location: "));
    line.unwrap_or_else(|| panic!("no redirect: {response}")).to_owned()
}

/// A server that expects the state `s`, and the links that it has opened.
async fn server() -> (CallbackServer, mpsc::Receiver<Url>, u16) {
    let (sender, opened) = mpsc::channel(8);
    let open: Open = Arc::new(move |url| sender.try_send(url.clone()).unwrap());
    let port = CallbackPort::bind(None, &CallbackPlace::default()).await.unwrap();
    let number = port.port;
    assert_eq!(port.redirect_uri(), format!("http://127.0.0.1:{number}/callback"));
    let settings = OAuthSettings { open: Some(open), ..settings() };
    let url = Url::parse("https://h/mcp").unwrap();
    let server = port.serve(&OAuth::new(&url, settings, Options::default())).unwrap();
    server.visit("s", &Url::parse("https://as/authorize?state=s").unwrap());
    (server, opened, number)
}

fn facts() -> Facts {
    vec![("Server", "https://h/mcp".into()), ("Login by", "https://as".into())]
}

async fn callback(server: &mut CallbackServer) -> Callback {
    let arrival = timeout(LONG, server.arrival()).await.expect("in time");
    arrival.unwrap()
}

#[tokio::test]
async fn only_the_browser_that_was_sent_is_listened_to() {
    let (mut server, _opened, port) = server().await;
    let host = format!("127.0.0.1:{port}");
    let foreign = ask(port, "GET /callback?state=s&code=c", "evil.example").await.unwrap();
    assert!(foreign.contains(" 403 "), "{foreign}");
    let other = get(port, "/callback?state=other&code=c").await;
    assert!(other.contains(" 400 ") && other.contains("no longer valid"), "{other}");
    assert!(get(port, "/favicon.ico").await.contains(" 404 "));
    assert!(get(port, "/callback").await.contains(" 404 "));
    let head = ask(port, "HEAD /callback?state=s&code=c", &host).await.unwrap();
    assert!(head.contains(" 405 "), "a look ahead takes nothing away: {head}");
    let page = tokio::spawn(async move {
        get(port, "/callback?state=s&code=c%20d&iss=https%3A%2F%2Fas").await
    });
    let callback = callback(&mut server).await;
    assert_eq!(callback.code.as_deref(), Some("c d"));
    assert_eq!(callback.issuer.as_deref(), Some("https://as"));
    assert!(!page.is_finished(), "there is nothing to be said yet");
    let finishing = tokio::spawn(server.finish(Page::done(facts(), Some("read"), true, ""), None));
    let place = location(&page.await.unwrap());
    assert!(!place.contains("code"), "the code leaves the address bar: {place}");
    let last = get(port, &place).await;
    assert!(last.contains(" 200 ") && last.contains("You are logged in"), "{last}");
    timeout(LONG, finishing).await.expect("it was seen").unwrap();
}

#[tokio::test]
async fn a_link_for_the_browser_is_good_for_one_visit_and_a_second_ends_the_login() {
    let (mut server, mut opened, port) = server().await;
    let link = opened.recv().await.unwrap();
    assert!(!link.as_str().contains("state"), "nothing of the login stands in it: {link}");
    let early = ask(port, &format!("HEAD {}", link.path()), &format!("127.0.0.1:{port}")).await;
    assert!(early.unwrap().contains(" 405 "), "whoever only looks takes nothing away");
    assert_eq!(location(&get(port, link.path()).await), "https://as/authorize?state=s");
    let again = get(port, link.path()).await;
    assert!(again.contains(" 410 ") && again.contains("already used"), "{again}");
    let ended = timeout(LONG, server.arrival()).await.expect("in time").err().unwrap();
    assert!(ended.message.contains("opened twice"), "{ended}");
    assert!(get(port, "/start/guessed").await.contains(" 404 "));
}

#[tokio::test]
async fn another_process_can_have_the_page_opened_again_but_not_at_once() {
    let (server, mut opened, port) = server().await;
    let first = opened.recv().await.unwrap();
    open_again(&server.again_url(), Opener::Program).await;
    assert!(opened.try_recv().is_err(), "a page was opened a moment ago");
    lock(&server.shared.login).links.clear();
    open_again(&server.again_url(), Opener::Program).await;
    let second = opened.try_recv().expect("another link");
    assert_ne!(first, second);
    assert_eq!(location(&get(port, second.path()).await), "https://as/authorize?state=s");
    let wrong = ask(port, "POST /again/guessed", &format!("127.0.0.1:{port}")).await.unwrap();
    assert!(wrong.contains(" 405 "), "{wrong}");
}

#[test]
fn a_login_opens_a_browser_three_times_at_most_and_never_twice_within_ten_seconds() {
    let (mut login, start) = (LoginProgress::default(), Instant::now());
    let mut opens = |opener, seconds| {
        let opened = start + Duration::from_secs(seconds);
        let is_open = login.may_open(opener, opened);
        if is_open {
            login.links.push(StartLink { path: String::new(), is_used: false, opened });
        }
        is_open
    };
    assert!(opens(Opener::Program, 0));
    assert!(!opens(Opener::Program, 9));
    assert!(opens(Opener::Program, 10) && opens(Opener::Program, 20));
    assert!(!opens(Opener::Program, 1000));
    assert!(opens(Opener::Person, 1000) && opens(Opener::Person, 1001));
}

#[tokio::test]
async fn a_browser_that_has_come_back_is_sent_to_the_next_page() {
    let (mut server, mut opened, port) = server().await;
    let first =
        tokio::spawn(async move { get(port, "/callback?state=s&error=invalid_target").await });
    assert!(callback(&mut server).await.rejects_resource());
    let page = Url::parse("https://as/authorize?state=t").unwrap();
    server.visit("t", &page);
    assert!(opened.try_recv().is_ok() && opened.try_recv().is_err(), "no other browser");
    assert_eq!(location(&first.await.unwrap()), page.as_str());
    assert!(get(port, "/callback?state=s&code=c").await.contains("no longer valid"));
    let second = tokio::spawn(async move { get(port, "/callback?state=t&code=c").await });
    assert_eq!(callback(&mut server).await.code.as_deref(), Some("c"));
    let finishing =
        tokio::spawn(server.finish(Page::failed(facts(), "the network is down", ""), None));
    let last = get(port, &location(&second.await.unwrap())).await;
    assert!(last.contains("could not be finished") && last.contains("the network is down"));
    finishing.await.unwrap();
}

#[tokio::test]
async fn connections_that_say_nothing_do_not_keep_the_browser_out() {
    let (mut server, _opened, port) = server().await;
    let mut idle = Vec::new();
    for _ in 0..limits::LOGIN_VISITORS * 2 {
        idle.push(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
    }
    let coming = tokio::spawn(async move { get(port, "/callback?state=s&code=c").await });
    assert_eq!(callback(&mut server).await.code.as_deref(), Some("c"));
    // The first ones had to make room.
    let mut byte = [0; 1];
    let closed = timeout(LONG, idle[0].read(&mut byte)).await;
    assert!(matches!(closed, Ok(Ok(0) | Err(_))), "{closed:?}");
    drop(server);
    coming.abort();
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_says_nothing_is_closed_after_two_seconds() {
    let (_server, _opened, port) = server().await;
    let mut silent = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let begun = Instant::now();
    let closed = silent.read(&mut [0; 1]).await;
    assert!(matches!(closed, Ok(0) | Err(_)), "{closed:?}");
    assert!(
        begun.elapsed() <= limits::LOGIN_HEAD + Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn an_accept_that_fails_does_not_end_the_server() {
    let (mut server, _opened, _) = server().await;
    let listener = Arc::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
    let port = listener.local_addr().unwrap().port();
    let mut tries = 0;
    let accept = move || {
        tries += 1;
        let (fails, listener) = (tries < 4, Arc::clone(&listener));
        async move {
            match fails {
                true => Err(std::io::Error::other("too many open files")),
                false => listener.accept().await.map(|(stream, _)| stream),
            }
        }
    };
    tokio::spawn(accept_all(Arc::clone(&server.shared), accept));
    let host = format!("127.0.0.1:{}", server.shared.port);
    tokio::spawn(async move { ask(port, "GET /callback?state=s&code=c", &host).await });
    assert_eq!(callback(&mut server).await.code.as_deref(), Some("c"));
}
