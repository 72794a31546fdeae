//! Logins without a screen: the way back is pasted.

use std::process::Output;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::support::process::command;
use crate::support::{Manners, Provider, soon};

/// `mcp-span login --paste`, with a person at the terminal.
struct Person {
    child: tokio::process::Child,
    page: String,
    said: BufReader<tokio::process::ChildStderr>,
}

impl Person {
    /// Has read where to log in.
    async fn begin(provider: &Provider, args: &[&str]) -> Self {
        use std::process::Stdio;
        let mut command = command(&[&["login", "--paste", &provider.url], args].concat());
        command.envs(provider.env());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        let mut person = Self { child, page: String::new(), said };
        let line = person.hears("mcp-span: log in to ").await;
        person.page = line.rsplit(' ').next().unwrap().to_owned();
        person.hears("ends up at an address of this machine").await;
        person.hears("Paste that address here").await;
        person
    }

    /// The next line of stderr, which must hold `part`.
    async fn hears(&mut self, part: &str) -> String {
        let mut line = String::new();
        soon("a line on stderr", self.said.read_line(&mut line)).await.unwrap();
        assert!(line.contains(part), "{part}: {line}");
        line.trim_end().to_owned()
    }

    async fn pastes(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// Logs in in a browser elsewhere, and gives where it ended up.
    async fn logs_in_elsewhere(&self) -> String {
        let args = ["-s", "-o", "/dev/null", "-w", "%{redirect_url}", &self.page];
        let curl = tokio::process::Command::new("curl").args(args).output().await.unwrap();
        String::from_utf8(curl.stdout).unwrap()
    }

    async fn ends(mut self) -> (Output, String) {
        use tokio::io::AsyncReadExt;
        let mut rest = String::new();
        let reading = async { self.said.read_to_string(&mut rest).await.unwrap() };
        soon("the end of stderr", reading).await;
        let output = soon("the end", self.child.wait_with_output()).await.unwrap();
        (output, rest)
    }
}

#[tokio::test]
async fn the_address_that_the_browser_ended_up_at_is_pasted() {
    // peers b 25
    let provider = Provider::start(Manners::default()).await;
    let mut person = Person::begin(&provider, &[]).await;
    let address = person.logs_in_elsewhere().await;
    assert!(address.starts_with("http://127.0.0.1:"), "{address}");
    person.pastes(&address).await;
    let (output, rest) = person.ends().await;
    assert!(output.status.success(), "{output:?} {rest}");
    assert!(String::from_utf8(output.stdout).unwrap().starts_with("logged in to"));
    assert!(provider.pages().is_empty(), "no browser is opened here");
    provider.ready(&[]).await;
    assert_eq!(provider.grants("authorization_code"), 1);
}

#[tokio::test]
async fn what_is_wrong_with_a_line_is_said_and_another_is_asked_for() {
    let provider = Provider::start(Manners::default()).await;
    let mut person = Person::begin(&provider, &[]).await;
    let address = person.logs_in_elsewhere().await;
    let (_, query) = address.split_once('?').unwrap();
    let other = address.replace("state=", "state=x");
    let page = person.page.clone();
    for (line, part) in [
        ("hello", "not the whole address"),
        (&page, "log in there first"),
        (&other, "belongs to another login"),
        ("", "nothing in this line"),
    ] {
        person.pastes(line).await;
        person.hears(part).await;
    }
    // The query alone is enough.
    person.pastes(query).await;
    let (output, rest) = person.ends().await;
    assert!(output.status.success(), "{output:?} {rest}");
}

#[tokio::test]
async fn after_some_wrong_lines_the_login_is_given_up() {
    let provider = Provider::start(Manners::default()).await;
    let mut person = Person::begin(&provider, &[]).await;
    for _ in 0..5 {
        person.pastes("http://127.0.0.1/callback?code=c&state=guessed").await;
        person.hears("belongs to another login").await;
    }
    let (output, rest) = person.ends().await;
    assert_eq!(output.status.code(), Some(1), "{rest}");
    assert!(rest.contains("not the end of this login"), "{rest}");
    assert!(provider.at("/token").is_empty());
}

#[tokio::test]
async fn the_issuer_is_checked_in_what_is_pasted() {
    // RFC 9207
    let provider = Provider::start(Manners::default()).await;
    let mut person = Person::begin(&provider, &[]).await;
    let address = person.logs_in_elsewhere().await;
    person.pastes(&address.replace("iss=http", "iss=https")).await;
    let (output, rest) = person.ends().await;
    assert_eq!(output.status.code(), Some(1), "{rest}");
    assert!(rest.contains("does not come from the authorization server"), "{rest}");
    assert!(provider.at("/token").is_empty());
}

#[tokio::test]
async fn a_browser_that_finds_the_way_back_is_as_good() {
    let provider = Provider::start(Manners::default()).await;
    let person = Person::begin(&provider, &[]).await;
    let args = ["-sL", "-o", "/dev/null", &person.page];
    let curl = tokio::process::Command::new("curl").args(args).output().await.unwrap();
    assert!(curl.status.success());
    let (output, rest) = person.ends().await;
    assert!(output.status.success(), "{output:?} {rest}");
}

#[tokio::test]
async fn the_end_of_stdin_ends_a_login_that_waits_for_a_line() {
    let provider = Provider::start(Manners::default()).await;
    let mut person = Person::begin(&provider, &[]).await;
    person.child.stdin = None;
    let (output, rest) = person.ends().await;
    assert_eq!(output.status.code(), Some(1));
    assert!(rest.contains("Nothing was pasted"), "{rest}");

    let mut person = Person::begin(&provider, &[]).await;
    person.pastes("nonsense").await;
    person.child.stdin = None;
    let (output, rest) = person.ends().await;
    assert_eq!(output.status.code(), Some(1));
    assert!(rest.contains("not the end of this login"), "{rest}");
}
