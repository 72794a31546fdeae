//! `mcp-span <URL>`, or a name, or a command: our own stdin and stdout, joined to a server.

use std::process::ExitCode;

use tokio::sync::oneshot;

use super::report::Usage;
use super::{Failure, report};
use mcp_span::client::{Server, Spec};
use mcp_span::error::ErrorKind;
use mcp_span::transport::stdio;
use mcp_span::{bridge, os};

/// Bridges until the client leaves, or somebody wants us to.
pub(super) async fn run(spec: Spec) -> Result<ExitCode, Failure> {
    let (policy, stages) = (spec.policy.clone(), spec.stages.clone());
    let max_message = match &spec.server {
        Server::Child(child) => child.max_message,
        Server::Http(http) => http.max_message,
    };
    // First of all: where there is no such program, nobody's stdin is touched.
    let server = match spec.link() {
        Ok(server) => server,
        Err(error) if error.kind == ErrorKind::Spawn => return Ok(report::cannot_start(&error)),
        Err(error) => return Err(Usage::new(error.message).into()),
    };
    let os::Stdio { input, output, restore } = os::stdio();
    let client = stdio::open(input, output, max_message);
    // A task of its own: it would be looked at for every message otherwise.
    let (tell, told) = oneshot::channel();
    tokio::spawn(async {
        told_to_leave().await;
        let _ = tell.send(());
    });
    let ended = bridge::run(client, server, policy, stages, async { drop(told.await) }).await;
    drop(restore);
    // A server over HTTP never does that: it is waited for.
    let is_gone = ended == bridge::BridgeEnd::ServerClosed;
    Ok(if is_gone { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// A signal, or the death of whoever started us.
async fn told_to_leave() {
    tokio::select! {
        () = os::terminated() => tracing::debug!("a signal came"),
        () = os::parent_gone() => tracing::debug!("the parent process has ended"),
    }
}
