//! Has valgrind count the instructions of this program.

use std::io::ErrorKind;
use std::process::{Command, Stdio};

use super::Fault;
use super::paths::Path;

const FEW: u32 = 200;
const MANY: u32 = 1200;

/// Whether there is a valgrind.
pub(crate) fn is_possible() -> Result<bool, Fault> {
    let found = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
    match found {
        Ok(status) => Ok(status.success()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The instructions of one call.
pub(crate) fn per_call(path: Path) -> Result<u64, Fault> {
    let few = of_run(&["run", path.name(), &FEW.to_string()])?;
    let many = of_run(&["run", path.name(), &MANY.to_string()])?;
    Ok(many.saturating_sub(few) / u64::from(MANY - FEW))
}

/// The instructions of this program with these arguments.
pub(crate) fn of_run(arguments: &[&str]) -> Result<u64, Fault> {
    let file = std::env::temp_dir().join(format!("mcp-span-guard.{}", std::process::id()));
    let ran = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet"])
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(std::env::current_exe()?)
        .args(arguments)
        // The same for everyone: none.
        .env_clear()
        .status()?;
    if !ran.success() {
        return Err(format!("{} ended with {ran}", arguments.join(" ")).into());
    }
    let profile = std::fs::read_to_string(&file)?;
    std::fs::remove_file(&file)?;
    let total = profile.lines().find_map(|line| {
        line.strip_prefix("totals: ").or_else(|| line.strip_prefix("summary: "))?.parse().ok()
    });
    total.ok_or_else(|| "valgrind has counted nothing".into())
}
