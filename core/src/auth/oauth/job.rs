//! A login that is handed to another process: all that it needs, in one document for its stdin.

use serde::{Deserialize, Serialize};
use url::Url;

use super::address::Reach;
use super::flow::Plan;
use super::store::Stamp;
use super::{OAuth, OAuthSettings, Open, PrivateKey, Show};
use crate::net;
use crate::secret::Secret;

/// It holds secrets, and is never shown.
#[derive(Deserialize, Serialize)]
pub(super) struct LoginJob {
    server: Url,
    plan: Plan,
    net: net::Portable,
    settings: OAuthSettings,
    client_secret: Option<String>,
    /// PEM.
    private_key: Option<String>,
    /// How near the server is.
    near: Reach,
    without_resource: bool,
    /// By which it is seen whether another process has stored a token since.
    stamp: Option<Stamp>,
}

impl LoginJob {
    pub(super) fn new(oauth: &OAuth, plan: &Plan) -> Self {
        let settings = OAuthSettings::clone(&oauth.settings);
        let text = |secret: &Secret| secret.reveal().to_owned();
        Self {
            server: oauth.server.clone(),
            plan: plan.clone(),
            net: net::Portable::from(oauth.web.options()),
            client_secret: settings.client_secret.as_ref().map(text),
            private_key: settings.private_key.as_ref().map(|key| text(key.pem())),
            settings,
            near: oauth.web.near(),
            without_resource: oauth.refuses_resource(),
            stamp: oauth.store.stamp(),
        }
    }

    /// The login that is to be done here. `None` if it is not what a process of the same program
    /// wrote.
    pub(super) fn read(job: &[u8], show: Show, open: Open) -> Option<(OAuth, Plan, Option<Stamp>)> {
        let job: Self = serde_json::from_slice(job).ok()?;
        let key = job.private_key.map(|pem| PrivateKey::from_pem(pem.as_bytes()));
        let settings = OAuthSettings {
            client_secret: job.client_secret.map(Secret::new),
            private_key: key.transpose().ok()?,
            show,
            open: Some(open),
            ..job.settings
        };
        let oauth = OAuth::new(&job.server, settings, job.net.into_options()?);
        oauth.web.set_near(job.near);
        oauth.held.set_refuses_resource(job.without_resource);
        Some((oauth, job.plan, job.stamp))
    }
}
