//! What a server wants to know of who we are, and whether a login would find all that it needs.

use std::time::SystemTime;

use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};

use super::contents::of_failure;
use super::exchange::Exchange;
use super::finding::Finding;
use mcp_span::auth::oauth::challenge::Challenge;
use mcp_span::auth::oauth::{Account, FoundMetadata, OAuth, Provider, Survey, survey};
use mcp_span::client::Failure;
use mcp_span::error::Kind;
use mcp_span::transport::http::HttpSettings;

/// The server has asked for nothing, or takes what it got.
pub(super) async fn taken(settings: &HttpSettings, exchanges: &[Exchange]) -> Finding {
    let account = match oauth(settings) {
        Some(oauth) => oauth.account().await,
        None => None,
    };
    let was_sent = |exchange: &Exchange| exchange.request.headers.contains_key(AUTHORIZATION);
    match (exchanges.iter().any(was_sent), account) {
        (true, Some(account)) => Finding::ok("authorization", "the token of a login is taken")
            .detail(token(&account, SystemTime::now())),
        (true, None) => {
            Finding::ok("authorization", "the given credentials are taken, or not needed")
        }
        (false, _) => Finding::ok("authorization", "none is asked for"),
    }
}

/// There are no credentials to be had.
pub(super) fn unavailable(failure: &Failure) -> Finding {
    of_failure("authorization", failure)
        .meaning("The source of credentials that was named gives none, so nothing was sent")
}

/// The server refuses us, and the client has failed by that.
pub(super) async fn refused(
    settings: &HttpSettings,
    exchange: &Exchange,
    failure: &Failure,
) -> Finding {
    let Ok(response) = &exchange.response else { return of_failure("authorization", failure) };
    let headers = &response.recorded.headers;
    let challenge = Challenge::of(headers);
    let asks = match headers.contains_key(WWW_AUTHENTICATE) {
        true => "with WWW-Authenticate",
        false => "without WWW-Authenticate",
    };
    let said = format!("HTTP {} {asks}", response.status);
    // Else the refusal is all that there is.
    let has_tried = failure.kind() != Some(Kind::Status);
    if settings.may_log_in && has_tried {
        return of_failure("authorization", failure)
            .meaning(format!("The server refuses us ({said}), and no token could be had"));
    }
    if response.status == 403 && !challenge.as_ref().is_some_and(Challenge::wants_more_scope) {
        return Finding::failed("authorization", format!("access is refused ({said})"))
            .meaning("Whoever we are to the server may not use it; also firewalls for the web answer so")
            .next_step("Ask who runs the server for access; check the credentials and the headers that it wants");
    }
    let Some(oauth) = oauth(settings) else {
        return Finding::failed("authorization", format!("the credentials are refused ({said})"))
            .meaning("The token or header that was given is wrong, has expired, or is for something else; logins are out of the question where credentials are given, or with --no-oauth")
            .next_step("Check the token, or leave it out to log in");
    };
    if let Some(peer) = response.recorded.peer {
        oauth.met(peer);
    }
    let survey = survey(oauth, headers).await;
    let account = oauth.account().await;
    let finding = surveyed(&survey, &said, account.as_ref());
    if has_tried { finding.detail(format!("renewal: {failure}")) } else { finding }
}

fn oauth(settings: &HttpSettings) -> Option<&OAuth> {
    settings.credentials.as_deref().and_then(|credentials| credentials.oauth())
}

/// What the way to a login looks like.
fn surveyed(survey: &Survey, said: &str, account: Option<&Account>) -> Finding {
    let account = account.map_or_else(
        || "no token is stored".to_owned(),
        |account| format!("{}; the server refuses it", token(account, SystemTime::now())),
    );
    let finding = match &survey.provider {
        Err(error) => {
            let ask = "Show this report to who runs the server; until then a token can be given with --header 'Authorization: Bearer …'";
            Finding::failed("authorization", format!("a login is not possible: {}", error.message))
                .meaning(format!("The server wants a login ({said}), but what it says about it does not hold together"))
                .next_step(error.hint.as_deref().unwrap_or(ask))
        }
        Ok(None) => Finding::failed("authorization", format!("credentials are wanted, and nothing says how to get them ({said})"))
            .meaning("No metadata was found at any of the usual places, so there is no way to log in")
            .next_step("Ask who runs the server for a token, and give it with --header 'Authorization: Bearer …', --bearer-file or --bearer-command"),
        Ok(Some(provider)) => offered(provider, said),
    };
    let tried = survey.tried.iter().map(|tried| {
        let found = match &tried.found {
            FoundMetadata::Document => "found".to_owned(),
            FoundMetadata::Unreadable => "something that is no metadata".to_owned(),
            FoundMetadata::Status(status) => format!("HTTP {status}"),
            FoundMetadata::Nobody(why) => why.clone(),
        };
        format!("{}: {found}", tried.url)
    });
    let offers = survey.provider.as_ref().ok().and_then(Option::as_ref).map(offers);
    finding.details(tried).details(offers.into_iter().flatten()).detail(account)
}

fn offered(provider: &Provider, said: &str) -> Finding {
    if provider.is_guess {
        return Finding::failed("authorization", format!("a login is wanted ({said}), and no metadata says where"))
            .meaning("The server may be one of an older revision, with the endpoints of a login at its own origin: they are tried by a login")
            .next_step("Try `mcp-span login` with the same arguments; else ask who runs the server for a token");
    }
    if provider.missing.is_empty() {
        return Finding::failed("authorization", format!("a login is needed ({said})"))
            .meaning("All that a login needs is there; what lies behind it was not looked at")
            .next_step("Run `mcp-span login` with the same arguments, or this check with --login");
    }
    let missing = provider.missing.join(", ");
    let next = match provider.missing.contains(&"a way to register a client") {
        true => "Register a client by hand, and give its id with --oauth-client-id",
        false => "Show this report to who runs the authorization server",
    };
    Finding::failed(
        "authorization",
        format!("a login is needed ({said}), and this is missing for it: {missing}"),
    )
    .meaning("The authorization server does not offer all that a login needs")
    .next_step(next)
}

fn offers(provider: &Provider) -> Vec<String> {
    let listed = |names: &[String]| names.join(", ");
    let mut lines = vec![format!("authorization server: {}", provider.issuer)];
    if let Some(resource) = &provider.resource {
        lines.push(format!("tokens are for: {resource}"));
    }
    lines.push(match &provider.grants[..] {
        [] => "grants: none named, which means codes".to_owned(),
        grants => format!("grants: {}", listed(grants)),
    });
    lines.push(format!("PKCE: {}", if provider.has_pkce { "S256" } else { "not offered" }));
    let ways = match &provider.ways_in[..] {
        [] => "none".to_owned(),
        ways => ways.iter().map(|way| way_in(way)).collect::<Vec<_>>().join(", "),
    };
    lines.push(format!("how we become known to it: {ways}"));
    if !provider.scopes.is_empty() {
        lines.push(format!("scopes: {}", listed(&provider.scopes)));
    }
    lines
}

fn way_in(name: &str) -> &'static str {
    match name {
        "configured" => "by the client id that is configured",
        "metadata-document" => "by a metadata document",
        _ => "by registration on the spot",
    }
}

/// Until when what is stored is good.
fn token(account: &Account, now: SystemTime) -> String {
    let renewal = if account.can_be_renewed { "can be renewed" } else { "cannot be renewed" };
    match account.expires.map(|at| at.duration_since(now)) {
        None => format!("a token is stored, without an end, and {renewal}"),
        Some(Ok(left)) => {
            format!("a token is stored, good for {} minutes, and {renewal}", left.as_secs() / 60)
        }
        Some(Err(_)) => format!("a token is stored, expired, and {renewal}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_span::auth::oauth::TriedPlace;
    use mcp_span::error::Error;

    fn provider() -> Provider {
        Provider {
            issuer: "https://as".into(),
            is_guess: false,
            resource: Some("https://h/mcp".into()),
            scopes: vec!["read".into()],
            grants: Vec::new(),
            has_pkce: true,
            ways_in: vec!["registration"],
            missing: Vec::new(),
        }
    }

    fn found(provider: Result<Option<Provider>, Error>) -> Finding {
        let tried =
            vec![TriedPlace { url: "https://h/x".into(), found: FoundMetadata::Status(404) }];
        surveyed(&Survey { tried, provider }, "HTTP 401", None)
    }

    #[test]
    fn every_place_that_was_tried_is_named() {
        let finding = found(Ok(Some(provider())));
        assert_eq!(finding.summary, "a login is needed (HTTP 401)");
        assert_eq!(
            finding.details,
            [
                "https://h/x: HTTP 404",
                "authorization server: https://as",
                "tokens are for: https://h/mcp",
                "grants: none named, which means codes",
                "PKCE: S256",
                "how we become known to it: by registration on the spot",
                "scopes: read",
                "no token is stored",
            ]
        );
    }

    #[test]
    fn what_is_missing_is_the_summary() {
        let without = Provider { missing: vec!["a way to register a client"], ..provider() };
        let finding = found(Ok(Some(without)));
        assert!(finding.summary.ends_with("a way to register a client"), "{}", finding.summary);
        assert!(finding.next_step.unwrap().contains("--oauth-client-id"));
        let nothing = found(Ok(None));
        assert!(nothing.next_step.unwrap().contains("--bearer-file"));
        let broken = found(Err(Error::new(Kind::Login, "it lies")));
        assert!(broken.summary.ends_with("it lies") && broken.next_step.is_some());
    }
}
