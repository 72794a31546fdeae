//! Which scopes are asked for. Pure.

use std::collections::HashSet;

use super::authority::{Authority, FoundAuthority};
use super::challenge::Challenge;
use super::{Bearer, Grant, OAuthSettings};
use crate::limits;

/// What was asked for, and may be asked for next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Scopes(Vec<String>);

impl Scopes {
    pub(super) fn of(text: &str) -> Self {
        let mut scopes = Self::default();
        scopes.add(text.split_whitespace());
        scopes
    }

    /// Adds `more`, each once, as far as there is room.
    fn add<'a>(&mut self, more: impl IntoIterator<Item = &'a str>) {
        let mut known: HashSet<String> = self.0.iter().cloned().collect();
        for scope in more {
            if self.0.len() >= limits::SCOPES {
                break;
            }
            if known.insert(scope.to_owned()) {
                self.0.push(scope.to_owned());
            }
        }
    }

    /// Whether all of `more` are among these.
    pub(super) fn has(&self, more: &Self) -> bool {
        let known: HashSet<&String> = self.0.iter().collect();
        more.0.iter().all(|scope| known.contains(scope))
    }

    /// Whether a login for more scope would bring any: `granted` is what there is. Where nobody
    /// says what is missing, that has to be tried.
    pub(super) fn can_grow(
        configured: Option<&str>,
        granted: Option<&str>,
        challenge: &Challenge,
    ) -> bool {
        let Some(granted) = granted.map(Self::of) else { return true };
        // What the user says is what is asked for, whatever the server wants.
        let asked = configured.or(challenge.scope.as_deref());
        asked.is_none_or(|asked| !granted.has(&Self::of(asked)))
    }

    /// The text of the parameter; `None` to leave it out.
    pub(super) fn text(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.0.join(" "))
    }

    /// What to ask for: what the user says; else what the challenge names, else the resource; more
    /// than before if that is what is missing.
    pub(super) fn choose(
        before: Option<&str>,
        challenge: &Challenge,
        authority: &Authority,
        settings: &OAuthSettings,
    ) -> Self {
        if let Some(configured) = settings.scope.as_deref() {
            return Self::of(configured);
        }
        let mut chosen = Self::default();
        if let Some(before) = before.filter(|_| challenge.wants_more_scope()) {
            chosen.add(before.split_whitespace());
        }
        let FoundAuthority { metadata, scopes, .. } = &authority.found;
        let offered = metadata.scopes_supported.as_ref().filter(|_| settings.offered_scopes);
        // Those of `OpenID` Connect that nearly all know. They are about a person.
        let wants_usual = settings.offered_scopes && settings.grant != Grant::ClientCredentials;
        match (&challenge.scope, scopes.as_ref().or(offered)) {
            (Some(scope), _) => chosen.add(scope.split_whitespace()),
            (None, Some(scopes)) => chosen.add(scopes.iter().map(String::as_str)),
            (None, None) if wants_usual => chosen.add(["openid", "email", "profile"]),
            (None, None) => {}
        }
        // Without it, many a provider gives no refresh token.
        if metadata.offers_scope("offline_access") {
            chosen.add(["offline_access"]);
        }
        // Without it, no provider says who has logged in.
        if settings.bearer == Bearer::IdToken && metadata.offers_scope("openid") {
            chosen.add(["openid"]);
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::auth::oauth::metadata::Issuer;
    use crate::auth::oauth::tests::settings;

    fn authority(named: Option<&[&str]>, offered: &[&str]) -> Authority {
        let texts = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        let metadata = Issuer { scopes_supported: Some(texts(offered)), ..Issuer::default() };
        Authority::unchecked(FoundAuthority {
            metadata,
            issuer: String::new(),
            resource: None,
            scopes: named.map(texts),
            is_guess: false,
        })
    }

    fn challenge(scope: Option<&str>, error: Option<&str>) -> Challenge {
        Challenge {
            scope: scope.map(str::to_owned),
            error: error.map(str::to_owned),
            ..Challenge::default()
        }
    }

    #[test]
    fn the_challenge_counts_then_the_resource_then_nothing() {
        let choose = |c: &Challenge, a: &Authority| Scopes::choose(None, c, a, &settings()).text();
        let both = authority(Some(&["r1", "r2"]), &[]);
        assert_eq!(choose(&challenge(Some("c"), None), &both).unwrap(), "c");
        assert_eq!(choose(&challenge(None, None), &both).unwrap(), "r1 r2");
        assert_eq!(choose(&challenge(None, None), &authority(None, &["x"])), None);
        let offline = authority(None, &["offline_access"]);
        assert_eq!(choose(&challenge(Some("c"), None), &offline).unwrap(), "c offline_access");
        let mine =
            OAuthSettings { scope: Some("mine".into()), bearer: Bearer::IdToken, ..settings() };
        let configured = Scopes::choose(Some("b"), &challenge(Some("c"), None), &offline, &mine);
        assert_eq!(configured.text().unwrap(), "mine");
    }

    #[test]
    fn what_is_offered_is_asked_for_where_nobody_names_anything_and_the_user_wants_that() {
        let wide = OAuthSettings { offered_scopes: true, ..settings() };
        let choose = |c: Option<&str>, a: &Authority| {
            Scopes::choose(None, &challenge(c, None), a, &wide).text()
        };
        assert_eq!(choose(None, &authority(None, &["x", "y"])).unwrap(), "x y");
        assert_eq!(choose(Some("c"), &authority(None, &["x"])).unwrap(), "c");
        assert_eq!(choose(None, &authority(Some(&["r"]), &["x"])).unwrap(), "r");
        assert_eq!(choose(None, &authority(Some(&[]), &["x"])), None, "it says that it needs none");
        let mut silent = authority(None, &[]);
        silent.found.metadata.scopes_supported = None;
        assert_eq!(choose(None, &silent).unwrap(), "openid email profile");
    }

    #[test]
    fn a_login_that_brings_nothing_more_is_not_worth_it() {
        let more = |scope| challenge(scope, Some("insufficient_scope"));
        let can_grow =
            |configured, granted, scope| Scopes::can_grow(configured, granted, &more(scope));
        assert!(can_grow(None, Some("read"), Some("write")));
        assert!(!can_grow(None, Some("write read"), Some("read")));
        assert!(can_grow(None, Some("read"), None), "nobody knows");
        assert!(can_grow(None, None, Some("read")), "nobody knows");
        assert!(!can_grow(Some("read"), Some("read"), Some("write")));
        assert!(can_grow(Some("read write"), Some("read"), Some("write")), "not all was granted");
    }

    #[test]
    fn no_server_makes_us_ask_for_scopes_without_number() {
        let many: Vec<String> = (0..120_000).map(|n| format!("scope{n}")).collect();
        let text = many.join(" ");
        let chosen = Scopes::choose(
            Some("mine"),
            &challenge(Some(&text), None),
            &authority(None, &[]),
            &settings(),
        );
        assert_eq!(chosen.0, many[..limits::SCOPES]);
        let more = challenge(Some(&text), Some("insufficient_scope"));
        let chosen = Scopes::choose(Some("mine"), &more, &authority(None, &[]), &settings());
        assert_eq!(chosen.0[0], "mine", "what there was comes first");
        assert_eq!(chosen.0.len(), limits::SCOPES);
        assert!(!Scopes::can_grow(None, Some(&text), &more));
    }

    #[test]
    fn eight_times_as_many_scopes_are_eight_times_the_work() {
        // Each is looked up in a table once; beyond the limit not even that.
        let looked_at = |count: usize, of: fn(usize) -> String| {
            let names: Vec<String> = (0..count).map(of).collect();
            let looked_at = std::cell::Cell::new(0);
            let counted = names.iter().map(|name| {
                looked_at.set(looked_at.get() + 1);
                name.as_str()
            });
            let mut scopes = Scopes::default();
            scopes.add(counted);
            assert!(scopes.0.len() <= limits::SCOPES);
            looked_at.get()
        };
        assert_eq!(
            looked_at(8_000, |_| "same".to_owned()),
            8 * looked_at(1_000, |_| "same".to_owned())
        );
        let different = |n: usize| format!("scope{n}");
        assert_eq!(looked_at(64_000, different), looked_at(8_000, different));
    }

    #[test]
    fn more_scope_is_asked_for_on_top_of_what_there_was() {
        let more = challenge(Some("write read"), Some("insufficient_scope"));
        let chosen =
            Scopes::choose(Some("read profile"), &more, &authority(None, &[]), &settings());
        assert_eq!(chosen.text().unwrap(), "read profile write");
    }
}
