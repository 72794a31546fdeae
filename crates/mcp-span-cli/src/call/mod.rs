//! `mcp-span call`: a tool of a server's, with its arguments checked, its progress shown, and its
//! questions asked.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::Value;
use serde_json::value::RawValue;

use super::Failure;
use super::look;
use super::report::{self, Usage};
use super::visit::{self, Guest, Outcome, Trouble};
use super::visit_args::Call;
use mcp_span::client::{self, Progress};
use mcp_span::lenient::lenient;
use mcp_span::message::Members;

pub(super) mod arguments;
pub(super) mod content;
pub(super) mod files;
mod progress;
pub(super) mod schema;

use arguments::Typed;
use content::Contents;
use files::Files;

/// Calls a tool.
pub(super) fn run(typed: &Call) -> Result<ExitCode, Failure> {
    let Some((tool, words)) = typed.visit.words.split_first() else {
        return Err(Usage::new("which tool? mcp-span call <URL> TOOL [key=value…]").into());
    };
    // Before the server is bothered, and while stdin may be waited for.
    let arguments = Typed::read(words, arguments::load).map_err(Usage::new)?;
    if let Some(folder) = &typed.out {
        files::prepare(folder)?;
    }
    let order = Order {
        tool: tool.clone(),
        arguments,
        is_checked: !typed.no_check,
        folder: typed.out.clone(),
    };
    visit::run(&typed.visit, |guest| order.carry(guest))
}

/// What is wanted of the server.
struct Order {
    tool: String,
    arguments: Typed,
    is_checked: bool,
    folder: Option<PathBuf>,
}

impl Order {
    async fn carry(self, guest: Guest) -> Outcome {
        let schema = self.schema(&guest).await?;
        let arguments = self.checked(&schema)?;
        let result = self.call(&guest, &arguments).await?;
        self.show(&guest, &result)
    }

    /// The schema of the tool's arguments; `null` where nobody knows it.
    async fn schema(&self, guest: &Guest) -> Result<Value, Trouble> {
        if !self.is_checked && matches!(self.arguments, Typed::Json(_)) {
            return Ok(Value::Null);
        }
        let tools = match guest.client.list_raw::<client::Tool>().await {
            // A server that does not list its tools may have them all the same.
            Err(failure) if look::is_unknown(&failure) => return Ok(Value::Null),
            // Nothing but the types of pairs depends on it.
            Err(_) if !self.is_checked => return Ok(Value::Null),
            listed => listed?,
        };
        look::remember_tools(guest, &tools);
        match look::find_tool(&tools, &self.tool, &guest.hidden_tools) {
            Ok(tool) => {
                let tool = Members::of(tool.get()).unwrap_or_default();
                Ok(tool.get("inputSchema").map(lenient).unwrap_or_default())
            }
            Err(_) if !self.is_checked => Ok(Value::Null),
            Err(trouble) => Err(trouble),
        }
    }

    /// The arguments as JSON, if they fit.
    fn checked(&self, schema: &Value) -> Result<String, Trouble> {
        let tool = &self.tool;
        let hint = format!(
            "'mcp-span tools <URL> {tool}' shows what it takes; --no-check sends it all the same"
        );
        let json = self.arguments.to_json(schema);
        let json = json.map_err(|why| Trouble::usage(why).hint(hint.clone()))?;
        if !self.is_checked {
            return Ok(json);
        }
        let value = lenient(&json);
        let faults: Vec<String> =
            schema::check(schema, &value).iter().map(|fault| format!("\n  {fault}")).collect();
        if faults.is_empty() {
            return Ok(json);
        }
        let faults = faults.concat();
        Err(Trouble::usage(format!("the arguments do not fit the tool '{tool}':{faults}"))
            .hint(hint))
    }

    async fn call(&self, guest: &Guest, arguments: &str) -> Result<Box<RawValue>, Trouble> {
        let name = Value::from(&*self.tool);
        let params = format!(r#"{{"name":{name},"arguments":{arguments}}}"#);
        let params = RawValue::from_string(params).map_err(io::Error::from)?;
        let logs = match guest.is_verbose {
            true => Some(progress::listen(&guest.client).await),
            false => None,
        };
        let telling = async {
            match logs {
                Some(logs) => progress::tell(logs, guest.status.clone()).await,
                None => std::future::pending().await,
            }
        };
        guest.status.set(&format!("calling {}", self.tool));
        let on_progress = |heard: Progress| {
            let line = progress::line(&heard);
            if guest.is_verbose {
                guest.status.clear();
                report::warning(&line);
            }
            guest.status.set(&line);
        };
        let calling = guest.client.request("tools/call", &params).on_progress(on_progress);
        tokio::select! {
            result = calling.raw() => result.map_err(Trouble::of_call),
            () = telling => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
        }
    }

    fn show(&self, guest: &Guest, result: &RawValue) -> Outcome {
        let members = Members::of(result.get()).unwrap_or_default();
        let is_error = members.get("isError") == Some("true");
        let code = if is_error { ExitCode::FAILURE } else { ExitCode::SUCCESS };
        if guest.is_json {
            guest.print_json(result.get())?;
            return Ok(code);
        }
        let files = Files::new(self.folder.as_deref(), &self.tool);
        let contents = Contents::new(&guest.page, files);
        guest.print_with(|out| show(&contents, result.get(), out))?;
        let written = contents.end();
        if is_error {
            report::warning(&format!("the tool '{}' says that it failed", self.tool));
            return Ok(code);
        }
        Ok(written)
    }
}

/// All blocks; what has none is shown as the JSON that it is.
fn show(contents: &Contents<'_>, result: &str, out: &mut dyn Write) -> io::Result<()> {
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
