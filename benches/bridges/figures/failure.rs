//! What a contestant did wrong.

use std::fmt;

/// The sort of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It said that it could not, or it ended.
    Error,
    /// It said nothing for as long as was waited.
    Hang,
    /// Something that the server sent never came.
    Lost,
    /// Something else came than what the server sent.
    Wrong,
    /// It could not be installed here.
    Absent,
}

impl Kind {
    /// As it stands in the table, in place of a value.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Hang => "hangs",
            Self::Lost => "loses",
            Self::Wrong => "wrong",
            Self::Absent => "absent",
        }
    }
}

/// What happened, for the table and in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn error(text: impl fmt::Display) -> Self {
        Self::new(Kind::Error, text)
    }

    pub(crate) fn hang(text: impl fmt::Display) -> Self {
        Self::new(Kind::Hang, text)
    }

    pub(crate) fn lost(text: impl fmt::Display) -> Self {
        Self::new(Kind::Lost, text)
    }

    pub(crate) fn wrong(text: impl fmt::Display) -> Self {
        Self::new(Kind::Wrong, text)
    }

    pub(crate) fn absent(text: impl fmt::Display) -> Self {
        Self::new(Kind::Absent, text)
    }

    /// The same with what it happened at.
    pub(crate) fn at(self, place: impl fmt::Display) -> Self {
        Self::new(self.kind, format!("{place}: {}", self.text))
    }

    fn new(kind: Kind, text: impl fmt::Display) -> Self {
        Self { kind, text: text.to_string() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.kind.word(), self.text)
    }
}
