//! Which of several logins at one server is meant: they are kept apart by what is asked of the
//! authorization server.

use url::Url;

use super::OAuthSettings;
use super::kept::StoredLogin;
use super::metadata::covers;

/// What tells one login at a server from another.
#[derive(Clone, Debug)]
pub(super) struct Apart {
    /// The account, and the client if one is named.
    pub(super) owner: String,
    /// All else that tells them apart, as JSON; empty if nothing does.
    pub(super) asked: String,
    /// The same in words for a person: the values of parameters and headers may be secrets.
    pub(super) words: Vec<String>,
    pub(super) profile: Option<String>,
    resource: Option<String>,
    pub(super) server: Url,
}

impl Apart {
    /// Reads it out of what was wished for.
    pub(super) fn new(server: &Url, settings: &OAuthSettings) -> Self {
        let given = &settings.given;
        // A token is good for the client that it was given to: each that is named has its own.
        let owner = match &settings.client_id {
            Some(id) => format!("{}\n{id}", settings.profile),
            None => settings.profile.clone(),
        };
        let resource =
            given.resource.clone().filter(|text| settings.send_resource && !text.is_empty());
        let mut asked: Vec<(&str, &str, &str)> = Vec::new();
        asked.extend(resource.iter().map(|value| ("resource", "", value.as_str())));
        asked.extend(given.audience.iter().map(|value| ("audience", "", value.as_str())));
        let scope = settings.scope.as_deref().map(sorted);
        asked.extend(scope.iter().map(|value| ("scope", "", value.as_str())));
        for (kind, pairs) in [
            ("authorize", &given.page_params),
            ("token", &given.token_params),
            ("header", &settings.apart_by),
        ] {
            asked.extend(pairs.iter().map(|(name, value)| (kind, name.as_str(), value.as_str())));
        }
        asked.sort_unstable();
        let mut words: Vec<String> = asked.iter().map(in_words).collect();
        words.dedup();
        let asked = match asked.is_empty() {
            true => String::new(),
            false => serde_json::to_string(&asked).unwrap_or_default(),
        };
        let profile = Some(settings.profile.clone()).filter(|profile| !profile.is_empty());
        Self { owner, asked, words, profile, resource, server: server.clone() }
    }

    /// Whether a login that was stored without any of this, as earlier versions did, may be used:
    /// not if it is that of another resource.
    pub(super) fn allows(&self, stored: &StoredLogin) -> bool {
        match (&self.resource, stored.resource.as_deref()) {
            (Some(wanted), stored) => stored == Some(wanted),
            (None, None) => true,
            // What a server names itself is always one that it is part of.
            (None, Some(stored)) => Url::parse(stored).is_ok_and(|url| covers(&url, &self.server)),
        }
    }
}

fn in_words((kind, name, value): &(&str, &str, &str)) -> String {
    match *kind {
        // It is shown by itself.
        "resource" => "resource".to_owned(),
        "scope" | "audience" => format!("{kind} '{value}'"),
        "header" => format!("header {name}"),
        _ => format!("parameter {name}"),
    }
}

/// The order of scopes means nothing.
fn sorted(scope: &str) -> String {
    let mut words: Vec<&str> = scope.split_whitespace().collect();
    words.sort_unstable();
    words.dedup();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::oauth::Given;
    use crate::auth::oauth::tests::settings;

    fn server() -> Url {
        Url::parse("https://h/a/mcp").unwrap()
    }

    fn of(given: Given) -> Apart {
        Apart::new(&server(), &OAuthSettings { given, ..settings() })
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_order_in_which_things_are_asked_means_nothing() {
        let one = Given { page_params: pairs(&[("a", "1"), ("b", "2")]), ..Given::default() };
        let other = Given { page_params: pairs(&[("b", "2"), ("a", "1")]), ..Given::default() };
        assert_eq!(of(one.clone()).asked, of(other).asked);
        let moved = Given { token_params: one.page_params.clone(), ..Given::default() };
        assert_ne!(of(one).asked, of(moved).asked, "another party is asked");
        assert_eq!(of(Given::default()).asked, "");
        assert_eq!(sorted(" b  a b"), "a b");
    }

    #[test]
    fn in_words_the_values_of_parameters_and_headers_are_left_out() {
        let given = Given { page_params: pairs(&[("tenant", "s3cret")]), ..Given::default() };
        let settings = OAuthSettings {
            given,
            scope: Some("b a".into()),
            apart_by: pairs(&[("x-team", "s3cret")]),
            ..settings()
        };
        let apart = Apart::new(&server(), &settings);
        assert_eq!(apart.words, ["parameter tenant", "header x-team", "scope 'a b'"]);
    }

    #[test]
    fn no_value_is_taken_for_the_end_of_another() {
        let one = Given { page_params: pairs(&[("a", "1\",\"b")]), ..Given::default() };
        let other = Given { page_params: pairs(&[("a", "1"), ("b", "")]), ..Given::default() };
        assert_ne!(of(one).asked, of(other).asked);
    }

    #[test]
    fn a_login_of_another_resource_is_not_taken_over() {
        let stored = |resource: Option<&str>| StoredLogin {
            resource: resource.map(str::to_owned),
            ..StoredLogin::default()
        };
        let tenant = of(Given { resource: Some("https://t/".into()), ..Given::default() });
        assert!(tenant.allows(&stored(Some("https://t/"))));
        for other in [None, Some("https://u/"), Some("https://h/a/mcp")] {
            assert!(!tenant.allows(&stored(other)), "{other:?}");
        }
        let plain = of(Given::default());
        for own in [None, Some("https://h/a/mcp"), Some("https://h/")] {
            assert!(plain.allows(&stored(own)), "{own:?}");
        }
        for other in [Some("https://t/"), Some("https://h/b"), Some("tenant")] {
            assert!(!plain.allows(&stored(other)), "{other:?}");
        }
        let without = OAuthSettings {
            send_resource: false,
            given: Given { resource: Some("https://t/".into()), ..Given::default() },
            ..settings()
        };
        assert_eq!(Apart::new(&server(), &without).asked, "");
    }
}
