//! `mcp-span config`: every setting, its value, and where it came from.

use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use url::Url;

use super::args::{LOCAL_HUB, Parsed, is_explicit};
use super::config_file::ConfigFile;
use super::target::{Line, Wrong};
use super::{Failure, proxy, report, settings};
use mcp_span::config::Server;
use mcp_span::secret::shown;

/// Flags whose values are, or may hold, secrets: their names are enough.
const HIDDEN: [&str; 5] =
    ["header", "bearer-command", "header-command", "oauth-param", "oauth-authorize-param"];

/// Prints the table.
pub(super) fn run(
    parsed: &Parsed,
    typed: &Line,
    file: &ConfigFile,
    ignored: &[String],
) -> Result<ExitCode, Failure> {
    let (command, matches) = asked_about(parsed);
    let lookup = |name: &str| std::env::var(name).ok();
    let mut text = match &file.path {
        Some(path) => format!("configuration file: {}\n", path.display()),
        None => "configuration file: none\n".to_owned(),
    };
    for arg in command.get_arguments().filter(|arg| is_setting(arg)) {
        let (name, value, from) =
            named(arg, file).unwrap_or_else(|| line(arg, matches, file, lookup));
        text += &format!("{name:<20} {value:<32} {from}\n");
    }
    let usual = proxy::usual_variables(lookup).chain(others(lookup));
    text.extend(usual.map(|(name, value)| format!("{name:<20} {value:<32} environment\n")));
    if !ignored.is_empty() {
        text += &format!("accepted without any effect: {}\n", ignored.join(" "));
    }
    if !file.passed_over.is_empty() {
        text += &format!("passed over in that file: {}\n", file.passed_over.join(" "));
    }
    text += &servers(typed)?;
    report::print(&report::plain(&text))?;
    Ok(ExitCode::SUCCESS)
}

/// The servers that have names, and what is wrong with them.
fn servers(typed: &Line) -> Result<String, Failure> {
    let all = &typed.file.servers.entries;
    let mut text = if all.is_empty() { String::new() } else { "servers:\n".to_owned() };
    for target in typed.resolve(&[], &[])? {
        let what = match &target.spec {
            Ok(spec) => settings::server_name(spec),
            Err(Wrong::Entry(fault)) => format!("wrong: {fault}"),
            Err(Wrong::Settings(usage) | Wrong::Word(usage)) => format!("wrong: {}", usage.0),
        };
        text += &format!("  {:<18} {what}\n", target.name);
    }
    let off = all.iter().flatten().filter(|entry| !entry.enabled);
    text.extend(off.map(|entry| format!("  {:<18} switched off\n", entry.name)));
    Ok(text)
}

/// What the entry of a server says in another way than by defaults for flags.
fn named(arg: &Arg, file: &ConfigFile) -> Option<(String, String, String)> {
    let entry = file.server.as_ref().filter(|_| arg.get_id() == "url")?;
    let value = match &entry.server {
        Server::Url { url, .. } => shown(url),
        Server::Child { command, .. } => command.clone(),
    };
    Some(("url".to_owned(), value, format!("server '{}'", entry.name)))
}

/// The subcommand that was typed, with its values.
fn asked_about(parsed: &Parsed) -> (&Command, &ArgMatches) {
    let (command, matches) = (&parsed.command, &parsed.matches);
    let below = matches.subcommand();
    below
        .and_then(|(name, matches)| Some((command.find_subcommand(name)?, matches)))
        .unwrap_or((command, matches))
}

/// Variables of others that are read as well.
fn others(lookup: impl Fn(&str) -> Option<String>) -> impl Iterator<Item = (String, String)> {
    let names =
        ["DEBUG", "LOG_LEVEL", "RUST_LOG", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"];
    names.into_iter().filter_map(move |name| Some((name.to_owned(), lookup(name)?)))
}

fn is_setting(arg: &Arg) -> bool {
    !matches!(arg.get_id().as_str(), "help" | "version" | "config" | "no_config" | "program")
}

fn line(
    arg: &Arg,
    matches: &ArgMatches,
    file: &ConfigFile,
    lookup: impl Fn(&str) -> Option<String>,
) -> (String, String, String) {
    let id = arg.get_id().as_str();
    let name = arg.get_long().unwrap_or(id).to_owned();
    // Many headers in one variable: it is read elsewhere.
    let headers = lookup("MCP_SPAN_HEADER").filter(|text| !text.is_empty() && name == "header");
    if let Some(headers) = headers.filter(|_| !is_explicit(matches, id)) {
        let lines: Vec<String> = headers.lines().map(str::to_owned).collect();
        return (name, hidden("header", &lines), "MCP_SPAN_HEADER".to_owned());
    }
    let texts: Vec<String> = matches
        .get_raw(id)
        .into_iter()
        .flatten()
        .map(|text| text.to_string_lossy().into_owned())
        .collect();
    let value = shown_value(&name, &texts);
    let from = match matches.value_source(id) {
        Some(ValueSource::CommandLine) => "flag".to_owned(),
        Some(ValueSource::EnvVariable) => {
            arg.get_env().map_or_else(String::new, |env| env.to_string_lossy().into_owned())
        }
        Some(_) if file.is_theirs(&name) => "mcp-oauth2-proxy".to_owned(),
        Some(_) if file.has(&name) => match file.server_of(&name) {
            Some(server) => format!("server '{server}'"),
            None => "configuration file".to_owned(),
        },
        Some(_) => "default".to_owned(),
        None => "not set".to_owned(),
    };
    (name, value, from)
}

/// What was given for a flag, without secrets.
pub(super) fn shown_value(name: &str, texts: &[String]) -> String {
    match texts {
        [] => "-".to_owned(),
        texts if HIDDEN.contains(&name) => hidden(name, texts),
        texts if name == "proxy" => texts.iter().map(|t| proxy::shown(t)).collect(),
        texts if name == "url" || name == "mcp-hub" => texts.iter().map(|t| place(t)).collect(),
        texts => texts.join(" "),
    }
}

fn hidden(name: &str, texts: &[String]) -> String {
    if name != "header" {
        return "[hidden]".to_owned();
    }
    let names = texts.iter().map(|text| text.split(':').next().unwrap_or_default().trim());
    names.map(|name| format!("{name}: [hidden]")).collect::<Vec<_>>().join(", ")
}

fn place(text: &str) -> String {
    if text == LOCAL_HUB {
        return text.to_owned();
    }
    Url::parse(text).map_or_else(|_| "[not a URL]".to_owned(), |url| shown(&url))
}
