//! The keys that an entry can have: ours, and those of other programs.

/// What sort of value a setting has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// `true` or `false`.
    Switch,
    /// A text or a number.
    One,
    /// A list of texts, or an object of them; one text will do.
    Many,
}

use Sort::{Many, One, Switch};

/// Settings for one server, under the names of the flags. Keys that say what the server is (`url`,
/// `headers`, `timeout`, `transport`) are not among them.
pub const SETTINGS: [(&str, Sort); 70] = [
    ("mcp-hub-mode", Switch),
    ("header-file", One),
    ("bearer-env", One),
    ("bearer-file", One),
    ("bearer-command", One),
    ("header-command", One),
    ("credential-shell", Switch),
    ("credential-ttl", One),
    ("no-oauth", Switch),
    ("oauth-client-id", One),
    ("oauth-client-secret-env", One),
    ("oauth-private-key", One),
    ("oauth-client-metadata-url", One),
    ("oauth-scope", One),
    ("oauth-offered-scopes", Switch),
    ("oauth-no-resource", Switch),
    ("oauth-callback-port", One),
    ("oauth-wait", One),
    ("oauth-grant", One),
    ("profile", One),
    ("profile-by-headers", Switch),
    ("state-dir", One),
    ("token-store", One),
    ("oauth-login-timeout", One),
    ("oauth-skew", One),
    ("oauth-issuer", One),
    ("oauth-token-url", One),
    ("oauth-authorization-url", One),
    ("oauth-no-discovery", Switch),
    ("oauth-no-interactive", Switch),
    ("oauth-refresh-token-env", One),
    ("oauth-code-env", One),
    ("oauth-code-verifier-env", One),
    ("oauth-redirect-uri", One),
    ("oauth-resource", One),
    ("oauth-audience", One),
    ("oauth-param", Many),
    ("oauth-authorize-param", Many),
    ("oauth-registration", One),
    ("oauth-use-id-token", Switch),
    ("oauth-success-url", One),
    ("oauth-auth-style", One),
    ("oauth-callback-host", One),
    ("oauth-callback-path", One),
    ("allow-http", Switch),
    ("ca-cert", Many),
    ("client-cert", One),
    ("client-key", One),
    ("insecure", Switch),
    ("proxy", One),
    ("no-proxy", One),
    ("connect-timeout", One),
    ("connect-wait", One),
    ("away-wait", One),
    ("keep-alive", One),
    ("max-message-size", One),
    ("max-parallel", One),
    ("serial", Switch),
    ("no-server-stream", Switch),
    ("no-cookies", Switch),
    ("ipv4", Switch),
    ("ignore-tool", Many),
    ("protocol-version", One),
    ("protocol", One),
    ("verbose", Switch),
    ("log-level", One),
    ("log-format", One),
    ("log-file", One),
    ("trace-file", One),
    ("trace-limit", One),
];

/// What an entry says of the server itself.
pub(super) const OWN: [&str; 15] = [
    "type",
    "transport",
    "command",
    "args",
    "env",
    "cwd",
    "url",
    "serverUrl",
    "httpUrl",
    "headers",
    "header",
    "timeout",
    "enabled",
    "disabled",
    "isActive",
];

/// Keys of other programs that resemble ours.
const OF_OTHERS: [&str; 6] = ["auth", "oauth", "urls", "envs", "comment", "comments"];

/// `connectTimeout`, `connect_timeout` and `connect-timeout` are the same.
#[must_use]
pub fn flag_name(key: &str) -> String {
    let mut name = String::new();
    for letter in key.chars() {
        match letter {
            '_' => name.push('-'),
            'A'..='Z' => {
                name.push('-');
                name.push(letter.to_ascii_lowercase());
            }
            letter => name.push(letter),
        }
    }
    if name == "headers" { "header".to_owned() } else { name }
}

/// The setting that a key means, by its flag, and its sort.
pub(super) fn setting(key: &str) -> Option<(&'static str, Sort)> {
    let name = flag_name(key);
    SETTINGS.iter().copied().find(|(flag, _)| *flag == name)
}

/// The key of ours that was probably meant by one that nobody knows. Others have keys of their own,
/// so only what differs in a letter or two is taken for a slip.
#[must_use]
pub fn meant(key: &str) -> Option<&'static str> {
    if OF_OTHERS.contains(&key) || !key.starts_with(char::is_alphabetic) {
        return None;
    }
    let typed = letters(key);
    let flags = SETTINGS.iter().map(|(flag, _)| *flag);
    OWN.into_iter()
        .chain(flags)
        .map(|known| (strsim::osa_distance(&typed, &letters(known)), known))
        .filter(|(distance, known)| *distance <= slips(known))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

fn letters(key: &str) -> String {
    key.chars().filter(|c| c.is_alphanumeric()).map(|c| c.to_ascii_lowercase()).collect()
}

/// How many letters may be wrong.
fn slips(known: &str) -> usize {
    if known.len() < 6 { 1 } else { 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_keys_of_others_are_not_taken_for_them() {
        for (typed, ours) in [
            ("comand", "command"),
            ("Command", "command"),
            ("URL", "url"),
            ("arg", "args"),
            ("hedaers", "headers"),
            ("timeOut", "timeout"),
            ("connectTimout", "connect-timeout"),
            ("bearer-fiel", "bearer-file"),
        ] {
            assert_eq!(meant(typed), Some(ours), "{typed}");
        }
        for typed in [
            "alwaysAllow",
            "autoApprove",
            "inputs",
            "source",
            "description",
            "envFile",
            "oauth",
            "auth",
            "trust",
            "tools",
            "disabledTools",
            "headersHelper",
            "settings",
            "dev",
            "name",
            "includeTools",
            "excludeTools",
            "watchPaths",
            "sandbox",
            "gallery",
            "version",
            "icon",
            "autoStart",
            "tags",
            "note",
            "//",
            "_comment",
            "$schema",
            "alwaysLoad",
            "title",
            "requestIdFormat",
            "baseUrl",
            "authProviderType",
            "useLocal",
            "toolTimeout",
        ] {
            assert_eq!(meant(typed), None, "{typed}");
        }
    }

    #[test]
    fn spellings_of_a_setting_are_one() {
        for key in ["connectTimeout", "connect_timeout", "connect-timeout"] {
            assert_eq!(setting(key), Some(("connect-timeout", One)));
        }
        assert_eq!(setting("config"), None);
    }
}
