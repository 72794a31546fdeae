//! The day of a moment, as `2026-11-15`.

/// Days in four hundred years, after which the calendar repeats itself.
const ERA: u64 = 146_097;

/// The day, in UTC, `seconds` after the first of January 1970.
pub(crate) fn day(seconds: u64) -> String {
    // Years begin in March, so that the day that leap years add is their last.
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / ERA, days % ERA);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months counted from March have 30.6 days on average, in fives.
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = match month {
        0..10 => (era * 400 + year_of_era, month + 3),
        _ => (era * 400 + year_of_era + 1, month - 9),
    };
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::day;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_735_689_599, "2024-12-31"),
            (1_735_689_600, "2025-01-01"),
            (1_794_787_199, "2026-11-15"),
            (1_794_787_200, "2026-11-16"),
        ] {
            assert_eq!(day(seconds), expected, "{seconds}");
        }
    }
}
