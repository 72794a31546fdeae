//! Runs the tests of what the benchmark calculates, shows and takes for right, as a part of
//! `cargo test`: nothing is measured, started or installed.
#![allow(dead_code, reason = "what only the benchmark itself calls")]

mod figures;
mod messages;
