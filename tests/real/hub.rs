//! Starts mcp-hub with everything servers behind it, in a folder that is its whole world.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, mkfifoat};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::peers::Peers;
use crate::process::Process;
use crate::raw_client::bridge_command;
use crate::servers::{everything_program, lasting_port};

const START: Duration = Duration::from_secs(20);
const REACTION: Duration = Duration::from_secs(10);
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// A port, a configuration and a home: what stays when a hub goes and another comes.
pub(crate) struct HubPlace {
    peers: Peers,
    folder: TempDir,
    port: u16,
}

impl HubPlace {
    /// With one server, `everything`.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let place = Self { peers: Peers::find(), folder, port: lasting_port() };
        fs::create_dir_all(place.catalogue_folder()).expect("the folder is ours");
        fs::write(place.catalogue(), catalogue_text()).expect("the folder is ours");
        place.configure(&["everything"]);
        place
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// Writes the configuration anew; a running hub follows it. Each name is an everything server.
    pub(crate) fn configure(&self, names: &[&str]) {
        let node = self.peers.node();
        let arguments = [everything_program(&self.peers), "stdio".into()];
        let server = json!({ "command": node.get_program().to_str(), "args": arguments });
        let servers: Map<_, _> = names.iter().map(|&n| (n.to_owned(), server.clone())).collect();
        let text = json!({ "mcpServers": servers }).to_string();
        fs::write(self.folder.path().join("servers.json"), text).expect("the folder is ours");
    }

    /// The bridge where a user of this hub would type it: it can find the hub by itself.
    pub(crate) fn bridge_command(&self) -> Command {
        let mut command = bridge_command();
        self.settle(&mut command);
        command
    }

    /// The bridge in every way in which it reaches this hub.
    pub(crate) fn bridges(&self) -> [Command; 3] {
        let [mut found_out, mut told, mut found] = std::array::from_fn(|_| self.bridge_command());
        found_out.arg(self.url());
        told.arg("--mcp-hub-mode").arg(self.url());
        found.arg("--mcp-hub");
        [found_out, told, found]
    }

    /// Starts a hub and waits until all its servers are there.
    pub(crate) fn start(&self) -> Hub {
        let mut hub = self.launch();
        hub.wait_until_ready();
        hub
    }

    /// Starts a hub that listens, but has got no further than that until it is let go.
    pub(crate) fn start_held_up(&self) -> (Hub, HeldUp) {
        // It reads its catalogue between listening and serving /mcp, and a pipe can be waited for.
        let catalogue = self.catalogue();
        fs::remove_file(&catalogue).expect("the catalogue is ours");
        mkfifoat(CWD, &catalogue, Mode::RUSR | Mode::WUSR).expect("a named pipe can be made");
        let mut hub = self.launch();
        hub.wait_until("it listens", |health| health["state"] == "starting");
        (hub, HeldUp { catalogue })
    }

    fn launch(&self) -> Hub {
        let program = self.peers.package_file("mcp-hub/dist/cli.js");
        assert!(program.exists(), "mcp-hub is not installed: run `make real-peers`");
        let mut command = self.peers.node();
        command.env_clear();
        command.arg(program).args(["--config", "servers.json", "--watch"]);
        command.args(["--port", &self.port.to_string()]);
        self.settle(&mut command);
        Hub { process: Process::start(&mut command), port: self.port }
    }

    /// Where the hub notes that it runs, and where others look for that.
    fn settle(&self, command: &mut Command) {
        let folder = self.folder.path();
        command.current_dir(folder).env("HOME", folder).env("XDG_STATE_HOME", folder.join("state"));
    }

    fn catalogue_folder(&self) -> PathBuf {
        self.folder.path().join(".local/share/mcp-hub/cache")
    }

    fn catalogue(&self) -> PathBuf {
        self.catalogue_folder().join("registry.json")
    }
}

/// What keeps a hub from going on.
pub(crate) struct HeldUp {
    catalogue: PathBuf,
}

impl HeldUp {
    pub(crate) fn let_go(self) {
        let pipe = look_for(START, || open_if_read(&self.catalogue));
        let mut pipe = pipe.expect("a hub that listens reads its catalogue soon");
        pipe.write_all(catalogue_text().as_bytes()).expect("the hub reads its catalogue");
    }
}

/// Opening a pipe waits for its reader, and a hub that has died would be waited for in vain.
fn open_if_read(pipe: &Path) -> Option<fs::File> {
    let flags = OFlags::NONBLOCK.bits().try_into().expect("the flag is a small number");
    OpenOptions::new().write(true).custom_flags(flags).open(pipe).ok()
}

/// The hub fetches a catalogue of servers from the internet at its start, unless it has one that is
/// not empty and less than an hour old; this one is from the far future.
fn catalogue_text() -> String {
    const FETCHED_AT: u64 = 1 << 52;
    let registry = json!({ "version": "1", "servers": [{ "id": "none", "name": "none" }] });
    let catalogue = json!({
        "registry": registry,
        "lastFetchedAt": FETCHED_AT,
        "serverDocumentation": {},
    });
    catalogue.to_string()
}

/// A running hub; it ends with the test.
pub(crate) struct Hub {
    process: Process,
    port: u16,
}

impl Hub {
    /// How many clients have a stream at this moment.
    pub(crate) fn active_clients(&self) -> u64 {
        let health = health(self.port).expect("a running hub tells its health");
        clients_in(&health)
    }

    /// The tools of all its servers as it tells them to its own user interface, under the names that
    /// clients see.
    pub(crate) fn tools(&self) -> Vec<String> {
        let told = ask(self.port, "/api/servers").expect("a running hub tells its servers");
        let servers = told["servers"].as_array().expect("a list of servers");
        let text = |value: &Value| value["name"].as_str().expect("a name").to_owned();
        let tools = servers.iter().flat_map(|server| {
            let list = server["capabilities"]["tools"].as_array().expect("a list of tools");
            list.iter().map(|tool| format!("{}__{}", text(server), text(tool)))
        });
        tools.collect()
    }

    pub(crate) fn wait_for_clients(&mut self, count: u64) {
        self.wait_until(&format!("it has {count} clients"), |health| clients_in(health) == count);
    }

    pub(crate) fn wait_until_ready(&mut self) {
        self.wait_until("it is ready", |health| health["state"] == "ready");
    }

    /// Fails unless the hub prints such a line now or soon.
    pub(crate) fn expect_line(&mut self, part: &str) {
        if self.process.wait_for_line(START, |line| line.contains(part)).is_none() {
            panic!("the hub did not print {part:?} but:\n{}", self.process.output());
        }
    }

    /// How many handshakes raw clients have completed, as far as it has said so.
    pub(crate) fn handshakes(&mut self) -> usize {
        // With the name: when a client leaves, the hub also prints the source line of this message.
        self.count_lines("'raw-client' client connected to MCP HUB")
    }

    /// How many streams have been closed on which no client had introduced itself.
    pub(crate) fn streams_without_handshake(&mut self) -> usize {
        self.count_lines("'Unknown' client disconnected from MCP HUB")
    }

    fn count_lines(&mut self, part: &str) -> usize {
        self.process.output().lines().filter(|line| line.contains(part)).count()
    }

    /// Sends SIGTERM and does not wait.
    pub(crate) fn terminate(&self) {
        self.process.terminate();
    }

    pub(crate) fn wait_until_gone(mut self) {
        assert!(self.process.wait(REACTION).is_some(), "the hub did not end");
    }

    /// Ends it with SIGKILL; its port is free when this returns.
    pub(crate) fn kill(self) {
        drop(self);
    }

    fn wait_until(&mut self, what: &str, is_so: impl Fn(&Value) -> bool) {
        if look_for(START, || health(self.port).filter(&is_so)).is_none() {
            panic!("waited in vain until {what}; the hub said:\n{}", self.process.output());
        }
    }
}

fn clients_in(health: &Value) -> u64 {
    health["mcpEndpoint"]["activeClients"].as_u64().expect("the hub counts its clients")
}

/// What the hub says of itself, or `None` as long as it does not listen.
fn health(port: u16) -> Option<Value> {
    ask(port, "/api/health")
}

fn ask(port: u16, path: &str) -> Option<Value> {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).ok()?;
    socket.set_read_timeout(Some(REACTION)).ok()?;
    // By this version of HTTP the answer comes in one piece, and the connection ends behind it.
    socket.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).ok()?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    serde_json::from_str(body).ok()
}

/// Looks again and again until there is something, or the time is over.
fn look_for<T>(limit: Duration, look: impl Fn() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    loop {
        let found = look();
        if found.is_some() || Instant::now() > deadline {
            return found;
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
}
