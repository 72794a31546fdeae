//! What was typed and all that stands behind it, resolved to a server to connect to.

use url::Url;

use super::args::{Connect, LOCAL_HUB};
use super::bad_arguments::nearest_command;
use super::report::Usage;
use super::{environment, hub};
use mcp_span::ServerOptions;
use mcp_span::bridge::{Policy, Stages};
use mcp_span::client::{self, Spec};
use mcp_span::options::{Given, OPTIONS, OptionError, Origin, check_url, find};
use mcp_span::secret::{Scrubber, shown};
use mcp_span::transport::http::HttpSettings;

/// All that a command needs to know of a server that has a URL.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) http: HttpSettings,
    pub(super) policy: Policy,
    pub(super) stages: Stages,
}

impl From<Settings> for Spec {
    fn from(settings: Settings) -> Self {
        let Settings { http, policy, stages } = settings;
        Self { policy, stages, ..Self::http(http) }
    }
}

impl From<OptionError> for Usage {
    fn from(error: OptionError) -> Self {
        Self(error.message, error.hint)
    }
}

/// The settings for a connection to a URL.
pub(super) fn of(typed: &Connect) -> Result<Settings, Usage> {
    match spec(typed)? {
        Spec { server: client::Server::Http(http), policy, stages } => {
            Ok(Settings { http: *http, policy, stages })
        }
        _ => Err(Usage::new("this server is a program to be started: it has no URL")),
    }
}

/// A connection to whatever server was typed: a URL, a name, a command.
pub(super) fn spec(typed: &Connect) -> Result<Spec, Usage> {
    let mut options = typed.options.clone();
    let needs_hub = options.mcp_hub.as_deref() == Some(LOCAL_HUB) && options.url.is_none();
    if needs_hub && options.command.is_none() {
        options.url = Some(hub::find()?);
    } else if options.mcp_hub.is_none() && options.command.is_none() {
        typed_url(typed)?;
    }
    Ok(options.resolve(&environment::context(typed))?)
}

/// What the variables of ours say, as far as `takes` says that it means something.
pub(super) fn variables(
    variables: impl Iterator<Item = (std::ffi::OsString, std::ffi::OsString)>,
    takes: impl Fn(&str) -> bool,
) -> Result<ServerOptions, Usage> {
    let mut options = ServerOptions::default();
    for (name, value) in variables.filter(|(_, value)| !value.is_empty()) {
        let name = name.to_str().and_then(|name| name.strip_prefix("MCP_SPAN_"));
        let Some(name) = name.map(|name| name.to_ascii_lowercase().replace('_', "-")) else {
            continue;
        };
        let Some(option) = find(&name).filter(|option| takes(option.name)) else { continue };
        let text = value.to_str().ok_or_else(|| {
            Usage::new(format!("{}: it is not UTF-8", Origin::Variable.label(option)))
        })?;
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        let lines: Vec<String> = lines.map(str::to_owned).collect();
        let given = match option.kind {
            mcp_span::options::ValueKind::Switch => Given::Switch(!is_falsey(text)),
            kind if kind.is_many() && lines.len() > 1 => Given::List(&lines),
            _ => Given::Text(text),
        };
        options.set(option, given, Origin::Variable).map_err(|why| {
            Usage::new(super::args::invalid(option, &Origin::Variable, given, &why))
        })?;
    }
    Ok(options)
}

/// Whether a word switches something off.
fn is_falsey(text: &str) -> bool {
    let words = ["0", "f", "false", "n", "no", "off"];
    words.iter().any(|word| word.eq_ignore_ascii_case(text.trim()))
}

/// What another program's settings say, by the names of our options.
pub(super) fn foreign(
    flags: &[(&'static str, String)],
    program: &str,
) -> Result<ServerOptions, Usage> {
    let mut options = ServerOptions::default();
    let origin = || Origin::Foreign(program.to_owned());
    for option in OPTIONS {
        let of_it = flags.iter().filter(|(name, _)| *name == option.name);
        let texts: Vec<String> = of_it.map(|(_, text)| text.clone()).collect();
        let given = match &texts[..] {
            [] => continue,
            [text] => Given::Text(text),
            texts => Given::List(texts),
        };
        options
            .set(option, given, origin())
            .map_err(|why| Usage::new(super::args::invalid(option, &origin(), given, &why)))?;
    }
    Ok(options)
}

/// What knows the secrets of a connection.
pub(super) fn scrubber(spec: &Spec) -> &Scrubber {
    match &spec.server {
        client::Server::Child(child) => &child.scrubber,
        client::Server::Http(http) => &http.scrubber,
    }
}

/// Whether there are certificates to check.
pub(super) fn is_https(spec: &Spec) -> bool {
    matches!(&spec.server, client::Server::Http(http) if http.url.scheme() == "https")
}

/// What to call a server that has no name.
pub(super) fn server_name(spec: &Spec) -> String {
    match &spec.server {
        client::Server::Child(child) => child.program.to_string_lossy().into_owned(),
        client::Server::Http(http) => shown(&http.url),
    }
}

/// The URL, checked; if it is none, it may have been meant as a name.
pub(super) fn typed_url(typed: &Connect) -> Result<Url, Usage> {
    let url = typed.options.url.as_deref();
    check_url(url, typed.options.allow_http == Some(true)).map_err(|why| match &typed.no_name {
        Some(no) => {
            let command = url.and_then(nearest_command);
            let meant = command.map(|command| format!("did you mean the command '{command}'?"));
            let message = format!("{}. It is not a name either: {no}", why.message);
            Usage(message, meant.or(why.hint))
        }
        None => why.into(),
    })
}
