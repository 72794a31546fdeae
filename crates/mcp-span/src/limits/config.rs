//! Numbers about what users write into flags and configuration files.

use std::time::Duration;

/// The longest time that can be asked for: longer than anybody waits, and far from where adding to a
/// point in time would overflow.
pub const LONGEST_TIME: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// From here on the `timeout` of a configuration's entry counts milliseconds. Ours are seconds, as
/// with the flags; other programs write milliseconds, and none has a limit of less than a second.
pub const CONFIG_MILLISECONDS_FROM: f64 = 1000.0;

/// Defaults within defaults of variables: deeper than anybody writes, and far from the end of the
/// stack.
pub const VARIABLES_DEEPEST: usize = 8;
