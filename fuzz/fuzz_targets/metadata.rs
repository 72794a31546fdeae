//! Fuzzes `mcp_span::fuzzing::metadata`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcp_span::fuzzing::metadata(data));
