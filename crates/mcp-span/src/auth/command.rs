//! A program that prints a token or headers: run without a shell, within a time, its complaints
//! shown when it fails.

use std::process::{Output, Stdio};
use std::time::Duration;

use http::HeaderMap;
use tokio::time::timeout;

use super::grant;
use crate::environment::Environment;
use crate::error::Error;
use crate::limits;
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
pub struct CredentialCommand {
    program: String,
    arguments: Vec<String>,
    prints: Prints,
    limit: Duration,
    environment: Environment,
}

impl CredentialCommand {
    /// The command with these words, to be run in `environment`; `None` if there are no words.
    #[must_use]
    pub fn new(words: Vec<String>, prints: Prints, environment: Environment) -> Option<Self> {
        let mut words = words.into_iter();
        let (program, arguments) = (words.next()?, words.collect());
        Some(Self { program, arguments, prints, limit: limits::CREDENTIAL_WAIT, environment })
    }

    /// The program's name.
    #[must_use]
    pub fn program(&self) -> &str {
        &self.program
    }

    pub(super) async fn run(&self, scrubber: &Scrubber) -> Result<HeaderMap, Error> {
        let place = format!("The credential command '{}'", self.program);
        let running = tokio::process::Command::from(self.environment.command(&self.program))
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .output();
        let output = match timeout(self.limit, running).await {
            Ok(Ok(output)) => output,
            Ok(Err(error)) => {
                return Err(grant::unusable(&place, "cannot be run").because(error));
            }
            Err(_) => {
                let seconds = self.limit.as_secs_f32();
                return Err(grant::unusable(&place, &format!("took more than {seconds} s")));
            }
        };
        if !output.status.success() {
            let why = format!("failed: {}", output.status);
            return Err(complained(grant::unusable(&place, &why), &output, scrubber));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let read = match self.prints {
            Prints::Token => grant::bearer(&place, &text),
            Prints::Headers => grant::headers(&place, &text),
        };
        read.map_err(|error| complained(error, &output, scrubber))
    }
}

/// The error with what the command wrote to its stderr, if it wrote anything.
fn complained(error: Error, output: &Output, scrubber: &Scrubber) -> Error {
    match scrubber.excerpt(&String::from_utf8_lossy(&output.stderr), limits::ERROR_TEXT) {
        said if said.is_empty() => error,
        said => error.because(said),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[tokio::test]
    async fn a_command_that_hangs_is_killed_when_its_time_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let script = format!("echo $$ > '{}'; exec sleep 1000", file.display());
        let words = ["sh", "-c", &script].map(str::to_owned).to_vec();
        let limit = Duration::from_millis(500);
        let command = CredentialCommand::new(words, Prints::Token, Environment::default());
        let command = CredentialCommand { limit, ..command.unwrap() };
        let error = command.run(&Scrubber::default()).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Credentials);
        assert!(error.message.contains("took more than 0.5 s"), "{error}");
        let pid = std::fs::read_to_string(&file).unwrap();
        let is_there = || std::path::Path::new("/proc").join(pid.trim()).join("cmdline").exists();
        // Killed at once; gone when the runtime has seen it end.
        let gone = async {
            while is_there() && cfg!(target_os = "linux") {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(10), gone).await.expect("the process ends");
    }
}
