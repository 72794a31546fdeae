//! Fuzzes `mcp_span_cli::fuzzing::traces`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcp_span_cli::fuzzing::traces(data));
