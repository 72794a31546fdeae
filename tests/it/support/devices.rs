//! Logins on other devices, as the identity provider sees them (RFC 8628).

use std::collections::HashMap;

use serde_json::{Value, json};

use super::Reply;
use super::desk::refusal;

/// The name of the grant.
pub(crate) const DEVICE: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// Codes by their device codes.
#[derive(Default)]
pub(crate) struct Devices(HashMap<String, Login>);

struct Login {
    client: String,
    scope: String,
    user_code: String,
    answer: Answer,
}

enum Answer {
    None,
    Yes,
    No,
}

impl Devices {
    pub(crate) fn begin(&mut self, client: String, scope: &str, page: &str) -> Value {
        let n = self.0.len() + 1;
        let (device_code, user_code) = (format!("hidden-device-{n}"), format!("WDJB-{n}"));
        let (scope, answer) = (scope.to_owned(), Answer::None);
        let login = Login { client, scope, user_code: user_code.clone(), answer };
        self.0.insert(device_code.clone(), login);
        json!({"device_code": device_code, "user_code": user_code, "verification_uri": page,
            "expires_in": 600, "interval": 0})
    }

    /// `false`: there is no such code.
    pub(crate) fn enter(&mut self, user_code: &str, answer: &str) -> bool {
        let found = self.0.values_mut().find(|login| login.user_code == user_code);
        let Some(login) = found else { return false };
        login.answer = if answer == "no" { Answer::No } else { Answer::Yes };
        true
    }

    /// The scope, once a person has agreed. A code is used once.
    pub(crate) fn redeem(&mut self, device_code: &str, client: &str) -> Result<String, Box<Reply>> {
        let refuse = |error: &str| Err(Box::new(refusal(400, error, "")));
        let Some(login) = self.0.get(device_code).filter(|login| login.client == client) else {
            return refuse("invalid_grant");
        };
        match login.answer {
            Answer::None => refuse("authorization_pending"),
            Answer::No => refuse("access_denied"),
            Answer::Yes => {
                let login = self.0.remove(device_code).expect("it was there");
                Ok(login.scope)
            }
        }
    }
}
