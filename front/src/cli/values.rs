//! Reads the values of flags: times and sizes.

pub(super) use crate::config::values::{bytes, seconds, some_seconds};
use crate::limits;

pub(super) fn trace_limit(text: &str) -> Result<usize, String> {
    let least = limits::TRACE_SIZE_LEAST;
    match bytes(text)? {
        size if size < least => Err(format!("it must be at least {}K", least / 1024)),
        size => Ok(size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_limit_of_a_trace_is_the_one_of_the_limits() {
        assert_eq!(trace_limit("64M"), Ok(limits::TRACE_SIZE));
        assert!(trace_limit("1K").is_err());
    }
}
