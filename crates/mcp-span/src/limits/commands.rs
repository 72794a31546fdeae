//! The numbers for commands that a person types.

use std::time::Duration;

/// Waiting is shown when it has lasted so long: what is faster needs no spinner.
pub const SPINNER_AFTER: Duration = Duration::from_millis(300);

/// How often the spinner moves.
pub const SPINNER_STEP: Duration = Duration::from_millis(100);

/// How many names of tools are kept for completion in shells.
pub const COMPLETED_TOOLS: usize = 1_000;

/// Longer names of tools are not offered to a shell, in bytes. Clients take 64 to 128.
pub const COMPLETED_TOOL_NAME: usize = 128;

/// How wide text is where nobody says how wide a line may be.
pub const PAGE_WIDTH: usize = 80;

/// No terminal is taken for narrower.
pub const NARROWEST: usize = 40;

/// Longer lines are hard to read, however wide the terminal is.
pub const WIDEST: usize = 120;

/// No column takes more than this of a line, but the last.
pub const COLUMN: usize = 40;

/// The last column stands beside the others if it has so much room there, else below them.
pub const LAST_COLUMN: usize = 30;

/// How deep a schema is looked into: references may go in circles.
pub const SCHEMA_DEPTH: usize = 32;

/// How many alternatives of a type are told: a person reads the first few.
pub const SCHEMA_PARTS: usize = 20;

/// How long the words for a type are at most: a list of all values may be endless.
pub const TYPE_WORDS: usize = 2_000;

/// How deep an argument may lie (`a.b.c=1`); no schema goes nearly so deep.
pub const ARGUMENT_DEPTH: usize = 100;

/// How many levels of JSON are indented; what is deeper stands on one line. A line of a single
/// number is no longer than 32 blanks and itself, and hardly any schema is deeper.
pub const INDENTS: usize = 16;

/// How many faults of arguments are told at once.
pub const FAULTS: usize = 10;

/// How many numbers are tried to find a name that no file has yet.
pub const FILE_NUMBERS: usize = 10_000;

/// Questions of a server's that wait for a person to answer another.
pub const TERMINAL_QUESTIONS: usize = 16;

/// How often a person may answer a question in a way that does not fit before it is cancelled.
pub const TERMINAL_ANSWERS: usize = 10;
