//! Fuzzes `mcp_span_core::fuzzing::schedules`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcp_span_core::fuzzing::schedules(data));
