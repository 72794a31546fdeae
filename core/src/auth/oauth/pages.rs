//! The pages that a browser shows on its way through a login. Pure.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use ring::digest;

use super::words::said;

/// One page: what happened, the facts, and what to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Page {
    status: StatusCode,
    mood: Mood,
    title: &'static str,
    /// Names and values, in the order in which they are shown.
    facts: Vec<(&'static str, String)>,
    advice: String,
}

/// Whether it is good news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Good,
    Bad,
    Neutral,
}

/// What a login is about, as a page shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct About {
    /// The server's address, without anything secret.
    pub(super) server: String,
    /// Who gives out the tokens.
    pub(super) issuer: String,
    /// What the token is asked for, where the user has said so.
    pub(super) resource: Option<String>,
    /// The user's name for the account, if there is one.
    pub(super) profile: Option<String>,
    /// What to type in order to log in, in quotes.
    pub(super) login: String,
    /// The same for a logout.
    pub(super) logout: String,
}

impl About {
    fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = vec![("Server", self.server.clone()), ("Login by", self.issuer.clone())];
        facts.extend(self.resource.iter().map(|resource| ("Resource", said(resource))));
        facts.extend(self.profile.iter().map(|profile| ("Profile", said(profile))));
        facts
    }

    /// The token is stored.
    pub(super) fn done(&self, scope: Option<&str>, renews: bool) -> Page {
        let mut facts = self.facts();
        facts.extend(scope.map(|scope| ("Scopes", said(scope))));
        let kept = if renews { "until you log out" } else { "until it expires" };
        facts.push(("Kept", kept.to_owned()));
        let advice = format!(
            "You can close this tab: your client goes on by itself. To log out, run {}.",
            self.logout
        );
        Page { status: StatusCode::OK, mood: Mood::Good, title: "You are logged in", facts, advice }
    }

    /// The person or the provider said no.
    pub(super) fn refused(&self, reason: &str) -> Page {
        let mut facts = self.facts();
        facts.push(("Reason", said(reason)));
        let advice = format!(
            "Nothing was stored. To try again, run {}, or use your client again in a minute.",
            self.login
        );
        let title = "The login was refused";
        Page { status: StatusCode::OK, mood: Mood::Bad, title, facts, advice }
    }

    /// The person agreed, and the token could not be had.
    pub(super) fn failed(&self, reason: &str) -> Page {
        let mut facts = self.facts();
        facts.push(("Reason", said(reason)));
        let advice = format!(
            "You agreed, but no token came of it, and nothing was stored. To try again, use your \
             client again, or run {}. If the reason stays the same, tell it to whoever runs the \
             login: the fault is there, or on the way to it.",
            self.login
        );
        let title = "The login could not be finished";
        Page { status: StatusCode::OK, mood: Mood::Bad, title, facts, advice }
    }
}

/// Pages for visitors of whom nothing is known: they name neither server nor issuer.
impl Page {
    /// The link that was handed to the browser was opened a second time.
    pub(super) fn used_link() -> Self {
        let advice =
            "Each link is good for one visit. If the first was not yours, another program \
                      of this machine may have read it; so this login was ended. Start it again \
                      from your client."
                .to_owned();
        let title = "This link was already used";
        let status = StatusCode::GONE;
        Self { status, mood: Mood::Bad, title, facts: Vec::new(), advice }
    }

    /// A way back that belongs to no login of today.
    pub(super) fn expired() -> Self {
        let advice = "It has expired, or a newer login has taken its place. Start it again from \
                      your client, or with 'mcp-span login'."
            .to_owned();
        let title = "This login is no longer valid";
        let status = StatusCode::BAD_REQUEST;
        Self { status, mood: Mood::Bad, title, facts: Vec::new(), advice }
    }

    /// There is nothing at the path that was asked for.
    pub(super) fn wrong_address() -> Self {
        let advice = "mcp-span waits here for a login that began in another tab. If you came from \
                      there, go back and try again."
            .to_owned();
        let title = "There is nothing at this address";
        let status = StatusCode::NOT_FOUND;
        Self { status, mood: Mood::Neutral, title, facts: Vec::new(), advice }
    }

    /// The request came under a name that is not this machine's.
    pub(super) fn wrong_host() -> Self {
        let advice = "A login is answered under the address of this machine only.".to_owned();
        let title = "This address is not for you";
        let status = StatusCode::FORBIDDEN;
        Self { status, mood: Mood::Neutral, title, facts: Vec::new(), advice }
    }

    /// The visitor is another user of this machine.
    pub(super) fn another_user() -> Self {
        let advice = "Only the user who has begun it can go on with it.".to_owned();
        let title = "This login belongs to another user";
        let status = StatusCode::FORBIDDEN;
        Self { status, mood: Mood::Bad, title, facts: Vec::new(), advice }
    }

    /// Not a GET.
    pub(super) fn wrong_method() -> Self {
        let title = "Open this address in a browser";
        let status = StatusCode::METHOD_NOT_ALLOWED;
        Self { status, mood: Mood::Neutral, title, facts: Vec::new(), advice: String::new() }
    }

    /// The page as it goes to the browser.
    pub(super) fn response(&self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from(self.html())));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        if let Ok(policy) = HeaderValue::from_str(&policy()) {
            headers.insert(CONTENT_SECURITY_POLICY, policy);
        }
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        plain(response)
    }

    fn html(&self) -> String {
        let (class, sign) = match self.mood {
            Mood::Good => ("good", "\u{2713}"),
            Mood::Bad => ("bad", "!"),
            Mood::Neutral => ("neutral", "?"),
        };
        let rows: String = self
            .facts
            .iter()
            .map(|(name, value)| format!("<dt>{}<dd>{}", escape(name), escape(value)))
            .collect();
        let facts = if rows.is_empty() { rows } else { format!("<dl>{rows}</dl>") };
        format!(
            "<!doctype html><html lang=en><meta charset=utf-8>\
             <meta name=viewport content=\"width=device-width\">\
             <meta name=color-scheme content=\"light dark\">\
             <link rel=icon href=\"data:,\"><title>{title} - mcp-span</title>\
             <style>{STYLE}</style><main class={class}><p class=sign aria-hidden=true>{sign}</p>\
             <h1>{title}</h1>{facts}<p>{advice}</p><footer>mcp-span {version} on this \
             machine</footer></main>",
            title = escape(self.title),
            advice = escape(&self.advice),
            version = env!("CARGO_PKG_VERSION"),
        )
    }
}

/// Sends the browser on, and takes what the address bar shows now out of its history.
pub(super) fn redirect(location: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::SEE_OTHER;
    if let Ok(location) = HeaderValue::from_str(location) {
        response.headers_mut().insert(LOCATION, location);
    }
    plain(response)
}

/// An answer for a program, without a page.
pub(super) fn empty(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    plain(response)
}

/// What holds for every answer: codes stand in addresses, which are nobody else's business.
fn plain(mut response: Response<Full<Bytes>>) -> Response<Full<Bytes>> {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// No scripts, nothing from elsewhere, in nobody's frame; the one style is named by its hash.
fn policy() -> String {
    let hash = STANDARD.encode(digest::digest(&digest::SHA256, STYLE.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{hash}'; img-src data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'"
    )
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Fits a phone and a desktop, by day and by night.
const STYLE: &str = "\
:root{--back:#f4f5f7;--card:#fff;--line:#d9dce1;--text:#16181d;--dim:#5b626e;--sign:#5b626e}\
@media(prefers-color-scheme:dark){\
:root{--back:#111318;--card:#1b1e25;--line:#343a45;--text:#e9ebef;--dim:#a2a9b6;--sign:#8a92a0}}\
*{box-sizing:border-box}\
body{margin:0;background:var(--back);color:var(--text);font:16px/1.5 system-ui,sans-serif}\
main{max-width:36rem;margin:8vh auto;padding:2rem;background:var(--card);\
border:1px solid var(--line);border-radius:12px}\
@media(max-width:38rem){main{margin:0;min-height:100vh;border:0;border-radius:0}}\
.good{--sign:#1a7f37}.bad{--sign:#c4432b}\
.sign{width:2.6rem;height:2.6rem;margin:0 0 1rem;border-radius:50%;background:var(--sign);\
color:#fff;font-size:1.3rem;line-height:2.6rem;text-align:center}\
h1{margin:0 0 1rem;font-size:1.45rem;line-height:1.25}\
dl{display:grid;grid-template-columns:max-content 1fr;gap:.3rem 1rem;margin:0 0 1rem}\
dt{color:var(--dim)}dd{margin:0;overflow-wrap:anywhere}\
p{margin:0 0 1rem;overflow-wrap:anywhere}footer{color:var(--dim);font-size:.8rem}";

#[cfg(test)]
mod tests {
    use super::*;

    fn about() -> About {
        About {
            server: "https://h/mcp".into(),
            issuer: "https://as".into(),
            resource: Some("https://t/".into()),
            profile: Some("work".into()),
            login: "'mcp-span login https://h/mcp --profile work'".into(),
            logout: "'mcp-span logout https://h/mcp --profile work'".into(),
        }
    }

    #[test]
    fn what_others_wrote_is_text_on_a_page_and_nothing_else() {
        let page = about().refused("<script>alert(1)</script>\u{1b}[31m\"'&");
        let html = page.html();
        assert!(
            html.contains("&lt;script&gt;alert(1)&lt;/script&gt;[31m&quot;&#39;&amp;"),
            "{html}"
        );
        assert!(!html.contains("<script"), "{html}");
        assert!(!html.contains('\u{1b}'));
    }

    #[test]
    fn pages_run_no_scripts_and_load_nothing() {
        for page in [
            about().done(Some("read write"), true),
            about().refused("no"),
            about().failed("no"),
            Page::expired(),
            Page::used_link(),
            Page::wrong_address(),
            Page::wrong_host(),
            Page::wrong_method(),
        ] {
            let response = page.response();
            let policy = response.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
            assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
            assert!(!policy.contains("script-src") && !policy.contains("unsafe"), "{policy}");
            assert_eq!(response.headers()[CACHE_CONTROL], "no-store");
            assert_eq!(response.headers()[REFERRER_POLICY], "no-referrer");
            let html = page.html();
            assert!(!html.contains("src=") && !html.contains("http-equiv"), "{html}");
            assert!(html.len() < 4096, "small: {}", html.len());
        }
    }

    #[test]
    fn a_page_names_server_issuer_scopes_and_what_to_do() {
        let html = about().done(Some("read"), true).html();
        for part in [
            "<dt>Server<dd>https://h/mcp",
            "<dt>Login by<dd>https://as",
            "<dt>Resource<dd>https://t/",
            "<dt>Profile<dd>work",
            "read",
            "run &#39;mcp-span logout https://h/mcp --profile work&#39;.",
            "You are logged in",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        let html = about().failed("The request for a token was refused").html();
        assert!(html.contains("The request for a token was refused"), "{html}");
    }
}
