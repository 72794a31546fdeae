//! Watches over the instructions that a message costs: counts them, and fails where they have grown.
//!
//! Seconds depend on the machine and on who else uses it; instructions repeat. Valgrind counts those
//! of this program on fixed inputs, a short run and a long one, so that the difference is what the
//! calls cost and nothing else. What they may cost stands in `counts.txt`. What looks at foreign
//! bytes must be linear in them, whatever they are: see `linear.rs`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints a table")]

mod count;
mod linear;
mod paths;
mod server;
mod table;

use std::process::ExitCode;

type Fault = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    // cargo passes `--bench` to everything it runs as one.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        [] => table::check().and_then(|is_well| Ok(linear()? && is_well)),
        ["linear"] => linear(),
        ["linear", case, size] => linear::run(case, size).map(|()| true),
        ["--renew"] => table::renew(),
        ["run", path, calls] => run(path, calls).map(|()| true),
        _ => Err("usage: make guard, make guard-renew".into()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// Whether nothing takes more than its share, as far as that can be counted here.
fn linear() -> Result<bool, Fault> {
    if count::is_possible()? { linear::check() } else { Ok(true) }
}

/// What is counted.
fn run(path: &str, calls: &str) -> Result<(), Fault> {
    let path = paths::Path::named(path).ok_or("there is no such path")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(path.carry(calls.parse()?))
}
