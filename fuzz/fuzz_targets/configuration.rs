//! Fuzzes `mcp_span_front::fuzzing::configuration`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcp_span_front::fuzzing::configuration(data));
