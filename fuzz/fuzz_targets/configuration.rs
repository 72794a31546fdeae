//! Fuzzes `mcp_span::fuzzing::configuration`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcp_span::fuzzing::configuration(data));
