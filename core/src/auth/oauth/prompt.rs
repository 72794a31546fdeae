//! What a person is shown in order to log in.

use std::fmt;

use serde::{Deserialize, Serialize};
use url::Url;

use crate::untrusted::Untrusted;

/// A page, and what to do there. Its text goes behind "open".
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub enum Prompt {
    /// A page for a browser that can come back to this machine.
    Browser(Url),
    /// A page for any device.
    Device {
        /// Where.
        page: Url,
        /// The same with the code in it.
        filled_in: Option<Url>,
        /// What to enter there, or to compare.
        code: String,
    },
}

impl Prompt {
    /// Where a person has to go.
    pub(super) fn page(&self) -> &Url {
        match self {
            Self::Browser(page) | Self::Device { page, .. } => page,
        }
    }
}

impl fmt::Display for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Browser(page) => write!(f, "{page}"),
            Self::Device { page, filled_in: None, code } => {
                write!(f, "{page} and enter the code {}", Untrusted(code))
            }
            Self::Device { page, filled_in: Some(filled_in), code } => {
                let code = Untrusted(code);
                write!(f, "{filled_in} (or {page}) and see that the code is {code}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_shown_beside_its_page() {
        let page = Url::parse("https://as/device").unwrap();
        let mut prompt = Prompt::Device { page, filled_in: None, code: "AB-CD".into() };
        assert_eq!(prompt.to_string(), "https://as/device and enter the code AB-CD");
        if let Prompt::Device { filled_in, .. } = &mut prompt {
            *filled_in = Some(Url::parse("https://as/device?c=AB-CD").unwrap());
        }
        let text =
            "https://as/device?c=AB-CD (or https://as/device) and see that the code is AB-CD";
        assert_eq!(prompt.to_string(), text);
    }
}
