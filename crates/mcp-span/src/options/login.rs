//! Logins: the settings of OAuth, checked as far as that is possible before they are used.

use std::path::PathBuf;

use ::url::Url;
use serde_json::Map;

use super::value::NO_URL;
use super::{Context, OptionError, ServerOptions};
use crate::auth::oauth::{
    Bearer, CallbackPlace, Given, Grant, OAuthSettings, OneShot, PrivateKey, TokenStore,
};
use crate::net::is_loopback;
use crate::secret::{Scrubber, Secret, shown};

/// Parameters of the authorization request that are ours to set.
const OWN: [&str; 6] = [
    "response_type",
    "client_id",
    "redirect_uri",
    "state",
    "code_challenge",
    "code_challenge_method",
];

impl ServerOptions {
    /// The settings of a login; `None` if nobody is to log in.
    pub(super) fn resolve_login(
        &self,
        context: &Context,
        scrubber: &Scrubber,
    ) -> Result<Option<OAuthSettings>, OptionError> {
        if self.no_oauth == Some(true) {
            return Ok(None);
        }
        let given = self.given(context, scrubber)?;
        let client_secret = self.secret(
            "oauth-client-secret-env",
            self.oauth_client_secret_env.as_ref(),
            self.oauth_client_secret.as_ref(),
            context,
            scrubber,
        )?;
        Ok(Some(OAuthSettings {
            client_id: self.oauth_client_id.clone(),
            client_secret,
            client_metadata_url: self.oauth_client_metadata_url.clone(),
            private_key: self.private_key()?,
            scope: self.oauth_scope.clone(),
            offered_scopes: self.oauth_offered_scopes == Some(true),
            send_resource: self.oauth_no_resource != Some(true)
                && self.oauth_resource.as_deref() != Some(""),
            callback_port: self.oauth_callback_port.clone().filter(|ports| *ports.start() != 0),
            callback: self.callback()?,
            login_wait: self.oauth_login_timeout(),
            skew: self.oauth_skew(),
            given,
            grant: self.oauth_grant(),
            folder: self.state_dir(context),
            usual_folder: context.usual_state_dir.clone().filter(|_| self.state_dir.is_none()),
            token_store: self.checked_token_store()?,
            profile: self.profile.clone().unwrap_or_default(),
            apart_by: Vec::new(),
            bearer: match self.oauth_use_id_token {
                Some(true) => Bearer::IdToken,
                _ => Bearer::AccessToken,
            },
            success_url: self.success_url()?,
            paste: context.paste.clone(),
            show: context.show.clone(),
            open: context.open.clone(),
            process: context.login_process.clone(),
        }))
    }

    /// Where state is kept.
    #[doc(hidden)]
    #[must_use]
    pub fn state_dir(&self, context: &Context) -> Option<PathBuf> {
        self.state_dir.clone().or_else(|| context.state_dir.clone())
    }

    /// What makes an ID token useless, for `--oauth-use-id-token`.
    #[doc(hidden)]
    #[must_use]
    pub fn vain_id_token(&self) -> Option<String> {
        let (other, why) = match self.credential_source() {
            _ if self.oauth_use_id_token != Some(true) => return None,
            _ if self.no_oauth == Some(true) => ("no-oauth", "nobody logs in"),
            Some(source) => (source, "nobody logs in"),
            None if self.oauth_grant == Some(Grant::ClientCredentials) => {
                ("oauth-grant client-credentials", "most providers give clients no ID token")
            }
            None => return None,
        };
        Some(format!("--oauth-use-id-token has no effect with --{other}: {why}"))
    }

    /// The secret in the variable that an option names, else the one that a program has given; hidden
    /// from then on.
    fn secret(
        &self,
        option: &str,
        variable: Option<&String>,
        given: Option<&Secret>,
        context: &Context,
        scrubber: &Scrubber,
    ) -> Result<Option<Secret>, OptionError> {
        let secret = match variable {
            None => given.cloned(),
            Some(name) => {
                let value = context.variables.text(name).filter(|value| !value.is_empty());
                let value = value
                    .ok_or_else(|| self.wrong(option, format!("the variable {name} is not set")))?;
                Some(Secret::new(value))
            }
        };
        secret.iter().for_each(|secret| scrubber.add(secret));
        Ok(secret)
    }

    fn private_key(&self) -> Result<Option<PrivateKey>, OptionError> {
        let Some(path) = &self.oauth_private_key else { return Ok(None) };
        let wrong =
            |why: String| self.wrong("oauth-private-key", format!("{}: {why}", path.display()));
        let text =
            std::fs::read(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
        PrivateKey::from_pem(&text).map(Some).map_err(wrong)
    }

    fn checked_token_store(&self) -> Result<TokenStore, OptionError> {
        match self.token_store() {
            TokenStore::Keychain if !cfg!(feature = "keychain") => Err(self.wrong(
                "token-store",
                "this program was built without a keychain: build it with 'cargo install mcp-span-cli \
                 --features keychain', or use --token-store file",
            )),
            store => Ok(store),
        }
    }

    /// What need not be found out.
    fn given(&self, context: &Context, scrubber: &Scrubber) -> Result<Given, OptionError> {
        let secret = |option, variable: &Option<String>, given: &Option<Secret>| {
            self.secret(option, variable.as_ref(), given.as_ref(), context, scrubber)
        };
        let refresh_token = secret(
            "oauth-refresh-token-env",
            &self.oauth_refresh_token_env,
            &self.oauth_refresh_token,
        )?;
        let code = secret("oauth-code-env", &self.oauth_code_env, &self.oauth_code)?;
        let verifier = secret(
            "oauth-code-verifier-env",
            &self.oauth_code_verifier_env,
            &self.oauth_code_verifier,
        )?;
        let redirect = self.oauth_redirect_uri.clone();
        let no_discovery = self.oauth_no_discovery == Some(true);
        if no_discovery && self.oauth_token_url.is_none() {
            return Err(self.wrong(
                "oauth-no-discovery",
                "it needs --oauth-token-url, since no token endpoint is looked for",
            ));
        }
        let (token, page) = ("oauth-token-url", "oauth-authorization-url");
        Ok(Given {
            issuer: self.issuer()?,
            token_url: self.secure(token, self.oauth_token_url.as_ref())?,
            authorization_url: self.secure(page, self.oauth_authorization_url.as_ref())?,
            no_discovery,
            refresh_token,
            code: code.map(|code| OneShot { code, verifier, redirect }),
            resource: self.oauth_resource.clone(),
            audience: self.oauth_audience.clone(),
            token_params: self.parameters(
                "oauth-param",
                self.oauth_param.as_deref(),
                &["client_secret"],
            )?,
            page_params: self.parameters(
                "oauth-authorize-param",
                self.oauth_authorize_param.as_deref(),
                &OWN,
            )?,
            style: self.oauth_auth_style,
            no_person: self.oauth_no_interactive == Some(true),
            registration: match &self.oauth_registration {
                None => Map::new(),
                // Without a word of the text: there may be a secret in it.
                Some(text) => serde_json::from_str(text)
                    .map_err(|_| self.wrong("oauth-registration", "it must be a JSON object"))?,
            },
        })
    }

    /// Where the browser goes in the end.
    fn success_url(&self) -> Result<Option<Url>, OptionError> {
        let option = "oauth-success-url";
        let url = self.secure(option, self.oauth_success_url.as_ref())?;
        let is_bare = |url: &Url| {
            let has_user = !url.username().is_empty() || url.password().is_some();
            !has_user && url.query().is_none() && url.fragment().is_none()
        };
        match url {
            Some(url) if !is_bare(&url) => {
                Err(self.wrong(option, "it must have no user, no query and no fragment"))
            }
            url => Ok(url),
        }
    }

    /// Where the browser comes back to.
    fn callback(&self) -> Result<CallbackPlace, OptionError> {
        let (host, path) = (self.oauth_callback_host(), self.oauth_callback_path());
        if !is_callback_host(&host) {
            return Err(self.wrong("oauth-callback-host", "it must be 127.0.0.1 or localhost"));
        }
        if !is_callback_path(&path) {
            return Err(self.wrong("oauth-callback-path", "it must be a path such as /callback"));
        }
        Ok(CallbackPlace { host, path })
    }

    /// The name of an issuer, as it was typed: names are compared to the letter.
    fn issuer(&self) -> Result<Option<String>, OptionError> {
        let Some(typed) = &self.oauth_issuer else { return Ok(None) };
        let wrong = |why: &str| Err(self.wrong("oauth-issuer", why));
        let Ok(url) = Url::parse(typed) else { return wrong(NO_URL) };
        if !url.username().is_empty() || url.query().is_some() || url.fragment().is_some() {
            return wrong("an issuer must have no user, no query and no fragment");
        }
        let is_local = url.scheme() == "http" && url.host_str().is_some_and(is_loopback);
        if url.scheme() != "https" && !is_local {
            return wrong("it must be https, because secrets go there");
        }
        Ok(Some(typed.clone()))
    }

    /// Tokens and codes cross it: encrypted, but on this machine.
    fn secure(&self, option: &str, url: Option<&Url>) -> Result<Option<Url>, OptionError> {
        let Some(url) = url else { return Ok(None) };
        let is_local = url.host_str().is_some_and(is_loopback);
        match url.scheme() {
            "https" => Ok(Some(url.clone())),
            "http" if is_local || self.allow_http == Some(true) => Ok(Some(url.clone())),
            "http" => Err(self.wrong(
                option,
                format!(
                    "{} is plain http to another machine: use https, or --allow-http if you trust \
                     the way",
                    shown(url)
                ),
            )),
            scheme => Err(self.wrong(option, format!("the scheme is '{scheme}', not https"))),
        }
    }

    fn parameters(
        &self,
        option: &str,
        texts: Option<&[String]>,
        own: &[&str],
    ) -> Result<Vec<(String, String)>, OptionError> {
        let texts = texts.unwrap_or_default().iter().filter(|text| !text.is_empty());
        let pairs = texts.map(|text| match text.split_once('=') {
            Some((name, _)) if own.contains(&name) => {
                Err(self.wrong(option, format!("{name} is not to be set by hand")))
            }
            Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
            _ => Err(self.wrong(option, "a parameter is written NAME=VALUE")),
        });
        pairs.collect()
    }
}

/// Whether a host can stand in a redirect URI of ours.
#[must_use]
pub fn is_callback_host(host: &str) -> bool {
    matches!(host, "127.0.0.1" | "localhost")
}

/// Whether a path can stand in a redirect URI of ours.
#[must_use]
pub fn is_callback_path(path: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-._~".contains(c);
    path.starts_with('/') && path.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn addresses_given_by_hand_are_encrypted_or_on_this_machine() {
        let of = |text: &str, allow| {
            let options = ServerOptions { allow_http: Some(allow), ..ServerOptions::default() };
            options.secure("oauth-token-url", Some(&url(text)))
        };
        assert!(of("https://as/t", false).unwrap().is_some());
        assert!(of("http://localhost:1/t", false).unwrap().is_some());
        assert!(of("http://as.example/t", true).unwrap().is_some());
        let why = of("http://as.example/t?k=s3cret", false).unwrap_err().to_string();
        assert!(why.contains("--allow-http") && !why.contains("s3cret"), "{why}");
        assert!(of("ftp://as.example/t", true).is_err());
    }

    #[test]
    fn the_last_page_is_an_address_and_no_more() {
        let of = |text: &str, allow| {
            let options = ServerOptions {
                allow_http: Some(allow),
                oauth_success_url: Some(url(text)),
                ..ServerOptions::default()
            };
            options.success_url()
        };
        assert!(of("https://app.example/done", false).unwrap().is_some());
        assert!(of("http://localhost:1/done", false).unwrap().is_some());
        assert!(of("http://app.example/done", true).unwrap().is_some());
        for wrong in [
            "http://app.example/done",
            "https://me@app.example/",
            "https://app.example/?s3cret",
            "https://app.example/#x",
            "ftp://app.example/",
        ] {
            let why = of(wrong, false).unwrap_err().to_string();
            assert!(why.contains("--oauth-success-url") && !why.contains("s3cret"), "{why}");
        }
    }

    #[test]
    fn parameters_are_pairs_and_not_the_ones_that_are_ours() {
        let of = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|t| (*t).to_owned()).collect();
            ServerOptions::default().parameters("oauth-authorize-param", Some(&texts), &OWN)
        };
        assert_eq!(
            of(&["a=b=c", "", "d="]).unwrap(),
            [("a".into(), "b=c".into()), ("d".into(), String::new())]
        );
        for wrong in ["s3cret", "=s3cret", "state=s3cret"] {
            assert!(!of(&[wrong]).unwrap_err().to_string().contains("s3cret"));
        }
    }

    #[test]
    fn the_way_back_is_a_path_of_this_machine() {
        assert!(is_callback_path("/oauth/callback") && is_callback_path("/"));
        assert!(
            !is_callback_path("callback") && !is_callback_path("/a?b") && !is_callback_path("/ü")
        );
        assert!(!is_callback_host("evil.example") && !is_callback_host("0.0.0.0"));
    }
}
