//! Entry points for fuzzing: one function for each target, which panics if a property does not hold.
//!
//! Not part of the interface: `fuzz/` calls them, by way of the feature `fuzzing`, and the tests below
//! run them on the kept seeds.

#[cfg(test)]
#[path = "../../fuzz/replay.rs"]
mod replay;

#[cfg(feature = "cli")]
pub use crate::cli::fuzzing::traces;
use crate::config::{self, Fault};

/// Stands where a variable is named, and in no fault.
const SECRET: &str = "s3cr3t-value";

/// A configuration is read; faults stand in the text, and name no secret.
pub fn configuration(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let lookup = |name: &str| (name == "TOKEN").then(|| SECRET.to_owned());
    let config = match config::read("f.json", text, &lookup) {
        Ok(config) => config,
        Err(fault) => return check(&fault, text),
    };
    config.faults().for_each(|fault| check(fault, text));
    let mut names: Vec<_> = config.servers().map(|entry| &entry.name).collect();
    for entry in config.servers() {
        assert!(!entry.name.is_empty());
        if !text.contains(SECRET) {
            assert!(!format!("{entry:?}").contains(SECRET), "{entry:?}");
        }
        if let Err(fault) = entry.spec() {
            check(&fault, text);
        }
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "a name stands for two servers");
}

fn check(fault: &Fault, text: &str) {
    let shown = fault.to_string();
    let lines = text.matches('\n').count() + 1;
    assert!((1..=lines).contains(&fault.place.line), "{shown}");
    assert!(fault.place.column >= 1, "{shown}");
    assert!(text.contains(SECRET) || !shown.contains(SECRET), "{shown}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_of_every_target_pass() {
        replay::seeds("configuration", configuration);
        #[cfg(feature = "cli")]
        replay::seeds("traces", traces);
    }
}
