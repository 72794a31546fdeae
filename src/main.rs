//! The `mcp-span` command: arguments, then a runtime, then the subcommand, then an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    mcp_span::cli::main()
}
