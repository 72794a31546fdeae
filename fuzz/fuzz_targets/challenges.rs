//! Fuzzes `mcp_span::fuzzing::challenges`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcp_span::fuzzing::challenges(data));
