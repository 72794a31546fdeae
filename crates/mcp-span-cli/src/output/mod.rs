//! How commands print. The interface for all of them:
//!
//! - [`Page`] lays text for stdout out: names and columns in colour, text wrapped to the terminal.
//! - [`Status`] is the one line on stderr that tells what is going on, as long as it does.
//! - [`pretty`] lays JSON out over lines, and changes no value.
//! - [`one_line`], [`wrap`], [`count`] and [`size`] make text of what others wrote, and of numbers.
//! - [`flags`] are `--color` and `--quiet`, which every command has.
//!
//! What goes to stderr in words (errors, warnings, hints) is in [`report`](crate::report).

pub(crate) mod flags;
mod json;
mod page;
mod status;
mod text;

pub(crate) use flags::is_quiet;
pub(crate) use json::pretty;
pub(crate) use page::Page;
pub(crate) use status::Status;
pub(crate) use text::{count, one_line, size, wrap};
