//! What servers say of themselves: where it stands, and what in it counts. Pure.

use serde::{Deserialize, Deserializer, Serialize};
use url::Url;

use super::words::{login_error, said};
use crate::error::Error;
use crate::secret::shown;

/// Some write `null` where they have nothing to say.
fn or_default<'de, D, T>(value: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::deserialize(value).map(Option::unwrap_or_default)
}

/// A protected resource about itself (RFC 9728).
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub(super) struct Resource {
    pub(super) resource: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) authorization_servers: Vec<String>,
    pub(super) scopes_supported: Option<Vec<String>>,
}

/// An authorization server about itself (RFC 8414, OpenID Connect).
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default)]
pub(super) struct Issuer {
    pub(super) issuer: Option<String>,
    pub(super) authorization_endpoint: Option<String>,
    pub(super) token_endpoint: Option<String>,
    pub(super) registration_endpoint: Option<String>,
    pub(super) device_authorization_endpoint: Option<String>,
    pub(super) revocation_endpoint: Option<String>,
    pub(super) scopes_supported: Option<Vec<String>>,
    pub(super) grant_types_supported: Option<Vec<String>>,
    pub(super) code_challenge_methods_supported: Option<Vec<String>>,
    pub(super) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(deserialize_with = "or_default")]
    pub(super) client_id_metadata_document_supported: bool,
    #[serde(deserialize_with = "or_default")]
    pub(super) authorization_response_iss_parameter_supported: bool,
}

/// Where the resource at `server` may describe itself, in the order in which it is looked for.
pub(super) fn resource_places(server: &Url) -> Vec<Url> {
    let path = server.path().trim_end_matches('/');
    let mut paths = vec![path, ""];
    paths.dedup();
    paths.iter().map(|path| well_known(server, "oauth-protected-resource", path)).collect()
}

/// Where the authorization server `issuer` may describe itself, in the order of the specification.
pub(super) fn issuer_places(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let mut places = vec![
        well_known(issuer, "oauth-authorization-server", path),
        well_known(issuer, "openid-configuration", path),
        at_path(issuer, &format!("{path}/.well-known/openid-configuration")),
    ];
    // Without a path, the last two are one.
    places.dedup();
    places
}

fn well_known(base: &Url, name: &str, path: &str) -> Url {
    at_path(base, &format!("/.well-known/{name}{path}"))
}

/// This path of the same server, and nothing else of its address.
pub(super) fn at_path(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_query(None);
    url.set_fragment(None);
    // Both fail only for URLs without a host, which have neither.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_path(path);
    url
}

/// The name of the resource, as RFC 8707 wants it: without the query, in which some keep a secret.
pub(super) fn canonical(server: &Url) -> String {
    let url = at_path(server, server.path());
    match url.path() {
        "/" => url.as_str().trim_end_matches('/').to_owned(),
        _ => url.to_string(),
    }
}

impl Resource {
    /// The resource must be the one that was asked: others could lure tokens away.
    pub(super) fn check(&self, server: &Url) -> Result<(), Error> {
        let Some(named) = &self.resource else { return Ok(()) };
        let named = match Url::parse(named) {
            Ok(named) if covers(&named, server) => return Ok(()),
            Ok(named) => shown(&named),
            Err(_) => "something else".to_owned(),
        };
        let server = shown(server);
        Err(login_error(format!("{server} says that it is {named}: no token is asked for")))
    }
}

/// Whether a token for `resource` is one for `server`: the same origin, and a path at or above.
pub(super) fn covers(resource: &Url, server: &Url) -> bool {
    let above = resource.path().trim_end_matches('/');
    let rest = server.path().trim_end_matches('/').strip_prefix(above);
    resource.origin() == server.origin()
        && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Issuer {
    /// What an authorization server of 2025-03-26 has if it says nothing of itself.
    pub(super) fn by_default(origin: &Url) -> Self {
        let at = |path: &str| Some(at_path(origin, path).to_string());
        Self {
            authorization_endpoint: at("/authorize"),
            token_endpoint: at("/token"),
            registration_endpoint: at("/register"),
            code_challenge_methods_supported: Some(vec!["S256".to_owned()]),
            ..Self::default()
        }
    }

    /// The issuer must be the one that was asked, to the letter (RFC 8414, 3.3).
    pub(super) fn check(&self, asked: &str) -> Result<(), Error> {
        if self.issuer.as_deref().is_some_and(|issuer| is_same_issuer(issuer, asked)) {
            return Ok(());
        }
        Err(login_error(format!(
            "The authorization server {} calls itself {}: it is not trusted",
            said(asked),
            self.issuer.as_deref().unwrap_or("nothing").escape_debug()
        )))
    }

    /// Without anybody who confirms the issuer's name, a server speaks for its own origin alone.
    pub(super) fn check_own(&self, server: &Url) -> Result<(), Error> {
        let endpoints = [
            &self.authorization_endpoint,
            &self.token_endpoint,
            &self.registration_endpoint,
            &self.device_authorization_endpoint,
            &self.revocation_endpoint,
        ];
        let is_elsewhere =
            |text: &&String| Url::parse(text).map_or(true, |url| url.origin() != server.origin());
        let Some(endpoint) = endpoints.into_iter().flatten().find(is_elsewhere) else {
            return Ok(());
        };
        let place = Url::parse(endpoint).map_or_else(|_| said(endpoint), |url| shown(&url));
        let named = match &self.issuer {
            Some(issuer) => format!("names {}, which does not confirm that", said(issuer)),
            None => "names no issuer".to_owned(),
        };
        let message = format!(
            "{} {named}, and sends logins to {place}: they could end up with a stranger",
            shown(server)
        );
        let hint = "Ask who runs the server for the issuer, and name it with --oauth-issuer";
        Err(login_error(message).hint(hint))
    }

    /// PKCE with SHA-256 is a must: without it a stolen code is a token.
    pub(super) fn check_pkce(&self) -> Result<(), Error> {
        let methods = self.code_challenge_methods_supported.as_deref().unwrap_or_default();
        if methods.iter().any(|method| method == "S256") {
            return Ok(());
        }
        Err(login_error(
            "The authorization server does not offer PKCE with S256, without which a login is not \
             safe",
        ))
    }

    pub(super) fn offers_scope(&self, scope: &str) -> bool {
        self.scopes_supported.iter().flatten().any(|offered| offered == scope)
    }
}

/// Whether both are one issuer: to the letter, but that a root has a slash or not.
pub(super) fn is_same_issuer(a: &str, b: &str) -> bool {
    let is_root = |text: &str| Url::parse(text).is_ok_and(|url| url.path() == "/");
    a == b || is_root(a) && is_root(b) && a.trim_end_matches('/') == b.trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn texts(urls: &[Url]) -> Vec<&str> {
        urls.iter().map(Url::as_str).collect()
    }

    #[test]
    fn null_is_nothing() {
        let text = r#"{"issuer":"https://as","client_id_metadata_document_supported":null,
            "authorization_response_iss_parameter_supported":null,"scopes_supported":null}"#;
        let issuer: Issuer = serde_json::from_str(text).unwrap();
        assert_eq!(issuer, Issuer { issuer: Some("https://as".into()), ..Issuer::default() });
        let resource = serde_json::from_str::<Resource>(r#"{"authorization_servers":null}"#);
        assert_eq!(resource.unwrap(), Resource::default());
    }

    #[test]
    fn metadata_is_looked_for_in_the_order_of_the_specification() {
        assert_eq!(
            texts(&resource_places(&url("https://h/a/mcp?x=1"))),
            [
                "https://h/.well-known/oauth-protected-resource/a/mcp",
                "https://h/.well-known/oauth-protected-resource"
            ]
        );
        assert_eq!(
            texts(&resource_places(&url("https://u:p@h/"))),
            ["https://h/.well-known/oauth-protected-resource"]
        );
        assert_eq!(
            texts(&issuer_places(&url("https://h/tenant"))),
            [
                "https://h/.well-known/oauth-authorization-server/tenant",
                "https://h/.well-known/openid-configuration/tenant",
                "https://h/tenant/.well-known/openid-configuration"
            ]
        );
        assert_eq!(
            texts(&issuer_places(&url("https://h"))),
            [
                "https://h/.well-known/oauth-authorization-server",
                "https://h/.well-known/openid-configuration"
            ]
        );
    }

    #[test]
    fn a_resource_must_be_the_one_that_was_asked() {
        let check = |named: &str, server: &str| {
            Resource { resource: Some(named.into()), ..Resource::default() }
                .check(&url(server))
                .is_ok()
        };
        assert!(check("https://h/mcp", "https://h/mcp"));
        assert!(check("https://h/", "https://h/mcp"));
        assert!(check("https://h/mcp/", "https://h/mcp"));
        assert!(!check("https://evil/mcp", "https://h/mcp"));
        assert!(!check("https://h/mcp2", "https://h/mcp"));
        assert!(!check("https://h/mc", "https://h/mcp"));
        assert!(!check("nonsense", "https://h/mcp"));
        assert!(Resource::default().check(&url("https://h/mcp")).is_ok());
    }

    #[test]
    fn an_issuer_must_be_who_it_says() {
        let check = |said: Option<&str>, asked: &str| {
            Issuer { issuer: said.map(str::to_owned), ..Issuer::default() }.check(asked).is_ok()
        };
        assert!(check(Some("https://h/t"), "https://h/t"));
        assert!(check(Some("https://h"), "https://h/"));
        assert!(!check(Some("https://h/t/"), "https://h/t"));
        assert!(!check(Some("https://evil"), "https://h"));
        assert!(!check(None, "https://h"));
    }

    #[test]
    fn pkce_is_a_must() {
        assert!(Issuer::default().check_pkce().is_err());
        let plain = Some(vec!["plain".to_owned()]);
        assert!(
            Issuer { code_challenge_methods_supported: plain, ..Issuer::default() }
                .check_pkce()
                .is_err()
        );
        assert!(Issuer::by_default(&url("https://h/mcp")).check_pkce().is_ok());
        let by_default = Issuer::by_default(&url("https://h/mcp"));
        assert_eq!(by_default.token_endpoint.unwrap(), "https://h/token");
    }
}
