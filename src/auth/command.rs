//! A program that prints a token or headers: run without a shell, within a time, its complaints
//! shown when it fails.

use std::process::{Output, Stdio};

use http::HeaderMap;
use tokio::time::timeout;

use super::grant;
use crate::error::Error;
use crate::limits;
use crate::message::edit;
use crate::secret::Scrubber;

/// What a command prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prints {
    /// One token, for `Authorization: Bearer`.
    Token,
    /// Headers, as lines or as a JSON object.
    Headers,
}

/// A program and its arguments.
#[derive(Clone)]
pub struct Command {
    program: String,
    arguments: Vec<String>,
    prints: Prints,
}

/// Arguments may be secrets.
impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Command({} …)", self.program)
    }
}

impl Command {
    /// The command with these words; `None` if there are none.
    #[must_use]
    pub fn new(words: Vec<String>, prints: Prints) -> Option<Self> {
        let mut words = words.into_iter();
        Some(Self { program: words.next()?, arguments: words.collect(), prints })
    }

    /// The program's name.
    #[must_use]
    pub fn program(&self) -> &str {
        &self.program
    }

    pub(super) async fn run(&self, scrubber: &Scrubber) -> Result<HeaderMap, Error> {
        let place = format!("The credential command '{}'", self.program);
        let running = tokio::process::Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .output();
        let output = match timeout(limits::CREDENTIAL_WAIT, running).await {
            Ok(Ok(output)) => output,
            Ok(Err(error)) => {
                return Err(grant::unusable(&place, "cannot be run").because(error));
            }
            Err(_) => {
                let seconds = limits::CREDENTIAL_WAIT.as_secs();
                return Err(grant::unusable(&place, &format!("took more than {seconds} s")));
            }
        };
        if !output.status.success() {
            let why = format!("failed: {}", output.status);
            return Err(grant::unusable(&place, &why).because(complaint(&output, scrubber)));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let read = match self.prints {
            Prints::Token => grant::bearer(&place, &text),
            Prints::Headers => grant::headers(&place, &text),
        };
        read.map_err(|error| match complaint(&output, scrubber) {
            said if said.is_empty() => error,
            said => error.because(said),
        })
    }
}

/// What it wrote to its stderr.
fn complaint(output: &Output, scrubber: &Scrubber) -> String {
    let said = scrubber.clean(String::from_utf8_lossy(&output.stderr).trim());
    edit::excerpt(&said, limits::ERROR_TEXT)
}
