//! The names of other bridges, and what each of their flags means in terms of our own.

/// What a flag of another program becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// A switch without a counterpart.
    Nothing,
    /// The same with a value, which goes with it.
    NothingWithValue,
    /// Our flag with this value, in place of a switch.
    Fixed(&'static str, &'static str),
    /// Our flag with the same value.
    Renamed(&'static str),
    /// Our flag with the same number of seconds, more than 0.
    Seconds(&'static str),
    /// How long an answer, or the next piece of it, may take: both are `--timeout` here.
    Silence,
    /// The URL, to be spoken to by this transport only.
    Url(&'static str),
    /// A bearer token.
    Bearer,
    /// A header's name and its value, in two arguments.
    Header,
    /// A client as JSON, or in a file behind `@`.
    Client,
    /// The same for what is said of a client when it is registered.
    ClientMetadata,
    /// Our flag with the same value, each time.
    Each(&'static str),
    /// The same flag under a name of ours, where the value is one that we take.
    Host,
}

impl Meaning {
    /// How many arguments belong to it.
    pub(super) fn values(self) -> usize {
        match self {
            Self::Nothing | Self::Fixed(..) => 0,
            Self::Header => 2,
            _ => 1,
        }
    }
}

/// The meaning of a long flag, by its name without the dashes.
pub(super) fn meaning(name: &str) -> Option<Meaning> {
    let all = MCP_REMOTE.iter().chain(NOT_NEEDED).chain(OAUTH).chain(OTHERS);
    all.into_iter().find(|(known, _)| *known == name).map(|(_, meaning)| *meaning)
}

/// mcp-remote pings so often where `--keep-alive` stands alone.
pub(super) const KEEP_ALIVE: &str = "30";

/// Seconds for each of mcp-remote's two timeouts of answers where only the other one is given.
pub(super) const SILENCE: &str = "300";

/// mcp-remote 0.15.1, all but the flags that are the same here: `--header`, `--header-file`,
/// `--transport`, `--allow-http`, `--debug`, `--connect-timeout`.
const MCP_REMOTE: &[(&str, Meaning)] = &[
    ("silent", Meaning::Fixed("log-level", "off")),
    ("ping-interval", Meaning::Seconds("keep-alive")),
    ("headers-timeout", Meaning::Silence),
    ("body-timeout", Meaning::Silence),
];

/// What we do anyway, do not do yet, or never will.
const NOT_NEEDED: &[(&str, Meaning)] = &[
    // The usual variables are read anyway; `--no-proxy` is for those who do not want it.
    ("enable-proxy", Meaning::Nothing),
    // A flag of our own by this name takes its place by itself.
    ("disable-cookies", Meaning::Nothing),
    ("protocol", Meaning::NothingWithValue),
];

/// Logging in. The values of some are secrets.
const OAUTH: &[(&str, Meaning)] = &[
    ("auth-success-url", Meaning::Renamed("oauth-success-url")),
    ("auth-timeout", Meaning::Seconds("oauth-login-timeout")),
    ("authorize-param", Meaning::Each("oauth-authorize-param")),
    ("callback-path", Meaning::Renamed("oauth-callback-path")),
    ("client-credentials", Meaning::Fixed("oauth-grant", "client-credentials")),
    ("client-metadata-url", Meaning::Renamed("oauth-client-metadata-url")),
    ("device-code", Meaning::Fixed("oauth-grant", "device-code")),
    // A flag of our own by this name takes its place by itself.
    ("disable-resource-parameter", Meaning::Nothing),
    ("host", Meaning::Host),
    ("resource", Meaning::Renamed("oauth-resource")),
    ("static-oauth-client-info", Meaning::Client),
    ("static-oauth-client-metadata", Meaning::ClientMetadata),
    ("token-endpoint", Meaning::Renamed("oauth-token-url")),
    // A flag of our own by this name takes its place by itself.
    ("use-id-token", Meaning::Nothing),
];

/// What the others have for a connection to a URL: supergateway 4.0.0, whose parser takes both
/// spellings of a name, mcp-proxy 0.13.0 and mcp-stdio 0.45.2.
const OTHERS: &[(&str, Meaning)] = &[
    ("sse", Meaning::Url("sse")),
    ("streamableHttp", Meaning::Url("http")),
    ("streamable-http", Meaning::Url("http")),
    ("oauth2Bearer", Meaning::Bearer),
    ("oauth2-bearer", Meaning::Bearer),
    ("logLevel", Meaning::Renamed("log-level")),
    ("headers", Meaning::Header),
    ("bearer-token", Meaning::Bearer),
    ("timeout-connect", Meaning::Seconds("connect-timeout")),
    ("timeout-read", Meaning::Seconds("timeout")),
];

/// A program whose name was left in the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Program {
    /// The variable that it sends as a bearer token. It counts only where the program is named:
    /// nobody expects us to send a variable of another program to any URL.
    pub(super) token: Option<&'static str>,
    /// Its redirect address and its separation of logins are ours then.
    pub(super) is_mcp_remote: bool,
}

/// The program whose name `word` is, with or without a version.
pub(super) fn program(word: &str) -> Option<Program> {
    let name = word.split(['@', '=']).next().unwrap_or_default();
    let token = match name {
        "mcp-remote" | "supergateway" => None,
        "mcp-proxy" => Some("API_ACCESS_TOKEN"),
        "mcp-stdio" => Some("MCP_BEARER_TOKEN"),
        _ => return None,
    };
    Some(Program { token, is_mcp_remote: name == "mcp-remote" })
}

/// What stands before the name of a program that is run without being installed.
pub(super) fn is_runner(word: &str) -> bool {
    matches!(word, "npx" | "npx.cmd" | "bunx" | "uvx" | "-y" | "--yes" | "/c" | "/C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_stands_in_one_table_only() {
        let mut names: Vec<&str> = [MCP_REMOTE, NOT_NEEDED, OAUTH, OTHERS]
            .concat()
            .iter()
            .map(|(name, _)| *name)
            .collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn programs_are_known_with_their_version() {
        for word in ["mcp-remote", "mcp-remote@latest", "mcp-remote@0.1.38", "mcp-proxy==0.13.0"] {
            assert!(program(word).is_some(), "{word}");
        }
        for word in ["", "mcp-remote-client", "mcp-span", "https://mcp-remote/"] {
            assert_eq!(program(word), None, "{word}");
        }
    }
}
