//! The prompts of a server, and what can be filled in.

use std::process::ExitCode;

use serde_json::Value;
use serde_json::value::RawValue;

use super::tools::heading;
use super::{at_most_one, json_list, list, nearest, objects, print_list, text};
use crate::cli::visit::{Guest, Outcome, Page, Trouble, count, one_line};
use crate::client;
use crate::lenient::lenient;
use crate::message::Members;

pub(super) async fn show(guest: Guest) -> Outcome {
    let prompts = list::<client::Prompt>(&guest).await?;
    if let Some(name) = at_most_one(&guest)? {
        let prompt = find(&prompts, name)?;
        if guest.is_json {
            return guest.print_json(prompt.get());
        }
        guest.print(&one(&guest.page, prompt.get()))?;
        return Ok(ExitCode::SUCCESS);
    }
    if guest.is_json {
        return guest.print_json(&format!("{{{}}}", json_list("prompts", &prompts)));
    }
    let prompts = objects(prompts);
    let blocks: Vec<String> = prompts.iter().map(|prompt| one(&guest.page, prompt.get())).collect();
    let mut text = blocks.join("\n");
    if !prompts.is_empty() {
        let has_required = blocks.iter().any(|block| block.contains("*  "));
        let legend = if has_required { "; * must be given" } else { "" };
        let total = count(prompts.len(), "prompt", "prompts");
        text += &format!("\n{}\n", guest.page.faint(&format!("{total}{legend}")));
    }
    print_list(&guest, &text, "prompts")
}

/// The prompt with this name, or which one could be meant.
pub(in crate::cli) fn find<'a>(
    prompts: &'a [Box<RawValue>],
    name: &str,
) -> Result<&'a RawValue, Trouble> {
    let named =
        |prompt: &RawValue| Members::of(prompt.get()).and_then(|prompt| prompt.text("name"));
    let found = prompts.iter().find(|prompt| named(prompt).is_some_and(|known| known == name));
    found.map(|prompt| &**prompt).ok_or_else(|| {
        let names: Vec<String> = prompts.iter().filter_map(|prompt| named(prompt)).collect();
        let hint = match nearest(name, names.iter().map(String::as_str)) {
            Some(nearest) => format!("Is it '{nearest}'?"),
            None if names.is_empty() => "It has no prompts at all".to_owned(),
            None => format!("It has: {}", names.join(", ")),
        };
        Trouble::usage(format!("the server has no prompt '{name}'")).hint(hint)
    })
}

fn one(page: &Page, prompt: &str) -> String {
    let prompt = Members::of(prompt).unwrap_or_default();
    let text = |name: &str| text(&prompt, name);
    let mut shown = heading(page, &text("name"), &text("title"));
    if !text("description").trim().is_empty() {
        shown += &page.wrapped(4, &text("description"));
    }
    let arguments = prompt.get("arguments").map(lenient).unwrap_or_default();
    let arguments = arguments.as_array().map_or(&[][..], Vec::as_slice);
    let row = |argument: &Value| {
        let star = if argument["required"] == true { "*" } else { "" };
        let text = |name: &str| one_line(argument[name].as_str().unwrap_or_default());
        vec![format!("{}{star}", text("name")), text("description")]
    };
    shown + &page.columns(4, &arguments.iter().map(row).collect::<Vec<_>>())
}
