//! What a server wants to know of who we are, and whether a login would find all that it needs.

use std::time::SystemTime;

use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};

use super::contents::of_failure;
use super::exchange::Exchange;
use super::finding::Finding;
use mcp_span::Error;
use mcp_span::auth::oauth::challenge::Challenge;
use mcp_span::auth::oauth::{Account, FoundMetadata, OAuth, Provider, Survey, survey};
use mcp_span::error::ErrorKind;
use mcp_span::transport::http::HttpSettings;

/// The server has asked for nothing, or takes what it got.
pub(super) async fn taken(settings: &HttpSettings, exchanges: &[Exchange]) -> Finding {
    let account = match oauth(settings) {
        Some(oauth) => oauth.account().await,
        None => None,
    };
    let was_sent = |exchange: &Exchange| exchange.request.headers.contains_key(AUTHORIZATION);
    match (exchanges.iter().any(was_sent), account) {
        (true, Some(account)) => Finding::ok("authorization", "the token of the login is accepted")
            .detail(token(&account, SystemTime::now())),
        (true, None) => {
            Finding::ok("authorization", "the given credentials are accepted, or not needed")
        }
        (false, _) => Finding::ok("authorization", "none required"),
    }
}

/// There are no credentials to be had.
pub(super) fn unavailable(failure: &Error) -> Finding {
    of_failure("authorization", failure)
        .meaning("The configured source of credentials has none, so nothing was sent")
}

/// The server refuses us, and the client has failed by that.
pub(super) async fn refused(
    settings: &HttpSettings,
    exchange: &Exchange,
    failure: &Error,
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
    let has_tried = failure.kind != ErrorKind::Status;
    if settings.may_log_in && has_tried {
        return of_failure("authorization", failure).meaning(format!(
            "The server refuses the request ({said}), and no token could be obtained"
        ));
    }
    if response.status == 403 && !challenge.as_ref().is_some_and(Challenge::wants_more_scope) {
        return Finding::failed("authorization", format!("access is refused ({said})"))
            .meaning("These credentials do not grant access; web application firewalls answer like this, too")
            .next_step("Ask the server's operator for access; check the credentials and headers that it requires");
    }
    let Some(oauth) = oauth(settings) else {
        return Finding::failed("authorization", format!("the credentials are refused ({said})"))
            .meaning("The given token or header is wrong, expired, or meant for something else; there is no login where credentials are given, or with --no-oauth")
            .next_step("Check the token, or omit it to log in");
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
            let ask = "Show this report to the server's operator; until then, give a token with --header 'Authorization: Bearer …'";
            Finding::failed("authorization", format!("login impossible: {}", error.message))
                .meaning(format!("The server requires a login ({said}), but its metadata is inconsistent"))
                .next_step(error.hint.as_deref().unwrap_or(ask))
        }
        Ok(None) => Finding::failed("authorization", format!("credentials required, and nothing says how to get them ({said})"))
            .meaning("No metadata at any of the usual places, so there is no way to log in")
            .next_step("Ask the server's operator for a token, and give it with --header 'Authorization: Bearer …', --bearer-file or --bearer-command"),
        Ok(Some(provider)) => offered(provider, said),
    };
    let tried = survey.tried.iter().map(|tried| {
        let found = match &tried.found {
            FoundMetadata::Document => "found".to_owned(),
            FoundMetadata::Unreadable => "not metadata".to_owned(),
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
        return Finding::failed("authorization", format!("login required ({said}), and no metadata says where"))
            .meaning("The server may follow an older revision, with the login endpoints at its own origin: a login tries them")
            .next_step("Try `mcp-span login` with the same arguments; else ask the server's operator for a token");
    }
    if provider.missing.is_empty() {
        return Finding::failed("authorization", format!("login required ({said})"))
            .meaning("All that a login needs is there; the server itself was not checked")
            .next_step("Run `mcp-span login` with the same arguments, or this check with --login");
    }
    let missing = provider.missing.join(", ");
    let next = match provider.missing.contains(&"a way to register a client") {
        true => "Register a client by hand, and give its id with --oauth-client-id",
        false => "Show this report to the operator of the authorization server",
    };
    Finding::failed(
        "authorization",
        format!("login required ({said}), but the authorization server lacks {missing}"),
    )
    .meaning("The authorization server does not offer all that a login needs")
    .next_step(next)
}

fn offers(provider: &Provider) -> Vec<String> {
    let listed = |names: &[String]| names.join(", ");
    let mut lines = vec![format!("authorization server: {}", provider.issuer)];
    if let Some(resource) = &provider.resource {
        lines.push(format!("resource: {resource}"));
    }
    lines.push(match &provider.grants[..] {
        [] => "grants: none named (authorization code)".to_owned(),
        grants => format!("grants: {}", listed(grants)),
    });
    lines.push(format!("PKCE: {}", if provider.has_pkce { "S256" } else { "not offered" }));
    let ways = match &provider.ways_in[..] {
        [] => "none".to_owned(),
        ways => ways.iter().map(|way| way_in(way)).collect::<Vec<_>>().join(", "),
    };
    lines.push(format!("client registration: {ways}"));
    if !provider.scopes.is_empty() {
        lines.push(format!("scopes: {}", listed(&provider.scopes)));
    }
    lines
}

fn way_in(name: &str) -> &'static str {
    match name {
        "configured" => "configured client id",
        "metadata-document" => "metadata document",
        _ => "dynamic",
    }
}

/// Until when what is stored is good.
fn token(account: &Account, now: SystemTime) -> String {
    let renewal = if account.can_be_renewed { "can be renewed" } else { "cannot be renewed" };
    match account.expires.map(|at| at.duration_since(now)) {
        None => format!("a token without expiry is stored; it {renewal}"),
        Some(Ok(left)) => {
            format!("a token is stored, valid for {} minutes; it {renewal}", left.as_secs() / 60)
        }
        Some(Err(_)) => format!("an expired token is stored; it {renewal}"),
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
        assert_eq!(finding.summary, "login required (HTTP 401)");
        assert_eq!(
            finding.details,
            [
                "https://h/x: HTTP 404",
                "authorization server: https://as",
                "resource: https://h/mcp",
                "grants: none named (authorization code)",
                "PKCE: S256",
                "client registration: dynamic",
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
        let broken = found(Err(Error::new(ErrorKind::Login, "it lies")));
        assert!(broken.summary.ends_with("it lies") && broken.next_step.is_some());
    }
}
