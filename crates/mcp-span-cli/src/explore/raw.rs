//! `mcp-span raw`: any request or notification, sent as it is typed, with its result as it comes.

use std::process::ExitCode;

use serde_json::value::RawValue;

use super::args::Raw;
use super::arguments::{json_text, load};
use super::session::{self, Context, Outcome};
use crate::output::pretty;
use crate::report::{CommandError, Usage};

/// Sends it.
pub(crate) fn run(typed: &Raw) -> Result<ExitCode, CommandError> {
    let (method, params) = match typed.target.words.as_slice() {
        [method] => (method.clone(), None),
        [method, params] => (method.clone(), Some(json(params)?)),
        _ => {
            let usage = "mcp-span raw <URL> METHOD [PARAMS]";
            return Err(Usage::new("give a method, and its parameters as one JSON")
                .hint(usage)
                .into());
        }
    };
    let is_notification = typed.notify;
    session::run(&typed.target, move |context| async move {
        match is_notification {
            true => notify(&context, &method, params).await,
            false => ask(&context, method, params).await,
        }
    })
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

async fn ask(context: &Context, method: String, params: Option<Box<RawValue>>) -> Outcome {
    context.status.set(&method);
    let request = match &params {
        Some(params) => context.client.request_raw(method, params),
        None => context.client.request(method, serde_json::Value::Null),
    };
    let result = request.raw().await?;
    if context.page.is_terminal && !context.is_json {
        return context.print_with(|out| pretty(result.get(), out).and_then(|()| writeln!(out)));
    }
    context.print_json(result.get())
}

async fn notify(context: &Context, method: &str, params: Option<Box<RawValue>>) -> Outcome {
    context.client.notify_raw(method, params.as_deref()).await?;
    Ok(ExitCode::SUCCESS)
}
