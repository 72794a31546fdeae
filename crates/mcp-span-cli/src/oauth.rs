//! What a person is told about a login.

use std::io::{IsTerminal, Write};

use mcp_span::auth::oauth::{Parties, Prompt};
use mcp_span::untrusted::Untrusted;

/// Says where to log in, and to whom. On a thread of its own: a stderr that nobody reads must not hold
/// up whoever asked.
pub(super) fn show(prompt: &Prompt, parties: &Parties) {
    // Where somebody waits, a spinner may stand on the line.
    let erase = if std::io::stderr().is_terminal() { "\r\u{1b}[2K" } else { "" };
    let line = format!("{parties}: open {prompt}");
    let line = format!("{erase}mcp-span: {}\n", Untrusted(&line));
    // Where there can be no thread, the error of the login has to do.
    let _ = std::thread::Builder::new().name("login".to_owned()).spawn(move || {
        let _ = std::io::stderr().write_all(line.as_bytes());
    });
}
