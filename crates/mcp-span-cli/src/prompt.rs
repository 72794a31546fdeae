//! `mcp-span prompt`: a prompt of a server's, filled in, as the messages that it stands for.

use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Failure;
use super::call::arguments::{Typed, load};
use super::call::content::{Contents, entries};
use super::call::files::Files;
use super::call::schema;
use super::look;
use super::report::{self, Usage};
use super::visit::{self, Guest, Outcome, Page, Trouble, one_line};
use super::visit_args::Visit;
use mcp_span::client;
use mcp_span::lenient::lenient;
use mcp_span::message::Members;

/// Gets it.
pub(super) fn run(typed: &Visit) -> Result<ExitCode, Failure> {
    let Some((name, words)) = typed.words.split_first() else {
        return Err(Usage::new("which prompt? mcp-span prompt <URL> NAME [key=value…]").into());
    };
    let (name, arguments) = (name.clone(), Typed::read(words, load).map_err(Usage::new)?);
    visit::run(typed, move |guest| get(guest, name, arguments))
}

async fn get(guest: Guest, name: String, arguments: Typed) -> Outcome {
    let prompts = match guest.client.list_raw::<client::Prompt>().await {
        Err(failure) if look::is_unknown(&failure) => None,
        listed => Some(listed?),
    };
    let schema = match &prompts {
        Some(prompts) => schema_of(look::find_prompt(prompts, &name)?),
        None => Value::Null,
    };
    let arguments = checked(&arguments, &schema, &name)?;
    let params = format!(r#"{{"name":{},"arguments":{arguments}}}"#, Value::from(&*name));
    let params = RawValue::from_string(params).map_err(io::Error::from)?;
    guest.status.set(&format!("getting {name}"));
    let result = guest.client.request("prompts/get", &params).raw().await?;
    if guest.is_json {
        return guest.print_json(result.get());
    }
    let contents = Contents::new(&guest.page, Files::new(None, &name));
    let Some(messages) = entries(result.get(), "messages") else {
        guest.status.clear();
        report::warning("the server's answer has no messages; this is what it sent");
        guest.print_with(|out| contents.json(result.get(), out))?;
        return Ok(ExitCode::FAILURE);
    };
    guest.print_with(|out| {
        for (number, message) in messages.iter().enumerate() {
            if number > 0 {
                writeln!(out)?;
            }
            show(message.get(), &contents, &guest.page, out)?;
        }
        Ok(())
    })?;
    Ok(contents.end())
}

fn show(
    message: &str,
    contents: &Contents<'_>,
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

fn checked(arguments: &Typed, schema: &Value, name: &str) -> Result<String, Trouble> {
    let json = arguments.to_json(schema).map_err(Trouble::usage)?;
    let value = lenient(&json);
    let faults: Vec<String> =
        schema::check(schema, &value).iter().map(|fault| format!("\n  {fault}")).collect();
    if faults.is_empty() {
        return Ok(json);
    }
    let faults = faults.concat();
    let hint = format!("'mcp-span prompts <URL> {name}' shows what it takes");
    Err(Trouble::usage(format!("the arguments do not fit the prompt '{name}':{faults}")).hint(hint))
}
