//! Fuzzes `mcp_span_core::fuzzing::challenges`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcp_span_core::fuzzing::challenges(data));
