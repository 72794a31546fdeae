//! What a server asks during a visit: a person at the terminal answers, or it is not offered.

use std::io::{BufReader, IsTerminal};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use url::Url;

use super::{Status, form};
use mcp_span::client::{Answering, Handler, ServerRequest};
use mcp_span::{RpcError, limits};

/// What the server may ask of us, and who answers it.
pub(super) struct Offer {
    pub(super) capabilities: Value,
    pub(super) handler: Arc<dyn Handler>,
}

/// What this process can do for a server: the same with every command, since servers show their
/// tools by it.
pub(super) fn offer(status: &Status, with_roots: bool) -> Offer {
    let has_person = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let mut capabilities = json!({});
    if has_person {
        capabilities["elicitation"] = json!({"form": {}, "url": {}});
    }
    let roots = with_roots.then(roots).flatten();
    if roots.is_some() {
        capabilities["roots"] = json!({});
    }
    let desk = has_person.then(|| Desk::new(status.clone()));
    Offer { capabilities, handler: Arc::new(Clerk { desk, roots }) }
}

/// The working directory, as the protocol names it.
fn roots() -> Option<Value> {
    let folder = std::env::current_dir().ok()?;
    let uri = Url::from_directory_path(&folder).ok()?;
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
    Some(json!({"roots": [{"uri": uri.as_str().trim_end_matches('/'), "name": name}]}))
}

/// Answers the server.
struct Clerk {
    desk: Option<Desk>,
    roots: Option<Value>,
}

impl Handler for Clerk {
    fn answer(&self, asked: ServerRequest) -> Answering {
        match (&*asked.method, &self.desk, &self.roots) {
            ("elicitation/create", Some(desk), _) => {
                let answer = desk.put(asked.raw_params().to_owned());
                Box::pin(async move {
                    // Where nobody can be asked, nobody has said anything.
                    Ok(answer.await.unwrap_or_else(|| json!({"action": "cancel"})))
                })
            }
            ("roots/list", _, Some(roots)) => {
                let roots = roots.clone();
                Box::pin(async move { Ok(roots) })
            }
            _ => Box::pin(async move { Err(RpcError::method_not_found(&asked.method)) }),
        }
    }
}

/// The parameters of a question as the server wrote them, and where its answer goes.
type Question = (String, oneshot::Sender<Value>);

/// The terminal: one question at a time, on a thread of its own, since a terminal can only be
/// waited for by blocking. It ends with the program.
struct Desk {
    status: Status,
    /// The thread has the other end; there is none before the first question.
    questions: Mutex<Option<mpsc::Sender<Question>>>,
}

impl Desk {
    fn new(status: Status) -> Self {
        Self { status, questions: Mutex::new(None) }
    }

    /// Puts a question to the person, behind those that are there.
    fn put(&self, params: String) -> impl Future<Output = Option<Value>> + Send + 'static {
        let questions = {
            let mut open = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
            open.get_or_insert_with(|| begin(self.status.clone())).clone()
        };
        async move {
            let (answer, answered) = oneshot::channel();
            questions.send((params, answer)).await.ok()?;
            answered.await.ok()
        }
    }
}

fn begin(status: Status) -> mpsc::Sender<Question> {
    let (sender, mut questions) = mpsc::channel::<Question>(limits::TERMINAL_QUESTIONS);
    let work = move || {
        let mut input = BufReader::new(std::io::stdin());
        while let Some((params, answer)) = questions.blocking_recv() {
            if answer.is_closed() {
                continue;
            }
            let _pause = status.pause();
            let _ = answer.send(form::ask(&params, &mut input, &mut std::io::stderr()));
        }
    };
    // Without a thread the channel is closed, and the question cancelled.
    let _ = std::thread::Builder::new().name("questions".to_owned()).spawn(work);
    sender
}
