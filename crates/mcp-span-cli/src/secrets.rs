//! Secrets that come with the settings of other programs, and have no variable of their own.

use std::collections::BTreeMap;

use super::report::Usage;
use mcp_span::secret::{Scrubber, Secret};

/// What a secret is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Purpose {
    ClientSecret,
    RefreshToken,
    Code,
    CodeVerifier,
}

/// Secrets by what they are for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Secrets(BTreeMap<Purpose, Secret>);

impl Secrets {
    /// The first one counts.
    pub(super) fn add(&mut self, purpose: Purpose, value: impl Into<String>) {
        self.0.entry(purpose).or_insert_with(|| Secret::new(value));
    }

    /// Takes over what is not there yet.
    pub(super) fn extend(&mut self, others: Self) {
        for (purpose, secret) in others.0 {
            self.0.entry(purpose).or_insert(secret);
        }
    }

    /// The secret in the variable that `flag` names, else the one that is here; hidden from then on.
    pub(super) fn find(
        &self,
        purpose: Purpose,
        flag: &str,
        variable: Option<&String>,
        scrubber: &Scrubber,
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Secret>, Usage> {
        let secret = match variable {
            None => self.0.get(&purpose).cloned(),
            Some(name) => {
                let value = lookup(name).filter(|value| !value.is_empty()).ok_or_else(|| {
                    Usage::new(format!("--{flag}: the variable {name} is not set"))
                })?;
                Some(Secret::new(value))
            }
        };
        secret.iter().for_each(|secret| scrubber.add(secret));
        Ok(secret)
    }
}
