//! Requests of the server: a person at the terminal answers, or the capability is not offered.

use std::io::{BufReader, IsTerminal};

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use url::Url;

use super::form;
use crate::output::Status;
use mcp_span::{ClientBuilder, ServerRequest, limits};

/// A connection that offers what this process can do for a server: the same with every command, since
/// servers show their tools by it.
pub(super) fn offer(
    mut builder: ClientBuilder,
    status: &Status,
    with_roots: bool,
) -> ClientBuilder {
    if std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
        let prompt = Prompt::new(status.clone());
        let answer = move |asked: ServerRequest| {
            let answer = prompt.ask(asked.raw_params().to_owned());
            // Where nobody can be asked, nobody has said anything.
            async { Ok(answer.await.unwrap_or_else(|| json!({"action": "cancel"}))) }
        };
        builder = builder.on_elicitation(answer);
        builder = builder.capability("elicitation", json!({"form": {}, "url": {}}));
    }
    if let Some(roots) = with_roots.then(roots).flatten() {
        let answer = move |_| std::future::ready(Ok(roots.clone()));
        builder = builder.capability("roots", json!({})).on_request("roots/list", answer);
    }
    builder
}

/// The working directory, as the protocol names it.
fn roots() -> Option<Value> {
    let folder = std::env::current_dir().ok()?;
    let uri = Url::from_directory_path(&folder).ok()?;
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
    Some(json!({"roots": [{"uri": uri.as_str().trim_end_matches('/'), "name": name}]}))
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
    fn ask(&self, params: String) -> impl Future<Output = Option<Value>> + Send + use<> {
        let questions = self.questions.clone();
        async move {
            let (answer, answered) = oneshot::channel();
            questions.send((params, answer)).await.ok()?;
            answered.await.ok()
        }
    }
}
