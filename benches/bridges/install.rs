//! Installs the programs of others, pinned by the files in `benches/peers`, into `target/bench`.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::figures::failure::Failure;
use crate::figures::who::Who;
use crate::group;

/// The program on crates.io; it brings its own lock file.
const CRATE: (&str, &str) = ("mcp-stdio-proxy", "0.2.10");

const PACKAGES: &str = include_str!("../peers/package.json");
const REQUIREMENTS: &str = include_str!("../peers/requirements.txt");

/// Downloads on a slow line.
const FETCHED: Duration = Duration::from_secs(15 * 60);

/// Five hundred crates on two busy cores.
const BUILT: Duration = Duration::from_secs(60 * 60);

/// Where everything is.
#[derive(Clone, Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Below `target`, which git ignores.
    pub(crate) fn open() -> std::io::Result<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench");
        std::fs::create_dir_all(folder.join("home"))?;
        Ok(Self(folder))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Installs what is not there yet. Whoever cannot be installed is named, and why.
    pub(crate) fn install(&self) -> Vec<(Who, Failure)> {
        let mut absent = Vec::new();
        let mut tried = |peers: &[Who], outcome: Result<(), Failure>| {
            if let Err(failure) = outcome {
                absent.extend(peers.iter().map(|who| (*who, failure.clone())));
            }
        };
        tried(&[Who::McpRemote, Who::Supergateway], self.npm_packages());
        tried(&[Who::McpStdio, Who::McpProxy], self.pypi_packages());
        tried(&[Who::McpStdioProxy], self.crate_binary());
        absent
    }

    fn npm_packages(&self) -> Result<(), Failure> {
        let (folder, source) = (self.path("npm"), sources());
        let lock = std::fs::read(source.join("package-lock.json")).map_err(Failure::absent)?;
        if is_stamped(&folder, &lock) {
            return Ok(());
        }
        std::fs::create_dir_all(&folder).map_err(Failure::absent)?;
        for name in ["package.json", "package-lock.json", ".npmrc"] {
            std::fs::copy(source.join(name), folder.join(name)).map_err(Failure::absent)?;
        }
        let mut npm = Command::new("npm");
        npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]);
        run(npm.current_dir(&folder), FETCHED)?;
        stamp(&folder, &lock)
    }

    fn pypi_packages(&self) -> Result<(), Failure> {
        let folder = self.path("venv");
        if is_stamped(&folder, REQUIREMENTS.as_bytes()) {
            return Ok(());
        }
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder), FETCHED)?;
        let mut pip = Command::new(folder.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        pip.args(["--require-hashes", "-r"]).arg(sources().join("requirements.txt"));
        run(&mut pip, FETCHED)?;
        stamp(&folder, REQUIREMENTS.as_bytes())
    }

    fn crate_binary(&self) -> Result<(), Failure> {
        let folder = self.path("crate");
        let (name, version) = CRATE;
        let stamped = format!("{name} {version}");
        if is_stamped(&folder, stamped.as_bytes()) {
            return Ok(());
        }
        // Its build embeds pages that it would fetch from elsewhere; npm has the same.
        let pages = self.zipped_pages()?;
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["install", "--quiet", "--locked", "--force", name, "--version", version]);
        cargo.arg("--root").arg(&folder).env("CARGO_TARGET_DIR", self.path("build"));
        cargo.env("SWAGGER_UI_DOWNLOAD_URL", format!("file://{}", pages.display()));
        run(&mut cargo, BUILT)?;
        // Some hundred megabytes that nobody needs again.
        std::fs::remove_dir_all(self.path("build")).map_err(Failure::absent)?;
        stamp(&folder, stamped.as_bytes())
    }

    /// A zip with the pages in `swagger-ui/dist`, as the build looks for them.
    fn zipped_pages(&self) -> Result<PathBuf, Failure> {
        let (folder, zip) = (self.path("pages"), self.path("pages.zip"));
        let dist = folder.join("swagger-ui/dist");
        std::fs::create_dir_all(&dist).map_err(Failure::absent)?;
        let pages = self.path("npm/node_modules/swagger-ui-dist");
        for page in std::fs::read_dir(pages).map_err(Failure::absent)?.flatten() {
            if page.path().is_file() {
                std::fs::copy(page.path(), dist.join(page.file_name())).map_err(Failure::absent)?;
            }
        }
        let mut python = Command::new("python3");
        python.args(["-m", "zipfile", "-c"]).arg(&zip).arg("swagger-ui");
        run(python.current_dir(&folder), FETCHED)?;
        Ok(zip)
    }
}

/// The versions that are pinned.
pub(crate) fn versions() -> Vec<(Who, String)> {
    let npm = |name: &str| {
        let packages: serde_json::Value = serde_json::from_str(PACKAGES).ok()?;
        Some(packages.get("dependencies")?.get(name)?.as_str()?.to_owned())
    };
    let pypi = |name: &str| {
        let pin = format!("{name}==");
        let line = REQUIREMENTS.lines().find_map(|line| line.strip_prefix(&pin))?;
        Some(line.trim_end_matches('\\').trim().to_owned())
    };
    let version = |who: Who| match who {
        Who::McpRemote | Who::Supergateway => npm(who.name()),
        Who::McpStdio | Who::McpProxy => pypi(who.name()),
        Who::McpStdioProxy => Some(CRATE.1.to_owned()),
        Who::Span => Some(env!("CARGO_PKG_VERSION").to_owned()),
        Who::Direct | Who::Floor => None,
    };
    let all = Who::OURS.into_iter().chain(Who::PEERS);
    all.filter_map(|who| Some((who, version(who)?))).collect()
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers")
}

/// Whether `folder` holds what these pins lead to.
fn is_stamped(folder: &Path, pins: &[u8]) -> bool {
    std::fs::read(folder.join(".installed")).is_ok_and(|stamp| stamp == pins)
}

fn stamp(folder: &Path, pins: &[u8]) -> Result<(), Failure> {
    std::fs::write(folder.join(".installed"), pins).map_err(Failure::absent)
}

/// Runs it to its end, or for as long as it may take.
fn run(command: &mut Command, limit: Duration) -> Result<(), Failure> {
    // Without its folder: what fails may be shown in the documentation.
    let name = Path::new(command.get_program()).file_name().unwrap_or_default();
    let name = name.to_string_lossy().into_owned();
    let arguments: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
    eprintln!("{name} {}", arguments.join(" "));
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null());
    let failed = |text: String| Failure::absent(format!("{name}: {text}"));
    let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
    let deadline = Instant::now() + limit;
    loop {
        match child.try_wait().map_err(|error| failed(error.to_string()))? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(failed(status.to_string())),
            None if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(100)),
            None => {
                group::kill(&mut child);
                return Err(failed(format!("not done after {} s", limit.as_secs())));
            }
        }
    }
}
