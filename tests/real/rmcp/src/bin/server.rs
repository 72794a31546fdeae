//! An MCP server on the Rust SDK, of both eras: the tools that the matrix of peers calls.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ElicitRequest,
    ElicitRequestParams, ErrorData, InputRequest, InputRequests, InputRequiredResult, JsonObject,
    ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, ProtocolVersion,
    ServerCapabilities, ServerConfig, SubscriptionFilter, Tool,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::sync::broadcast;

/// A server notices that a client has gone when it writes to it.
const KEEP_ALIVE: Duration = Duration::from_millis(100);

#[derive(Clone)]
struct Fixture {
    /// The labels of calls that were cancelled.
    cancelled: Arc<Mutex<HashSet<String>>>,
    changes: broadcast::Sender<()>,
}

impl ServerHandler for Fixture {
    fn get_info(&self) -> ServerConfig {
        let capabilities =
            ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build();
        ServerConfig::new(capabilities)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.clone().unwrap_or_default());
        match &*request.name {
            "echo" => Ok(text(arguments["message"].as_str().unwrap_or_default())),
            "slow" => self.slow(&arguments, &context).await,
            "greet" => greet(&request, &context).await,
            "touch" => {
                // To the sessions of old, and to whoever listens.
                let _ = context.peer.notify_tool_list_changed().await;
                let _ = self.changes.send(());
                Ok(text("touched"))
            }
            "was-cancelled" => {
                let label = arguments["label"].as_str().unwrap_or_default();
                let known = self.cancelled.lock().is_ok_and(|labels| labels.contains(label));
                Ok(text(&known.to_string()))
            }
            name => Err(ErrorData::invalid_params(format!("there is no tool {name}"), None)),
        }
    }

    fn accepted_subscription_filter(
        &self,
        wanted: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(wanted.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.changes.subscribe();
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                change = changes.recv() => {
                    if change.is_err() || context.sink().notify_tool_list_changed().await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }
}

impl Fixture {
    async fn slow(
        &self,
        arguments: &Value,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let steps = arguments["steps"].as_u64().unwrap_or(1);
        let pause = Duration::from_millis(arguments["pauseMs"].as_u64().unwrap_or(10));
        for step in 1..=steps {
            tokio::select! {
                () = context.ct.cancelled() => {
                    if let (Some(label), Ok(mut labels)) =
                        (arguments["label"].as_str(), self.cancelled.lock())
                    {
                        labels.insert(label.to_owned());
                    }
                    return Ok(text("cancelled"));
                }
                () = tokio::time::sleep(pause) => {}
            }
            let Some(token) = context.meta.get_progress_token() else { continue };
            // Small numbers, which every number type holds.
            let mut progress = ProgressNotificationParam::new(token, step as f64);
            progress.total = Some(steps as f64);
            let _ = context.peer.notify_progress(progress).await;
        }
        Ok(text(&format!("did {steps} steps")))
    }
}

/// Asks within the call: by a request of its own in the sessions of old, else by a second round.
async fn greet(
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    if context.protocol_version() < Some(ProtocolVersion::V_2026_07_28) {
        let answer = context.peer.create_elicitation(question()).await;
        let answer = answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        return Ok(hello(&answer.content.unwrap_or_default()));
    }
    let given = request.input_responses.as_ref().and_then(|given| given.get("who"));
    match given {
        Some(given) if request.request_state.as_deref() == Some("opaque state") => {
            Ok(hello(&given["content"]))
        }
        Some(_) => Err(ErrorData::invalid_params("the state did not come back", None)),
        None => {
            let mut questions = InputRequests::new();
            let elicitation = ElicitRequest::new(question());
            questions.insert("who".to_owned(), InputRequest::Elicitation(elicitation));
            Ok(InputRequiredResult::new(Some(questions), Some("opaque state".to_owned())).into())
        }
    }
}

fn question() -> ElicitRequestParams {
    let schema = json!({
        "type": "object",
        "properties": { "name": { "type": "string" } },
        "required": ["name"]
    });
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: "What is your name?".to_owned(),
        requested_schema: serde_json::from_value(schema).expect("the schema is a constant"),
    }
}

fn hello(content: &Value) -> CallToolResponse {
    text(&format!("Hello, {}", content["name"].as_str().unwrap_or("nobody")))
}

fn text(text: &str) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}

fn tools() -> Vec<Tool> {
    let (string, number) = (json!({ "type": "string" }), json!({ "type": "number" }));
    vec![
        tool("echo", "Gives the message back", json!({ "message": string })),
        tool(
            "slow",
            "Reports progress",
            json!({ "steps": number, "pauseMs": number, "label": string }),
        ),
        tool("greet", "Asks for a name", json!({})),
        tool("touch", "Says that the tools changed", json!({})),
        tool("was-cancelled", "Whether that call was cancelled", json!({ "label": string })),
    ]
}

fn tool(name: &'static str, description: &'static str, properties: Value) -> Tool {
    let schema = json!({ "type": "object", "properties": properties });
    let Value::Object(schema): Value = schema else { unreachable!("it is an object") };
    let schema: JsonObject = schema;
    Tool::new(name, description, schema)
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let fixture = Fixture { cancelled: Arc::default(), changes: broadcast::channel(16).0 };
    let config = StreamableHttpServerConfig::default().with_sse_keep_alive(Some(KEEP_ALIVE));
    let service: StreamableHttpService<Fixture, LocalSessionManager> =
        StreamableHttpService::new(move || Ok(fixture.clone()), Arc::default(), config);
    let router = axum::Router::new().nest_service("/mcp", service);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("a bound socket has an address");
    println!("http://{address}/mcp");
    axum::serve(listener, router).await.expect("it serves until it is killed");
}
