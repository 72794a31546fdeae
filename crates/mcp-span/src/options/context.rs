//! What options may refer to outside of themselves. The library looks nothing up on its own: a
//! program passes on what it wants to be used.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;

use super::ServerOptions;
use crate::auth::oauth::{LoginCommand, Open, Paste, Show};
use crate::environment::Environment;

/// The surroundings of [`ServerOptions::resolve`]: by default there are none.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Context {
    /// Environment variables.
    pub variables: Variables,
    /// What processes inherit, beside what options that name variables withhold from them.
    #[doc(hidden)]
    pub environment: Environment,
    /// Where state is kept: tokens, remembered revisions. Nowhere, if it is not said.
    pub state_dir: Option<PathBuf>,
    /// Where it is kept by other runs, if that is elsewhere.
    #[doc(hidden)]
    pub usual_state_dir: Option<PathBuf>,
    /// Tells a person where to log in.
    #[doc(hidden)]
    pub show: Option<Show>,
    /// Opens a browser.
    #[doc(hidden)]
    pub open: Option<Open>,
    /// Asks a person whose browser is elsewhere for the address it ended up at.
    #[doc(hidden)]
    pub paste: Option<Paste>,
    /// Starts the process that does a login.
    #[doc(hidden)]
    pub login_process: Option<LoginCommand>,
}

/// Variables may be secrets.
impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("state_dir", &self.state_dir).finish_non_exhaustive()
    }
}

/// A copy of environment variables.
#[derive(Clone, Default)]
pub struct Variables(BTreeMap<OsString, OsString>);

impl Variables {
    /// Those that are given.
    pub fn new<N: Into<OsString>, V: Into<OsString>>(
        pairs: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }

    /// The value of a variable.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// The value of a variable, if it is a text.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name)?.to_str().map(str::to_owned)
    }

    /// The value of a variable that is not empty: clients pass on whatever was left blank in a form.
    #[must_use]
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    /// All names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

impl ServerOptions {
    /// The variables that options name as places of secrets: no process has to know them.
    #[doc(hidden)]
    pub fn secret_variables(&self) -> impl Iterator<Item = &String> {
        [
            &self.bearer_env,
            &self.oauth_client_secret_env,
            &self.oauth_refresh_token_env,
            &self.oauth_code_env,
            &self.oauth_code_verifier_env,
        ]
        .into_iter()
        .flatten()
    }

    /// What a server that is started, or a command that prints credentials, inherits.
    pub(super) fn environment(&self, context: &Context) -> Environment {
        let mut environment = context.environment.clone();
        self.secret_variables().for_each(|name| environment.withhold(name));
        environment
    }
}
