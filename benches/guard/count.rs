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
    let runs = [FEW, MANY].map(|calls| ["run".into(), path.name().into(), calls.to_string()]);
    let [few, many] = of_runs(&runs)?;
    Ok(many.saturating_sub(few) / u64::from(MANY - FEW))
}

/// The instructions of this program with each of these arguments, counted at the same time.
pub(crate) fn of_runs<const N: usize>(runs: &[[String; 3]; N]) -> Result<[u64; N], Fault> {
    std::thread::scope(|scope| {
        let counting = runs.each_ref().map(|arguments| scope.spawn(|| of_run(arguments)));
        let mut counts = [0; N];
        for (count, counting) in counts.iter_mut().zip(counting) {
            *count = counting.join().map_err(|_| "a count has panicked")??;
        }
        Ok(counts)
    })
}

/// The instructions of this program with these arguments.
fn of_run(arguments: &[String; 3]) -> Result<u64, Fault> {
    let name = format!("mcp-span-guard.{}.{}", std::process::id(), arguments.join("."));
    let file = std::env::temp_dir().join(name);
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
