//! How commands print: pages in columns, JSON in lines, one line that tells what is going on.

mod json;
mod page;
mod status;

pub(crate) use json::pretty;
pub(crate) use page::{Page, count, one_line, wrap};
pub(crate) use status::Status;
