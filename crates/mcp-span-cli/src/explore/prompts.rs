//! The prompts of a server, and what can be filled in.

use std::process::ExitCode;

use serde_json::Value;
use serde_json::value::RawValue;

use super::args::Target;
use super::described::{self, Described, all};
use super::lists::{at_most_one, json_list, list, objects, print_list};
use super::session::{self, Context, Outcome};
use super::trouble::CommandError;
use crate::Failure;
use crate::output::{Page, one_line};
use mcp_span::client;
use mcp_span::lenient::lenient;
use mcp_span::message::Members;

/// Lists prompts, or shows one.
pub(crate) fn run(typed: &Target) -> Result<ExitCode, Failure> {
    session::run(typed, show)
}

async fn show(context: Context) -> Outcome {
    let prompts = list::<client::Prompt>(&context).await?;
    if let Some(name) = at_most_one(&context)? {
        let prompt = find(&prompts, name)?;
        if context.is_json {
            return context.print_json(prompt.get());
        }
        context.print(&describe(&context.page, prompt.get()).text)?;
        return Ok(ExitCode::SUCCESS);
    }
    if context.is_json {
        return context.print_json(&format!("{{{}}}", json_list("prompts", &prompts)));
    }
    let prompts = objects(prompts);
    let described: Vec<_> = prompts.iter().map(|one| describe(&context.page, one.get())).collect();
    print_list(&context, &all(&context.page, &described, "prompt", "prompts"), "prompts")
}

/// The prompt with this name, or which one could be meant.
pub(crate) fn find<'a>(
    prompts: &'a [Box<RawValue>],
    name: &str,
) -> Result<&'a RawValue, CommandError> {
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
