//! The clients and the servers of the matrix: what they are, what they can, how they are started.

use std::process::Command;

use serde_json::{Value, json};

use crate::hub::{Hub, HubPlace};
use crate::peers::Peers;
use crate::servers::{self, Server};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    TypeScript,
    Python,
    Rust,
}

/// Which eras a client takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wants {
    Legacy,
    Modern,
    /// The modern one, and the legacy one where that is refused.
    Either,
}

pub(crate) struct Client {
    pub(crate) name: &'static str,
    pub(crate) family: Family,
    program: &'static str,
    pub(crate) mode: &'static str,
    /// What a user with such a client tells the bridge.
    pub(crate) flags: &'static [&'static str],
    wants: Wants,
}

/// A client that insists on an answer to `server/discover` needs this at a legacy server. One that
/// never asks does not, and is told nothing.
const MODERN: &[&str] = &["--protocol", "modern"];

const fn typescript(
    name: &'static str,
    program: &'static str,
    mode: &'static str,
    flags: &'static [&'static str],
    wants: Wants,
) -> Client {
    Client { name, family: Family::TypeScript, program, mode, flags, wants }
}

const fn python(name: &'static str, mode: &'static str, wants: Wants) -> Client {
    let (family, program) = (Family::Python, "clients/matrix_py2.py");
    Client { name, family, program, mode, flags: &[], wants }
}

const fn rust(
    name: &'static str,
    mode: &'static str,
    flags: &'static [&'static str],
    wants: Wants,
) -> Client {
    Client { name, family: Family::Rust, program: "client", mode, flags, wants }
}

const SDK1: &str = "clients/matrix-sdk1.mjs";
const SDK2: &str = "clients/matrix-sdk2.mjs";

/// The slow ones first, so that the last ones to end are quick.
pub(crate) const CLIENTS: [Client; 10] = [
    python("Python 2.x, auto", "auto", Wants::Either),
    python("Python 2.x, legacy", "legacy", Wants::Legacy),
    python("Python 2.x, pinned modern", "modern", Wants::Modern),
    typescript("TypeScript 1.x", SDK1, "legacy", &[], Wants::Legacy),
    typescript("TypeScript 2.x, legacy", SDK2, "legacy", &[], Wants::Legacy),
    typescript("TypeScript 2.x, auto", SDK2, "auto", &[], Wants::Either),
    typescript("TypeScript 2.x, pinned modern", SDK2, "modern", MODERN, Wants::Modern),
    rust("rmcp 3.x, Initialize", "initialize", &[], Wants::Legacy),
    rust("rmcp 3.x, Auto", "auto", &[], Wants::Either),
    rust("rmcp 3.x, Discover", "discover", MODERN, Wants::Modern),
];

impl Client {
    pub(crate) fn command(&self, peers: &Peers) -> Command {
        match self.family {
            Family::TypeScript => peers.node_script(self.program),
            Family::Python => peers.python_script(self.program),
            Family::Rust => peers.rmcp(self.program),
        }
    }

    /// The era that is spoken to the client.
    pub(crate) fn own_era(&self, server: &ServerKind) -> Era {
        match self.wants {
            Wants::Legacy => Era::Legacy,
            Wants::Modern => Era::Modern,
            Wants::Either if server.modern.is_empty() => Era::Legacy,
            Wants::Either => Era::Modern,
        }
    }

    /// The era that is spoken to the server: the client's, unless the server has not got it.
    pub(crate) fn upstream_era(&self, server: &ServerKind) -> Era {
        match self.own_era(server) {
            Era::Legacy if server.legacy.is_empty() => Era::Modern,
            Era::Modern if server.modern.is_empty() => Era::Legacy,
            era => era,
        }
    }

    pub(crate) fn is_translated(&self, server: &ServerKind) -> bool {
        self.own_era(server) != self.upstream_era(server)
    }

    /// The Rust SDK has no HTTP+SSE.
    pub(crate) fn reaches_directly(&self, server: &ServerKind) -> bool {
        let knows_transport = self.family != Family::Rust || !server.is_sse;
        knows_transport && !self.is_translated(server)
    }
}

pub(crate) struct ServerKind {
    pub(crate) name: &'static str,
    pub(crate) is_sse: bool,
    /// What it can in each era; nothing where it does not speak it.
    legacy: &'static [&'static str],
    modern: &'static [&'static str],
    vocabulary: Vocabulary,
    pub(crate) start: fn(&Peers) -> Started,
}

const ALL: &[&str] = &["tools", "call", "progress", "elicitation", "list_changed", "cancellation"];
/// Without a session, nothing can be asked or told outside of a call's own answer.
const STATELESS: &[&str] = &["tools", "call", "progress", "cancellation"];
/// It passes on calls, and neither their progress nor their questions.
const HUB: &[&str] = &["tools", "call"];

/// The names of the tools that serve the checks.
#[derive(Clone, Copy)]
enum Vocabulary {
    Own,
    Everything,
    Hub,
}

pub(crate) const SERVERS: [ServerKind; 7] = [
    ServerKind {
        name: "TypeScript 2.x, both eras",
        is_sse: false,
        legacy: STATELESS,
        modern: ALL,
        vocabulary: Vocabulary::Own,
        start: |peers| Started::Server(servers::modern(peers)),
    },
    ServerKind {
        name: "TypeScript 2.x, modern only",
        is_sse: false,
        legacy: &[],
        modern: ALL,
        vocabulary: Vocabulary::Own,
        start: |peers| Started::Server(servers::modern_only(peers)),
    },
    ServerKind {
        name: "Python 2.x",
        is_sse: false,
        legacy: ALL,
        modern: ALL,
        vocabulary: Vocabulary::Own,
        start: |peers| Started::Server(servers::python(peers)),
    },
    ServerKind {
        name: "rmcp 3.x",
        is_sse: false,
        legacy: ALL,
        modern: ALL,
        vocabulary: Vocabulary::Own,
        start: |peers| Started::Server(servers::rmcp(peers)),
    },
    ServerKind {
        name: "server-everything",
        is_sse: false,
        legacy: ALL,
        modern: &[],
        vocabulary: Vocabulary::Everything,
        start: |peers| Started::Server(servers::everything(peers)),
    },
    ServerKind {
        name: "server-everything, HTTP+SSE",
        is_sse: true,
        legacy: ALL,
        modern: &[],
        vocabulary: Vocabulary::Everything,
        start: |peers| Started::Server(servers::everything_sse(peers)),
    },
    ServerKind {
        name: "mcp-hub",
        is_sse: true,
        legacy: HUB,
        modern: &[],
        vocabulary: Vocabulary::Hub,
        start: |_| {
            let place = HubPlace::new();
            let hub = place.start();
            Started::Hub { url: place.url(), _place: place, _hub: hub }
        },
    },
];

/// What is echoed, and what the progress and the question of a call come to.
pub(crate) const MESSAGE: &str = "grüße 🦀\n\"two\"";
pub(crate) const STEPS: u64 = 3;

impl ServerKind {
    /// Whether the two are one program, on different transports.
    pub(crate) fn has_the_tools_of(&self, other: &Self) -> bool {
        let is_everything = |kind: &Self| matches!(kind.vocabulary, Vocabulary::Everything);
        is_everything(self) && is_everything(other)
    }

    /// What it can when it is spoken to in this era.
    pub(crate) fn features(&self, era: Era) -> &'static [&'static str] {
        match era {
            Era::Legacy => self.legacy,
            Era::Modern => self.modern,
        }
    }

    /// The calls that the checks make.
    pub(crate) fn calls(&self, client: &Client) -> Value {
        let call = |name: &str, arguments: Value| json!({ "name": name, "arguments": arguments });
        match self.vocabulary {
            Vocabulary::Own => {
                let label = client.name;
                json!({
                    "echo": call("echo", json!({ "message": MESSAGE })),
                    "slow": call("slow", json!({ "steps": STEPS, "pauseMs": 20 })),
                    "long": call("slow", json!({ "steps": 500, "pauseMs": 20, "label": label })),
                    "cancelled": call("was-cancelled", json!({ "label": label })),
                    "ask": call("greet", json!({})),
                    "change": call("touch", json!({})),
                })
            }
            Vocabulary::Everything => {
                let slow = "trigger-long-running-operation";
                json!({
                    "echo": call("echo", json!({ "message": MESSAGE })),
                    "slow": call(slow, json!({ "steps": STEPS, "duration": 0.06 })),
                    "long": call(slow, json!({ "steps": 30, "duration": 3 })),
                    "ask": call("trigger-elicitation-request", json!({})),
                    "change": call("gzip-file-as-resource", json!({ "data": "data:,a" })),
                })
            }
            Vocabulary::Hub => {
                json!({ "echo": call("everything__echo", json!({ "message": MESSAGE })) })
            }
        }
    }

    /// What the echo answers.
    pub(crate) fn echoed(&self) -> String {
        match self.vocabulary {
            Vocabulary::Own => MESSAGE.to_owned(),
            Vocabulary::Everything | Vocabulary::Hub => format!("Echo: {MESSAGE}"),
        }
    }
}

/// A running server; it ends with the test.
pub(crate) enum Started {
    Server(Server),
    Hub { url: String, _place: HubPlace, _hub: Hub },
}

impl Started {
    pub(crate) fn url(&self) -> &str {
        match self {
            Self::Server(server) => server.url(),
            Self::Hub { url, .. } => url,
        }
    }
}
