//! `mcp-span tools`, `resources` and `prompts`: what a server has.

use std::process::ExitCode;

use serde_json::value::RawValue;

use super::Failure;
use super::visit::{self, Guest, Outcome, Trouble};
use super::visit_args::Visit;
use mcp_span::Error;
use mcp_span::client::Item;
use mcp_span::lenient::lenient;
use mcp_span::message::Members;

mod arguments;
mod described;
mod nearest;
mod prompts;
mod resources;
mod tools;

pub(super) use nearest::nearest;
pub(super) use prompts::find as find_prompt;
pub(super) use tools::{find as find_tool, remember as remember_tools};

/// Lists tools, or shows one.
pub(super) fn tools(typed: &Visit) -> Result<ExitCode, Failure> {
    visit::run(typed, tools::show)
}

/// Lists resources and their templates.
pub(super) fn resources(typed: &Visit) -> Result<ExitCode, Failure> {
    visit::run(typed, resources::show)
}

/// Lists prompts, or shows one.
pub(super) fn prompts(typed: &Visit) -> Result<ExitCode, Failure> {
    visit::run(typed, prompts::show)
}

/// All that the server lists, as it wrote it. One that does not know the question has none.
pub(super) async fn list<T: Item>(guest: &Guest) -> Result<Vec<Box<RawValue>>, Trouble> {
    match guest.client.list_raw::<T>().await {
        Err(failure) if is_unknown(&failure) && !guest.client.has_capability(T::CAPABILITY) => {
            Ok(Vec::new())
        }
        listed => Ok(listed?),
    }
}

pub(super) fn is_unknown(failure: &Error) -> bool {
    failure.rpc.is_some() && failure.code() == -32601
}

/// A list under the name that the protocol has for it.
fn json_list(member: &str, items: &[Box<RawValue>]) -> String {
    let items: Vec<&str> = items.iter().map(|item| item.get()).collect();
    format!("\"{member}\":[{}]", items.join(","))
}

/// What can be shown of a list: an entry that is no object is nothing.
fn objects(mut items: Vec<Box<RawValue>>) -> Vec<Box<RawValue>> {
    items.retain(|item| item.get().starts_with('{'));
    items
}

/// The text of a member as far as it can be read.
fn text(members: &Members<'_>, name: &str) -> String {
    let value = members.get(name).map(lenient);
    value.as_ref().and_then(|value| value.as_str()).unwrap_or_default().to_owned()
}

/// Prints a list for a person; an empty one is worth a word as well.
fn print_list(guest: &Guest, text: &str, what: &str) -> Outcome {
    if text.is_empty() {
        guest.status.clear();
        super::report::warning(&format!("the server has no {what}"));
    }
    guest.print(text)?;
    Ok(ExitCode::SUCCESS)
}

/// More words than the command has a use for.
fn at_most_one(guest: &Guest) -> Result<Option<&str>, Trouble> {
    match guest.words.as_slice() {
        [] => Ok(None),
        [name] => Ok(Some(name)),
        _ => Err(Trouble::usage("there is one word too many: at most one name can be given")),
    }
}
