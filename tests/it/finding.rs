//! Where the mcp-hub is: named on the command line, or found in the list that hubs keep.

use std::path::PathBuf;

use serde_json::json;

use crate::support::process::command;
use crate::support::{Bridge, Hub, run, soon};

/// A folder for the state of hubs, and one for each place in which something is started.
struct Machine {
    _folder: tempfile::TempDir,
    root: PathBuf,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // As programs see it that are started there.
        let root = folder.path().canonicalize().unwrap();
        Self { _folder: folder, root }
    }

    fn path(&self, below: &str) -> PathBuf {
        let path = self.root.join(below);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    /// Writes the list to its place below `state`; each has a port, a folder and configurations.
    fn list(&self, state: &str, hubs: &[(u16, &str, &[&str])]) {
        let entries: serde_json::Map<String, serde_json::Value> = hubs
            .iter()
            .map(|(port, cwd, config_files)| {
                let cwd = self.path(cwd);
                let entry = json!({"cwd": cwd, "config_files": config_files, "pid": 1,
                    "port": port, "startTime": "2026-01-01T00:00:00.000Z", "state": "active",
                    "activeConnections": 0, "shutdownStartedAt": null, "shutdownDelay": null});
                (port.to_string(), entry)
            })
            .collect();
        let path = self.path(state).join("workspaces.json");
        std::fs::write(path, serde_json::Value::from(entries).to_string()).unwrap();
    }

    /// A bridge that is started in the folder `here` and looks for a hub.
    fn bridge(&self, here: &str) -> Bridge {
        let mut command = command(&["--mcp-hub"]);
        command.env("HOME", self.path("home")).env("XDG_STATE_HOME", self.path("state"));
        command.current_dir(self.path(here));
        Bridge::spawn(command)
    }

    /// What it says if it finds none to take.
    async fn refused(&self, here: &str) -> String {
        let (lines, status, stderr) = self.bridge(here).finish().await;
        assert_eq!((lines.len(), status.code()), (0, Some(2)), "{stderr}");
        stderr
    }
}

fn port_of(hub: &Hub) -> u16 {
    let rest = hub.url.rsplit(':').next().and_then(|rest| rest.strip_suffix("/mcp"));
    rest.unwrap().parse().unwrap()
}

/// A port at which nobody listens.
async fn dead() -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().port()
}

/// That it speaks to this hub, and in the hub's way at once.
async fn assert_speaks_to(mut bridge: Bridge, hub: &Hub) {
    let before = hub.streams.count();
    bridge.handshake().await;
    assert_eq!(hub.streams.count(), before + 1);
    let posts = hub.requests().into_iter().filter(|r| r.http_method == "POST");
    assert!(posts.into_iter().all(|r| r.path.starts_with("/messages?")));
}

#[tokio::test]
async fn a_hub_that_is_named_is_spoken_to_in_its_own_way() {
    // C10, S3-10
    let hub = Hub::plain().await;
    for args in [
        &["--mcp-hub", &*hub.url][..],
        &[&*hub.url, "--mcp-hub"],
        &["--mcp-hub", &*hub.url, "--timeout", "20"],
        &[&*hub.url, "--mcp-hub-mode"],
        &["--mcp-hub-mode", &*hub.url],
        &[&*hub.url, "--mcp-hub-mode", "--transport", "sse"],
    ] {
        assert_speaks_to(Bridge::start(args), &hub).await;
    }
    let env = [("MCP_SPAN_MCP_HUB_MODE", "1")];
    assert_speaks_to(Bridge::start_with(&[&hub.url], &env), &hub).await;
}

#[tokio::test]
async fn the_hub_of_this_machine_is_found_where_hubs_write_their_list() {
    for place in ["state/mcp-hub", "home/.mcp-hub"] {
        let (machine, hub) = (Machine::new(), Hub::plain().await);
        machine.list(place, &[(port_of(&hub), "anywhere", &[])]);
        assert_speaks_to(machine.bridge("else/where"), &hub).await;
    }
    let (machine, hub) = (Machine::new(), Hub::plain().await);
    machine.list("home/.local/state/mcp-hub", &[(port_of(&hub), "anywhere", &[])]);
    let mut command = command(&["--mcp-hub"]);
    command.env("HOME", machine.path("home")).current_dir(machine.path("else/where"));
    assert_speaks_to(Bridge::spawn(command), &hub).await;
}

#[tokio::test]
async fn hubs_that_are_no_more_are_passed_over() {
    let (machine, hub) = (Machine::new(), Hub::plain().await);
    let dead = dead().await;
    machine.list("state/mcp-hub", &[(dead, "here", &[]), (port_of(&hub), "far/away", &[])]);
    assert_speaks_to(machine.bridge("here"), &hub).await;
}

#[tokio::test]
async fn the_nearest_hub_is_taken_by_its_folder_or_by_its_configuration() {
    let machine = Machine::new();
    let (first, second) = (Hub::plain().await, Hub::plain().await);
    let configured = machine.path("work/c/deep").join("hub.json");
    machine.list(
        "state/mcp-hub",
        &[
            (port_of(&first), "work/a", &[]),
            (port_of(&second), "work/b", &["servers.json", configured.to_str().unwrap()]),
        ],
    );
    assert_speaks_to(machine.bridge("work/a"), &first).await;
    assert_speaks_to(machine.bridge("work/a/below"), &first).await;
    assert_speaks_to(machine.bridge("work/b"), &second).await;
    assert_speaks_to(machine.bridge("work/c/deep"), &second).await;
}

#[tokio::test]
async fn no_hub_is_a_sentence_with_the_places_that_were_looked_in() {
    let machine = Machine::new();
    for _ in 0..2 {
        let stderr = machine.refused("here").await;
        for place in ["state/mcp-hub/workspaces.json", "home/.mcp-hub/workspaces.json"] {
            let place = machine.root.join(place);
            assert!(stderr.contains(place.to_str().unwrap()), "{stderr}");
        }
        // The second time there is a list, of hubs that are gone.
        machine.list("state/mcp-hub", &[(dead().await, "here", &[])]);
    }
}

#[tokio::test]
async fn several_hubs_that_are_equally_near_are_listed() {
    let machine = Machine::new();
    let (first, second) = (Hub::plain().await, Hub::plain().await);
    let ports = [port_of(&first), port_of(&second)];
    machine.list("state/mcp-hub", &[(ports[0], "work/a", &[]), (ports[1], "work/b", &[])]);
    let stderr = machine.refused("work").await;
    for (port, folder) in ports.iter().zip(["work/a", "work/b"]) {
        assert!(stderr.contains(&format!("http://localhost:{port}/mcp")), "{stderr}");
        assert!(stderr.contains(machine.path(folder).to_str().unwrap()), "{stderr}");
    }
    assert_eq!(first.requests().len() + second.requests().len(), 0);
}

#[tokio::test]
async fn contradictions_are_refused() {
    // C10
    let url = "http://localhost:1/mcp";
    for args in [
        &[url, "--mcp-hub-mode", "--transport", "http"][..],
        &["--mcp-hub", url, "--transport", "http"],
        &[url, "--mcp-hub", "http://localhost:2/mcp"],
        &["--mcp-hub", "nonsense"],
    ] {
        let output = run(args, &[], "").await;
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(output.stdout.is_empty() && stderr.starts_with("error: "), "{stderr}");
    }
}

#[tokio::test]
async fn a_flag_beats_a_url_in_the_environment() {
    let hub = Hub::plain().await;
    let env = [("MCP_SPAN_URL", "http://127.0.0.1:1/mcp")];
    let mut bridge = Bridge::start_with(&["--mcp-hub", &hub.url], &env);
    bridge.handshake().await;
}

#[tokio::test]
async fn a_tool_behind_the_flag_is_no_url() {
    let (machine, hub) = (Machine::new(), Hub::plain().await);
    machine.list("home/.mcp-hub", &[(port_of(&hub), "a", &[])]);
    for words in [&["--mcp-hub", "echo", "x=1"][..], &["echo", "--mcp-hub", "x=1"]] {
        let mut call = command(&[&["call", "--no-check", "--json"], words].concat());
        call.env("HOME", machine.path("home")).env("XDG_STATE_HOME", machine.path("state"));
        let output = soon("the end", call.output()).await.unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {stderr}");
        let params = hub.server.all("tools/call").pop().unwrap().json()["params"].clone();
        assert_eq!(params["name"], "echo", "{words:?}");
        assert_eq!(params["arguments"], json!({"x": 1}), "{words:?}");
    }
}
