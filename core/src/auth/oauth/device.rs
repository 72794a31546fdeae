//! Logins on another device (RFC 8628): a code for the person, and patience until it was entered.

use std::time::Duration;

use http::StatusCode;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};
use tracing::debug;
use url::Url;

use super::authority::Authority;
use super::flow::Plan;
use super::grant::TokenRequest;
use super::identity::{ClientIdentity, Only, Purpose};
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

/// What comes of one question whether the person has entered the code.
#[derive(Debug)]
enum DevicePoll {
    /// Not yet.
    Wait,
    /// Not yet, and we ask too often.
    Slower,
    /// The answer is final, whatever it is.
    Settled,
}

impl OAuth {
    /// Has a person enter a code somewhere.
    pub(super) async fn by_device(&self, plan: &Plan) -> Result<(ClientIdentity, Token), Failed> {
        let Plan { authority, scope, .. } = plan;
        let place = self.device_place(authority)?;
        // A client that was registered with a redirect address may not do this.
        let identity = match self.registered(plan, Some(Only::Devices)).await? {
            Some(identity) => identity,
            None => self.choose_identity(plan, Purpose::Devices).await?,
        };
        let request = self.request_for(plan, &identity);
        let form = scope.iter().map(|scope| ("scope", scope.clone())).collect();
        let (status, answer) = TokenRequest { endpoint: &place, ..request }.ask(&form).await?;
        let issued = self.device_code(status, &answer, authority);
        if issued.is_err() && is_unknown_client(&answer) {
            self.held.forget_client_alone(&identity.id).await;
        }
        let issued = issued?;
        let shown_page = self.show(plan, &issued.prompt, None).await;
        let token = tokio::select! {
            token = self.poll(&request, &issued) => token?,
            error = self.called_off(&shown_page) => return Err(Failed::unfinished(error)),
        };
        Ok((identity, token))
    }

    fn device_place(&self, authority: &Authority) -> Result<Url, Error> {
        let Some(text) = &authority.metadata.device_authorization_endpoint else {
            let message = format!(
                "The authorization server of {} offers no logins on another device",
                shown(&self.server)
            );
            let hint =
                "Leave --oauth-grant out, or use 'mcp-span login --paste' where there is no screen";
            return Err(login_error(message).hint(hint));
        };
        self.settings.given.checked(text, "logins on another device", &self.server)
    }

    fn device_code(
        &self,
        status: StatusCode,
        answer: &Value,
        authority: &Authority,
    ) -> Result<DeviceCode, Error> {
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
        let checked = |page: &str| self.device_page(page, authority);
        let filled_in = text("verification_uri_complete").map(checked).transpose()?;
        let seconds = |name: &str, default: Duration| match answer[name].as_f64() {
            Some(seconds) => Duration::try_from_secs_f64(seconds).unwrap_or(default),
            None => default,
        };
        Ok(DeviceCode {
            device_code: Secret::new(device_code),
            prompt: Prompt::Device { page: checked(page)?, filled_in, code: code.to_owned() },
            lifetime: seconds("expires_in", limits::LOGIN_WAIT),
            interval: seconds("interval", limits::DEVICE_POLL)
                .clamp(limits::DEVICE_POLL_LEAST, self.slowest_poll()),
        })
    }

    /// A page where a code is entered must be the issuer's own: whoever asks for a code elsewhere and
    /// hands it on to us gets the account of the person who enters it. Who has named the issuer knows
    /// whose pages it uses.
    fn device_page(&self, text: &str, authority: &Authority) -> Result<Url, Error> {
        let given = &self.settings.given;
        let page = given.checked(text, "a login", &self.server)?;
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

    /// Whoever wants to be asked less often than this will not be asked again in time.
    fn slowest_poll(&self) -> Duration {
        self.settings.login_wait.max(limits::DEVICE_POLL_LEAST)
    }

    /// The usual ends in words of our own, with those of the provider behind them.
    fn explained(&self, answer: &Value, error: Error) -> Error {
        let message = match answer["error"].as_str() {
            Some("access_denied") => format!("The login to {} was refused", shown(&self.server)),
            Some("expired_token") => "The code has expired before it was entered".to_owned(),
            _ => return error,
        };
        login_error(message).because(error)
    }

    async fn poll(&self, request: &TokenRequest<'_>, issued: &DeviceCode) -> Result<Token, Failed> {
        let form: Form = vec![
            ("grant_type", GRANT_TYPE.to_owned()),
            ("device_code", issued.device_code.reveal().to_owned()),
        ];
        let end = Instant::now() + issued.lifetime.min(self.settings.login_wait);
        let mut interval = issued.interval;
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
            match step(status, &answer) {
                DevicePoll::Wait if status.is_server_error() => {
                    trouble = Some(refused("The request for a token", status, &answer));
                }
                DevicePoll::Wait => trouble = None,
                DevicePoll::Slower => {
                    interval = (interval + limits::DEVICE_SLOW_DOWN).min(self.slowest_poll());
                }
                DevicePoll::Settled => {
                    let failed = match request.read(status, &answer) {
                        Ok(token) => return Ok(token),
                        Err(refusal) => Failed::from(refusal),
                    };
                    if is_unknown_client(&answer) {
                        self.held.forget_client_alone(&request.identity.id).await;
                    }
                    let error = self.explained(&answer, *failed.error).into();
                    // The person did not come: that is no refusal.
                    let has_expired = answer["error"] == "expired_token";
                    let how = if has_expired { How::Unfinished } else { failed.how };
                    return Err(Failed { error, how });
                }
            }
        }
    }
}

fn is_unknown_client(answer: &Value) -> bool {
    matches!(answer["error"].as_str(), Some("invalid_client" | "unauthorized_client"))
}

fn step(status: StatusCode, answer: &Value) -> DevicePoll {
    match answer["error"].as_str() {
        Some("authorization_pending") => DevicePoll::Wait,
        Some("slow_down") => DevicePoll::Slower,
        _ if status == StatusCode::TOO_MANY_REQUESTS => DevicePoll::Slower,
        _ if status.is_server_error() => DevicePoll::Wait,
        _ => DevicePoll::Settled,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_may_change_is_asked_for_again() {
        let of = |status: u16, answer: Value| {
            let step = step(StatusCode::from_u16(status).unwrap(), &answer);
            format!("{step:?}")
        };
        assert_eq!(of(400, json!({"error": "authorization_pending"})), "Wait");
        assert_eq!(of(500, json!("<html>")), "Wait");
        assert_eq!(of(400, json!({"error": "slow_down"})), "Slower");
        assert_eq!(of(429, json!({})), "Slower");
        for answer in [json!({"error": "access_denied"}), json!({"error": "expired_token"})] {
            assert_eq!(of(400, answer), "Settled");
        }
        assert_eq!(of(200, json!({"access_token": "a"})), "Settled");
    }
}
