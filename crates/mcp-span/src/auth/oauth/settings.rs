//! All that a login needs to know, as it was wished for.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use url::Url;

use super::callback_port::{CallbackPlace, CallbackPorts};
use super::given::Given;
use super::key::PrivateKey;
use super::paste::Paste;
use super::prompt::{Parties, Prompt};
use super::token::Bearer;
use crate::limits;
use crate::secret::Secret;

/// The OAuth grant type.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub enum Grant {
    /// A person logs in with a browser.
    #[default]
    Code,
    /// A person enters a code on any device.
    DeviceCode,
    /// The client itself has a secret or a key.
    ClientCredentials,
}

/// What tokens are kept in.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub enum TokenStore {
    /// Files that are for the owner alone.
    #[default]
    File,
    /// The keychain of the operating system, with the feature `keychain`.
    Keychain,
}

/// Tells a person where to log in, and to whom.
pub type Show = Arc<dyn Fn(&Prompt, &Parties) + Send + Sync>;

/// Opens a browser at an address of this machine, which leads on to the provider's page.
pub type Open = Arc<dyn Fn(&Url) + Send + Sync>;

/// Makes the command of a process that does a login and ends: it must pass its stdin to
/// [`super::login_process`].
pub type LoginCommand = Arc<dyn Fn() -> std::io::Result<std::process::Command> + Send + Sync>;

/// All that a login needs to know.
///
/// What another process is handed of it leaves out secrets, which go there by themselves, and what
/// only this process has.
#[derive(Clone, Deserialize, Serialize)]
pub struct OAuthSettings {
    /// A client that was registered by hand.
    pub client_id: Option<String>,
    /// Its secret.
    #[serde(skip)]
    pub client_secret: Option<Secret>,
    /// A document that describes us, as an id.
    pub client_metadata_url: Option<Url>,
    /// A key, in place of a secret.
    #[serde(skip)]
    pub private_key: Option<PrivateKey>,
    /// Asked for in place of what the server names.
    pub scope: Option<String>,
    /// Asked for where nobody names any: all that the authorization server offers.
    pub offered_scopes: bool,
    /// Whether the authorization server is told what the token is for.
    pub send_resource: bool,
    /// The port for the browser's way back, or several to choose from; any, if it is not said.
    pub callback_port: Option<CallbackPorts>,
    /// The name of this machine in the address of the way back, and the path of that.
    pub callback: CallbackPlace,
    /// How long a person may take.
    pub login_wait: Duration,
    /// A token is renewed so long before it expires.
    pub skew: Duration,
    /// What need not be found out.
    pub given: Given,
    /// A person whose browser is elsewhere pastes the way back.
    #[serde(skip)]
    pub paste: Option<Paste>,
    /// The OAuth grant type.
    pub grant: Grant,
    /// Where tokens are kept; nowhere, if it is not said.
    pub folder: Option<PathBuf>,
    /// Where a run would keep them whose environment says nothing about it, if that is elsewhere.
    pub usual_folder: Option<PathBuf>,
    /// What they are kept in.
    pub token_store: TokenStore,
    /// One of several accounts at the same server.
    pub profile: String,
    /// What else logins at the same server are kept apart by, such as headers that go with requests.
    pub apart_by: Vec<(String, String)>,
    /// Which token goes to the server.
    pub bearer: Bearer,
    /// Where a browser goes when a login was done, in place of a page of ours.
    pub success_url: Option<Url>,
    /// Tells a person where to log in.
    #[serde(skip)]
    pub show: Option<Show>,
    /// Opens a browser; where there is none, the person does it.
    #[serde(skip)]
    pub open: Option<Open>,
    /// Starts a process for a login that a person takes part in, so that it outlives this one.
    /// Without it, logins are done here.
    #[serde(skip)]
    pub process: Option<LoginCommand>,
}

/// Nothing is configured, and tokens are not kept.
impl Default for OAuthSettings {
    fn default() -> Self {
        Self {
            client_id: None,
            client_secret: None,
            client_metadata_url: None,
            private_key: None,
            scope: None,
            offered_scopes: false,
            send_resource: true,
            callback_port: None,
            callback: CallbackPlace::default(),
            login_wait: limits::LOGIN_WAIT,
            skew: limits::TOKEN_SKEW,
            given: Given::default(),
            paste: None,
            grant: Grant::default(),
            folder: None,
            usual_folder: None,
            token_store: TokenStore::default(),
            profile: String::new(),
            apart_by: Vec::new(),
            bearer: Bearer::default(),
            success_url: None,
            show: None,
            open: None,
            process: None,
        }
    }
}

impl fmt::Debug for OAuthSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("grant", &self.grant).finish_non_exhaustive()
    }
}
