//! The commands that explore a server: connect, ask for one thing, print it, leave.

pub(super) mod args;
mod arguments;
mod call;
mod content;
mod files;
mod form;
mod items;
mod login;
mod parameters;
mod progress;
mod prompt;
mod prompts;
mod raw;
mod read;
mod resources;
mod schema;
mod server_requests;
mod session;
mod tools;

pub(crate) use call::run as call;
pub(crate) use prompt::run as prompt;
pub(crate) use prompts::run as prompts;
pub(crate) use raw::run as raw;
pub(crate) use read::run as read;
pub(crate) use resources::run as resources;
pub(crate) use session::at_rest;
pub(crate) use tools::run as tools;
