//! How values are shown; they are seconds, seconds a call, or bytes.

/// What a value is shown in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Micros,
    Millis,
    Seconds,
    /// Seconds a call, shown as calls a second.
    Rate,
    Megabytes,
}

impl Unit {
    /// The value with three digits that count, as far as they are before the point, and its unit.
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Self::Micros => format!("{} µs", digits(value * 1e6)),
            Self::Millis => format!("{} ms", digits(value * 1e3)),
            Self::Seconds => format!("{} s", digits(value)),
            Self::Rate => format!("{} /s", digits(1.0 / value)),
            Self::Megabytes => format!("{} MB", digits(value / 1e6)),
        }
    }

    /// How long a bar for this value is: what is better is longer for rates alone.
    pub(crate) fn bar(self, value: f64) -> f64 {
        if self == Self::Rate { 1.0 / value } else { value }
    }
}

/// A factor, such as `1.23 x`.
pub(crate) fn times(ratio: f64) -> String {
    format!("{} x", digits(ratio))
}

fn digits(value: f64) -> String {
    match value.abs() {
        small if small < 9.995 => format!("{value:.2}"),
        middle if middle < 99.95 => format!("{value:.1}"),
        _ => grouped(&format!("{value:.0}")),
    }
}

/// Thousands set apart by commas.
fn grouped(whole: &str) -> String {
    let mut text = String::new();
    for (at, digit) in whole.char_indices() {
        let is_group = at > 0 && (whole.len() - at).is_multiple_of(3);
        if is_group && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_as_many_digits_as_can_be_read() {
        assert_eq!(Unit::Micros.show(0.000_060_04), "60.0 µs");
        assert_eq!(Unit::Millis.show(0.001_5), "1.50 ms");
        assert_eq!(Unit::Millis.show(25.150_4), "25,150 ms");
        assert_eq!(Unit::Seconds.show(0.11), "0.11 s");
        assert_eq!(Unit::Megabytes.show(1_104_000_000.0), "1,104 MB");
        assert_eq!(Unit::Megabytes.show(-1_104_000_000.0), "-1,104 MB");
        assert_eq!(Unit::Megabytes.show(-110_000_000.0), "-110 MB");
        assert_eq!(times(1.234), "1.23 x");
    }

    #[test]
    fn a_rate_is_the_inverse_of_what_was_measured() {
        assert_eq!(Unit::Rate.show(1.0 / 71_800.0), "71,800 /s");
        assert!(Unit::Rate.bar(0.001) > Unit::Rate.bar(0.002));
        assert!(Unit::Millis.bar(0.001) < Unit::Millis.bar(0.002));
    }
}
