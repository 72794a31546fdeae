//! Fuzzes `mcp_span::fuzzing::schedules`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcp_span::fuzzing::schedules(data));
