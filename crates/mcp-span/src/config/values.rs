//! Times and sizes, as they are written in flags and files.

use std::time::Duration;

use crate::limits;

/// A time, from nothing up to the longest.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 =
        text.parse().map_err(|_| "it must be a number of seconds, such as 30 or 0.5".to_owned())?;
    Duration::try_from_secs_f64(number)
        .ok()
        .filter(|limit| *limit <= limits::LONGEST_TIME)
        .ok_or_else(|| "it must be a number of seconds from 0 up to a year".to_owned())
}

/// A time that is not nothing.
pub fn some_seconds(text: &str) -> Result<Duration, String> {
    match seconds(text)? {
        Duration::ZERO => Err("it must be more than 0 seconds".to_owned()),
        duration => Ok(duration),
    }
}

/// A size; K, M and G count in 1024s.
pub fn bytes(text: &str) -> Result<usize, String> {
    let wrong = || "it must be a number of bytes from 1 up, such as 1000000 or 64M".to_owned();
    let (digits, unit) = match text.trim_end_matches(['b', 'B', 'i']) {
        text if text.ends_with(['k', 'K']) => (&text[..text.len() - 1], 1 << 10),
        text if text.ends_with(['m', 'M']) => (&text[..text.len() - 1], 1 << 20),
        text if text.ends_with(['g', 'G']) => (&text[..text.len() - 1], 1 << 30),
        text => (text, 1),
    };
    let number: usize = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(unit).filter(|size| *size > 0).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_read_and_nonsense_is_not() {
        assert_eq!(bytes("1000"), Ok(1000));
        assert_eq!(bytes("64M"), Ok(64 << 20));
        assert_eq!(bytes("1KiB"), Ok(1024));
        for text in ["", "0", "-1", "M", "1.5M", "99999999999G", "ü"] {
            assert!(bytes(text).is_err(), "{text}");
        }
        assert_eq!(seconds("0"), Ok(Duration::ZERO));
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for text in ["", "x", "-1", "NaN", "1e19", "1e400"] {
            assert!(seconds(text).is_err(), "{text}");
        }
        assert!(some_seconds("0").is_err());
    }
}
