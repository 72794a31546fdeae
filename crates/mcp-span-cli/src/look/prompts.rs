//! The prompts of a server, and what can be filled in.

use std::process::ExitCode;

use serde_json::Value;
use serde_json::value::RawValue;

use super::described::{self, Described, all};
use super::{at_most_one, json_list, list, objects, print_list};
use crate::visit::{Guest, Outcome, Page, Trouble, one_line};
use mcp_span::client;
use mcp_span::lenient::lenient;
use mcp_span::message::Members;

pub(super) async fn show(guest: Guest) -> Outcome {
    let prompts = list::<client::Prompt>(&guest).await?;
    if let Some(name) = at_most_one(&guest)? {
        let prompt = find(&prompts, name)?;
        if guest.is_json {
            return guest.print_json(prompt.get());
        }
        guest.print(&describe(&guest.page, prompt.get()).text)?;
        return Ok(ExitCode::SUCCESS);
    }
    if guest.is_json {
        return guest.print_json(&format!("{{{}}}", json_list("prompts", &prompts)));
    }
    let prompts = objects(prompts);
    let described: Vec<_> = prompts.iter().map(|one| describe(&guest.page, one.get())).collect();
    print_list(&guest, &all(&guest.page, &described, "prompt", "prompts"), "prompts")
}

/// The prompt with this name, or which one could be meant.
pub(crate) fn find<'a>(prompts: &'a [Box<RawValue>], name: &str) -> Result<&'a RawValue, Trouble> {
    described::find(prompts, name, "prompt")
}

fn describe(page: &Page, prompt: &str) -> Described {
    let prompt = Members::of(prompt).unwrap_or_default();
    let arguments = prompt.get("arguments").map(lenient).unwrap_or_default();
    let arguments = arguments.as_array().map_or(&[][..], Vec::as_slice);
    let row = |argument: &Value| {
        let star = if argument["required"] == true { "*" } else { "" };
        let text = |name: &str| one_line(argument[name].as_str().unwrap_or_default());
        vec![format!("{}{star}", text("name")), text("description")]
    };
    Described::new(page, &prompt, &arguments.iter().map(row).collect::<Vec<_>>())
}
