//! Logins on another device (RFC 8628): a code for the person, and patience until it was entered.

use std::time::Duration;

use http::StatusCode;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};
use tracing::debug;
use url::Url;

use super::flow::LoginRun;
use super::grant::TokenRequest;
use super::identity::{ClientIdentity, Only};
use super::pause::{Failed, How};
use super::token::Token;
use super::web::Form;
use super::words::{login_error, refused, said};
use super::{OAuth, Prompt, site};
use crate::error::Error;
use crate::limits;
use crate::secret::{Secret, shown};

/// The name of this grant.
pub(super) const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// What the provider gives out for one login.
#[derive(Debug, PartialEq, Eq)]
struct DeviceCode {
    device_code: Secret,
    prompt: Prompt,
    lifetime: Duration,
    interval: Duration,
}

impl LoginRun<'_> {
    /// Has a person enter a code somewhere.
    pub(super) async fn by_device(&self) -> Result<(ClientIdentity, Token), Failed> {
        let place = self.device_place()?;
        // A client that was registered with a redirect address may not do this.
        let identity = match self.registered(Some(Only::Devices)).await? {
            Some(identity) => identity,
            None => self.choose_identity(None).await?,
        };
        let request = self.request(&identity);
        let form = request.scope.iter().map(|&scope| ("scope", scope.to_owned())).collect();
        let (status, answer) = TokenRequest { endpoint: &place, ..request }.ask(&form).await?;
        if let Some("invalid_client" | "unauthorized_client") = answer["error"].as_str() {
            self.oauth.forget_client_alone(&identity.id).await;
        }
        let issued = self.device_code(status, &answer)?;
        let polling = self.poll(&request, &issued);
        let token = self.ask(issued.prompt.clone(), None, polling).await?;
        Ok((identity, token))
    }

    fn device_place(&self) -> Result<Url, Error> {
        let OAuth { server, settings, .. } = self.oauth;
        let Some(text) = &self.plan.authority.metadata.device_authorization_endpoint else {
            let message = format!(
                "The authorization server of {} offers no logins on another device",
                shown(server)
            );
            let hint =
                "Leave --oauth-grant out, or use 'mcp-span login --paste' where there is no screen";
            return Err(login_error(message).hint(hint));
        };
        settings.given.checked(text, "logins on another device", server)
    }

    fn device_code(&self, status: StatusCode, answer: &Value) -> Result<DeviceCode, Error> {
        if !status.is_success() {
            return Err(refused("The request for a device code", status, answer));
        }
        let wrong =
            |what: &str| login_error(format!("The answer to the request for a device code {what}"));
        let text = |name: &str| answer[name].as_str().filter(|text| !text.is_empty());
        let (Some(device_code), Some(code)) = (text("device_code"), text("user_code")) else {
            return Err(wrong("has no code in it"));
        };
        // It goes to a terminal, and to a model as well.
        let is_typed = |c: char| c.is_alphanumeric() || "-_. ".contains(c);
        if !code.chars().all(is_typed) || code.chars().count() > limits::USER_CODE {
            return Err(wrong("has a code that nobody can type"));
        }
        // An early draft had the other name, and Google still has.
        let page = text("verification_uri").or_else(|| text("verification_url"));
        let page = page.ok_or_else(|| wrong("does not say where to enter the code"))?;
        let checked = |page: &str| self.device_page(page);
        let filled_in = text("verification_uri_complete").map(checked).transpose()?;
        let seconds = |name: &str, default: Duration| {
            let seconds = answer[name].as_f64();
            seconds.and_then(|s| Duration::try_from_secs_f64(s).ok()).unwrap_or(default)
        };
        Ok(DeviceCode {
            device_code: Secret::new(device_code),
            prompt: Prompt::Device { page: checked(page)?, filled_in, code: code.to_owned() },
            lifetime: seconds("expires_in", limits::LOGIN_WAIT),
            interval: seconds("interval", limits::DEVICE_POLL),
        })
    }

    /// A page where a code is entered must be the issuer's own: whoever asks for a code elsewhere and
    /// hands it on to us gets the account of the person who enters it. Who has named the issuer knows
    /// whose pages it uses.
    fn device_page(&self, text: &str) -> Result<Url, Error> {
        let (given, authority) = (&self.oauth.settings.given, &self.plan.authority);
        let page = given.checked(text, "a login", &self.oauth.server)?;
        let is_own = authority.url().is_some_and(|issuer| site::is_together(&page, &issuer));
        if is_own || given.issuer.is_some() {
            return Ok(page);
        }
        let issuer = said(&authority.issuer);
        let message = format!(
            "The code is to be entered at {}, which nothing shows to be a page of {issuer}: what \
             you allow there could be for somebody else",
            page.host_str().unwrap_or_default()
        );
        let hint = format!("If that is its page, say so with --oauth-issuer {issuer}");
        Err(login_error(message).hint(hint))
    }

    /// The usual ends in words of our own, with those of the provider behind them.
    fn explained(&self, answer: &Value, failed: Failed) -> Failed {
        let server = shown(&self.oauth.server);
        let (message, how) = match answer["error"].as_str() {
            Some("access_denied") => (format!("The login to {server} was refused"), How::Refused),
            // The person did not come: that is no refusal.
            Some("expired_token") => {
                ("The code has expired before it was entered".to_owned(), How::Unfinished)
            }
            _ => return failed,
        };
        Failed { error: login_error(message).because(*failed.error).into(), how }
    }

    async fn poll(&self, request: &TokenRequest<'_>, issued: &DeviceCode) -> Result<Token, Failed> {
        let form: Form = vec![
            ("grant_type", GRANT_TYPE.to_owned()),
            ("device_code", issued.device_code.reveal().to_owned()),
        ];
        let end = Instant::now() + issued.lifetime.min(self.oauth.settings.login_wait);
        // Whoever wants to be asked less often than this will not be asked again in time.
        let slowest = self.oauth.settings.login_wait.max(limits::DEVICE_POLL_LEAST);
        let mut interval = issued.interval.clamp(limits::DEVICE_POLL_LEAST, slowest);
        let mut trouble = None;
        loop {
            let next = Instant::now() + interval;
            sleep_until(next.min(end)).await;
            if next >= end {
                let error = trouble.into_iter().fold(self.too_late(), Error::because);
                return Err(Failed::unfinished(error));
            }
            // A server that is away for a while is asked again; the person cannot know.
            let (status, answer) = match request.ask(&form).await {
                Ok(answer) => answer,
                Err(error) => {
                    debug!("the token endpoint could not be asked: {error}");
                    trouble = Some(error);
                    continue;
                }
            };
            match poll_again(status, &answer) {
                Some(longer) => {
                    interval = (interval + longer).min(slowest);
                    let error = || refused("The request for a token", status, &answer);
                    trouble = status.is_server_error().then(error);
                }
                None => match request.read(status, &answer) {
                    Ok(token) => return Ok(token),
                    Err(refusal) => {
                        let failed = self.refused(request.identity, refusal).await;
                        return Err(self.explained(&answer, failed));
                    }
                },
            }
        }
    }
}

/// Whether the answer may be another one later, and how much longer it is waited for then: some want to
/// be asked less often. `None`: it is final, whatever it is.
fn poll_again(status: StatusCode, answer: &Value) -> Option<Duration> {
    match answer["error"].as_str() {
        Some("authorization_pending") => Some(Duration::ZERO),
        Some("slow_down") => Some(limits::DEVICE_SLOW_DOWN),
        _ if status == StatusCode::TOO_MANY_REQUESTS => Some(limits::DEVICE_SLOW_DOWN),
        _ if status.is_server_error() => Some(Duration::ZERO),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_may_change_is_asked_for_again() {
        let of =
            |status: u16, answer: Value| poll_again(StatusCode::from_u16(status).unwrap(), &answer);
        let (as_before, slower) = (Some(Duration::ZERO), Some(limits::DEVICE_SLOW_DOWN));
        assert_eq!(of(400, json!({"error": "authorization_pending"})), as_before);
        assert_eq!(of(500, json!("<html>")), as_before);
        assert_eq!(of(400, json!({"error": "slow_down"})), slower);
        assert_eq!(of(429, json!({})), slower);
        for answer in [json!({"error": "access_denied"}), json!({"error": "expired_token"})] {
            assert_eq!(of(400, answer), None);
        }
        assert_eq!(of(200, json!({"access_token": "a"})), None);
    }
}
