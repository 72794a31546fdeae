//! Tests of the client over links in memory.
