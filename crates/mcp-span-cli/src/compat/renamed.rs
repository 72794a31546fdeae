//! Says what is wrong with the value of a flag under the name that was typed, where that is the name
//! that another bridge has for it.

use clap::error::{ContextKind, ContextValue};

use super::super::Failure;
use super::super::report::Usage;

/// Flags of other bridges that became one of ours with the same value.
#[derive(Clone, Default, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub(crate) struct Renamed(Vec<(String, &'static str)>);

impl Renamed {
    /// `theirs` with its dashes, `ours` without.
    pub(super) fn add(&mut self, theirs: &str, ours: &'static str) {
        self.0.push((theirs.to_owned(), ours));
    }

    /// The same failure in the words that were typed.
    pub(crate) fn explain(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Usage(Usage(sentence, hint)) => {
                Failure::Usage(Usage(self.in_words(&sentence), hint))
            }
            Failure::Arguments(mut error) => {
                if let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) {
                    let typed = ContextValue::String(self.in_words(flag));
                    error.insert(ContextKind::InvalidArg, typed);
                }
                Failure::Arguments(error)
            }
            other => other,
        }
    }

    fn in_words(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (theirs, ours) in &self.0 {
            text = replaced(&text, &format!("--{ours}"), theirs);
        }
        text
    }
}

/// `text` with `new` wherever `flag` stands, but not where it is the beginning of another.
fn replaced(text: &str, flag: &str, new: &str) -> String {
    let goes_on = |rest: &str| rest.starts_with(|c: char| c == '-' || c.is_ascii_alphanumeric());
    let mut parts = text.split(flag);
    let mut done = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        done += if goes_on(part) { flag } else { new };
        done += part;
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_called_as_it_was_typed_and_others_keep_their_names() {
        let mut renamed = Renamed::default();
        renamed.add("--resource", "oauth-resource");
        assert_eq!(renamed.in_words("--oauth-resource: no"), "--resource: no");
        assert_eq!(renamed.in_words("a --oauth-resource <URI>"), "a --resource <URI>");
        assert_eq!(renamed.in_words("--oauth-resource-x, x"), "--oauth-resource-x, x");
    }
}
