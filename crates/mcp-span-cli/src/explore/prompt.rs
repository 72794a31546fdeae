//! `mcp-span prompt`: gets a prompt with its arguments filled in, and prints its messages.

use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::args::Target;
use super::arguments::{self, Typed, load};
use super::content::{Contents, entries};
use super::files::Files;
use super::items;
use super::session::{self, Context, Outcome};
use crate::output::{Page, one_line};
use crate::report::CommandError;
use mcp_span::client;
use mcp_span::lenient::lenient;
use mcp_span::message::Members;

/// Gets it.
pub(crate) fn run(typed: &Target) -> Result<ExitCode, CommandError> {
    let words = typed.words("prompt")?;
    let (name, arguments) = (words[0].clone(), Typed::read(&words[1..], load)?);
    session::run(typed, move |context| get(context, name, arguments))
}

async fn get(context: Context, name: String, arguments: Typed) -> Outcome {
    let listed = match context.client.list_raw::<client::Prompt>().await {
        Err(failure) if items::is_unknown(&failure) => None,
        listed => Some(listed?),
    };
    let schema = match &listed {
        Some(listed) => schema_of(items::find(listed, &name, "prompt")?),
        None => Value::Null,
    };
    let hint = format!("'mcp-span prompts <URL> {name}' shows what it takes");
    let arguments = arguments.checked(&schema, &format!("the prompt '{name}'"), hint, &context)?;
    let params = arguments::params(&name, &arguments)?;
    context.status.set(&format!("getting {name}"));
    let result = context.client.request("prompts/get", &params).raw().await?;
    if context.is_json {
        return context.print_json(result.get());
    }
    let Some(messages) = entries(result.get(), "messages") else {
        return context.print_odd(result.get(), "messages");
    };
    let mut contents = Contents::new(&context.page, Files::nowhere("--json has it"));
    context.print_with(|out| {
        for (number, message) in messages.iter().enumerate() {
            if number > 0 {
                writeln!(out)?;
            }
            show(message.get(), &mut contents, &context.page, out)?;
        }
        Ok(())
    })?;
    Ok(contents.end())
}

fn show(
    message: &str,
    contents: &mut Contents<'_>,
    page: &Page,
    out: &mut dyn Write,
) -> io::Result<()> {
    let members = Members::of(message).unwrap_or_default();
    let role = members.text("role").map_or_else(|| "?".to_owned(), |role| one_line(&role));
    writeln!(out, "{}", page.name(&format!("{role}:")))?;
    // One block, as the protocol has it, or a list of them, as some servers do.
    match entries(message, "content") {
        Some(blocks) => blocks.iter().try_for_each(|block| contents.block(block.get(), out)),
        None => contents.block(members.get("content").unwrap_or(message), out),
    }
}

/// What a prompt takes, in the words of a schema: nothing but texts.
fn schema_of(prompt: &RawValue) -> Value {
    let prompt = lenient(prompt.get());
    let arguments = prompt["arguments"].as_array().cloned().unwrap_or_default();
    let name = |argument: &Value| argument["name"].as_str().map(str::to_owned);
    let properties: serde_json::Map<String, Value> =
        arguments.iter().filter_map(|a| Some((name(a)?, json!({"type": "string"})))).collect();
    let required: Vec<String> =
        arguments.iter().filter(|a| a["required"] == true).filter_map(name).collect();
    json!({"properties": properties, "required": required, "additionalProperties": false})
}
