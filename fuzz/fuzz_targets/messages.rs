//! Fuzzes `mcp_span_core::fuzzing::messages`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcp_span_core::fuzzing::messages(data));
