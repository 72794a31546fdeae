//! The Rust SDK as client in one of its lifecycle modes: the checks of the matrix of peers.

use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig,
    ClientRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability,
    ErrorData, Implementation, ProgressNotificationParam, ProtocolVersion, SubscriptionFilter,
};
use rmcp::service::{NotificationContext, PeerRequestOptions, RequestContext, RunningService};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, RoleClient};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

const WAIT: Duration = Duration::from_secs(10);
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Client = RunningService<RoleClient, Handler>;

/// What a server says unasked, as names and numbers.
enum Said {
    Progress(f64),
    ListChanged,
}

struct Handler {
    said: UnboundedSender<Said>,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(ElicitationCapability::default());
        ClientConfig::new(capabilities, Implementation::new("rmcp", "1.0.0"))
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({ "name": "Ada" })))
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let _ = self.said.send(Said::Progress(params.progress));
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        let _ = self.said.send(Said::ListChanged);
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        let _ = self.said.send(Said::ListChanged);
    }
}

/// One client at one server.
struct Visit<'a> {
    client: Client,
    said: UnboundedReceiver<Said>,
    job: &'a Value,
}

impl Visit<'_> {
    fn call_of(&self, kind: &str) -> CallToolRequestParams {
        let call = &self.job["calls"][kind];
        let name = call["name"].as_str().expect("the plan names a tool").to_owned();
        let arguments = call["arguments"].as_object().cloned().unwrap_or_default();
        CallToolRequestParams::new(name).with_arguments(arguments)
    }

    fn version(&self) -> Option<String> {
        self.client.peer_info().map(|info| info.protocol_version.to_string())
    }

    async fn check(&mut self, name: &str) -> Result<Value, Failure> {
        match name {
            "tools" => Ok(serde_json::to_value(self.client.list_all_tools().await?)?),
            "call" => Ok(text_of(&self.client.call_tool(self.call_of("echo")).await?)),
            "elicitation" => Ok(text_of(&self.client.call_tool(self.call_of("ask")).await?)),
            "progress" => self.progress().await,
            "list_changed" => self.list_changed().await,
            "cancellation" => self.cancellation().await,
            _ => Err(format!("no such check: {name}").into()),
        }
    }

    async fn progress(&mut self) -> Result<Value, Failure> {
        let result = self.client.call_tool(self.call_of("slow")).await?;
        let mut steps = Vec::new();
        // Told one after the other, by tasks of their own.
        let wanted = self.job["calls"]["slow"]["arguments"]["steps"].as_u64().unwrap_or(0);
        while (steps.len() as u64) < wanted {
            match self.said.recv().await {
                Some(Said::Progress(step)) => steps.push(step as u64),
                Some(Said::ListChanged) => {}
                None => return Err("the client ended".into()),
            }
        }
        steps.sort_unstable();
        Ok(json!({ "steps": steps, "text": text_of(&result) }))
    }

    async fn list_changed(&mut self) -> Result<Value, Failure> {
        let call = self.call_of("change");
        if self.version().as_deref() < Some("2026") {
            self.client.call_tool(call).await?;
            while !matches!(self.said.recv().await.ok_or("the client ended")?, Said::ListChanged) {}
            return Ok(json!(true));
        }
        let filter =
            SubscriptionFilter::builder().tools_list_changed().resources_list_changed().build();
        let mut subscription = self.client.listen(filter).await?;
        self.client.call_tool(call).await?;
        let told = subscription.next().await?.ok_or("the subscription ended")?;
        subscription.cancel().await?;
        Ok(json!(serde_json::to_value(told)?["method"].as_str().is_some_and(is_list_changed)))
    }

    async fn cancellation(&mut self) -> Result<Value, Failure> {
        while self.said.try_recv().is_ok() {}
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(self.call_of("long")));
        let options = PeerRequestOptions::no_options();
        let handle = self.client.send_cancellable_request(request, options).await?;
        while !matches!(self.said.recv().await.ok_or("the client ended")?, Said::Progress(_)) {}
        handle.cancel(Some("enough".to_owned())).await?;
        if self.job["calls"].get("cancelled").is_some() {
            while text_of(&self.client.call_tool(self.call_of("cancelled")).await?) != "true" {
                tokio::time::sleep(BETWEEN_LOOKS).await;
            }
        }
        Ok(text_of(&self.client.call_tool(self.call_of("echo")).await?))
    }
}

fn is_list_changed(method: &str) -> bool {
    method.ends_with("/list_changed")
}

fn text_of(result: &CallToolResult) -> Value {
    let result = serde_json::to_value(result).unwrap_or_default();
    let blocks = result["content"].as_array().cloned().unwrap_or_default();
    let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
    json!(texts.join("\n"))
}

fn lifecycle(mode: &str) -> ClientLifecycleMode {
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    match mode {
        "initialize" => ClientLifecycleMode::Initialize,
        "discover" => ClientLifecycleMode::Discover { preferred_versions },
        "auto" => ClientLifecycleMode::Auto { preferred_versions, legacy_version: None },
        _ => panic!("no such mode: {mode}"),
    }
}

async fn connect(
    plan: &Value,
    job: &Value,
    bridged: bool,
    said: UnboundedSender<Said>,
) -> Result<Client, Failure> {
    let mode = lifecycle(plan["mode"].as_str().unwrap_or_default());
    let url = job["url"].as_str().unwrap_or_default();
    let handler = Handler { said };
    if !bridged {
        let transport = StreamableHttpClientTransport::from_uri(url);
        return Ok(handler.serve_with_lifecycle(transport, mode).await?);
    }
    let mut command = tokio::process::Command::new(plan["bridge"].as_str().unwrap_or_default());
    command.arg(url).env("MCP_SPAN_STATE_DIR", plan["state"].as_str().unwrap_or_default());
    command.args(plan["flags"].as_array().into_iter().flatten().filter_map(Value::as_str));
    let transport = TokioChildProcess::new(command)?;
    Ok(handler.serve_with_lifecycle(transport, mode).await?)
}

fn failed(error: &dyn std::fmt::Display) -> Value {
    json!({ "error": error.to_string() })
}

/// Every check that was asked for, with what came of it.
async fn visit(plan: &Value, job: &Value, bridged: bool, checks: &[&str]) -> Value {
    let (sender, said) = unbounded_channel();
    let client = match tokio::time::timeout(WAIT, connect(plan, job, bridged, sender)).await {
        Ok(Ok(client)) => client,
        Ok(Err(error)) => return failed(&error),
        Err(_) => return failed(&"the client did not connect in time"),
    };
    let mut visit = Visit { client, said, job };
    let mut outcome = Map::new();
    outcome.insert("version".to_owned(), json!(visit.version()));
    for &name in checks {
        let value = match tokio::time::timeout(WAIT, visit.check(name)).await {
            Ok(Ok(value)) => value,
            Ok(Err(error)) => failed(&error),
            Err(_) => failed(&"it did not end in time"),
        };
        outcome.insert(name.to_owned(), value);
    }
    let _ = tokio::time::timeout(WAIT, visit.client.cancel()).await;
    Value::Object(outcome)
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let plan = std::env::args().nth(1).expect("usage: client <plan as JSON>");
    let plan: Value = serde_json::from_str(&plan).expect("the plan is JSON");
    for job in plan["jobs"].as_array().into_iter().flatten() {
        let direct = match job["direct"].as_bool() {
            Some(true) => visit(&plan, job, false, &["tools"]).await,
            _ => Value::Null,
        };
        let checks = job["checks"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let checks: Vec<&str> = checks.collect();
        let bridged = visit(&plan, job, true, &checks).await;
        let line = json!({ "server": job["server"], "direct": direct, "bridged": bridged });
        println!("{line}");
    }
}
