//! How each bridge is started, as its own documents say, and as quiet as it can be.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::exchange::Fault;
use crate::figures::failure::Failure;
use crate::figures::who::Who;
use crate::install::Folder;
use crate::server::Server;
use crate::way::Way;

/// What is needed to start anybody.
pub(crate) struct Stage {
    pub(crate) server: Server,
    pub(crate) folder: Folder,
    /// The program that it is all about.
    pub(crate) span: PathBuf,
    /// The floor's program.
    pub(crate) floor: PathBuf,
    /// Whoever could not be installed, and why.
    pub(crate) absent: Vec<(Who, Failure)>,
}

impl Stage {
    /// The command for `who` to reach the server this way.
    pub(crate) fn command(&self, who: Who, way: Way) -> Result<Command, Failure> {
        if let Some((_, failure)) = self.absent.iter().find(|(absent, _)| *absent == who) {
            return Err(failure.clone());
        }
        let (url, root) = (self.server.url(way), self.server.root.display().to_string());
        let mut command = self.program(who)?;
        command.env_clear().args(arguments(who, way, &url, &root));
        if who.is_peer() {
            // They look for interpreters and for places to keep things, and they like to talk.
            command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
            command.env("HOME", self.folder.path("home")).stderr(Stdio::null());
        }
        Ok(command)
    }

    fn program(&self, who: Who) -> Result<Command, Failure> {
        let node = |script: &str| {
            let mut command = Command::new("node");
            command.arg(self.folder.path(script));
            command
        };
        Ok(match who {
            Who::Direct => return Err(Failure::error("nothing is to be started")),
            Who::Floor => Command::new(self.floor.clone()),
            Who::Span => Command::new(self.span.clone()),
            Who::McpRemote => node("npm/node_modules/mcp-remote/dist/proxy.js"),
            Who::Supergateway => node("npm/node_modules/supergateway/dist/index.js"),
            Who::McpStdio => Command::new(self.folder.path("venv/bin/mcp-stdio")),
            Who::McpProxy => Command::new(self.folder.path("venv/bin/mcp-proxy")),
            Who::McpStdioProxy => Command::new(self.rust_peer()),
        })
    }

    /// The one file that is all of a program, if it is one file.
    pub(crate) fn binary(&self, who: Who) -> Option<PathBuf> {
        match who {
            Who::Span => Some(self.span.clone()),
            Who::McpStdioProxy => Some(self.rust_peer()),
            _ => None,
        }
    }

    fn rust_peer(&self) -> PathBuf {
        self.folder.path("crate/bin/mcp-proxy")
    }
}

/// The release of mcp-span, which lies beside the folder that the benchmark was built into.
pub(crate) fn span() -> Result<PathBuf, Fault> {
    let here = std::env::current_exe()?;
    let program = here.ancestors().nth(2).map(|folder| folder.join("mcp-span"));
    let program = program.filter(|program| program.is_file());
    program.ok_or_else(|| "there is no mcp-span to be measured: cargo build --release".into())
}

/// This program under a name of its own. The floor is in it, and so is the server: if both ran from
/// one file, the floor would find in the caches what the server has just run, and nobody else would.
pub(crate) fn floor(folder: &Folder) -> std::io::Result<PathBuf> {
    let (fresh, program) = (folder.path("floor.new"), folder.path("floor"));
    std::fs::copy(std::env::current_exe()?, &fresh)?;
    std::fs::rename(&fresh, &program)?;
    Ok(program)
}

/// Everything behind the program's name.
fn arguments<'a>(who: Who, way: Way, url: &'a str, root: &'a str) -> Vec<&'a str> {
    match (who, way) {
        (Who::Floor, Way::Old) => vec!["floor-old", url],
        (Who::Floor, Way::Secure) => vec!["floor-secure", url, root],
        (Who::Floor, _) => vec!["floor", url],
        (Who::Span, Way::Old) => vec!["--transport", "sse", url],
        (Who::Span, Way::Secure) => vec!["--ca-cert", root, url],
        // For answers that are larger than the default allows.
        (Who::Span, Way::Huge) => vec!["--max-message-size", "512M", url],
        (Who::McpRemote, Way::Old) => vec![url, "--transport", "sse-only"],
        (Who::McpStdio, Way::Old) => vec!["--transport", "sse", url],
        // Its default of 10 MiB would end in an error for whatever is large.
        (Who::McpStdio, _) => vec!["--max-message-size", "134217728", url],
        (Who::McpProxy, Way::Old) => vec!["--log-level", "ERROR", "--transport", "sse", url],
        (Who::McpProxy, _) => vec!["--log-level", "ERROR", "--transport", "streamablehttp", url],
        (Who::Supergateway, Way::Old) => vec!["--logLevel", "none", "--sse", url],
        (Who::Supergateway, _) => vec!["--logLevel", "none", "--streamableHttp", url],
        (Who::McpStdioProxy, Way::Old) => vec!["convert", "--quiet", "--protocol", "sse", url],
        // Finding out by itself would take it 60 ms more.
        (Who::McpStdioProxy, _) => vec!["convert", "--quiet", "--protocol", "stream", url],
        _ => vec![url],
    }
}
