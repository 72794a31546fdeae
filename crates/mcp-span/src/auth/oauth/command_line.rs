//! The command lines that are about one login, for a person: with all that keeps it apart from others,
//! and without anything that may be secret.

use super::{Grant, OAuth, OAuthSettings, TokenStore};
use crate::net::is_loopback;
use crate::secret::shown;
use url::Url;

/// What to type in order to log out, in quotes.
pub(crate) fn logout_command(oauth: &OAuth) -> String {
    let OAuth { server, settings, store, .. } = oauth;
    let by_file = || {
        let name = store.name().filter(|_| settings.token_store == TokenStore::File)?;
        Some([vec![format!("--file {name}")], place(settings)?].concat())
    };
    command("logout", selection(server, settings).or_else(by_file))
}

/// What to type in order to log in, in quotes.
pub(crate) fn login_command(oauth: &OAuth) -> String {
    let words = selection(&oauth.server, &oauth.settings);
    command("login", words.filter(|_| is_enough(&oauth.settings)))
}

fn command(verb: &str, words: Option<Vec<String>>) -> String {
    match words {
        Some(words) => format!("'mcp-span {verb} {}'", words.join(" ")),
        None => format!("'mcp-span {verb}' with the arguments that your client has"),
    }
}

/// The server, and the flags by which this login is found. `None` if that takes more than may be
/// shown.
fn selection(server: &Url, settings: &OAuthSettings) -> Option<Vec<String>> {
    let given = &settings.given;
    let resource = given.resource.as_deref();
    let resource = resource.filter(|text| settings.send_resource && !text.is_empty());
    let is_secret = |text: &str| Url::parse(text).is_ok_and(|url| shown(&url) != url.as_str());
    let has_secrets = !settings.apart_by.is_empty()
        || !given.page_params.is_empty()
        || !given.token_params.is_empty()
        || is_secret(server.as_str())
        || resource.is_some_and(is_secret);
    if has_secrets {
        return None;
    }
    let mut words = vec![quoted(server.as_str())?];
    for (flag, value) in [
        ("--profile", Some(&*settings.profile).filter(|profile| !profile.is_empty())),
        ("--oauth-client-id", settings.client_id.as_deref()),
        ("--oauth-resource", resource),
        ("--oauth-audience", given.audience.as_deref()),
        ("--oauth-scope", settings.scope.as_deref()),
    ] {
        if let Some(value) = value {
            words.push(format!("{flag} {}", quoted(value)?));
        }
    }
    if server.scheme() == "http" && !server.host_str().is_some_and(is_loopback) {
        words.push("--allow-http".to_owned());
    }
    words.extend(place(settings)?);
    Some(words)
}

/// Where it is kept, if that is not where everybody looks.
fn place(settings: &OAuthSettings) -> Option<Vec<String>> {
    let mut words = Vec::new();
    if let (Some(folder), None) = (&settings.folder, &settings.usual_folder) {
        let folder = folder.to_str().filter(|_| folder.is_absolute())?;
        words.push(format!("--state-dir {}", quoted(folder)?));
    }
    #[cfg(feature = "keychain")]
    if settings.token_store == TokenStore::Keychain {
        words.push("--token-store keychain".to_owned());
    }
    Some(words)
}

/// Whether another login needs no settings but those by which it is found.
fn is_enough(settings: &OAuthSettings) -> bool {
    let given = &settings.given;
    let is_any_client = settings.client_secret.is_none()
        && settings.private_key.is_none()
        && settings.client_metadata_url.is_none()
        && (settings.client_id.is_none() || settings.callback_port.is_none());
    let is_found = given.token_url.is_none()
        && given.authorization_url.is_none()
        && given.issuer.is_none()
        && given.style.is_none()
        && given.registration.is_empty();
    is_any_client && is_found && settings.grant == Grant::Code && !settings.offered_scopes
}

/// One word for a shell, of whatever system; `None` if there is no form that all of them take.
fn quoted(text: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@+=,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return Some(text.to_owned());
    }
    let is_special = |c: char| c.is_control() || "\"'$`\\!%".contains(c);
    (!text.contains(is_special)).then(|| format!("\"{text}\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::oauth::Given;
    use crate::auth::oauth::tests::settings;

    fn line(server: &str, settings: &OAuthSettings) -> Option<String> {
        selection(&Url::parse(server).unwrap(), settings).map(|words| words.join(" "))
    }

    #[test]
    fn a_command_line_has_all_that_keeps_a_login_apart() {
        assert_eq!(line("https://h/mcp", &settings()).unwrap(), "https://h/mcp");
        let apart = OAuthSettings {
            profile: "work".into(),
            client_id: Some("me".into()),
            scope: Some("read write".into()),
            folder: Some("/state".into()),
            given: Given { resource: Some("https://t/".into()), ..Given::default() },
            ..settings()
        };
        assert_eq!(
            line("http://h/mcp", &apart).unwrap(),
            "http://h/mcp --profile work --oauth-client-id me --oauth-resource https://t/ \
             --oauth-scope \"read write\" --allow-http --state-dir /state"
        );
    }

    #[test]
    fn what_may_be_secret_or_means_something_to_a_shell_stands_on_no_command_line() {
        assert_eq!(line("https://h/mcp?key=s3cret", &settings()), None);
        let header = vec![("x-team".to_owned(), "red".to_owned())];
        assert_eq!(line("https://h/", &OAuthSettings { apart_by: header, ..settings() }), None);
        for profile in ["$(id)", "a'b", "a\"b", "`id`", "a\\", "a\u{1b}b", "%PATH%"] {
            let settings = OAuthSettings { profile: profile.into(), ..settings() };
            assert_eq!(line("https://h/", &settings), None, "{profile}");
        }
        let relative = OAuthSettings { folder: Some("state".into()), ..settings() };
        assert_eq!(line("https://h/", &relative), None, "nobody knows relative to what");
    }

    #[test]
    fn a_login_with_a_client_of_its_own_is_not_begun_without_it() {
        assert!(is_enough(&settings()));
        assert!(!is_enough(&OAuthSettings { grant: Grant::DeviceCode, ..settings() }));
        let secret = Some(crate::secret::Secret::new("s"));
        assert!(!is_enough(&OAuthSettings { client_secret: secret, ..settings() }));
    }
}
