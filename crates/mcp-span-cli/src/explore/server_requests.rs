//! Requests of the server: a person at the terminal answers, or the capability is not offered.

use std::io::{BufReader, IsTerminal};
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use url::Url;

use super::form;
use crate::output::Status;
use mcp_span::client::{Answering, Asked, Handler, Refusal};
use mcp_span::limits;

/// What the server may ask of us, and who answers it.
pub(super) struct Capabilities {
    pub(super) capabilities: Value,
    pub(super) handler: Arc<dyn Handler>,
}

/// What this process can do for a server: the same with every command, since servers show their
/// tools by it.
pub(super) fn capabilities(status: &Status, with_roots: bool) -> Capabilities {
    let has_person = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let mut capabilities = json!({});
    if has_person {
        capabilities["elicitation"] = json!({"form": {}, "url": {}});
    }
    let roots = with_roots.then(roots).flatten();
    if roots.is_some() {
        capabilities["roots"] = json!({});
    }
    let prompt = has_person.then(|| Prompt::new(status.clone()));
    Capabilities { capabilities, handler: Arc::new(ServerRequests { prompt, roots }) }
}

/// The working directory, as the protocol names it.
fn roots() -> Option<Value> {
    let folder = std::env::current_dir().ok()?;
    let uri = Url::from_directory_path(&folder).ok()?;
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
    Some(json!({"roots": [{"uri": uri.as_str().trim_end_matches('/'), "name": name}]}))
}

/// Answers the server.
struct ServerRequests {
    prompt: Option<Prompt>,
    roots: Option<Value>,
}

impl Handler for ServerRequests {
    fn answer(&self, asked: Asked) -> Answering {
        let Asked { method, message, .. } = asked;
        match (&*method, &self.prompt, &self.roots) {
            ("elicitation/create", Some(prompt), _) => {
                let members = message.members();
                let answer = prompt.ask(members.get("params").unwrap_or("null").to_owned());
                Box::pin(async move {
                    // Where nobody can be asked, nobody has said anything.
                    Ok(answer.await.unwrap_or_else(|| json!({"action": "cancel"})))
                })
            }
            ("roots/list", _, Some(roots)) => {
                let roots = roots.clone();
                Box::pin(async move { Ok(roots) })
            }
            _ => Box::pin(async move { Err(Refusal::unknown(&method)) }),
        }
    }
}

/// The parameters of a question as the server wrote them, and where its answer goes.
type Question = (String, oneshot::Sender<Value>);

/// The terminal: one question at a time, on a thread of its own, since a terminal can only be
/// waited for by blocking. It ends with the program.
struct Prompt {
    questions: mpsc::Sender<Question>,
}

impl Prompt {
    fn new(status: Status) -> Self {
        let (questions, mut asked) = mpsc::channel::<Question>(limits::TERMINAL_QUESTIONS);
        let work = move || {
            let mut input = BufReader::new(std::io::stdin());
            while let Some((params, answer)) = asked.blocking_recv() {
                if answer.is_closed() {
                    continue;
                }
                let _pause = status.pause();
                let _ = answer.send(form::ask(&params, &mut input, &mut std::io::stderr()));
            }
        };
        // Without a thread the channel is closed, and the question cancelled.
        let _ = std::thread::Builder::new().name("questions".to_owned()).spawn(work);
        Self { questions }
    }

    /// Puts a question to the person, behind those that are there.
    fn ask(&self, params: String) -> impl Future<Output = Option<Value>> + Send + 'static {
        let questions = self.questions.clone();
        async move {
            let (answer, answered) = oneshot::channel();
            questions.send((params, answer)).await.ok()?;
            answered.await.ok()
        }
    }
}
