//! A person's consent, by way of a browser that comes back with a code.

use std::sync::atomic::Ordering;

use tokio::sync::mpsc;
use tokio::time::timeout;
use tracing::debug;
use url::{Url, form_urlencoded};

use super::authority::Authority;
use super::callback::Callback;
use super::callback_port::CallbackPort;
use super::callback_server::{Arrival, CallbackServer, Expected};
use super::flow::{Plan, Unsuccessful};
use super::grant::Refusal;
use super::identity::{self, Identity, Purpose};
use super::kept::Kept;
use super::page_note::{Noted, PageNote};
use super::site;
use super::token::Token;
use super::{CallbackPorts, OAuth, Over, Parties, Prompt, pkce, said};
use crate::error::{Error, Kind};
use crate::secret::shown;

impl OAuth {
    /// Sends a person to a page, and takes what the browser brings back. The server that it comes
    /// back to is left in `browser`: it has a last page to show.
    pub(super) async fn by_code(
        &self,
        plan: &Plan,
        kept: &Kept,
        browser: &mut Option<CallbackServer>,
    ) -> Result<(Identity, Token), Unsuccessful> {
        let Plan { authority, token_endpoint, .. } = plan;
        let scope = plan.scope.as_deref();
        authority.metadata.check_pkce()?;
        let (port, identity) = self.introduce(plan, kept).await?;
        let redirect = port.redirect_uri();
        let server = port.serve(self.settings.open.clone())?;
        let server = browser.insert(server);
        // Read by one alone: a second would miss a line that the first takes away.
        let mut lines = self.settings.paste.as_ref().map(|paste| (paste.lines)());
        let way = (&mut *server, &mut lines, &*redirect);
        let mut consent = self.consent(plan, &identity, way).await?;
        if self.resource(authority).is_some() && consent.callback.rejects_resource() {
            debug!("the provider does not want to know what the token is for: asked without it");
            self.refuses_resource.store(true, Ordering::Relaxed);
            let way = (&mut *server, &mut lines, &*redirect);
            consent = self.consent(plan, &identity, way).await?;
        }
        let (code, verifier) = (self.code(consent.callback)?, consent.verifier);
        let resource = self.resource(authority);
        let request = self.request(token_endpoint, &identity, &authority.issuer, resource, scope);
        let form = vec![
            ("grant_type", "authorization_code".to_owned()),
            ("code", code),
            ("redirect_uri", redirect),
            ("code_verifier", verifier),
        ];
        match request.send(form).await {
            Ok(token) => Ok((identity, token)),
            Err(Refusal::Client(error)) => {
                self.forget_client_alone(&identity.id).await;
                Err(Unsuccessful::refused(error))
            }
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// Asks a person, and tells other processes of it, until the result is dropped. `again` is where
    /// those can ask for the page to be opened once more.
    pub(super) async fn show(
        &self,
        plan: &Plan,
        prompt: &Prompt,
        again: Option<String>,
    ) -> Shown<'_> {
        let (id, process) = (plan.id.clone(), std::process::id());
        let parties = Parties::new(&self.server, &plan.authority.issuer, prompt.page());
        let note = PageNote {
            id,
            process,
            server: shown(&self.server),
            profile: self.settings.profile.clone(),
            apart_by: self.store.apart_by().to_vec(),
            parties,
            prompt: prompt.clone(),
            again,
        };
        // The note first: whoever sees the page may look for it.
        let noted = self.store.note_page(&note).await;
        (self.settings.show)(prompt, &note.parties);
        self.state(|state| state.was_shown = true);
        Shown { note: noted, _over: self.pending_at(&note) }
    }

    /// Asks a person, and waits for the answer that the browser brings back.
    async fn consent(
        &self,
        plan: &Plan,
        identity: &Identity,
        (browser, lines, redirect): (
            &mut CallbackServer,
            &mut Option<mpsc::Receiver<String>>,
            &str,
        ),
    ) -> Result<Consent, Error> {
        let authority = &plan.authority;
        let (state, verifier) = (pkce::random()?, pkce::random()?);
        let proof = (&*state, &*pkce::challenge(&verifier));
        let page = self.page(authority, identity, redirect, plan.scope.as_deref(), proof)?;
        let expected = browser.expect(&state, &page);
        let shown_page = self.show(plan, &Prompt::Browser(page), Some(browser.again_url())).await;
        if expected == Expected::New {
            browser.open();
        }
        let coming_back = async {
            match (&self.settings.paste, lines) {
                (Some(paste), Some(lines)) => paste.wait(lines, browser, &state).await,
                _ => Ok(browser.arrival().await),
            }
        };
        let arrival = tokio::select! {
            arrival = timeout(self.settings.login_wait, coming_back) => arrival,
            () = shown_page.note.withdrawn() => {
                let message = format!("The login to {} was called off", shown(&self.server));
                return Err(Error::new(Kind::Login, message).not_delivered());
            }
        };
        let Ok(arrival) = arrival else {
            let message = format!("Nobody has logged in to {} in time", shown(&self.server));
            return Err(Error::new(Kind::Login, message).not_delivered());
        };
        let Arrival::Callback(callback) = arrival? else {
            let message = format!(
                "The login to {} was ended: the link that was given to the browser was opened \
                 twice, which another user of this machine may have done",
                shown(&self.server)
            );
            return Err(Error::new(Kind::Login, message).hint("Log in again").not_delivered());
        };
        check_origin(authority, &callback).map_err(|error| self.about_issuer(error))?;
        Ok(Consent { callback, verifier })
    }

    /// Addresses that were given by hand do not say whose they are.
    fn about_issuer(&self, error: Error) -> Error {
        let given = &self.settings.given;
        match given.token_url.is_some() && given.issuer.is_none() {
            true => {
                error.hint("Name the issuer of the addresses that you give with --oauth-issuer")
            }
            false => error,
        }
    }

    /// Who we are, and where the browser comes back to. A client that was registered keeps its port:
    /// many a provider compares redirect addresses to the letter.
    async fn introduce(&self, plan: &Plan, kept: &Kept) -> Result<(CallbackPort, Identity), Error> {
        let (authority, scope) = (&plan.authority, plan.scope.as_deref());
        let (settings, metadata) = (&self.settings, &authority.metadata);
        let wanted = settings.callback_port;
        if let Some(identity) = identity::configured(settings, metadata) {
            return Ok((self.listen(wanted).await?, identity));
        }
        let registered = kept.identity.as_ref();
        let fits = |identity: &&Identity| {
            let has_port = |wanted: CallbackPorts| identity.port.is_none_or(|p| wanted.contains(p));
            let has_place = identity.place.as_ref().is_none_or(|place| *place == settings.callback);
            has_place && wanted.is_none_or(has_port) && identity.may_ask_for(scope)
        };
        let registered = registered.filter(|identity| identity.only.is_none());
        if let Some(identity) = registered.filter(fits) {
            match self.listen(identity.port.map(CallbackPorts::only).or(wanted)).await {
                Ok(port) => return Ok((port, identity.clone())),
                Err(error) => debug!("the client has to be registered anew: {error}"),
            }
        }
        let port = self.listen(wanted).await?;
        let redirect = port.redirect_uri();
        let purpose = Purpose::Redirect(&redirect);
        let identity =
            identity::choose(settings, authority, &self.web, &self.server, purpose, scope).await?;
        Ok((port, identity))
    }

    async fn listen(&self, ports: Option<CallbackPorts>) -> Result<CallbackPort, Error> {
        CallbackPort::bind(ports, &self.settings.callback).await
    }

    /// The page for the person.
    fn page(
        &self,
        authority: &Authority,
        identity: &Identity,
        redirect: &str,
        scope: Option<&str>,
        (state, challenge): (&str, &str),
    ) -> Result<Url, Error> {
        let given = &self.settings.given;
        let place = &authority.metadata.authorization_endpoint;
        let mut page = self.endpoint(place, &given.authorization_url, "a login")?;
        let is_free = |name: &str| !given.page_params.iter().any(|(given, _)| given == name);
        let mut ours = vec![
            ("response_type", "code"),
            ("client_id", &identity.id),
            ("redirect_uri", redirect),
            ("state", state),
            ("code_challenge", challenge),
            ("code_challenge_method", "S256"),
        ];
        ours.extend(scope.filter(|_| is_free("scope")).map(|scope| ("scope", scope)));
        let wants_offline = |scope: &str| scope.split(' ').any(|s| s == "offline_access");
        if scope.is_some_and(wants_offline) && is_free("prompt") {
            // OpenID wants it for a refresh token.
            ours.push(("prompt", "consent"));
        }
        let resource = self.resource(authority).filter(|_| is_free("resource"));
        ours.extend(resource.map(|resource| ("resource", resource)));
        ours.extend(given.page_params.iter().map(|(name, value)| (&**name, &**value)));
        let is_found = given.authorization_url.is_none();
        // Who names a page of somebody else must not say what its tokens are good for.
        let is_borrowed =
            is_found && !authority.url().is_some_and(|url| site::is_same(&url, &page));
        take_out(&mut page, |name| {
            let is_one_of = |names: &[&str]| names.iter().any(|own| own.eq_ignore_ascii_case(name));
            ours.iter().any(|(own, _)| own.eq_ignore_ascii_case(name))
                || is_found && is_one_of(&NOT_THEIRS)
                || is_borrowed && is_one_of(&NOT_A_STRANGERS)
        });
        page.query_pairs_mut().extend_pairs(ours);
        Ok(page)
    }

    /// Goes before the reason for a refusal.
    pub(super) fn refusal_start(&self) -> String {
        format!("The login to {} was refused: ", shown(&self.server))
    }

    fn code(&self, callback: Callback) -> Result<String, Unsuccessful> {
        if let Some(error) = callback.error {
            let said = said(&callback.description.unwrap_or(error));
            let message = format!("{}{said}", self.refusal_start());
            let error = Error::new(Kind::Login, message).not_delivered();
            return Err(Unsuccessful::refused(error));
        }
        let none = || Error::new(Kind::Login, "The login brought no code back").not_delivered();
        Ok(callback.code.ok_or_else(none)?)
    }
}

/// What a provider has no business to say in the address of its page: it is ours to say, or would
/// count in place of what we say (RFC 9101).
const NOT_THEIRS: [&str; 10] = [
    "response_type",
    "client_id",
    "redirect_uri",
    "state",
    "code_challenge",
    "code_challenge_method",
    "scope",
    "resource",
    "request",
    "request_uri",
];

/// The same for a page of another site than the issuer's: it says what a token is good for, or how
/// the answer comes back.
const NOT_A_STRANGERS: [&str; 5] =
    ["audience", "authorization_details", "claims", "registration", "response_mode"];

/// Takes such parameters out of an address, and leaves the others as they are written.
fn take_out(page: &mut Url, is_such: impl Fn(&str) -> bool) {
    let Some(query) = page.query().map(str::to_owned) else { return };
    // Some take a semicolon for an ampersand.
    let is_kept = |pair: &&str| {
        let names = pair.split(';').flat_map(|part| form_urlencoded::parse(part.as_bytes()));
        !pair.is_empty() && !names.map(|(name, _)| name).any(|name| is_such(&name))
    };
    let rest: Vec<&str> = query.split('&').filter(is_kept).collect();
    page.set_query(Some(rest.join("&").as_str()).filter(|rest| !rest.is_empty()));
}

/// A person is being asked.
pub(super) struct Shown<'a> {
    pub(super) note: Noted,
    _over: Over<'a>,
}

/// What a person has agreed to.
struct Consent {
    callback: Callback,
    /// Proves that whoever has the code has asked for it.
    verifier: String,
}

/// The browser must come from where we sent it (RFC 9207).
fn check_origin(authority: &Authority, callback: &Callback) -> Result<(), Error> {
    let expected = authority.metadata.issuer.as_deref().unwrap_or(&authority.issuer);
    let is_promised = authority.metadata.authorization_response_iss_parameter_supported;
    let is_wrong = match &callback.issuer {
        // To the letter (RFC 9207): the conformance suite has a case with a final slash.
        Some(issuer) => issuer != expected,
        None => is_promised,
    };
    if is_wrong {
        let message =
            "The answer to the login does not come from the authorization server that was asked";
        return Err(Error::new(Kind::Login, message).not_delivered());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ours_to_say_is_taken_out_of_an_address_however_it_is_written() {
        let of = |query: &str| {
            let mut page = Url::parse(&format!("https://as/a?{query}")).unwrap();
            take_out(&mut page, |name| NOT_THEIRS.contains(&name));
            page.query().unwrap_or_default().to_owned()
        };
        assert_eq!(of("p=b2c_1&x=a%20b+c&&flag"), "p=b2c_1&x=a%20b+c&flag");
        for query in [
            "client_id=evil",
            "client%5Fid=evil",
            "client_id",
            "x;client_id=evil",
            "client_id=a&client_id=b",
            "request=eyJ&request_uri=urn:x",
            "state=1&redirect_uri=https://evil/&code_challenge=c&code_challenge_method=plain",
            "response_type=token&scope=all&resource=x",
        ] {
            assert_eq!(of(query), "", "{query}");
            assert_eq!(of(&format!("a=1&{query}&b=2")), "a=1&b=2", "{query}");
        }
        assert_eq!(of("my_state=1&clientid=2"), "my_state=1&clientid=2");
    }
}
