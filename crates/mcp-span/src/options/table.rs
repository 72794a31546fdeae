//! Every option of a server, in one table: its field, its name, its help, how its texts are read.
//!
//! Flags, variables, keys of configuration files, help, completions and documents are views of this
//! table: a new option is a row here, and a use in the file that resolves its group.

use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use super::headers::Header;
use super::value::{
    Given, Value, ValueKind, address, bytes, callback_ports, choice, count, lines, many, one, path,
    seconds, some_seconds, switch, text, tool_pattern, trace_limit,
};
use super::{LogFormat, LogLevel};
use crate::auth::oauth::{CallbackPlace, CallbackPorts, ClientAuthentication, Grant, TokenStore};
use crate::limits;
use crate::revision::translate::Protocol;
use crate::transport::http::Transport;

/// What options have in common, for help and for the commands that take them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Which server, and what goes with every request to it.
    Server,
    /// How requests are carried.
    Connection,
    /// How connections are made.
    Network,
    /// Tokens that the user has.
    Credentials,
    /// Logins.
    Login,
    /// Logins, where more is known than servers say.
    AdvancedLogin,
    /// Whom TLS trusts, and who we are to it.
    Certificates,
    /// What the command line writes down.
    Logging,
}

impl Group {
    /// Its heading in help.
    #[must_use]
    pub fn heading(self) -> Option<&'static str> {
        match self {
            Self::Server => None,
            Self::Connection => Some("Connection"),
            Self::Network => Some("Network"),
            Self::Credentials => Some("Credentials"),
            Self::Login => Some("Login"),
            Self::AdvancedLogin => Some("Login, advanced"),
            Self::Certificates => Some("Certificates"),
            Self::Logging => Some("Logging"),
        }
    }
}

/// One option.
pub struct OptionInfo {
    /// Its name: the flag without dashes; keys and variables are made of it.
    pub name: &'static str,
    /// Where it belongs.
    pub group: Group,
    /// What sort of value it has.
    pub kind: ValueKind,
    /// Its help: the first line alone is the short one.
    pub help: &'static [&'static str],
    /// What help calls its value.
    pub value_name: &'static str,
    /// The names of its values with their help, where there are only a few; the first of each is
    /// shown.
    pub choices: &'static [(&'static [&'static str], &'static str)],
    /// Another name of the flag.
    pub alias: Option<&'static str>,
    /// Its letter.
    pub short: Option<char>,
    /// What the flag means without a value, where it can do without.
    pub bare: Option<&'static str>,
    /// The value may be, or hold, a secret: it is never shown.
    pub is_secret: bool,
    /// The default, as it would be typed.
    pub default: fn() -> Option<String>,
    pub(super) set: fn(&mut ServerOptions, Given<'_>) -> Result<(), String>,
    pub(super) texts: fn(&ServerOptions) -> Option<Vec<String>>,
    pub(super) take: fn(&mut ServerOptions, &mut ServerOptions) -> bool,
}

impl OptionInfo {
    const fn alias(mut self, name: &'static str) -> Self {
        self.alias = Some(name);
        self
    }

    const fn short(mut self, letter: char) -> Self {
        self.short = Some(letter);
        self
    }

    const fn bare(mut self, value: &'static str) -> Self {
        self.bare = Some(value);
        self
    }

    const fn secret(mut self) -> Self {
        self.is_secret = true;
        self
    }

    /// The environment variable with the same meaning.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("MCP_SPAN_{}", self.name.to_uppercase().replace('-', "_"))
    }
}

/// Rows of `field: Type = how texts are read, "name" <VALUE> or default, more;` become the fields of
/// `ServerOptions`, a method for each that has a default, and the table.
macro_rules! options {
    (
        programs { $( $(#[$attribute:meta])+ $visibility:vis $own:ident: $own_type:ty, )+ }
        $( $group:ident { $(
            $(#[doc = $doc:literal])+
            $field:ident: $type:ty = $read:expr, $name:literal $(<$value:ident>)? $(or $default:expr)?
            $(, $more:ident($($argument:expr)?))*;
        )+ } )+
    ) => {
        /// All that can be said about one server. What is not said has its default, so that options
        /// from several places can be put together by [`merge`](ServerOptions::merge).
        #[derive(Clone, Default)]
        #[non_exhaustive]
        pub struct ServerOptions {
            $( $( $(#[doc = $doc])+ pub $field: Option<$type>, )+ )+
            $( $(#[$attribute])+ $visibility $own: $own_type, )+
        }

        impl ServerOptions {
            $( $( $(
                #[doc = concat!("`", $name, "`, or its default.")]
                #[must_use]
                pub fn $field(&self) -> $type {
                    self.$field.clone().unwrap_or_else(|| $default)
                }
            )? )+ )+
        }

        /// The table.
        pub static OPTIONS: &[OptionInfo] = &[ $( $(
            OptionInfo {
                name: $name,
                group: Group::$group,
                kind: <$type as Value>::KIND,
                help: &[$($doc),+],
                value_name: concat!($(stringify!($value))?),
                choices: <$type as Value>::CHOICES,
                alias: None,
                short: None,
                bare: None,
                is_secret: false,
                default: || options!(@default $type $(, $default)?),
                set: |options, given| {
                    options.$field = Some($read(given)?);
                    Ok(())
                },
                texts: |options| options.$field.as_ref().map(Value::texts),
                take: |options, weaker| {
                    let is_taken = options.$field.is_none() && weaker.$field.is_some();
                    if is_taken {
                        options.$field = weaker.$field.take();
                    }
                    is_taken
                },
            }
            $(.$more($($argument)?))*,
        )+ )+ ];
    };
    (@default $type:ty) => { None };
    (@default $type:ty, $default:expr) => {{
        let default: $type = $default;
        Some(default.texts().join(" "))
    }};
}

options! {
    programs {
        /// The program to start, with its arguments, for a server over stdio.
        pub command: Option<Vec<std::ffi::OsString>>,
        /// Variables for that program, beside those that it inherits.
        pub env: Option<Vec<(String, crate::secret::Secret)>>,
        /// The directory in which it is started.
        pub cwd: Option<PathBuf>,
        /// A bearer token.
        pub bearer_token: Option<crate::secret::Secret>,
        /// The OAuth client's secret.
        pub oauth_client_secret: Option<crate::secret::Secret>,
        /// A refresh token to start with.
        pub oauth_refresh_token: Option<crate::secret::Secret>,
        /// An authorization code, to be used once.
        pub oauth_code: Option<crate::secret::Secret>,
        /// The PKCE verifier of that code.
        pub oauth_code_verifier: Option<crate::secret::Secret>,
        /// Headers that those of `header_file` win over.
        pub(crate) weak_headers: Vec<Header>,
        /// What must not show up in errors.
        pub(crate) secrets: Vec<crate::secret::Secret>,
        /// Where each option was set, by its name.
        pub(crate) origins: std::collections::BTreeMap<&'static str, super::Origin>,
    }
    Server {
        /// The MCP endpoint of the server
        url: String = one(text), "url" <URL>;

        /// The transport: auto, http or sse
        ///
        /// auto finds out which one the server speaks. The names that mcp-remote uses are understood as well.
        transport: Transport = one(choice), "transport" <TRANSPORT> or Transport::Auto;

        /// The server speaks HTTP+SSE, as mcp-hub does (the same as --transport sse)
        mcp_hub_mode: bool = switch, "mcp-hub-mode";

        /// Connect to the mcp-hub at URL or, without one, to the one on this machine (`local`)
        mcp_hub: String = one(text), "mcp-hub" <URL>, bare("local");

        /// Send a header with every request: 'Name: value'
        ///
        /// ${VAR} is replaced from the environment. May be given several times; MCP_SPAN_HEADER holds one header a line.
        headers: Vec<Header> = many(Header::read), "header" <HEADER>, short('H'), secret();

        /// Read headers from a file, one 'Name: value' a line; '#' begins a comment
        header_file: PathBuf = one(path), "header-file" <FILE>;

        /// Allow plain http to a host that is not this machine
        allow_http: bool = switch, "allow-http";
    }
    Connection {
        /// Fail a request after this many silent seconds
        ///
        /// 0 is no limit. The default is 30, and 300 for tool calls and the like.
        timeout: Duration = one(seconds), "timeout" <SECONDS>;

        /// Seconds that `initialize` waits for a server that cannot be reached
        connect_wait: Duration = one(seconds), "connect-wait" <SECONDS> or limits::CONNECT_WAIT;

        /// Seconds that any later message waits for a server that cannot be reached
        away_wait: Duration = one(seconds), "away-wait" <SECONDS> or limits::AWAY_WAIT;

        /// Ping inside the session after so many silent seconds [default: never]
        keep_alive: Duration = one(some_seconds), "keep-alive" <SECONDS>;

        /// The largest single message, in bytes; K, M and G count in 1024s
        max_message_size: usize = one(bytes), "max-message-size" <BYTES> or limits::MESSAGE_SIZE;

        /// How many requests run at once; more wait for their turn
        max_parallel: u32 = one(count), "max-parallel" <N> or limits::PARALLEL_POSTS as u32;

        /// Forward one request or notification at a time, in strict order
        serial: bool = switch, "serial";

        /// Do not open the stream for messages that the server sends on its own account
        no_server_stream: bool = switch, "no-server-stream";

        /// Do not keep and send back the server's cookies
        no_cookies: bool = switch, "no-cookies", alias("disable-cookies");

        /// Hide tools with this name
        ///
        /// Calls of them are refused. '*' stands for anything. May be given several times, or hold one name a line.
        ignore_tool: Vec<String> = lines(tool_pattern), "ignore-tool" <PATTERN>;

        /// Send this MCP-Protocol-Version in place of the negotiated one
        protocol_version: String = one(text), "protocol-version" <REVISION>;

        /// Which era of the protocol is offered to the client and tried with the server
        protocol: Protocol = one(choice), "protocol" <ERA> or Protocol::Auto;
    }
    Network {
        /// Seconds that connecting may take
        connect_timeout: Duration = one(some_seconds), "connect-timeout" <SECONDS>
            or limits::CONNECT_TIMEOUT;

        /// Connect to IPv4 addresses only: a name that has none is an error
        ipv4: bool = switch, "ipv4";

        /// Connect through this proxy
        ///
        /// Such as `http://user:password@proxy.example:8080`; also https, socks5 and socks5h. The default is HTTPS_PROXY, HTTP_PROXY or ALL_PROXY.
        proxy: String = one(text), "proxy" <URL>, secret();

        /// Use no proxy at all or, with =LIST, none for these hosts [default: NO_PROXY]
        no_proxy: String = one(text), "no-proxy" <LIST>, bare("*");
    }
    Credentials {
        /// Send the value of this variable as a bearer token
        bearer_env: String = one(text), "bearer-env" <VAR>;

        /// Send what is in this file as a bearer token; it is read again when it changes
        bearer_file: PathBuf = one(path), "bearer-file" <FILE>;

        /// Send what this command prints as a bearer token; it is run again on 401 and 403
        bearer_command: String = one(text), "bearer-command" <CMD>, secret();

        /// Send the headers that this command prints, as lines or as a JSON object
        header_command: String = one(text), "header-command" <CMD>, secret();

        /// Give the command to the shell, in place of splitting it into words
        credential_shell: bool = switch, "credential-shell";

        /// Seconds for which the output of the command is used
        credential_ttl: Duration = one(some_seconds), "credential-ttl" <SECONDS>
            or limits::CREDENTIAL_TTL;
    }
    Login {
        /// Never log in: a server that wants it gets no token
        no_oauth: bool = switch, "no-oauth";

        /// The id of a client that was registered by hand
        oauth_client_id: String = one(text), "oauth-client-id" <ID>;

        /// The variable that holds the client's secret
        oauth_client_secret_env: String = one(text), "oauth-client-secret-env" <VAR>;

        /// A file with the client's private key (PEM), in place of a secret
        oauth_private_key: PathBuf = one(path), "oauth-private-key" <FILE>;

        /// The URL of a client ID metadata document, used as the client's id
        oauth_client_metadata_url: Url = one(address), "oauth-client-metadata-url" <URL>;

        /// Ask for these scopes, whatever the server names
        oauth_scope: String = one(text), "oauth-scope" <SCOPES>;

        /// Where nobody names scopes, ask for all that the authorization server offers, or for 'openid email profile', as mcp-remote does
        oauth_offered_scopes: bool = switch, "oauth-offered-scopes";

        /// Do not send the `resource` parameter to the authorization server
        oauth_no_resource: bool = switch, "oauth-no-resource", alias("disable-resource-parameter");

        /// The port for the redirect of the browser, or the first free one of a range: 9696-9703 [default: any]
        oauth_callback_port: CallbackPorts = one(callback_ports), "oauth-callback-port" <PORT>;

        /// Seconds that a request waits for a login
        ///
        /// After that, `initialize` gets a placeholder, and other requests fail with the URL to log in at.
        oauth_wait: Duration = one(seconds), "oauth-wait" <SECONDS> or limits::LOGIN_PATIENCE;

        /// The OAuth grant type
        oauth_grant: Grant = one(choice), "oauth-grant" <GRANT> or Grant::Code;

        /// Use this one of several accounts
        profile: String = one(text), "profile" <NAME>;

        /// Keep a login of its own for each set of headers that are sent, as mcp-remote does
        profile_by_headers: bool = switch, "profile-by-headers";

        /// Keep tokens below this directory, in place of the usual one for state
        state_dir: PathBuf = one(path), "state-dir" <DIR>;

        /// Where to keep tokens
        token_store: TokenStore = one(choice), "token-store" <STORE> or TokenStore::File;

        /// Seconds that a person may take for a login
        oauth_login_timeout: Duration = one(some_seconds), "oauth-login-timeout" <SECONDS>
            or limits::LOGIN_WAIT;

        /// Refresh tokens so many seconds before they expire
        oauth_skew: Duration = one(seconds), "oauth-skew" <SECONDS> or limits::TOKEN_SKEW;
    }
    AdvancedLogin {
        /// The only authorization server to use, by its issuer
        oauth_issuer: String = one(text), "oauth-issuer" <URL>;

        /// The token endpoint, in place of the discovered one
        oauth_token_url: Url = one(address), "oauth-token-url" <URL>;

        /// The authorization endpoint, in place of the discovered one
        oauth_authorization_url: Url = one(address), "oauth-authorization-url" <URL>;

        /// Disable authorization-server discovery; needs --oauth-token-url
        oauth_no_discovery: bool = switch, "oauth-no-discovery";

        /// Never ask a person to log in: use only tokens that are kept or given
        oauth_no_interactive: bool = switch, "oauth-no-interactive";

        /// The variable that holds a refresh token to start with
        oauth_refresh_token_env: String = one(text), "oauth-refresh-token-env" <VAR>;

        /// The variable that holds an authorization code, to be used once
        oauth_code_env: String = one(text), "oauth-code-env" <VAR>;

        /// The variable that holds the PKCE verifier of that code
        oauth_code_verifier_env: String = one(text), "oauth-code-verifier-env" <VAR>;

        /// The redirect URI of that code
        oauth_redirect_uri: String = one(text), "oauth-redirect-uri" <URL>;

        /// The `resource` parameter, in place of what the server says
        oauth_resource: String = one(text), "oauth-resource" <URI>;

        /// The audience to ask for, with --oauth-grant client-credentials
        oauth_audience: String = one(text), "oauth-audience" <TEXT>;

        /// Add NAME=VALUE to token requests; several times, or one a line
        oauth_param: Vec<String> = lines(text), "oauth-param" <PARAM>, secret();

        /// Add NAME=VALUE to the authorization request; several times, or one a line
        oauth_authorize_param: Vec<String> = lines(text), "oauth-authorize-param" <PARAM>, secret();

        /// Client metadata for dynamic registration, as a JSON object
        oauth_registration: String = one(text), "oauth-registration" <JSON>;

        /// Send the ID token of a login in place of the access token
        oauth_use_id_token: bool = switch, "oauth-use-id-token", alias("use-id-token");

        /// Where the browser goes after a login, in place of our own page
        oauth_success_url: Url = one(address), "oauth-success-url" <URL>;

        /// How the client's secret is sent [default: as the provider says]
        oauth_auth_style: ClientAuthentication = one(choice), "oauth-auth-style" <STYLE>;

        /// The host of the redirect URI: 127.0.0.1 or localhost
        oauth_callback_host: String = one(text), "oauth-callback-host" <HOST>
            or CallbackPlace::default().host;

        /// The path of the redirect URI
        oauth_callback_path: String = one(text), "oauth-callback-path" <PATH>
            or CallbackPlace::default().path;
    }
    Certificates {
        /// Trust the authorities in this PEM file as well
        ///
        /// In addition to those of the system. May be given several times.
        ca_certs: Vec<PathBuf> = many(path), "ca-cert" <FILE>;

        /// Show the certificate in this PEM file to the server, if it asks for one
        client_cert: PathBuf = one(path), "client-cert" <FILE>;

        /// The PEM file with its private key, if that is another one
        client_key: PathBuf = one(path), "client-key" <FILE>;

        /// Do not check the server's certificate: anybody on the way can read and change everything
        insecure: bool = switch, "insecure";
    }
    Logging {
        /// Log what happens, on stderr
        ///
        /// The same as --log-level debug, or DEBUG=1.
        verbose: bool = switch, "verbose", short('v'), alias("debug");

        /// What to log: off, error, warn, info, debug or trace [default: warn]
        log_level: LogLevel = one(choice), "log-level" <LEVEL>;

        /// How to write log lines
        log_format: LogFormat = one(choice), "log-format" <FORMAT> or LogFormat::Text;

        /// Append log lines to a file in place of stderr
        log_file: PathBuf = one(path), "log-file" <FILE>;

        /// Write every message and HTTP exchange to a file, as JSON lines without credentials
        trace_file: PathBuf = one(path), "trace-file" <FILE>;

        /// What the trace may take on disk, in bytes; the older half is dropped
        trace_limit: usize = one(trace_limit), "trace-limit" <BYTES> or limits::TRACE_SIZE;
    }
}
