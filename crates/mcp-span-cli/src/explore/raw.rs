//! `mcp-span raw`: sends any request or notification as it is typed, and prints the result as it comes.

use std::process::ExitCode;

use serde_json::value::RawValue;

use super::args::Raw;
use super::arguments::{json_text, load};
use super::session::{self, Context, Outcome};
use crate::output::pretty;
use crate::report::{CommandError, Usage};

/// Sends it.
pub(crate) fn run(typed: &Raw) -> Result<ExitCode, CommandError> {
    let words = typed.target.words("raw")?;
    let method = words[0].clone();
    let params = words.get(1).map(|word| json(word)).transpose()?;
    let is_notification = typed.notify;
    session::run(&typed.target, move |context| send(context, method, params, is_notification))
}

async fn send(
    context: Context,
    method: String,
    params: Option<Box<RawValue>>,
    is_notification: bool,
) -> Outcome {
    if is_notification {
        context.client.notify(&method, params).await?;
        return Ok(ExitCode::SUCCESS);
    }
    context.status.set(&method);
    let result = context.client.request(method, params).raw().await?;
    match context.page.is_terminal && !context.is_json {
        true => context.print_with(|out| pretty(result.get(), out)),
        false => context.print_json(result.get()),
    }
}

fn json(word: &str) -> Result<Box<RawValue>, Usage> {
    let text = json_text(word, load)?;
    let params: Box<RawValue> = serde_json::from_str(&text)
        .map_err(|error| Usage::new(format!("the parameters are not JSON: {error}")))?;
    match params.get().starts_with(['{', '[']) {
        true => Ok(params),
        false => Err(Usage::new("the parameters must be a JSON object or array")),
    }
}
