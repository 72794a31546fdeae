//! The other ends of the bridge: a scripted HTTP server, proxies and a relay that damages the wire
//! between them, and the process under test.

pub(crate) mod certificates;
pub(crate) mod chance;
pub(crate) mod checked;
#[cfg(target_os = "linux")]
pub(crate) mod children;
pub(crate) mod desk;
pub(crate) mod devices;
pub(crate) mod http2;
pub(crate) mod hub;
pub(crate) mod ledger;
pub(crate) mod process;
pub(crate) mod provider;
pub(crate) mod proxy;
pub(crate) mod relay;
pub(crate) mod reply;
pub(crate) mod request;
pub(crate) mod server;
pub(crate) mod shop;
pub(crate) mod snapshot;
#[cfg(target_os = "linux")]
pub(crate) mod terminal;
pub(crate) mod tls;

use std::time::Duration;

pub(crate) use checked::{Checked, check, checked};
pub(crate) use hub::{Hub, Streams};
pub(crate) use process::{Bridge, Store, run};
pub(crate) use provider::{Manners, Provider};
pub(crate) use reply::{Feed, Gate, Reply};
pub(crate) use request::Request;
pub(crate) use server::{Server, bind_again, polite};
pub(crate) use tls::Authority;

/// No wait of a test is longer; it is no measure of anything, just the end of patience.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The opening of a legacy session.
pub(crate) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// A request without parameters.
pub(crate) fn request(id: impl std::fmt::Display, method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#)
}

/// A request of revision 2026-07-28 in its envelope; `params` end with a comma.
pub(crate) fn modern(id: impl std::fmt::Display, method: &str, params: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
    )
}

/// An answer with `result` as its result.
pub(crate) fn result(id: impl std::fmt::Display, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// Whether `stderr` holds one warning that the server is waited for, and nothing else.
pub(crate) fn is_one_warning(stderr: &str) -> bool {
    stderr.lines().count() == 1 && stderr.contains("WARN Server not reachable (")
}

/// The client no longer wants the answer to `id`.
pub(crate) fn cancel(id: impl std::fmt::Display) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
    )
}

/// Waits, but not for ever.
pub(crate) async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(output) => output,
        Err(_) => panic!("waited in vain: {what}"),
    }
}
