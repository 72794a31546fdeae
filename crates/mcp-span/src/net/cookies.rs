//! The cookies of one origin, kept in memory: load balancers find the same server by them. Pure.

use std::fmt;
use std::time::{Duration, SystemTime};

use http::header::{COOKIE, SET_COOKIE};
use http::{HeaderMap, HeaderValue};
use url::{Origin, Url};

/// More than any server needs to be found again.
const MOST: usize = 50;

/// Longer than any browser takes.
const LONGEST: usize = 4096;

/// The cookies that the first origin to set any has set.
#[derive(Default)]
pub struct Jar {
    origin: Option<Origin>,
    cookies: Vec<Cookie>,
}

/// Never shown: it may be as good as a token.
struct Cookie {
    name: String,
    value: String,
    path: String,
    expires: Option<SystemTime>,
}

/// Their values are secrets.
impl fmt::Debug for Jar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Jar({} cookies)", self.cookies.len())
    }
}

impl Jar {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cookies.is_empty()
    }

    /// The values of all of them.
    pub fn values(&self) -> impl Iterator<Item = &str> {
        self.cookies.iter().map(|cookie| cookie.value.as_str())
    }

    /// Notes what an answer from `url` sets.
    pub fn note(&mut self, url: &Url, headers: &HeaderMap, now: SystemTime) {
        let set = headers.get_all(SET_COOKIE).iter().filter(|header| header.len() <= LONGEST);
        for cookie in set.filter_map(|header| parse(header.to_str().ok()?, url, now)) {
            if *self.origin.get_or_insert_with(|| url.origin()) != url.origin() {
                return;
            }
            self.cookies.retain(|known| known.name != cookie.name || known.path != cookie.path);
            if cookie.expires.is_none_or(|at| at > now) {
                self.cookies.push(cookie);
            }
            if self.cookies.len() > MOST {
                self.cookies.remove(0);
            }
        }
    }

    /// Adds to `headers` what belongs to a request to `url`; cookies of the user's come first.
    pub fn apply(&self, url: &Url, headers: &mut HeaderMap, now: SystemTime) {
        if self.origin.as_ref() != Some(&url.origin()) {
            return;
        }
        let mut wanted: Vec<&Cookie> =
            self.cookies.iter().filter(|cookie| cookie.is_for(url, now)).collect();
        // The longer path first, as servers expect it.
        wanted.sort_by_key(|cookie| std::cmp::Reverse(cookie.path.len()));
        let wanted = wanted.iter().map(|cookie| format!("{}={}", cookie.name, cookie.value));
        let own = headers.get(COOKIE).and_then(|own| own.to_str().ok()).map(str::to_owned);
        let texts: Vec<String> = own.into_iter().chain(wanted).collect();
        if let Ok(mut value) = HeaderValue::from_str(&texts.join("; "))
            && !value.is_empty()
        {
            value.set_sensitive(true);
            headers.insert(COOKIE, value);
        }
    }
}

impl Cookie {
    fn is_for(&self, url: &Url, now: SystemTime) -> bool {
        let below = url.path().strip_prefix(self.path.as_str());
        let path = below.is_some_and(|rest| {
            rest.is_empty() || rest.starts_with('/') || self.path.ends_with('/')
        });
        path && self.expires.is_none_or(|at| at > now)
    }
}

/// One `Set-Cookie` header; `None` for what is none, or meant for somebody else.
fn parse(text: &str, url: &Url, now: SystemTime) -> Option<Cookie> {
    let mut parts = text.split(';').map(str::trim);
    let (name, value) = parts.next()?.split_once('=')?;
    let mut cookie = Cookie {
        name: name.trim().to_owned(),
        value: value.trim().to_owned(),
        path: default_path(url),
        expires: None,
    };
    let mut max_age = None;
    for part in parts {
        let (attribute, value) = part.split_once('=').unwrap_or((part, ""));
        let value = value.trim();
        match attribute.trim().to_ascii_lowercase().as_str() {
            "path" if value.starts_with('/') => value.clone_into(&mut cookie.path),
            "secure" if url.scheme() != "https" => return None,
            "expires" => cookie.expires = httpdate::parse_http_date(value).ok().or(cookie.expires),
            "max-age" => max_age = value.parse::<i64>().ok(),
            "domain" if !covers(value, url) => return None,
            _ => {}
        }
    }
    if let Some(seconds) = max_age {
        // What is over at once, or lasts longer than the program, needs no exact time.
        let seconds = u64::try_from(seconds).unwrap_or(0).min(u64::from(u32::MAX));
        cookie.expires = Some(now + Duration::from_secs(seconds));
    }
    (!cookie.name.is_empty()).then_some(cookie)
}

/// The folder of the request.
fn default_path(url: &Url) -> String {
    let folder = url.path().rsplit_once('/').map_or("", |(folder, _)| folder);
    if folder.is_empty() { "/" } else { folder }.to_owned()
}

/// Whether a cookie for `domain` is for the host of `url`, too.
fn covers(domain: &str, url: &Url) -> bool {
    let domain = domain.trim_start_matches('.').to_ascii_lowercase();
    let host = url.host_str().unwrap_or_default();
    domain.is_empty() || host == domain || host.ends_with(&format!(".{domain}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(jar: &Jar, url: &str, now: SystemTime) -> Option<String> {
        let mut headers = HeaderMap::new();
        jar.apply(&Url::parse(url).unwrap(), &mut headers, now);
        headers.get(COOKIE).map(|value| value.to_str().unwrap().to_owned())
    }

    fn set(jar: &mut Jar, url: &str, cookies: &[&'static str], now: SystemTime) {
        let pairs = cookies.iter().map(|text| (SET_COOKIE, HeaderValue::from_static(text)));
        jar.note(&Url::parse(url).unwrap(), &pairs.collect(), now);
    }

    #[test]
    fn cookies_go_back_to_where_they_came_from_and_nowhere_else() {
        let (mut jar, now) = (Jar::default(), SystemTime::now());
        set(&mut jar, "https://h/mcp", &["lb=one; Path=/; HttpOnly", "s=1"], now);
        assert_eq!(sent(&jar, "https://h/mcp", now).unwrap(), "lb=one; s=1");
        assert_eq!(sent(&jar, "https://h:444/mcp", now), None);
        assert_eq!(sent(&jar, "https://other/mcp", now), None);
        set(&mut jar, "https://other/", &["x=1"], now);
        assert_eq!(sent(&jar, "https://other/", now), None, "one origin is ours");
        set(&mut jar, "https://h/mcp", &["lb=two; Path=/"], now);
        assert_eq!(sent(&jar, "https://h/mcp", now).unwrap(), "s=1; lb=two", "replaced");
    }

    #[test]
    fn a_jar_is_shown_without_what_is_in_it() {
        // peers c 14: redact by type
        let mut jar = Jar::default();
        set(&mut jar, "https://h/mcp", &["session=hidden"], SystemTime::now());
        assert_eq!(format!("{jar:?}"), "Jar(1 cookies)");
    }

    #[test]
    fn paths_security_and_ages_are_kept() {
        let (mut jar, now) = (Jar::default(), SystemTime::now());
        set(
            &mut jar,
            "http://h/a/mcp",
            &[
                "root=1; path=/",
                "a=1; Path=/a",
                "b=1; Path=/b",
                "safe=1; Secure",
                "old=1; Max-Age=0",
                "young=1; Max-Age=60; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
                "past=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
                "=x",
                "nothing",
                "far=1; Domain=example.com",
            ],
            now,
        );
        assert_eq!(sent(&jar, "http://h/a/mcp", now).unwrap(), "a=1; young=1; root=1");
        assert_eq!(sent(&jar, "http://h/ab", now).unwrap(), "root=1");
        let later = now + Duration::from_secs(61);
        assert_eq!(sent(&jar, "http://h/a/mcp", later).unwrap(), "a=1; root=1");
        set(&mut jar, "http://h/a/mcp", &["a=; Path=/a; Max-Age=-1"], now);
        assert_eq!(sent(&jar, "http://h/a/mcp", later).unwrap(), "root=1", "taken back");
    }

    #[test]
    fn the_users_own_cookies_stay_and_memory_is_bounded() {
        let (mut jar, now) = (Jar::default(), SystemTime::now());
        let url = Url::parse("http://h/").unwrap();
        for n in 0..100 {
            let value = HeaderValue::from_str(&format!("c{n}=1; Domain=h")).unwrap();
            jar.note(&url, &HeaderMap::from_iter([(SET_COOKIE, value)]), now);
        }
        assert_eq!(jar.cookies.len(), MOST);
        let mut headers = HeaderMap::from_iter([(COOKIE, HeaderValue::from_static("mine=1"))]);
        jar.apply(&url, &mut headers, now);
        let value = headers[COOKIE].to_str().unwrap();
        assert!(value.starts_with("mine=1; c50=1"), "{value}");
        assert!(headers[COOKIE].is_sensitive());
    }
}
