//! Measures what `mcp-span` costs beside the least that any bridge could cost, and beside the
//! bridges of others, in one table.
//!
//! All make the same calls to the same loopback server, in turns: *direct* is an HTTP client
//! without anything in between, *floor* is a pass-through that does nothing else, *mcp-span* is
//! the released program. On a noisy machine only the ratios mean something.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints a table")]
#![expect(
    dead_code,
    unused_imports,
    reason = "cargo compiles a benchmark with its unit tests, but without what runs them: tests.rs does"
)]

#[cfg(unix)]
mod commands;
#[cfg(unix)]
mod contest;
#[cfg(unix)]
mod contestant;
#[cfg(unix)]
mod direct;
#[cfg(unix)]
mod exchange;
mod figures;
#[cfg(unix)]
mod floor;
#[cfg(unix)]
mod group;
#[cfg(unix)]
mod install;
#[cfg(unix)]
mod machine;
#[cfg(unix)]
mod measure;
mod messages;
#[cfg(unix)]
mod pipes;
#[cfg(unix)]
mod process;
#[cfg(unix)]
mod program;
#[cfg(unix)]
mod server;
#[cfg(unix)]
mod usage;
#[cfg(unix)]
mod way;

#[cfg(not(unix))]
fn main() {
    println!("the benchmark polls pipes and runs on Unix only");
}

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    // cargo passes `--bench` to everything it runs as one.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    program::run(&arguments).unwrap_or_else(|error| {
        eprintln!("{error}");
        std::process::ExitCode::from(2)
    })
}
