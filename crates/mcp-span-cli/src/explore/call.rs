//! `mcp-span call`: calls a tool, with its arguments checked, its progress shown, and the server's
//! questions asked.

use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::Value;
use serde_json::value::RawValue;

use super::args::Call;
use super::arguments::{self, Typed};
use super::content::{self, Contents};
use super::files::{self, Files};
use super::session::{self, Context, Outcome};
use super::{items, progress, tools};
use crate::report::{self, CommandError};
use mcp_span::client::{self, Progress};
use mcp_span::lenient::lenient;
use mcp_span::message::Members;

/// Calls a tool.
pub(crate) fn run(typed: &Call) -> Result<ExitCode, CommandError> {
    let words = typed.target.words("call")?;
    let tool = &words[0];
    let call = ToolCall {
        tool: tool.clone(),
        // Before the server is bothered, and while stdin may be waited for.
        arguments: Typed::read(&words[1..], arguments::load)?,
        is_checked: !typed.no_check,
        files: match &typed.out {
            Some(path) => Files::at(path, tool)?,
            None => Files::nowhere(files::ADVICE),
        },
    };
    session::run(&typed.target, |context| call.run(context))
}

/// What is wanted of the server.
struct ToolCall {
    tool: String,
    arguments: Typed,
    is_checked: bool,
    files: Files,
}

impl ToolCall {
    async fn run(self, context: Context) -> Outcome {
        let schema = match self.schema(&context).await {
            // Nothing but the types of pairs depends on it.
            Err(_) if !self.is_checked => Value::Null,
            found => found?,
        };
        let arguments = match self.is_checked {
            true => {
                let tool = &self.tool;
                let hint = format!(
                    "'mcp-span tools <URL> {tool}' shows what it takes; --no-check sends it all \
                     the same"
                );
                self.arguments.checked(&schema, &format!("the tool '{tool}'"), hint, &context)?
            }
            false => self.arguments.to_json(&schema)?,
        };
        let result = self.call(&context, &arguments).await?;
        self.show(context, &result)
    }

    /// The schema of the tool's arguments; `null` where nobody knows it.
    async fn schema(&self, context: &Context) -> Result<Value, CommandError> {
        if !self.is_checked && matches!(self.arguments, Typed::Json(_)) {
            return Ok(Value::Null);
        }
        let tools = match context.client.list_raw::<client::Tool>().await {
            // A server that does not list its tools may have them all the same.
            Err(failure) if items::is_unknown(&failure) => return Ok(Value::Null),
            listed => listed?,
        };
        tools::remember(context, &tools);
        let tool = tools::find(&tools, &self.tool, &context.hidden_tools)?;
        let tool = Members::of(tool.get()).unwrap_or_default();
        Ok(tool.get("inputSchema").map(lenient).unwrap_or_default())
    }

    async fn call(
        &self,
        context: &Context,
        arguments: &str,
    ) -> Result<Box<RawValue>, CommandError> {
        let params = arguments::params(&self.tool, arguments)?;
        let logs = match context.is_verbose {
            true => Some(progress::listen(&context.client).await),
            false => None,
        };
        context.status.set(&format!("calling {}", self.tool));
        let on_progress = |heard: Progress| {
            let line = progress::line(&heard);
            if context.is_verbose {
                context.status.clear();
                report::note(&line);
            }
            context.status.set(&line);
        };
        let calling = context.client.request("tools/call", &params).on_progress(on_progress);
        tokio::select! {
            result = calling.raw() => result.map_err(CommandError::of_call),
            never = progress::print_logs(logs, &context.status) => match never {},
        }
    }

    fn show(self, context: Context, result: &RawValue) -> Outcome {
        let members = Members::of(result.get()).unwrap_or_default();
        let is_error = members.get("isError") == Some("true");
        let code = if is_error { ExitCode::FAILURE } else { ExitCode::SUCCESS };
        if context.is_json {
            context.print_json(result.get())?;
            return Ok(code);
        }
        let mut contents = Contents::new(&context.page, self.files);
        context.print_with(|out| show(&mut contents, result.get(), out))?;
        let saved = contents.end();
        if is_error {
            report::error(&format!("the tool '{}' reported a failure", self.tool));
            return Ok(code);
        }
        Ok(saved)
    }
}

/// All blocks; what has none is shown as the JSON that it is.
fn show(contents: &mut Contents<'_>, result: &str, out: &mut dyn Write) -> io::Result<()> {
    let blocks = content::entries(result, "content");
    for block in blocks.iter().flatten() {
        contents.block(block.get(), out)?;
    }
    if blocks.as_ref().is_some_and(|blocks| !blocks.is_empty()) {
        return Ok(());
    }
    let members = Members::of(result).unwrap_or_default();
    let whole = blocks.is_none().then_some(result);
    let json = members.get("structuredContent").or(whole);
    json.map_or(Ok(()), |json| contents.json(json, out))
}
