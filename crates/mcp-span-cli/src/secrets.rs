//! Secrets that come with the settings of other programs, and have no variable of their own.

use std::collections::BTreeMap;

use mcp_span::ServerOptions;
use mcp_span::secret::Secret;

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

    /// Puts each where a program would put it.
    pub(super) fn set(self, options: &mut ServerOptions) {
        for (purpose, secret) in self.0 {
            *match purpose {
                Purpose::ClientSecret => &mut options.oauth_client_secret,
                Purpose::RefreshToken => &mut options.oauth_refresh_token,
                Purpose::Code => &mut options.oauth_code,
                Purpose::CodeVerifier => &mut options.oauth_code_verifier,
            } = Some(secret);
        }
    }
}
