//! What a process has used, as Linux tells it; elsewhere nothing is known.

use std::time::Duration;

/// After this long without work, what is in memory is what stays there.
pub(crate) const SETTLED: Duration = Duration::from_secs(1);

/// Ticks of `/proc/<pid>/stat` in a second: fixed for programs, whatever the kernel's own is.
const TICKS: f64 = 100.0;

/// Seconds of processor time so far.
pub(crate) fn cpu_seconds(process: u32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in parentheses, may hold blanks; user and system time are the 12th and 13th after.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS)
}

/// Bytes in memory now.
pub(crate) fn resident(process: u32) -> Option<f64> {
    status(process, "VmRSS:")
}

/// The most bytes that were in memory.
pub(crate) fn peak(process: u32) -> Option<f64> {
    status(process, "VmHWM:")
}

fn status(process: u32, name: &str) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024.0)
}
