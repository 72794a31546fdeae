//! What is measured: each thing is a row of the table.

use super::unit::Unit;

/// The text of a large answer, in bytes: with its envelope just below what a message may have.
pub(crate) const LARGE: usize = 64_000_000;

/// The argument of a large request, in bytes.
pub(crate) const LARGE_REQUEST: usize = 16_000_000;

/// Notifications that come before one answer.
pub(crate) const NOTIFICATIONS: usize = 10_000;

/// Calls that are out at the same time.
pub(crate) const WINDOW: usize = 64;

/// Calls that processor time is told for.
pub(crate) const CPU_CALLS: f64 = 10_000.0;

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Figure {
    Start,
    StartSecure,
    JsonP50,
    JsonP99,
    EventsP50,
    EventsP99,
    OldP50,
    OldP99,
    JsonRate,
    EventsRate,
    Cpu,
    CpuSequential,
    LargeJson,
    LargeJsonPeak,
    LargeJsonAfter,
    LargeEvent,
    LargeEventPeak,
    LargeEventAfter,
    Request,
    Notifications,
    Idle,
    End,
    Size,
    Translation,
    TranslationMemory,
}

impl Figure {
    /// All rows, from the first to the last.
    pub(crate) const ALL: [Self; 25] = [
        Self::Start,
        Self::StartSecure,
        Self::JsonP50,
        Self::JsonP99,
        Self::EventsP50,
        Self::EventsP99,
        Self::OldP50,
        Self::OldP99,
        Self::JsonRate,
        Self::EventsRate,
        Self::Cpu,
        Self::CpuSequential,
        Self::LargeJson,
        Self::LargeJsonPeak,
        Self::LargeJsonAfter,
        Self::LargeEvent,
        Self::LargeEventPeak,
        Self::LargeEventAfter,
        Self::Request,
        Self::Notifications,
        Self::Idle,
        Self::End,
        Self::Size,
        Self::Translation,
        Self::TranslationMemory,
    ];

    /// What stands at the beginning of the row.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Start => "start to the answer to initialize",
            Self::StartSecure => "the same over https",
            Self::JsonP50 => "sequential call, JSON answers, p50",
            Self::JsonP99 => "sequential call, JSON answers, p99",
            Self::EventsP50 => "sequential call, SSE answers, p50",
            Self::EventsP99 => "sequential call, SSE answers, p99",
            Self::OldP50 => "sequential call, HTTP+SSE, p50",
            Self::OldP99 => "sequential call, HTTP+SSE, p99",
            Self::JsonRate => "64 calls in flight, JSON answers",
            Self::EventsRate => "64 calls in flight, SSE answers",
            Self::Cpu => "CPU for 10,000 calls, 64 in flight",
            Self::CpuSequential => "CPU for 10,000 sequential calls",
            Self::LargeJson => "64 MB answer, JSON",
            Self::LargeJsonPeak => "64 MB answer, JSON: peak memory",
            Self::LargeJsonAfter => "64 MB answer, JSON: memory afterwards",
            Self::LargeEvent => "64 MB answer, one SSE event",
            Self::LargeEventPeak => "64 MB answer, SSE: peak memory",
            Self::LargeEventAfter => "64 MB answer, SSE: memory afterwards",
            Self::Request => "16 MB request",
            Self::Notifications => "10,000 notifications in one stream",
            Self::Idle => "idle memory",
            Self::End => "end of stdin to exit",
            Self::Size => "size of the binary",
            Self::Translation => "era translation: more for a call",
            Self::TranslationMemory => "era translation: more memory, 64 MB",
        }
    }

    /// What its values are shown in.
    pub(crate) fn unit(self) -> Unit {
        match self {
            Self::JsonP50
            | Self::JsonP99
            | Self::EventsP50
            | Self::EventsP99
            | Self::OldP50
            | Self::OldP99
            | Self::Translation => Unit::Micros,
            Self::JsonRate | Self::EventsRate => Unit::Rate,
            Self::Cpu | Self::CpuSequential => Unit::Seconds,
            Self::LargeJsonPeak
            | Self::LargeJsonAfter
            | Self::LargeEventPeak
            | Self::LargeEventAfter
            | Self::Idle
            | Self::Size
            | Self::TranslationMemory => Unit::Megabytes,
            Self::Start
            | Self::StartSecure
            | Self::LargeJson
            | Self::LargeEvent
            | Self::Request
            | Self::Notifications
            | Self::End => Unit::Millis,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_its_place_and_a_title_of_its_own() {
        let mut sorted = Figure::ALL;
        sorted.sort();
        assert_eq!(sorted, Figure::ALL);
        let mut titles = Figure::ALL.map(Figure::title);
        titles.sort_unstable();
        assert!(titles.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
