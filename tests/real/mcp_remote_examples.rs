//! The command lines that mcp-remote 0.15.1 documents, and the differences that are meant to be.

/// One command line.
pub(crate) struct Example {
    /// The path of the server.
    pub(crate) path: &'static str,
    /// `URL` is the server, `ORIGIN` what it is below, `PORT` a free port, `DIR` a folder with files.
    pub(crate) args: &'static [&'static str],
}

const fn at(path: &'static str, args: &'static [&'static str]) -> Example {
    Example { path, args }
}

/// In the order of its README.
pub(crate) const EXAMPLES: &[Example] = &[
    at("/sse", &["URL"]),
    // The same for a server that names no scopes.
    at("/silent", &["URL"]),
    at("/silent", &["URL", "--use-id-token"]),
    at(
        "/silent",
        &[
            "URL",
            "--client-credentials",
            "--static-oauth-client-info",
            r#"{"client_id":"my-client","client_secret":"${CLIENT_SECRET}"}"#,
        ],
    ),
    at("/sse", &["URL", "--header", "Authorization: Bearer ${AUTH_TOKEN}"]),
    at("/sse", &["URL", "--header", "Authorization:${AUTH_HEADER}"]),
    at("/sse", &["URL", "--header", "X-Tenant: one"]),
    at("/sse", &["URL", "--header-file", "DIR/headers.txt"]),
    at("/v1/sse", &["URL", "--resource", "https://tenant1.atlassian.net/"]),
    at("/v1/sse", &["URL", "--resource", "https://tenant2.atlassian.net/"]),
    at(
        "/mcp",
        &["URL", "--authorize-param", "access_type=offline", "--authorize-param", "prompt=consent"],
    ),
    at("/mcp", &["URL", "--authorize-param", "audience=https://your-api"]),
    at("/mcp", &["URL", "--authorize-param", "login_hint=user@example.com"]),
    at("/mcp", &["URL", "--disable-resource-parameter"]),
    at("/sse", &["URL", "PORT"]),
    at("/sse", &["URL", "--host", "127.0.0.1"]),
    at("/sse", &["URL", "--callback-path", "/custom/callback"]),
    at("/sse", &["URL", "--auth-success-url", "ORIGIN/.well-known/cli-connected"]),
    at("/sse", &["URL", "--allow-http"]),
    at("/sse", &["URL", "--debug"]),
    at("/sse", &["URL", "--silent"]),
    at("/sse", &["URL", "--enable-proxy"]),
    at("/sse", &["URL", "--ignore-tool", "delete*", "--ignore-tool", "remove*"]),
    at("/sse", &["URL", "--ignore-tool", "*account", "--ignore-tool", "exactTool"]),
    at("/sse", &["URL", "--auth-timeout", "60"]),
    at("/sse", &["URL", "--connect-timeout", "30", "--body-timeout", "0"]),
    at("/sse", &["URL", "--keep-alive", "--ping-interval", "60"]),
    at("/sse", &["URL", "--ipv4"]),
    at("/server", &["URL", "--transport", "sse-only"]),
    at("/server", &["URL", "--transport", "http-only"]),
    at("/mcp", &["URL", "--protocol", "auto"]),
    at(
        "/server",
        &["URL", "--static-oauth-client-metadata", r#"{ "scope": "space separated scopes" }"#],
    ),
    at("/server", &["URL", "--static-oauth-client-metadata", "@DIR/metadata.json"]),
    at(
        "/server",
        &[
            "URL",
            "--static-oauth-client-metadata",
            r#"{ "token_endpoint_auth_method": "client_secret_post" }"#,
        ],
    ),
    at(
        "/server",
        &["URL", "--static-oauth-client-info", r#"{ "client_id": "xxx", "client_secret": "yyy" }"#],
    ),
    at("/server", &["URL", "--static-oauth-client-info", "@DIR/client.json"]),
    at("/server", &["URL", "PORT", "--static-oauth-client-info", "@DIR/client.json"]),
    at(
        "/server",
        &[
            "URL",
            "--client-metadata-url",
            "https://client.example.com/.well-known/oauth-client-metadata",
        ],
    ),
    at(
        "/server",
        &[
            "URL",
            "PORT",
            "--client-metadata-url",
            "https://client.example.com/.well-known/oauth-client-metadata",
        ],
    ),
    at(
        "/mcp",
        &[
            "URL",
            "--client-credentials",
            "--static-oauth-client-info",
            r#"{"client_id":"my-client","client_secret":"${CLIENT_SECRET}"}"#,
        ],
    ),
    at(
        "/mcp",
        &[
            "URL",
            "--client-credentials",
            "--token-endpoint",
            "ORIGIN/token",
            "--static-oauth-client-info",
            r#"{"client_id":"my-client","client_secret":"${CLIENT_SECRET}"}"#,
            "--static-oauth-client-metadata",
            r#"{"scope":"mcp.read mcp.write","token_endpoint_auth_method":"client_secret_basic"}"#,
        ],
    ),
    at("/server", &["URL", "--device-code"]),
    at("/server", &["URL", "--disable-cookies"]),
    at("/server", &["URL", "--use-id-token"]),
    at(
        "/server",
        &[
            "URL",
            "--use-id-token",
            "--static-oauth-client-metadata",
            r#"{ "scope": "openid email" }"#,
        ],
    ),
];

/// A difference that is meant to be.
pub(crate) struct Intended {
    name: &'static str,
    /// What mcp-remote has to send for it, if that matters; `-` for nothing.
    theirs: Option<&'static str>,
    /// The same for mcp-span.
    ours: Option<&'static str>,
    pub(crate) why: &'static str,
}

impl Intended {
    pub(crate) fn fits(&self, name: &str, theirs: &str, ours: &str) -> bool {
        self.name == name
            && self.theirs.is_none_or(|expected| expected == theirs)
            && self.ours.is_none_or(|expected| expected == ours)
    }
}

const fn because(name: &'static str, theirs: Option<&'static str>, why: &'static str) -> Intended {
    Intended { name, theirs, ours: None, why }
}

const fn because_empty(name: &'static str, why: &'static str) -> Intended {
    Intended { name, theirs: None, ours: Some("[]"), why }
}

const OTHER_PROGRAM: &str = "mcp-span does not pretend to be another program; \
     --static-oauth-client-metadata, or --oauth-registration, says otherwise";
const FETCH: &str = "Node's fetch adds it by itself, and no MCP server looks at it";
const NO_REDIRECT: &str = "a login on another device has no redirect address";

pub(crate) const INTENDED: &[Intended] = &[
    because("registration: client_name", Some("\"MCP CLI Proxy\""), OTHER_PROGRAM),
    because("registration: client_uri", None, OTHER_PROGRAM),
    because("registration: software_id", None, OTHER_PROGRAM),
    because("registration: software_version", None, OTHER_PROGRAM),
    because("headers: accept-language", Some("*"), FETCH),
    because("headers: sec-fetch-mode", Some("cors"), FETCH),
    because(
        "headers: mcp-method",
        Some("tools/list"),
        "a header of 2026-07-28, which is sent to servers that speak that revision",
    ),
    because("headers: accept", Some("*/*"), "over HTTP+SSE, too, it is said what can be read"),
    because(
        "registration: scope",
        Some("\"mcp:read\""),
        "a client is registered for the scopes that it asks for, also where the user names them",
    ),
    because_empty("registration: redirect_uris", NO_REDIRECT),
    because_empty("registration: response_types", NO_REDIRECT),
    because(
        "token request: Authorization",
        None,
        "RFC 6749 wants id and secret coded like a form, which matters for special characters \
         alone; where a provider does not know the client then, it is asked with them as they are",
    ),
];
