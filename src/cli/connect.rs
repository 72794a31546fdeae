//! `mcp-span <URL>`: our own stdin and stdout, joined to a server.

use std::process::ExitCode;

use super::Failure;
use super::report::Usage;
use super::settings::Settings;
use crate::transport::{http, stdio};
use crate::{bridge, os};

/// Bridges until the client leaves, or somebody wants us to.
pub(super) async fn run(settings: Settings) -> Result<ExitCode, Failure> {
    let os::Stdio { input, output, restore } = os::stdio();
    let client = stdio::open(input, output, settings.http.max_message);
    let server = http::open(settings.http).map_err(|error| Usage::new(error.message))?;
    // A task of its own: it would be looked at for every message otherwise.
    let shutdown = tokio::spawn(told_to_leave());
    bridge::run(client, server, settings.policy, settings.eras, async { drop(shutdown.await) })
        .await;
    drop(restore);
    Ok(ExitCode::SUCCESS)
}

/// A signal, or the death of whoever started us.
async fn told_to_leave() {
    tokio::select! {
        () = os::terminated() => tracing::debug!("a signal came"),
        () = os::parent_gone() => tracing::debug!("the parent process has ended"),
    }
}
