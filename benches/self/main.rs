//! Measures what `mcp-span` costs beside the least that any bridge could cost, in one table.
//!
//! Three contestants make the same calls to the same loopback server, in turns: *direct* is an
//! HTTP client without anything in between, *floor* is a pass-through that does nothing else,
//! and *mcp-span* is the released program. On a noisy machine only the ratios mean something.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints a table")]

#[cfg(unix)]
mod calls;
#[cfg(unix)]
mod contest;
#[cfg(unix)]
mod direct;
#[cfg(unix)]
mod exchange;
#[cfg(unix)]
mod floor;
#[cfg(unix)]
mod lines;
#[cfg(unix)]
mod measure;
#[cfg(unix)]
mod process;
#[cfg(unix)]
mod server;
#[cfg(unix)]
mod table;
#[cfg(unix)]
mod usage;

#[cfg(not(unix))]
fn main() {
    println!("the benchmark polls pipes and runs on Unix only");
}

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    use std::process::ExitCode;

    // cargo passes `--bench` to everything it runs as one.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["floor", url] => floor::run(url),
        ["server"] => server::stay(),
        [] => measure::run(&measure::FULL),
        ["--quick"] => measure::run(&measure::QUICK),
        _ => Err("usage: cargo bench --bench self [-- --quick]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
