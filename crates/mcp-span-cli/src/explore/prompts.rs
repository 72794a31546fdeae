//! `mcp-span prompts`: the prompts of a server, and what can be filled in.

use std::process::ExitCode;

use serde_json::Value;

use super::args::Target;
use super::items::{self, Description, print_all};
use super::session::{self, Context, Outcome};
use crate::output::{Page, one_line};
use crate::report::CommandError;
use mcp_span::client;
use mcp_span::lenient::lenient;
use mcp_span::message::Members;

/// Lists prompts, or shows one.
pub(crate) fn run(typed: &Target) -> Result<ExitCode, CommandError> {
    let name = typed.words("prompts")?.first().cloned();
    session::run(typed, |context| show(context, name))
}

async fn show(context: Context, name: Option<String>) -> Outcome {
    let prompts = items::list::<client::Prompt>(&context).await?;
    let Some(name) = name else {
        return print_all(&context, &prompts, "prompt", describe);
    };
    let prompt = items::find(&prompts, &name, "prompt")?.get();
    let members = Members::of(prompt).unwrap_or_default();
    match context.is_json {
        true => context.print_json(prompt),
        false => context.print(&describe(&context.page, &members).text),
    }
}

fn describe(page: &Page, prompt: &Members<'_>) -> Description {
    let arguments = prompt.get("arguments").map(lenient).unwrap_or_default();
    let row = |argument: &Value| {
        let star = if argument["required"] == true { "*" } else { "" };
        let text = |name: &str| one_line(argument[name].as_str().unwrap_or_default());
        vec![format!("{}{star}", text("name")), text("description")]
    };
    let rows: Vec<_> = arguments.as_array().into_iter().flatten().map(row).collect();
    Description::new(page, prompt, &rows)
}
