//! `mcp-span raw`: any request or notification, sent as it is typed, with its result as it comes.

use std::process::ExitCode;

use serde_json::value::RawValue;

use super::Failure;
use super::call::arguments::{json_text, load};
use super::report::Usage;
use super::visit::{self, Guest, Outcome, pretty};
use super::visit_args::Raw;

/// Sends it.
pub(super) fn run(typed: &Raw) -> Result<ExitCode, Failure> {
    let (method, params) = match typed.visit.words.as_slice() {
        [method] => (method.clone(), None),
        [method, params] => (method.clone(), Some(json(params)?)),
        _ => {
            return Err(Usage::new("raw wants a method, and perhaps its PARAMS as one JSON").into());
        }
    };
    let is_notification = typed.notify;
    visit::run(&typed.visit, move |guest| async move {
        match is_notification {
            true => notify(&guest, &method, params).await,
            false => ask(&guest, method, params).await,
        }
    })
}

fn json(word: &str) -> Result<Box<RawValue>, Usage> {
    let text = json_text(word, load).map_err(Usage::new)?;
    let params: Box<RawValue> = serde_json::from_str(&text)
        .map_err(|error| Usage::new(format!("the parameters are not JSON: {error}")))?;
    match params.get().starts_with(['{', '[']) {
        true => Ok(params),
        false => Err(Usage::new("parameters are a JSON object or array, nothing else")),
    }
}

async fn ask(guest: &Guest, method: String, params: Option<Box<RawValue>>) -> Outcome {
    guest.status.set(&method);
    let result = guest.client.request(method, params).raw().await?;
    if guest.page.is_terminal && !guest.is_json {
        guest.print_with(|out| pretty(result.get(), out).and_then(|()| writeln!(out)))?;
        return Ok(ExitCode::SUCCESS);
    }
    guest.print_json(result.get())
}

async fn notify(guest: &Guest, method: &str, params: Option<Box<RawValue>>) -> Outcome {
    guest.client.notify(method, params).await?;
    Ok(ExitCode::SUCCESS)
}
