//! What this machine is, in a few words that name nobody.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::figures::date::day;

/// The processor and its cores.
pub(crate) fn description() -> String {
    let known = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = known.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_owned())
    });
    let model = model.unwrap_or_else(|| format!("a processor ({})", std::env::consts::ARCH));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{model}, {cores} cores, {}", std::env::consts::OS)
}

/// The day, in UTC.
pub(crate) fn today() -> String {
    day(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

/// What else the machine has had to do in the last minute, if that is worth a word: the number of
/// tasks that wanted to run, on average.
pub(crate) fn other_work() -> Option<f64> {
    let load = std::fs::read_to_string("/proc/loadavg").ok()?;
    load.split_whitespace().next()?.parse().ok().filter(|load| *load >= 0.5)
}

/// Lets this program, and those that it starts, open as many files as the system allows: the floor
/// has a connection for each call that is out.
pub(crate) fn allow_many_connections() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    // If it is refused, the largest of the sweeps tells.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
