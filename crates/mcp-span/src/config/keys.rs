//! The keys that an entry can have: ours, and those of other programs.

use crate::options::{self, OPTIONS, OptionInfo};

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

/// Options that an entry says in another way, or that mean nothing for one server.
const NOT_IN_ENTRY: [&str; 5] = ["url", "transport", "mcp-hub", "header", "timeout"];

/// The option that a key of an entry means.
pub(super) fn option(key: &str) -> Option<&'static OptionInfo> {
    options::find(&flag_name(key)).filter(|option| !NOT_IN_ENTRY.contains(&option.name))
}

/// The key of ours that was probably meant by one that nobody knows. Others have keys of their own,
/// so only what differs in a letter or two is taken for a slip.
#[must_use]
pub fn meant(key: &str) -> Option<&'static str> {
    if OF_OTHERS.contains(&key) || !key.starts_with(char::is_alphabetic) {
        return None;
    }
    let typed = letters(key);
    let flags = OPTIONS.iter().map(|option| option.name);
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
            assert_eq!(option(key).unwrap().name, "connect-timeout");
        }
        assert!(option("config").is_none() && option("url").is_none());
    }
}
