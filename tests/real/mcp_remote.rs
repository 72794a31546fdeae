//! mcp-remote itself, and mcp-span under its name: the same on the wire for every example that
//! mcp-remote's documentation has, but for differences that have a reason.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::BRIDGE;
use crate::mcp_remote_examples::{EXAMPLES, Example, INTENDED};
use crate::peers::Peers;
use crate::process::Process;

const PATIENCE: Duration = Duration::from_secs(60);

/// What a program has sent, each thing under the name of where it stands.
type Sent = BTreeMap<String, String>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    McpRemote,
    McpSpan,
}

/// One example, with a server of its own that both programs are run against.
struct Stage {
    peers: Peers,
    folder: TempDir,
    server: Process,
    origin: String,
}

impl Stage {
    fn new(example: &Example) -> Self {
        let peers = Peers::find();
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let transport = if example.args.contains(&"sse-only") { "sse" } else { "http" };
        let mut server = Process::start(peers.node_script("servers/recording.mjs").arg(transport));
        let origin = server.wait_for_line(PATIENCE, |line| line.starts_with("http://"));
        let origin = origin.unwrap_or_else(|| panic!("no server:\n{}", server.output()));
        let stage = Self { peers, folder, server, origin };
        let browser = stage.path("browser");
        std::fs::write(&browser, "#!/bin/sh\nexec curl -sL --max-redirs 3 -o /dev/null \"$1\"\n")
            .expect("it can be written");
        std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o755))
            .expect("it can be made a program");
        for (name, text) in [
            (
                "headers.txt",
                "# credentials for the example server\nAuthorization: Bearer my-token\nX-Custom-Header: custom-value\n",
            ),
            ("client.json", r#"{"client_id":"by-hand","client_secret":"${CLIENT_SECRET}"}"#),
            ("metadata.json", r#"{"scope":"space separated scopes"}"#),
        ] {
            std::fs::write(stage.path(name), text).expect("it can be written");
        }
        stage
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// The words of an example, with what is of this machine in place of names.
    fn words(&self, example: &Example, port: u16) -> Vec<String> {
        let folder = self.folder.path().display().to_string();
        let url = format!("{}{}", self.origin, example.path);
        let fill = |word: &&str| match *word {
            "URL" => url.clone(),
            "PORT" => port.to_string(),
            word => word.replace("DIR", &folder).replace("ORIGIN", &self.origin),
        };
        example.args.iter().map(fill).collect()
    }

    fn command(&self, program: Program, words: &[String]) -> Command {
        let mut command = match program {
            Program::McpSpan => {
                let mut command = Command::new(BRIDGE);
                command.args(["-y", "mcp-remote"]);
                command
            }
            Program::McpRemote => {
                let mut command = Command::new(self.peers.node_program());
                command.arg(self.peers.package_file("mcp-remote/dist/proxy.js"));
                command
            }
        };
        command
            .args(words)
            .env_clear()
            .env("PATH", self.peers.path_with_node())
            .env("HOME", self.folder.path())
            .env("BROWSER", self.path("browser"))
            .envs([("AUTH_TOKEN", "my-token"), ("AUTH_HEADER", "Bearer <auth-token>")])
            .envs([("CLIENT_SECRET", "of the client"), ("NO_PROXY", "localhost,127.0.0.1")])
            .env("HTTPS_PROXY", "http://127.0.0.1:3128");
        command
    }

    /// Runs the program until it has listed tools; gives back what it has sent, and the tools.
    fn run(&mut self, program: Program, words: &[String]) -> Sent {
        self.server.output();
        let before = self.requests().len();
        let mut process = Process::start(&mut self.command(program, words));
        let about = json!({"name": "raw-client", "version": "1"});
        let opening =
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about});
        for message in [
            json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": opening}),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
        ] {
            process.write_line(&message.to_string());
            if message["id"] == 0 {
                let said = process.wait_for_line(PATIENCE, |line| line.contains(r#""id":0"#));
                assert!(said.is_some(), "{program:?} {words:?}:\n{}", process.output());
            }
        }
        let is_list = |line: &str| line.contains(r#""id":1"#) && line.starts_with('{');
        let list = process.wait_for_line(PATIENCE, is_list);
        let list = list.unwrap_or_else(|| panic!("{program:?} {words:?}:\n{}", process.output()));
        process.kill();
        drop(process);
        let list: Value = serde_json::from_str(&list).expect("an answer is JSON");
        let tools = list["result"]["tools"].as_array().cloned().unwrap_or_default();
        let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
        let mut sent = Sent::from([("tools".to_owned(), names.join(" "))]);
        self.server.output();
        for request in self.requests().split_off(before) {
            self.note(&request, &mut sent);
        }
        sent
    }

    fn requests(&self) -> Vec<Value> {
        let lines = self.server.stdout();
        lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Takes apart what is of interest in a request; of several of a sort the last one counts.
    fn note(&self, request: &Value, sent: &mut Sent) {
        let text = |name: &str| request[name].as_str().unwrap_or_default();
        let (path, query) = text("url").split_once('?').unwrap_or((text("url"), ""));
        let body = text("text");
        let pairs =
            |text: &str| url::form_urlencoded::parse(text.as_bytes()).into_owned().collect();
        match path {
            "/register" => {
                let body: Value = serde_json::from_str(body).expect("a registration is JSON");
                let members = body.as_object().expect("and an object").iter();
                self.put(
                    sent,
                    "registration",
                    members.map(|(n, v)| (n.clone(), v.to_string())).collect(),
                );
            }
            "/authorize" => self.put(sent, "page", pairs(query)),
            "/token" | "/device_authorization" => {
                let kind = if path == "/token" { "token request" } else { "device request" };
                let mut fields: Vec<(String, String)> = pairs(body);
                let proof = request["headers"]["authorization"].as_str();
                fields.extend(proof.map(|proof| ("Authorization".to_owned(), proof.to_owned())));
                self.put(sent, kind, fields);
            }
            _ if path.starts_with("/.well-known/") => {}
            _ => {
                let message: Value = serde_json::from_str(body).unwrap_or_default();
                let is_list = message["method"] == "tools/list";
                if is_list {
                    let headers = request["headers"].as_object().expect("headers").iter();
                    let headers = headers
                        .map(|(n, v)| (n.clone(), v.as_str().unwrap_or_default().to_owned()));
                    self.put(sent, "headers", headers.collect());
                }
            }
        }
    }

    /// What differs from run to run by its nature is noted as being there.
    fn put(&self, sent: &mut Sent, kind: &str, fields: Vec<(String, String)>) {
        const RANDOM: [&str; 6] =
            ["state", "code_challenge", "code", "code_verifier", "device_code", "refresh_token"];
        const OF_THE_CONNECTION: [&str; 5] =
            ["host", "connection", "content-length", "user-agent", "accept-encoding"];
        for (name, value) in fields {
            if kind == "headers" && OF_THE_CONNECTION.contains(&&*name) {
                continue;
            }
            let is_token = kind == "headers" && name == "authorization";
            let value = match () {
                () if RANDOM.contains(&&*name) => "…".to_owned(),
                () if is_token && value.starts_with("Bearer access-") => {
                    "Bearer (access token)".to_owned()
                }
                () if is_token && value.starts_with("Bearer e30.") => {
                    "Bearer (ID token)".to_owned()
                }
                () => value.replace(&self.origin, "ORIGIN"),
            };
            sent.insert(format!("{kind}: {name}"), value);
        }
    }
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    listener.local_addr().expect("it has an address").port()
}

/// What is not the same: the name, theirs, ours.
fn differences(theirs: &Sent, ours: &Sent) -> Vec<(String, String, String)> {
    let names: std::collections::BTreeSet<&String> = theirs.keys().chain(ours.keys()).collect();
    let of = |sent: &Sent, name: &str| sent.get(name).cloned().unwrap_or_else(|| "-".to_owned());
    names
        .into_iter()
        .map(|name| (name.clone(), of(theirs, name), of(ours, name)))
        .filter(|(_, theirs, ours)| theirs != ours)
        .collect()
}

fn reason(name: &str, theirs: &str, ours: &str) -> Option<&'static str> {
    let found = INTENDED.iter().find(|intended| intended.fits(name, theirs, ours));
    found.map(|intended| intended.why)
}

/// What of a kind of things is the same, in a cell of the table.
fn cell(kind: &str, ours: &Sent, differ: &[String]) -> String {
    let of_kind = |name: &&String| name.starts_with(kind);
    let names: Vec<&str> = differ
        .iter()
        .filter(of_kind)
        .map(|name| name[kind.len()..].trim_start_matches(": "))
        .collect();
    let same = ours.keys().filter(of_kind).filter(|name| !differ.contains(*name)).count();
    match (same, &names[..]) {
        (0, []) => "-".to_owned(),
        (same, []) => format!("{same} the same"),
        (same, names) => format!("{same} the same, but {}", names.join(", ")),
    }
}

/// What both programs send. The port of the redirect address follows from the server's, and may be
/// in use by a connection of another test when one of them wants it: then another server has another.
fn on_a_free_port(example: &Example) -> (Sent, Sent) {
    let mut tries = 0;
    loop {
        let mut stage = Stage::new(example);
        let words = stage.words(example, free_port());
        let theirs = stage.run(Program::McpRemote, &words);
        let ours = stage.run(Program::McpSpan, &words);
        tries += 1;
        let address = "page: redirect_uri";
        if theirs.get(address) == ours.get(address) || tries == 3 {
            return (theirs, ours);
        }
    }
}

#[test]
fn every_example_of_mcp_remote_is_the_same_on_the_wire_under_its_name() {
    let mut table = String::from(
        "| mcp-remote | redirect address | registration | login page | token request | headers |\n\
         |---|---|---|---|---|---|\n",
    );
    let (mut wrong, mut reasons) = (Vec::new(), BTreeMap::<&str, Vec<String>>::new());
    for example in EXAMPLES {
        let (theirs, ours) = on_a_free_port(example);
        let mut differ = Vec::new();
        for (name, theirs, ours) in differences(&theirs, &ours) {
            match reason(&name, &theirs, &ours) {
                Some(why) => reasons.entry(why).or_default().push(name.clone()),
                None => {
                    wrong.push(format!("{:?}: {name}: {theirs:?} became {ours:?}", example.args));
                }
            }
            differ.push(name);
        }
        let address = ours.get("page: redirect_uri").map_or("-", String::as_str);
        let cells = ["registration", "page", "token request", "headers"];
        let cells = cells.map(|kind| cell(kind, &ours, &differ)).join(" | ");
        let url = format!("https://example.com{}", example.path);
        let line = example.args.join(" ").replacen("URL", &url, 1).replace('|', "\\|");
        let _ = writeln!(table, "| `{line}` | {address} | {cells} |");
    }
    table.push_str("\nWhy:\n\n");
    for (why, mut names) in reasons {
        names.sort();
        names.dedup();
        let _ = writeln!(table, "- {}: {why}", names.join(", "));
    }
    write(&Peers::find().installed().join("mcp-remote.md"), &table);
    assert!(
        wrong.is_empty(),
        "{} differences without a reason:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

fn write(file: &Path, table: &str) {
    std::fs::write(file, table).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
}
