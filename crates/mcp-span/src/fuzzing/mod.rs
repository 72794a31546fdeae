//! Entry points for fuzzing: one function for each target, which panics if a property does not hold.
//!
//! Not part of the interface: `fuzz/` calls them, by way of the feature `fuzzing`, and the tests below
//! run them on the kept seeds.

mod files;
mod frames;
#[cfg(test)]
#[path = "../../../../fuzz/replay.rs"]
mod replay;

pub use crate::auth::oauth::fuzzing::{challenges, metadata};
pub use crate::engine::schedule::schedules;
pub use crate::message::fuzzing::messages;
pub use files::{configuration, lenient};
pub use frames::{events, lines};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_of_every_target_pass() {
        replay::seeds("lines", lines);
        replay::seeds("events", events);
        replay::seeds("messages", messages);
        replay::seeds("challenges", challenges);
        replay::seeds("metadata", metadata);
        replay::seeds("schedules", schedules);
        replay::seeds("configuration", configuration);
        replay::seeds("lenient", lenient);
    }
}
