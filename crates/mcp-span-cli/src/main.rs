//! The command `mcp-span`: see the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    mcp_span_cli::main()
}
