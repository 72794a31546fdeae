//! The pages that a browser shows on its way through a login. Pure.

use std::borrow::Cow;

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
    facts: Facts,
    advice: Cow<'static, str>,
}

/// Whether it is good news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Good,
    Bad,
    Neutral,
}

/// Names and values, in the order in which they are shown; those without a value are not.
pub(super) type Facts = Vec<(&'static str, String)>;

/// Pages of the login that `facts` are about; `login` and `logout` are what to type, in quotes.
impl Page {
    /// The token is stored.
    pub(super) fn done(mut facts: Facts, scope: Option<&str>, renews: bool, logout: &str) -> Self {
        let kept = if renews { "until you log out" } else { "until it expires" };
        facts.extend([("Scopes", said(scope.unwrap_or_default())), ("Kept", kept.to_owned())]);
        let advice = format!(
            "You can close this tab: your client goes on by itself. To log out, run {logout}."
        );
        let (status, title) = (StatusCode::OK, "You are logged in");
        Self { status, mood: Mood::Good, title, facts, advice: advice.into() }
    }

    /// The person or the provider said no.
    pub(super) fn refused(mut facts: Facts, reason: &str, login: &str) -> Self {
        let advice = format!(
            "Nothing was stored. To try again, run {login}, or use your client again in a minute."
        );
        facts.push(("Reason", said(reason)));
        let (status, title) = (StatusCode::OK, "The login was refused");
        Self { status, mood: Mood::Bad, title, facts, advice: advice.into() }
    }

    /// The person agreed, and the token could not be had.
    pub(super) fn failed(mut facts: Facts, reason: &str, login: &str) -> Self {
        let advice = format!(
            "You agreed, but no token came of it, and nothing was stored. To try again, use your \
             client again, or run {login}. If the reason stays the same, tell it to whoever runs \
             the login: the fault is there, or on the way to it."
        );
        facts.push(("Reason", said(reason)));
        let (status, title) = (StatusCode::OK, "The login could not be finished");
        Self { status, mood: Mood::Bad, title, facts, advice: advice.into() }
    }
}

/// Pages for visitors of whom nothing is known: they name neither server nor issuer.
impl Page {
    fn bare(status: StatusCode, mood: Mood, title: &'static str, advice: &'static str) -> Self {
        Self { status, mood, title, facts: Vec::new(), advice: advice.into() }
    }

    /// The link that was handed to the browser was opened a second time.
    pub(super) fn used_link() -> Self {
        let advice = "Each link is good for one visit. If the first was not yours, another program \
                      of this machine may have read it; so this login was ended. Start it again \
                      from your client.";
        Self::bare(StatusCode::GONE, Mood::Bad, "This link was already used", advice)
    }

    /// A way back that belongs to no login of today.
    pub(super) fn expired() -> Self {
        let advice = "It has expired, or a newer login has taken its place. Start it again from \
                      your client, or with 'mcp-span login'.";
        Self::bare(StatusCode::BAD_REQUEST, Mood::Bad, "This login is no longer valid", advice)
    }

    /// There is nothing at the path that was asked for.
    pub(super) fn wrong_address() -> Self {
        let title = "There is nothing at this address";
        let advice = "mcp-span waits here for a login that began in another tab. If you came from \
                      there, go back and try again.";
        Self::bare(StatusCode::NOT_FOUND, Mood::Neutral, title, advice)
    }

    /// The request came under a name that is not this machine's.
    pub(super) fn wrong_host() -> Self {
        let advice = "A login is answered under the address of this machine only.";
        Self::bare(StatusCode::FORBIDDEN, Mood::Neutral, "This address is not for you", advice)
    }

    /// The visitor is another user of this machine.
    pub(super) fn another_user() -> Self {
        let advice = "Only the user who has begun it can go on with it.";
        Self::bare(StatusCode::FORBIDDEN, Mood::Bad, "This login belongs to another user", advice)
    }

    /// Not a GET.
    pub(super) fn wrong_method() -> Self {
        let title = "Open this address in a browser";
        Self::bare(StatusCode::METHOD_NOT_ALLOWED, Mood::Neutral, title, "")
    }

    /// The page as it goes to the browser.
    pub(super) fn response(&self) -> Response<Full<Bytes>> {
        let mut response = response(self.status, self.html().into());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        if let Ok(policy) = HeaderValue::from_str(&policy()) {
            headers.insert(CONTENT_SECURITY_POLICY, policy);
        }
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        response
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
            .filter(|(_, value)| !value.is_empty())
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
    let mut response = empty(StatusCode::SEE_OTHER);
    if let Ok(location) = HeaderValue::from_str(location) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

/// An answer for a program, without a page.
pub(super) fn empty(status: StatusCode) -> Response<Full<Bytes>> {
    response(status, Bytes::new())
}

/// What holds for every answer: codes stand in addresses, which are nobody else's business.
fn response(status: StatusCode, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
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
    // The ampersand first, or it would take apart what the others become.
    let names = [("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\"", "&quot;"), ("'", "&#39;")];
    names.iter().fold(text.to_owned(), |text, (sign, name)| text.replace(sign, name))
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

    const LOGIN: &str = "'mcp-span login https://h/mcp --profile work'";
    const LOGOUT: &str = "'mcp-span logout https://h/mcp --profile work'";

    fn facts() -> Facts {
        let facts = [
            ("Server", "https://h/mcp"),
            ("Login by", "https://as"),
            ("Resource", "https://t/"),
            ("Profile", "work"),
        ];
        facts.map(|(name, value)| (name, value.to_owned())).to_vec()
    }

    #[test]
    fn what_others_wrote_is_text_on_a_page_and_nothing_else() {
        let page = Page::refused(facts(), "<script>alert(1)</script>\u{1b}[31m\"'&", LOGIN);
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
            Page::done(facts(), Some("read write"), true, LOGOUT),
            Page::refused(facts(), "no", LOGIN),
            Page::failed(facts(), "no", LOGIN),
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
        let html = Page::done(facts(), Some("read"), true, LOGOUT).html();
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
        let html = Page::failed(facts(), "The request for a token was refused", LOGIN).html();
        assert!(html.contains("The request for a token was refused"), "{html}");
    }
}
