//! Which hosts belong to the same party, as far as their names tell. Pure.

use url::{Host, Url};

/// Suffixes below which everybody can have a host: neighbours there are strangers.
///
/// The whole public suffix list would be larger than the rest of the login. Leaving one out makes
/// two tenants of it look like one party; the rules that use this do not rely on it alone.
const SHARED: &[&str] = &[
    // Identity providers with a host for each tenant.
    "accounts.dev",
    "amazoncognito.com",
    "auth0.com",
    "authkit.app",
    "b2clogin.com",
    "ciamlogin.com",
    "cloud-iam.com",
    "frontegg.com",
    "fusionauth.io",
    "kinde.com",
    "logto.app",
    "okta-emea.com",
    "okta.com",
    "oktapreview.com",
    "onelogin.com",
    "onmicrosoft.com",
    "pingone.com",
    "supabase.co",
    "zitadel.cloud",
    // Hosting.
    "amazonaws.com",
    "app.github.dev",
    "appspot.com",
    "awsapprunner.com",
    "awsapps.com",
    "azure-api.net",
    "azurecontainerapps.io",
    "azureedge.net",
    "azurefd.net",
    "azurestaticapps.net",
    "azurewebsites.net",
    "cloudapp.azure.com",
    "cloudapp.net",
    "cloudflareaccess.com",
    "cloudfront.net",
    "cloudfunctions.net",
    "deno.dev",
    "deno.net",
    "elasticbeanstalk.com",
    "firebaseapp.com",
    "fly.dev",
    "force.com",
    "github.dev",
    "github.io",
    "githubusercontent.com",
    "gitlab.io",
    "glitch.me",
    "googleusercontent.com",
    "gradio.live",
    "herokuapp.com",
    "hf.space",
    "loca.lt",
    "localtunnel.me",
    "modal.run",
    "myshopify.com",
    "netlify.app",
    "ngrok-free.app",
    "ngrok-free.dev",
    "ngrok.app",
    "ngrok.dev",
    "ngrok.io",
    "on.aws",
    "ondigitalocean.app",
    "onrender.com",
    "pages.dev",
    "railway.app",
    "repl.co",
    "replit.app",
    "replit.dev",
    "run.app",
    "salesforce.com",
    "sharepoint.com",
    "streamlit.app",
    "surge.sh",
    "trafficmanager.net",
    "translate.goog",
    "trycloudflare.com",
    "ts.net",
    "vercel.app",
    "web.app",
    "windows.net",
    "workers.dev",
    "zendesk.com",
];

/// What registries of countries put between a name and the country: `example.co.uk`.
const SECOND_LEVEL: &[&str] = &[
    "ac",
    "asso",
    "biz",
    "co",
    "com",
    "edu",
    "ed",
    "firm",
    "gen",
    "go",
    "gob",
    "gouv",
    "gov",
    "govt",
    "gv",
    "id",
    "idv",
    "ind",
    "inf",
    "info",
    "judiciary",
    "lg",
    "ltd",
    "me",
    "mil",
    "muni",
    "name",
    "ne",
    "net",
    "nhs",
    "nic",
    "nom",
    "off",
    "or",
    "org",
    "plc",
    "police",
    "pp",
    "pro",
    "res",
    "sch",
    "school",
    "sld",
    "store",
    "tm",
    "web",
];

/// Parties that use two domains for one thing.
const TOGETHER: &[(&str, &str)] = &[("microsoftonline.com", "microsoft.com")];

/// Whether both are hosts of one party: the same host, one below the other, or both below a name
/// that somebody has registered for themselves. Addresses belong to nobody but themselves.
pub(super) fn is_same(a: &Url, b: &Url) -> bool {
    match (a.host(), b.host()) {
        (Some(Host::Domain(a)), Some(Host::Domain(b))) => is_same_name(a, b),
        (a, b) => a.is_some() && a == b,
    }
}

/// The same, also for parties that are known to use two domains.
pub(super) fn is_together(a: &Url, b: &Url) -> bool {
    let is_below = |url: &Url, parent: &str| {
        url.domain().is_some_and(|host| host == parent || is_subdomain(host, parent))
    };
    let are = |(one, other): &(&str, &str)| {
        is_below(a, one) && is_below(b, other) || is_below(a, other) && is_below(b, one)
    };
    is_same(a, b) || TOGETHER.iter().any(are)
}

fn is_same_name(a: &str, b: &str) -> bool {
    let (a, b) = (a.trim_end_matches('.'), b.trim_end_matches('.'));
    if a == b {
        return true;
    }
    let parent = common_parent(a, b);
    if is_shared(parent) {
        return false;
    }
    // Below a shared suffix only its tenant's own host tells who somebody is.
    let is_tenant = SHARED.iter().any(|shared| is_subdomain(parent, shared));
    !is_tenant || parent == a || parent == b
}

/// The longest name that both are, or are below; empty if there is none.
fn common_parent<'a>(a: &'a str, b: &str) -> &'a str {
    let same = a.rsplit('.').zip(b.rsplit('.')).take_while(|(a, b)| a == b);
    let length: usize = same.map(|(label, _)| label.len() + 1).sum();
    &a[(a.len() + 1 - length).min(a.len())..]
}

/// Whether names below this one are given to anybody.
fn is_shared(name: &str) -> bool {
    let Some((rest, top)) = name.rsplit_once('.') else { return true };
    let is_of_country = top.len() == 2 && SECOND_LEVEL.contains(&rest);
    is_of_country || SHARED.contains(&name)
}

fn is_subdomain(name: &str, parent: &str) -> bool {
    name.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn url(host: &str) -> Url {
        Url::parse(&format!("https://{host}/x")).unwrap()
    }

    #[test]
    fn hosts_of_one_registered_name_belong_together() {
        for (a, b) in [
            ("example.com", "example.com"),
            ("example.com:8443", "example.com"),
            ("login.example.com", "example.com"),
            ("login.example.com", "api.example.com."),
            ("a.b.example.co.uk", "c.example.co.uk"),
            ("auth.fly.io", "api.fly.io"),
            ("www.google.com", "accounts.google.com"),
            ("app.tenant.workers.dev", "tenant.workers.dev"),
            ("127.0.0.1:1", "127.0.0.1:2"),
            ("[::1]", "[::1]:8"),
            ("localhost", "localhost:1"),
        ] {
            assert!(is_same(&url(a), &url(b)) && is_same(&url(b), &url(a)), "{a} {b}");
        }
    }

    #[test]
    fn strangers_below_one_suffix_do_not() {
        for (a, b) in [
            ("example.com", "example.org"),
            ("evil.com", "honest.com"),
            ("evil.co.uk", "honest.co.uk"),
            ("evil.com.au", "honest.com.au"),
            ("evilexample.com", "example.com"),
            ("evil.auth0.com", "honest.auth0.com"),
            ("evil.us.auth0.com", "honest.us.auth0.com"),
            ("evil.okta.com", "honest.okta.com"),
            ("evil.workers.dev", "workers.dev"),
            ("evil.github.io", "honest.github.io"),
            ("a.execute-api.eu-1.amazonaws.com", "cognito-idp.eu-1.amazonaws.com"),
            ("a.auth.eu-1.amazoncognito.com", "b.auth.eu-1.amazoncognito.com"),
            ("evil.localhost", "localhost"),
            ("intranet", "router"),
            ("127.0.0.1", "localhost"),
            ("127.0.0.1", "127.0.0.2"),
            ("10.0.0.1", "20.0.0.1"),
            ("[::1]", "[::2]"),
        ] {
            assert!(!is_same(&url(a), &url(b)) && !is_same(&url(b), &url(a)), "{a} {b}");
        }
    }

    #[test]
    fn a_party_with_two_domains_is_known() {
        let login = url("login.microsoftonline.com");
        assert!(is_together(&login, &url("www.microsoft.com")));
        assert!(is_together(&url("microsoft.com"), &login));
        assert!(!is_together(&login, &url("microsoft.com.evil.example")));
        assert!(!is_together(&url("evil.example"), &url("microsoft.com")));
    }

    proptest! {
        #[test]
        fn order_does_not_matter_and_nothing_makes_it_stumble(a in "[a-c.]{1,12}", b in "[a-c.]{1,12}") {
            prop_assert_eq!(is_same_name(&a, &b), is_same_name(&b, &a));
            prop_assert!(is_same_name(&a, &a));
        }
    }
}
