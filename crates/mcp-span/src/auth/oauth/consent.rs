//! A person's consent, by way of a browser that comes back with a code.

use tokio::time::timeout;
use tracing::debug;
use url::{Url, form_urlencoded};

use super::authority::FoundAuthority;
use super::callback::Callback;
use super::callback_port::CallbackPort;
use super::callback_server::CallbackServer;
use super::flow::{LoginRun, Plan};
use super::identity::ClientIdentity;
use super::page_note::PageNote;
use super::pause::Failed;
use super::site;
use super::token::Token;
use super::words::{login_error, said};
use super::{OAuth, OAuthSettings, OneShot, Parties, Prompt, pkce};
use crate::error::Error;
use crate::secret::{Secret, shown};

impl LoginRun<'_> {
    /// Sends a person to a page, and takes what the browser brings back. The server that it comes
    /// back to is left in `browser`: it has a last page to show.
    pub(super) async fn by_code(
        &self,
        browser: &mut Option<CallbackServer>,
    ) -> Result<(ClientIdentity, Token), Failed> {
        let Self { oauth, plan: Plan { authority, .. } } = self;
        authority.metadata.check_pkce()?;
        let (port, identity) = self.introduce().await?;
        let redirect = port.redirect_uri();
        let browser = browser.insert(port.serve(oauth)?);
        let (mut callback, mut verifier) = self.consent(&identity, &redirect, browser).await?;
        if oauth.resource(authority).is_some() && callback.rejects_resource() {
            debug!("the provider does not want to know what the token is for: asked without it");
            oauth.set_refuses_resource(true);
            (callback, verifier) = self.consent(&identity, &redirect, browser).await?;
        }
        let (verifier, redirect) = (Some(verifier), Some(redirect));
        let code = OneShot { code: self.code(callback)?, verifier, redirect };
        match self.request(&identity).send(code.form()).await {
            Ok(token) => Ok((identity, token)),
            Err(refusal) => Err(self.refused(&identity, refusal).await),
        }
    }

    /// Has a person do what `prompt` says, and tells other processes of it, until `coming` ends or
    /// one of them calls the login off. `again` is where those can ask for the page to be opened
    /// once more.
    pub(super) async fn ask<T>(
        &self,
        prompt: Prompt,
        again: Option<String>,
        coming: impl Future<Output = Result<T, Failed>>,
    ) -> Result<T, Failed> {
        let OAuth { server, settings, store, .. } = self.oauth;
        let note = PageNote {
            id: self.plan.id.clone(),
            process: std::process::id(),
            server: shown(server),
            profile: settings.profile.clone(),
            apart_by: store.apart_by().to_vec(),
            parties: Parties::new(server, &self.plan.authority.issuer, prompt.page()),
            prompt,
            again,
        };
        // The note first: whoever sees the page may look for it.
        let noted = store.note_page(&note).await;
        let _pending = self.oauth.show(&note);
        tokio::select! {
            outcome = coming => outcome,
            () = noted.withdrawn() => Err(Failed::unfinished(login_error(format!(
                "The login to {} was called off",
                shown(server)
            )))),
        }
    }

    /// The person has not come back.
    pub(super) fn too_late(&self) -> Error {
        login_error(format!("Nobody has logged in to {} in time", shown(&self.oauth.server)))
    }

    /// Asks a person, and waits for the answer that the browser brings back; with the proof that
    /// whoever has the code in it has asked for it.
    async fn consent(
        &self,
        identity: &ClientIdentity,
        redirect: &str,
        browser: &mut CallbackServer,
    ) -> Result<(Callback, Secret), Failed> {
        let (state, verifier) = (pkce::random()?, pkce::random()?);
        let page = self.page(identity, redirect, &state, &pkce::challenge(&verifier))?;
        let (prompt, again) = (Prompt::Browser(page.clone()), browser.again_url());
        let coming = async {
            browser.visit(&state, &page);
            let arrival = timeout(self.oauth.settings.login_wait, browser.arrival()).await;
            let arrival = arrival.unwrap_or_else(|_| Err(self.too_late()));
            arrival.and_then(|callback| self.of_issuer(callback)).map_err(Failed::unfinished)
        };
        Ok((self.ask(prompt, Some(again), coming).await?, Secret::new(verifier)))
    }

    /// The browser must come from where we sent it (RFC 9207).
    fn of_issuer(&self, callback: Callback) -> Result<Callback, Error> {
        let FoundAuthority { metadata, issuer, .. } = &self.plan.authority.found;
        let expected = metadata.issuer.as_deref().unwrap_or(issuer);
        let is_right = match &callback.issuer {
            // To the letter (RFC 9207): the conformance suite has a case with a final slash.
            Some(issuer) => issuer == expected,
            None => !metadata.authorization_response_iss_parameter_supported,
        };
        if is_right {
            return Ok(callback);
        }
        let error = login_error(
            "The answer to the login does not come from the authorization server that was asked",
        );
        // Addresses that were given by hand do not say whose they are.
        let given = &self.oauth.settings.given;
        let is_unnamed = given.token_url.is_some() && given.issuer.is_none();
        let hint = "Name the issuer of the addresses that you give with --oauth-issuer";
        Err(Error { hint: is_unnamed.then(|| hint.to_owned()), ..error })
    }

    /// Who we are, and where the browser comes back to. A client that was registered keeps its port:
    /// many a provider compares redirect addresses to the letter.
    async fn introduce(&self) -> Result<(CallbackPort, ClientIdentity), Error> {
        let OAuthSettings { callback_port: wanted, callback, .. } = &self.oauth.settings;
        let fits = |identity: &ClientIdentity| {
            let is_wanted = |port: u16| wanted.as_ref().is_none_or(|wanted| wanted.contains(&port));
            let has_place = identity.place.as_ref().is_none_or(|place| place == callback);
            has_place && identity.port.is_none_or(is_wanted)
        };
        if let Some(identity) = self.registered(None).await?.filter(fits) {
            let own = identity.port.map(|port| port..=port);
            match CallbackPort::bind(own.as_ref().or(wanted.as_ref()), callback).await {
                Ok(port) => return Ok((port, identity)),
                Err(error) => debug!("the client has to be registered anew: {error}"),
            }
        }
        let port = CallbackPort::bind(wanted.as_ref(), callback).await?;
        let identity = self.choose_identity(Some(&port)).await?;
        Ok((port, identity))
    }

    /// The page for the person.
    fn page(
        &self,
        identity: &ClientIdentity,
        redirect: &str,
        state: &str,
        challenge: &str,
    ) -> Result<Url, Error> {
        let Self { oauth, plan: Plan { authority, scope, .. } } = self;
        let (given, scope) = (&oauth.settings.given, scope.as_deref());
        let place = authority.metadata.authorization_endpoint.as_ref();
        let mut page = given.endpoint(place, "a login", &oauth.server)?;
        let mut ours = vec![
            ("response_type", "code"),
            ("client_id", &identity.id),
            ("redirect_uri", redirect),
            ("state", state),
            ("code_challenge", challenge),
            ("code_challenge_method", "S256"),
        ];
        ours.extend(scope.map(|scope| ("scope", scope)));
        if scope.is_some_and(|scope| scope.split(' ').any(|s| s == "offline_access")) {
            // OpenID wants it for a refresh token.
            ours.push(("prompt", "consent"));
        }
        ours.extend(oauth.resource(authority).map(|resource| ("resource", resource)));
        // What the user gives counts.
        ours.retain(|(name, _)| !given.page_params.iter().any(|(given, _)| given == name));
        ours.extend(given.page_params.iter().map(|(name, value)| (&**name, &**value)));
        let is_found = given.authorization_url.is_none();
        // Who names a page of somebody else must not say what its tokens are good for.
        let is_borrowed =
            is_found && !authority.url().is_some_and(|url| site::is_same(&url, &page));
        let mut taken: Vec<&str> = ours.iter().map(|(name, _)| *name).collect();
        taken.extend(NOT_THEIRS.iter().filter(|_| is_found));
        taken.extend(NOT_A_STRANGERS.iter().filter(|_| is_borrowed));
        remove_params(&mut page, &taken);
        page.query_pairs_mut().extend_pairs(ours);
        Ok(page)
    }

    /// Goes before the reason for a refusal.
    pub(super) fn refusal_start(&self) -> String {
        format!("The login to {} was refused: ", shown(&self.oauth.server))
    }

    fn code(&self, callback: Callback) -> Result<Secret, Failed> {
        if let Some(error) = callback.error {
            let said = said(&callback.description.unwrap_or(error));
            return Err(Failed::refused(login_error(format!("{}{said}", self.refusal_start()))));
        }
        let nothing = || Failed::unfinished(login_error("The login brought no code back"));
        callback.code.map(Secret::new).ok_or_else(nothing)
    }
}

/// What a provider has no business to say in the address of its page, beside what we say there: it is
/// ours to leave out, or would count in place of what we say (RFC 9101).
const NOT_THEIRS: [&str; 4] = ["scope", "resource", "request", "request_uri"];

/// The same for a page of another site than the issuer's: it says what a token is good for, or how
/// the answer comes back.
const NOT_A_STRANGERS: [&str; 5] =
    ["audience", "authorization_details", "claims", "registration", "response_mode"];

/// Takes parameters of these names out of an address, and leaves the others as they are written.
fn remove_params(page: &mut Url, names: &[&str]) {
    let Some(query) = page.query().map(str::to_owned) else { return };
    let is_such = |found: &str| names.iter().any(|name| name.eq_ignore_ascii_case(found));
    // Some take a semicolon for an ampersand.
    let is_kept = |pair: &&str| {
        let mut params = pair.split(';').flat_map(|part| form_urlencoded::parse(part.as_bytes()));
        !pair.is_empty() && !params.any(|(name, _)| is_such(&name))
    };
    let rest: Vec<&str> = query.split('&').filter(is_kept).collect();
    page.set_query(Some(rest.join("&").as_str()).filter(|rest| !rest.is_empty()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ours_to_say_is_taken_out_of_an_address_however_it_is_written() {
        let of = |query: &str| {
            let mut page = Url::parse(&format!("https://as/a?{query}")).unwrap();
            let ours = ["response_type", "client_id", "redirect_uri", "state"];
            let of_pkce = ["code_challenge", "code_challenge_method"];
            remove_params(&mut page, &[&ours[..], &of_pkce, &NOT_THEIRS].concat());
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
