//! A real identity provider, a server that takes no message without its tokens, and a person's browser.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::peers::Peers;
use crate::process::Process;
use crate::raw_client::{RawClient, bridge_command};

const START: Duration = Duration::from_secs(20);
const REACTION: Duration = Duration::from_secs(15);
/// The newest revision that the server speaks.
const REVISION: &str = "2025-11-25";

/// Who presses the buttons.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Browser {
    /// The real one, in place of a person.
    Chromium,
    /// Follows the same pages without a screen or scripts.
    Curl,
}

impl Browser {
    /// A real one, unless the environment asks for curl.
    pub(crate) fn of_this_machine() -> Self {
        if std::env::var_os("MCP_SPAN_TEST_BROWSER").is_some_and(|it| it == "curl") {
            // Past the harness that holds output back: it is less than what is tested otherwise.
            let _ = writeln!(std::io::stderr(), "the browser of the logins is curl");
            return Self::Curl;
        }
        let version = Command::new("chromium").arg("--version").output();
        assert!(
            version.is_ok_and(|said| said.status.success()),
            "chromium was not found: install it (Debian: apt install chromium), or set \
             MCP_SPAN_TEST_BROWSER=curl to do without its part of the tests"
        );
        Self::Chromium
    }
}

/// Everything that a login needs, on this machine.
pub(crate) struct Place {
    peers: Peers,
    folder: TempDir,
    browser: Browser,
    identity: Process,
    server: Process,
    pub(crate) issuer: String,
    pub(crate) url: String,
}

impl Place {
    /// With tokens that last for so many seconds.
    pub(crate) fn with_tokens_for(seconds: u32) -> Self {
        Self::start(Browser::Curl, "http", seconds)
    }

    /// `transport` is `http`, or `sse` for the one of 2024.
    pub(crate) fn start(browser: Browser, transport: &str, seconds: u32) -> Self {
        let peers = Peers::find();
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let mut identity = peers.node_script("servers/identity.mjs");
        identity.arg(seconds.to_string()).arg(folder.path().join("robot.pem"));
        let (identity, issuer) = started(&mut identity);
        let (server, url) =
            started(peers.node_script("servers/guarded.mjs").args([&*issuer, transport]));
        Self { peers, folder, browser, identity, server, issuer, url }
    }

    /// The bridge as a client starts it, for a person who agrees to everything.
    pub(crate) fn bridge_command(&self) -> Command {
        self.waiting_for(60)
    }

    /// The same, with so many seconds for the person before the client is answered without a server.
    pub(crate) fn waiting_for(&self, seconds: u32) -> Command {
        let mut command = self.command();
        command.arg(&self.url).args(["--oauth-wait", &seconds.to_string()]);
        command
    }

    /// A client whose handshake is done, with a login if one is needed.
    pub(crate) fn connect(&self) -> RawClient {
        RawClient::connect_by(&mut self.bridge_command(), REVISION)
    }

    pub(crate) fn connect_by(&self, command: &mut Command) -> RawClient {
        RawClient::connect_by(command, REVISION)
    }

    /// Runs `login`, `status` or `logout` to its end.
    pub(crate) fn run(&self, command: &str) -> Output {
        let output = self.command().args([command, &*self.url]).output();
        output.expect("the bridge can be started")
    }

    /// Runs `login` with a code that a person enters elsewhere; returns what it printed.
    pub(crate) fn log_in_by_device(&self) -> String {
        let mut login = self.command();
        login.args(["login", &*self.url, "--oauth-grant", "device-code"]);
        let mut login = Process::start(&mut login);
        let line = login.wait_for_line(START, |line| line.contains(": open "));
        let line = line.unwrap_or_else(|| panic!("no page is named:\n{}", login.output()));
        let page = line.split(' ').find(|word| word.contains("user_code="));
        let page = page.unwrap_or_else(|| panic!("no page with the code in {line}"));
        let mut person = Command::new("sh");
        person.arg(self.peers.scripts().join("browsers/curl.sh")).arg(self.folder.path()).arg(page);
        assert!(person.status().is_ok_and(|status| status.success()), "nobody enters the code");
        let status = login.wait(START);
        assert!(status.is_some_and(|it| it.success()), "{status:?}:\n{}", login.output());
        login.stdout()
    }

    /// Without arguments, but with a browser and a place for tokens.
    fn command(&self) -> Command {
        let folder = self.folder.path().display();
        let browser = match self.browser {
            Browser::Chromium => {
                let script = self.peers.scripts().join("browsers/chromium.mjs");
                format!("node '{}' '{folder}'", script.display())
            }
            Browser::Curl => {
                let script = self.peers.scripts().join("browsers/curl.sh");
                format!("sh '{}' '{folder}'", script.display())
            }
        };
        let mut command = bridge_command();
        command
            .env("PATH", self.peers.path_with_node())
            .env("BROWSER", browser)
            .env("MCP_SPAN_STATE_DIR", self.path("state"));
        command
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What the last page told the person.
    pub(crate) fn last_page(&self) -> String {
        self.left_behind("last-page")
    }

    /// What the browser has left in this file, or will soon.
    pub(crate) fn left_behind(&self, name: &str) -> String {
        let deadline = std::time::Instant::now() + START;
        loop {
            match std::fs::read_to_string(self.path(name)) {
                Ok(text) if !text.is_empty() => return text,
                _ if std::time::Instant::now() > deadline => panic!("there is no {name}"),
                // The login is over as soon as the page is asked for, and the browser is not.
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Makes a file by which the browser, or this test, is told something.
    pub(crate) fn tell(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("the folder can be written");
    }

    /// The note of the login that is under way, as soon as there is one.
    pub(crate) fn pending_login(&self) -> Value {
        let deadline = std::time::Instant::now() + START;
        loop {
            let files =
                std::fs::read_dir(self.path("state/tokens")).into_iter().flatten().flatten();
            let mut pages = files
                .map(|file| file.path())
                .filter(|it| it.extension().is_some_and(|e| e == "page"));
            let text = pages.next().and_then(|page| std::fs::read(page).ok());
            match text.and_then(|text| serde_json::from_slice(&text).ok()) {
                Some(note) => return note,
                None if std::time::Instant::now() > deadline => panic!("no login is under way"),
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Opens a page in another browser, which photographs it; returns what it says.
    pub(crate) fn visit(&self, page: &str, pictures: &str) -> String {
        let folder = tempfile::tempdir_in(self.folder.path()).expect("the folder can be written");
        std::fs::write(folder.path().join("pictures"), pictures).expect("it can be written");
        let script = self.peers.scripts().join("browsers/chromium.mjs");
        let mut visit = Command::new("node");
        visit.env("PATH", self.peers.path_with_node());
        let visited = visit.arg(script).arg(folder.path()).arg(page).status();
        assert!(visited.is_ok_and(|status| status.success()), "{page} was not visited");
        std::fs::read_to_string(folder.path().join("last-page")).expect("a page was seen")
    }

    /// A member of what is stored.
    pub(crate) fn stored(&self, pointer: &str) -> String {
        let folder = std::fs::read_dir(self.path("state/tokens")).expect("tokens are kept");
        let paths = folder.map(|entry| entry.expect("the folder can be listed").path());
        let mut files = paths.filter(|path| path.extension().is_some_and(|it| it == "json"));
        let file = files.next().expect("there is a file of tokens");
        let text = std::fs::read(file).expect("it can be read");
        let stored: Value = serde_json::from_slice(&text).expect("it is JSON");
        let member = stored.pointer(pointer).and_then(Value::as_str);
        member.unwrap_or_else(|| panic!("no {pointer} is stored")).to_owned()
    }

    /// Has a stored token revoked at the provider, behind the back of whoever uses it.
    pub(crate) fn revoke(&self, pointer: &str) {
        let place = self.stored("/revocation_endpoint");
        let (token, client) = (self.stored(pointer), self.stored("/client_id"));
        let status =
            curl(&["-d", &format!("token={token}"), "-d", &format!("client_id={client}"), &place]);
        assert_eq!(status, "200", "the provider revokes what it is asked to");
    }

    /// No access token is good any more; what renews them is.
    pub(crate) fn end_access_tokens(&self) {
        assert_eq!(curl(&["-X", "POST", &format!("{}/end-access-tokens", self.issuer)]), "204");
    }

    /// The provider gives out no tokens any more.
    pub(crate) fn break_tokens(&self) {
        assert_eq!(curl(&["-X", "POST", &format!("{}/break-tokens", self.issuer)]), "204");
    }

    /// The status with which the server answers somebody who has this token.
    pub(crate) fn answer_to(&self, token: &str) -> String {
        curl(&["-H", &format!("Authorization: Bearer {token}"), "-d", "{}", &self.url])
    }

    /// Fails unless the provider has said what begins so this many times, now or soon.
    pub(crate) fn expect_said(&mut self, part: &str, times: usize) {
        while self.said(part) < times {
            if self.identity.wait_for_line(REACTION, |line| line.starts_with(part)).is_none() {
                break;
            }
        }
        let said = self.identity.output();
        assert_eq!(self.said(part), times, "{part:?} was expected {times} times in:\n{said}");
    }

    /// How many lines of the provider begin so, as far as they have come.
    pub(crate) fn said(&mut self, part: &str) -> usize {
        self.identity.output().lines().filter(|line| line.starts_with(part)).count()
    }

    /// Fails unless the server says such a thing soon.
    pub(crate) fn expect_of_server(&mut self, part: &str) {
        let said = self.server.wait_for_line(REACTION, |line| line.contains(part));
        assert!(said.is_some(), "no {part:?} in:\n{}", self.server.output());
    }
}

/// Starts a script that prints its address when it can be reached.
fn started(command: &mut Command) -> (Process, String) {
    let mut process = Process::start(command);
    match process.wait_for_line(START, |line| line.starts_with("http://")) {
        Some(url) => (process, url),
        None => panic!("{command:?} does not start:\n{}", process.output()),
    }
}

/// The status of an answer, as text.
fn curl(args: &[&str]) -> String {
    let quiet = ["-s", "-o", "/dev/null", "--max-time", "15", "-w", "%{http_code}"];
    let output = Command::new("curl").args(quiet).args(args).output();
    let output = output.expect("curl plays a browser here: install it (Debian: apt install curl)");
    String::from_utf8(output.stdout).expect("a status is a number")
}
