//! `mcp-span tools`, `resources` and `prompts`: what a server has.

use std::process::ExitCode;

use serde_json::value::RawValue;

use super::session::{Context, Outcome};
use super::trouble::CommandError;
use crate::report;
use mcp_span::client::{self, Class, Item};
use mcp_span::lenient::lenient;
use mcp_span::message::Members;

/// All that the server lists, as it wrote it. One that does not know the question has none.
pub(super) async fn list<T: Item>(context: &Context) -> Result<Vec<Box<RawValue>>, CommandError> {
    match context.client.list_raw::<T>().await {
        Err(failure) if is_unknown(&failure) && !context.client.offers(T::CAPABILITY) => {
            Ok(Vec::new())
        }
        listed => Ok(listed?),
    }
}

pub(super) fn is_unknown(failure: &client::Failure) -> bool {
    failure.class == Class::Rpc && failure.code == -32601
}

/// A list under the name that the protocol has for it.
pub(super) fn json_list(member: &str, items: &[Box<RawValue>]) -> String {
    let items: Vec<&str> = items.iter().map(|item| item.get()).collect();
    format!("\"{member}\":[{}]", items.join(","))
}

/// What can be shown of a list: an entry that is no object is nothing.
pub(super) fn objects(mut items: Vec<Box<RawValue>>) -> Vec<Box<RawValue>> {
    items.retain(|item| item.get().starts_with('{'));
    items
}

/// The text of a member as far as it can be read.
pub(super) fn text(members: &Members<'_>, name: &str) -> String {
    let value = members.get(name).map(lenient);
    value.as_ref().and_then(|value| value.as_str()).unwrap_or_default().to_owned()
}

/// Prints a list for a person; an empty one is worth a word as well.
pub(super) fn print_list(context: &Context, text: &str, what: &str) -> Outcome {
    if text.is_empty() {
        context.status.clear();
        report::warning(&format!("the server has no {what}"));
    }
    context.print(text)?;
    Ok(ExitCode::SUCCESS)
}

/// More words than the command has a use for.
pub(super) fn at_most_one(context: &Context) -> Result<Option<&str>, CommandError> {
    match context.words.as_slice() {
        [] => Ok(None),
        [name] => Ok(Some(name)),
        _ => Err(CommandError::usage("there is one word too many: at most one name can be given")),
    }
}
