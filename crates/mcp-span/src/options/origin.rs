//! Where the value of an option was set, so that errors can name the place.

use super::ServerOptions;
use super::table::OptionInfo;
use crate::config::FilePlace;
use crate::error::{Error, ErrorKind};

/// Where the value of an option was set.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// On the command line.
    Flag,
    /// In the variable `MCP_SPAN_…`.
    Variable,
    /// In a setting of another program, by its name there.
    Foreign(String),
    /// At the top of a configuration file.
    File(FilePlace),
    /// In the entry of a server in a configuration file.
    Server(String, FilePlace),
}

impl Origin {
    /// The option, as whoever has set it there calls it.
    #[must_use]
    pub fn label(&self, option: &OptionInfo) -> String {
        match self {
            Self::Flag => format!("--{}", option.name),
            Self::Variable => option.variable(),
            Self::Foreign(name) => name.clone(),
            Self::File(place) => format!("{place}: \"{}\"", option.name),
            Self::Server(server, place) => {
                format!("{place}: server '{server}': \"{}\"", option.name)
            }
        }
    }
}

/// Why options make no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OptionError {
    /// What is wrong, with the place.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl OptionError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl std::fmt::Display for OptionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, " (hint: {hint})"))
    }
}

impl std::error::Error for OptionError {}

impl From<OptionError> for Error {
    fn from(OptionError { message, hint }: OptionError) -> Self {
        Self { hint, ..Self::new(ErrorKind::InvalidOptions, message).not_delivered() }
    }
}

impl ServerOptions {
    /// What an option is called where it was set.
    #[doc(hidden)]
    #[must_use]
    pub fn label(&self, name: &str) -> String {
        match (self.origins.get(name), super::find(name)) {
            (Some(origin), Some(option)) => origin.label(option),
            // A program has set it.
            _ => format!("--{name}"),
        }
    }

    /// Where an option was set; `None` if it was not, or by a program.
    #[doc(hidden)]
    #[must_use]
    pub fn origin(&self, name: &str) -> Option<&Origin> {
        self.origins.get(name)
    }

    /// An option that cannot be used, with its place.
    pub(super) fn wrong(&self, name: &str, why: impl std::fmt::Display) -> OptionError {
        OptionError::new(format!("{}: {why}", self.label(name)))
    }
}
