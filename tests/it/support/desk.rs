//! What the identity provider replies: metadata, clients, codes and tokens, each checked as a strict
//! provider does.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::devices::{DEVICE, Devices};
use super::provider::{Manners, place};
use super::{Reply, Request};

/// The fields of a form or a query.
#[derive(Clone, Debug, Default)]
pub(crate) struct Form(Vec<(String, String)>);

impl Form {
    pub(crate) fn of(request: &Request) -> Self {
        Self::read(request.text())
    }

    pub(crate) fn of_query(request: &Request) -> Self {
        Self::read(request.path.split_once('?').map_or("", |(_, query)| query))
    }

    fn read(text: &str) -> Self {
        Self(url::form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    /// The value of a field; nothing if it is not there.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }
}

/// What the provider knows.
pub(crate) struct Desk {
    manners: Manners,
    /// The origins of the provider and of the MCP server.
    provider: OnceLock<String>,
    server: OnceLock<String>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Ids, secrets and redirect addresses.
    clients: HashMap<String, (String, String)>,
    codes: HashMap<String, Form>,
    /// What each access token is good for.
    access: HashMap<String, String>,
    /// The same for refresh tokens; one that was used is gone.
    refresh: HashMap<String, String>,
    devices: Devices,
    issued: usize,
    /// Refresh tokens that came a second time.
    replayed: usize,
}

impl Desk {
    pub(crate) fn new(manners: Manners) -> Self {
        let mut known = Known::default();
        if let Some((id, secret)) = manners.known {
            known.clients.insert(id.to_owned(), (secret.to_owned(), String::new()));
        }
        let (provider, server) = (OnceLock::new(), OnceLock::new());
        Self { manners, provider, server, known: Mutex::new(known) }
    }

    pub(crate) fn is_at(&self, url: &str) {
        self.provider.set(origin(url)).unwrap();
    }

    pub(crate) fn guards(&self, url: &str) {
        self.server.set(origin(url)).unwrap();
        let _ = self.provider.set(origin(url));
    }

    /// No access token is good any more.
    pub(crate) fn expire(&self) {
        self.known().access.clear();
    }

    /// No refresh token is, either.
    pub(crate) fn forget_tokens(&self) {
        self.expire();
        self.known().refresh.clear();
    }

    /// As after a restart of a provider that keeps nothing.
    pub(crate) fn forget_clients(&self) {
        self.known().clients.clear();
    }

    pub(crate) fn replayed(&self) -> usize {
        self.known().replayed
    }

    pub(crate) fn issuer(&self) -> String {
        format!("{}{}", self.provider.get().unwrap(), self.manners.tenant)
    }

    fn origin(&self) -> &str {
        self.server.get().map_or("", |origin| origin)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().expect("no panic under the lock")
    }

    /// `None`: the MCP server may answer.
    pub(crate) fn answer(&self, r: &Request) -> Option<Reply> {
        if let Some(reply) = (self.manners.instead)(r) {
            return Some(reply);
        }
        let path = place(r);
        if path == self.manners.resource_at {
            return Some(Reply::json(self.resource().to_string()));
        }
        if path == self.manners.described_at {
            return Some(Reply::json(self.metadata().to_string()));
        }
        match (&*r.http_method, path) {
            (_, path) if path.contains(".well-known") => Some(Reply::status(404, "", "")),
            ("POST", "/register") => Some(self.register(&r.json())),
            ("GET", "/authorize") => Some(self.authorize(&Form::of_query(r))),
            ("POST", "/token") => Some(self.token(r)),
            ("POST", "/revoke") => Some(self.revoke(&Form::of(r))),
            ("POST", "/device_authorization") => Some(self.device(r)),
            ("GET", "/device") => Some(self.enter(&Form::of_query(r))),
            _ => self.guard(r),
        }
    }

    fn resource(&self) -> Value {
        let resource = format!("{}/mcp", self.origin());
        let mut document = json!({"resource": resource, "authorization_servers": [self.issuer()]});
        (self.manners.edit_resource)(&mut document, self.origin());
        document
    }

    fn metadata(&self) -> Value {
        let at = |path: &str| format!("{}{path}", self.provider.get().unwrap());
        let mut document = json!({
            "issuer": self.issuer(),
            "authorization_endpoint": at("/authorize"),
            "token_endpoint": at("/token"),
            "registration_endpoint": at("/register"),
            "revocation_endpoint": at("/revoke"),
            "device_authorization_endpoint": at("/device_authorization"),
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": [self.manners.proof],
            "authorization_response_iss_parameter_supported": self.manners.says_issuer,
        });
        (self.manners.edit_metadata)(&mut document, self.origin());
        document
    }

    fn register(&self, asked: &Value) -> Reply {
        let mut known = self.known();
        let n = known.clients.len() + known.issued + 1;
        let (id, secret) = (format!("client-{n}"), format!("hidden-secret-{n}"));
        let redirect = asked["redirect_uris"][0].as_str().unwrap_or_default().to_owned();
        known.clients.insert(id.clone(), (secret.clone(), redirect));
        let mut answer = json!({"client_id": id, "token_endpoint_auth_method": self.manners.proof});
        if self.manners.proof != "none" {
            answer["client_secret"] = secret.into();
        }
        Reply::status(201, "application/json", answer.to_string())
    }

    fn authorize(&self, asked: &Form) -> Reply {
        let page = |text: &str| Reply::status(400, "text/html", format!("<p>{text}"));
        let mut known = self.known();
        let Some((_, redirect)) = known.clients.get(asked.get("client_id")) else {
            return page("no such client");
        };
        // As exact as many providers are: the port counts.
        if !redirect.is_empty() && redirect != asked.get("redirect_uri") {
            return page("not your address");
        }
        let is_whole = asked.get("response_type") == "code"
            && asked.get("code_challenge_method") == "S256"
            && asked.get("code_challenge").len() == 43
            && asked.get("state").len() >= 22;
        if !is_whole {
            return page("something is missing");
        }
        known.issued += 1;
        let code = format!("hidden-code-{}", known.issued);
        known.codes.insert(code.clone(), asked.clone());
        if !self.manners.says_issuer {
            return back(asked, &[("code", &code)]);
        }
        // By the name that it goes by.
        let issuer = self.metadata()["issuer"].as_str().map_or(self.issuer(), str::to_owned);
        back(asked, &[("code", &code), ("iss", &issuer)])
    }

    fn token(&self, r: &Request) -> Reply {
        let form = Form::of(r);
        let Some(client) = self.client(r, &form) else {
            return refusal(401, "invalid_client", "this client is not known");
        };
        let mut known = self.known();
        let scope = match form.get("grant_type") {
            "authorization_code" => {
                let Some(asked) = known.codes.remove(form.get("code")) else {
                    return refusal(400, "invalid_grant", "no such code");
                };
                let verifier = form.get("code_verifier").as_bytes();
                let digest = ring::digest::digest(&ring::digest::SHA256, verifier);
                let is_same = asked.get("code_challenge") == URL_SAFE_NO_PAD.encode(digest)
                    && asked.get("redirect_uri") == form.get("redirect_uri")
                    && asked.get("client_id") == client
                    && asked.get("resource") == form.get("resource");
                if !is_same {
                    return refusal(400, "invalid_grant", "this is not what the code was for");
                }
                asked.get("scope").to_owned()
            }
            "refresh_token" => {
                let Some(scope) = known.refresh.get(form.get("refresh_token")).cloned() else {
                    known.replayed += 1;
                    return refusal(400, "invalid_grant", "the refresh token was used before");
                };
                if self.manners.rotates {
                    known.refresh.remove(form.get("refresh_token"));
                }
                scope
            }
            "client_credentials" => form.get("scope").to_owned(),
            DEVICE => match known.devices.redeem(form.get("device_code"), &client) {
                Ok(scope) => scope,
                Err(reply) => return *reply,
            },
            _ => return refusal(400, "unsupported_grant_type", "?"),
        };
        let brings_refresh = match form.get("grant_type") {
            "authorization_code" | DEVICE => self.manners.gives_refresh,
            "refresh_token" => self.manners.rotates,
            _ => false,
        };
        self.issue(&mut known, &scope, brings_refresh)
    }

    fn issue(&self, known: &mut Known, scope: &str, brings_refresh: bool) -> Reply {
        let lifetime = match known.access.is_empty() && known.issued <= 1 {
            true => &self.manners.lifetimes.0,
            false => &self.manners.lifetimes.1,
        };
        known.issued += 1;
        let n = known.issued;
        let (access, refresh) = (format!("hidden-access-{n}"), format!("hidden-refresh-{n}"));
        let mut answer =
            json!({"access_token": access, "token_type": "Bearer", "expires_in": lifetime});
        if !scope.is_empty() {
            answer["scope"] = scope.into();
        }
        if brings_refresh {
            answer["refresh_token"] = refresh.clone().into();
            known.refresh.insert(refresh, scope.to_owned());
        }
        known.access.insert(access, scope.to_owned());
        (self.manners.edit_token)(&mut answer, self.origin());
        Reply::json(answer.to_string())
    }

    /// Who asks for a token, if that is proven in the way that was agreed upon.
    fn client(&self, r: &Request, form: &Form) -> Option<String> {
        let known = self.known();
        let basic = r.header("authorization").and_then(|value| value.strip_prefix("Basic "));
        if basic.is_some() != (self.manners.proof == "client_secret_basic") {
            return None;
        }
        let (id, secret) = match basic {
            Some(basic) => {
                let pair = String::from_utf8(STANDARD.decode(basic).ok()?).ok()?;
                let (id, secret) = pair.split_once(':')?;
                (id.to_owned(), secret.to_owned())
            }
            None => (form.get("client_id").to_owned(), form.get("client_secret").to_owned()),
        };
        let (expected, _) = known.clients.get(&id)?;
        let is_proven = match self.manners.proof {
            "none" => secret.is_empty(),
            "private_key_jwt" => form.has("client_assertion"),
            _ => secret == *expected,
        };
        is_proven.then_some(id)
    }

    fn device(&self, r: &Request) -> Reply {
        let form = Form::of(r);
        let Some(client) = self.client(r, &form) else {
            return refusal(401, "invalid_client", "this client is not known");
        };
        let page = format!("{}/device", self.provider.get().unwrap());
        let mut answer = self.known().devices.begin(client, form.get("scope"), &page);
        (self.manners.edit_device)(&mut answer, self.origin());
        Reply::json(answer.to_string())
    }

    /// A person enters a code.
    fn enter(&self, asked: &Form) -> Reply {
        match self.known().devices.enter(asked.get("user_code"), asked.get("answer")) {
            true => Reply::status(200, "text/html", "<p>done"),
            false => Reply::status(404, "text/html", "<p>no such code"),
        }
    }

    fn revoke(&self, form: &Form) -> Reply {
        let mut known = self.known();
        known.refresh.remove(form.get("token"));
        known.access.clear();
        Reply::status(200, "", "")
    }

    fn guard(&self, r: &Request) -> Option<Reply> {
        let known = self.known();
        let token = r.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
        let token = token.map(self.manners.access_of);
        let Some(scopes) = token.and_then(|token| known.access.get(&token)) else {
            let reply = Reply::status(401, "text/plain", "who are you?");
            let Some(challenge) = self.manners.challenge else { return Some(reply) };
            let challenge = format!("Bearer {}", challenge.replace("{}", self.origin()));
            return Some(reply.header("WWW-Authenticate", challenge.trim_end()));
        };
        let what = r.what();
        let (_, missing) = self.manners.needs.iter().find(|(method, scope)| {
            *method == what && !scopes.split(' ').any(|given| given == *scope)
        })?;
        let challenge = format!(
            r#"Bearer error="insufficient_scope", scope="{missing}", resource_metadata="{}{}""#,
            self.origin(),
            self.manners.resource_at
        );
        Some(Reply::status(403, "", "").header("WWW-Authenticate", &challenge))
    }
}

/// Sends the browser back to where it is expected.
pub(crate) fn back(asked: &Form, fields: &[(&str, &str)]) -> Reply {
    let mut url = url::Url::parse(asked.get("redirect_uri")).expect("a redirect address");
    url.query_pairs_mut().extend_pairs(fields).append_pair("state", asked.get("state"));
    Reply::status(302, "", "").header("Location", url.as_str())
}

pub(crate) fn refusal(status: u16, error: &str, description: &str) -> Reply {
    let answer = json!({"error": error, "error_description": description});
    Reply::status(status, "application/json", answer.to_string())
}

fn origin(url: &str) -> String {
    url::Url::parse(url).unwrap().origin().ascii_serialization()
}
