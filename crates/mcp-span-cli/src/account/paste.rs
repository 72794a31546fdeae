//! `mcp-span login --paste`: the address at which a browser elsewhere ended up, from the terminal.
#![expect(clippy::print_stderr, reason = "a person is told what to paste")]

use std::io::BufRead;
use std::sync::Arc;

use tokio::sync::mpsc;

use mcp_span::auth::oauth::{Parties, Paste, Prompt};
use mcp_span::untrusted::Untrusted;

/// Says where to log in, and what to do then.
pub(crate) fn show(prompt: &Prompt, parties: &Parties) {
    eprintln!("mcp-span: {parties}: open {}", Untrusted(&prompt.to_string()));
    if matches!(prompt, Prompt::Browser(_)) {
        eprintln!("The browser ends up at an address of this machine, which it may not reach.");
        eprintln!("Paste that address here, and press Enter:");
    }
}

/// Lines of stdin.
pub(crate) fn from_terminal() -> Paste {
    Paste {
        lines: Arc::new(|| {
            let (sender, lines) = mpsc::channel(1);
            // A thread: there is no other way to wait for a terminal on all systems. It ends with
            // the program.
            std::thread::spawn(move || {
                for line in std::io::stdin().lock().lines() {
                    let Ok(line) = line else { break };
                    if sender.blocking_send(line).is_err() {
                        break;
                    }
                }
            });
            lines
        }),
        say: Arc::new(|why| eprintln!("mcp-span: {}. Try again:", Untrusted(why))),
    }
}
