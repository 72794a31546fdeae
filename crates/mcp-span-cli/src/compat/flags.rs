//! The names of other bridges, and what each of their flags means in terms of our own.

/// What a flag of another program becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Nothing: a switch without a counterpart.
    Ignored,
    /// Our flag with this value, in place of a switch.
    Fixed(&'static str, &'static str),
    /// Our flag with the same value.
    Renamed(&'static str),
    /// Our flag with the same value, each time.
    Repeated(&'static str),
    /// Our flag with the same number of seconds, more than 0.
    Seconds(&'static str),
    /// How long an answer, or the next piece of it, may take: both are `--timeout` here.
    AnswerTimeout,
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
    /// `--oauth-callback-host`, where the value is one that we take.
    CallbackHost,
}

use Meaning::{Bearer, Fixed, Header, Renamed, Repeated, Seconds, Url};

impl Meaning {
    /// How many arguments belong to it.
    pub(super) fn values(self) -> usize {
        match self {
            Self::Ignored | Fixed(..) => 0,
            Header => 2,
            _ => 1,
        }
    }
}

/// The meaning of a long flag, by its name without the dashes.
pub(super) fn meaning(name: &str) -> Option<Meaning> {
    let all = [MCP_REMOTE, SUPERGATEWAY, MCP_PROXY, MCP_STDIO];
    all.into_iter().flatten().find(|(known, _)| *known == name).map(|(_, meaning)| *meaning)
}

/// mcp-remote pings so often where `--keep-alive` stands alone.
pub(super) const KEEP_ALIVE: &str = "30";

/// Seconds for each of mcp-remote's two timeouts of answers where only the other one is given.
pub(super) const ANSWER_TIMEOUT: &str = "300";

type Table = &'static [(&'static str, Meaning)];

/// mcp-remote 0.15.1, all but the flags that are flags of ours as well. The values of some are
/// secrets.
const MCP_REMOTE: Table = &[
    ("auth-success-url", Renamed("oauth-success-url")),
    ("auth-timeout", Seconds("oauth-login-timeout")),
    ("authorize-param", Repeated("oauth-authorize-param")),
    ("body-timeout", Meaning::AnswerTimeout),
    ("callback-path", Renamed("oauth-callback-path")),
    ("client-credentials", Fixed("oauth-grant", "client-credentials")),
    ("client-metadata-url", Renamed("oauth-client-metadata-url")),
    ("device-code", Fixed("oauth-grant", "device-code")),
    // The usual variables are read anyway; `--no-proxy` is for those who do not want it.
    ("enable-proxy", Meaning::Ignored),
    ("headers-timeout", Meaning::AnswerTimeout),
    ("host", Meaning::CallbackHost),
    ("ping-interval", Seconds("keep-alive")),
    ("resource", Renamed("oauth-resource")),
    ("silent", Fixed("log-level", "off")),
    ("static-oauth-client-info", Meaning::Client),
    ("static-oauth-client-metadata", Meaning::ClientMetadata),
    ("token-endpoint", Renamed("oauth-token-url")),
];

/// supergateway 4.0.0, whose parser takes both spellings of a name.
const SUPERGATEWAY: Table = &[
    ("logLevel", Renamed("log-level")),
    ("oauth2Bearer", Bearer),
    ("oauth2-bearer", Bearer),
    ("sse", Url("sse")),
    ("streamableHttp", Url("http")),
    ("streamable-http", Url("http")),
];

/// mcp-proxy 0.13.0.
const MCP_PROXY: Table = &[("headers", Header)];

/// mcp-stdio 0.45.2.
const MCP_STDIO: Table = &[
    ("bearer-token", Bearer),
    ("timeout-connect", Seconds("connect-timeout")),
    ("timeout-read", Seconds("timeout")),
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
    fn every_name_stands_in_one_table_and_is_no_flag_of_ours() {
        let command = crate::args::whole();
        let all = [MCP_REMOTE, SUPERGATEWAY, MCP_PROXY, MCP_STDIO].concat();
        for (name, _) in &all {
            assert_eq!(all.iter().filter(|(other, _)| other == name).count(), 1, "{name}");
            let is_ours = |arg: &clap::Arg| {
                arg.get_long() == Some(name)
                    || arg.get_all_aliases().unwrap_or_default().contains(name)
            };
            assert!(!command.get_arguments().any(is_ours), "{name} is a flag of ours");
        }
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
