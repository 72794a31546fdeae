//! A login that is handed to another process: all that it needs, in one document for its stdin.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::Url;

use super::address::Reach;
use super::flow::Plan;
use super::store::Stamp;
use super::{
    Bearer, CallbackPlace, CallbackPorts, Given, Grant, OAuth, Open, PrivateKey, Settings, Show,
    Style, TokenStore,
};
use crate::net;
use crate::secret::Secret;

/// It holds secrets, and is never shown.
#[derive(Deserialize, Serialize)]
pub(super) struct Job {
    server: Url,
    plan: Plan,
    net: net::Portable,
    settings: PortableSettings,
    /// How near the server is.
    near: Reach,
    without_resource: bool,
    /// By which it is seen whether another process has stored a token since.
    stamp: Option<Stamp>,
}

#[derive(Deserialize, Serialize)]
struct PortableSettings {
    client_id: Option<String>,
    client_secret: Option<String>,
    client_metadata_url: Option<Url>,
    /// PEM.
    private_key: Option<String>,
    scope: Option<String>,
    offered_scopes: bool,
    send_resource: bool,
    callback_port: Option<CallbackPorts>,
    callback: CallbackPlace,
    login_wait: Duration,
    skew: Duration,
    given: PortableGiven,
    grant: Grant,
    folder: Option<PathBuf>,
    usual_folder: Option<PathBuf>,
    token_store: TokenStore,
    profile: String,
    apart_by: Vec<(String, String)>,
    bearer: Bearer,
    success_url: Option<Url>,
}

/// Without what needs no person: that was tried before.
#[derive(Deserialize, Serialize)]
struct PortableGiven {
    issuer: Option<String>,
    token_url: Option<Url>,
    authorization_url: Option<Url>,
    resource: Option<String>,
    audience: Option<String>,
    token_params: Vec<(String, String)>,
    page_params: Vec<(String, String)>,
    style: Option<Style>,
    registration: Map<String, Value>,
}

impl Job {
    pub(super) fn new(oauth: &OAuth, plan: &Plan) -> Self {
        Self {
            server: oauth.server.clone(),
            plan: plan.clone(),
            net: net::Portable::from(oauth.web.options()),
            settings: PortableSettings::from(&oauth.settings),
            near: oauth.web.near(),
            without_resource: oauth.refuses_resource(),
            stamp: oauth.store.stamp(),
        }
    }

    /// The login that is to be done here. `None` if it is not what a process of the same program
    /// wrote.
    pub(super) fn read(job: &[u8], show: Show, open: Open) -> Option<(OAuth, Plan, Option<Stamp>)> {
        let job: Self = serde_json::from_slice(job).ok()?;
        let settings = job.settings.into_settings(show, open)?;
        let oauth = OAuth::new(&job.server, settings, job.net.into_options()?);
        oauth.web.is_near(job.near);
        oauth.refuses_resource.store(job.without_resource, std::sync::atomic::Ordering::Relaxed);
        Some((oauth, job.plan, job.stamp))
    }
}

impl From<&Settings> for PortableSettings {
    fn from(settings: &Settings) -> Self {
        // By name, each: what is new in there must not be forgotten here.
        let Settings {
            client_id,
            client_secret,
            client_metadata_url,
            private_key,
            scope,
            offered_scopes,
            send_resource,
            callback_port,
            callback,
            login_wait,
            skew,
            given,
            paste: _,
            grant,
            folder,
            usual_folder,
            token_store,
            profile,
            apart_by,
            bearer,
            success_url,
            show: _,
            open: _,
            process: _,
        } = settings;
        Self {
            client_id: client_id.clone(),
            client_secret: client_secret.as_ref().map(|secret| secret.reveal().to_owned()),
            client_metadata_url: client_metadata_url.clone(),
            private_key: private_key.as_ref().map(|key| key.pem().reveal().to_owned()),
            scope: scope.clone(),
            offered_scopes: *offered_scopes,
            send_resource: *send_resource,
            callback_port: *callback_port,
            callback: callback.clone(),
            login_wait: *login_wait,
            skew: *skew,
            given: PortableGiven::from(given),
            grant: *grant,
            folder: folder.clone(),
            usual_folder: usual_folder.clone(),
            token_store: *token_store,
            profile: profile.clone(),
            apart_by: apart_by.clone(),
            bearer: *bearer,
            success_url: success_url.clone(),
        }
    }
}

impl PortableSettings {
    fn into_settings(self, show: Show, open: Open) -> Option<Settings> {
        let private_key = match self.private_key {
            Some(pem) => Some(PrivateKey::from_pem(pem.as_bytes()).ok()?),
            None => None,
        };
        Some(Settings {
            client_id: self.client_id,
            client_secret: self.client_secret.map(Secret::new),
            client_metadata_url: self.client_metadata_url,
            private_key,
            scope: self.scope,
            offered_scopes: self.offered_scopes,
            send_resource: self.send_resource,
            callback_port: self.callback_port,
            callback: self.callback,
            login_wait: self.login_wait,
            skew: self.skew,
            given: self.given.into_given(),
            paste: None,
            grant: self.grant,
            folder: self.folder,
            usual_folder: self.usual_folder,
            token_store: self.token_store,
            profile: self.profile,
            apart_by: self.apart_by,
            bearer: self.bearer,
            success_url: self.success_url,
            show,
            open: Some(open),
            process: None,
        })
    }
}

impl From<&Given> for PortableGiven {
    fn from(given: &Given) -> Self {
        let Given {
            token_url,
            authorization_url,
            no_discovery: _,
            refresh_token: _,
            code: _,
            resource,
            audience,
            token_params,
            page_params,
            style,
            no_person: _,
            issuer,
            registration,
        } = given;
        Self {
            issuer: issuer.clone(),
            token_url: token_url.clone(),
            authorization_url: authorization_url.clone(),
            resource: resource.clone(),
            audience: audience.clone(),
            token_params: token_params.clone(),
            page_params: page_params.clone(),
            style: *style,
            registration: registration.clone(),
        }
    }
}

impl PortableGiven {
    fn into_given(self) -> Given {
        Given {
            issuer: self.issuer,
            token_url: self.token_url,
            authorization_url: self.authorization_url,
            resource: self.resource,
            audience: self.audience,
            token_params: self.token_params,
            page_params: self.page_params,
            style: self.style,
            registration: self.registration,
            ..Given::default()
        }
    }
}
