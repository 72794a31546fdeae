//! `mcp-span config`: what is set for a server, and where it was set.

use std::process::ExitCode;

use serde_json::{Map, Value, json};
use url::Url;

use super::args::LOCAL_HUB;
use super::commands::Config;
use super::output::Page;
use super::target::{Line, Wrong};
use super::{Failure, report, settings};
use mcp_span::ServerOptions;
use mcp_span::config::ConfigEntry;
use mcp_span::options::{
    OPTIONS, OptionInfo, Origin, ValueKind, Variables, shown_proxy, usual_proxy_variables,
};
use mcp_span::secret::shown;

/// A row of the table: a setting, its value, and where it was set.
struct Row {
    name: String,
    value: String,
    origin: String,
}

/// Prints the table.
pub(super) fn run(typed: &Config, line: &Line, ignored: &[String]) -> Result<ExitCode, Failure> {
    let connect = &typed.connect;
    let mut rows: Vec<Row> = connect.entry.iter().filter_map(|entry| program(entry)).collect();
    rows.extend(OPTIONS.iter().filter_map(|option| row(option, &connect.options, typed.all)));
    let variables = Variables::new(std::env::vars_os());
    let usual = usual_proxy_variables(&variables).into_iter().chain(others(&variables));
    let environment = || "environment".to_owned();
    rows.extend(usual.map(|(name, value)| Row { name, value, origin: environment() }));
    let servers = servers(line)?;
    if typed.json {
        report::print(&(as_json(line, &rows, &servers).to_string() + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let page = Page::of_stdout();
    let mut text = match &line.file.path {
        Some(path) => format!("configuration file: {}\n", path.display()),
        None => "configuration file: none\n".to_owned(),
    };
    text += &table(&page, &rows);
    if rows.is_empty() {
        text += "all settings have their defaults: --all shows them\n";
    }
    if !ignored.is_empty() {
        text += &format!("ignored flags: {}\n", ignored.join(" "));
    }
    if !line.file.passed_over.is_empty() {
        text += &format!("ignored keys of that file: {}\n", line.file.passed_over.join(" "));
    }
    if !servers.is_empty() {
        let rows: Vec<Row> = servers
            .into_iter()
            .map(|(name, value)| Row { name, value, origin: String::new() })
            .collect();
        text += &format!("servers:\n{}", table(&page, &rows));
    }
    report::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Names beside values, each with its origin.
fn table(page: &Page, rows: &[Row]) -> String {
    let cells = rows.iter().map(|Row { name, value, origin }| {
        let origin = if origin.is_empty() { String::new() } else { format!("  ({origin})") };
        vec![name.clone(), format!("{value}{origin}")]
    });
    page.columns(2, &cells.collect::<Vec<_>>())
}

fn as_json(line: &Line, rows: &[Row], servers: &[(String, String)]) -> Value {
    let settings: Map<String, Value> = rows
        .iter()
        .map(|row| (row.name.clone(), json!({ "value": row.value, "from": row.origin })))
        .collect();
    let servers: Map<String, Value> =
        servers.iter().map(|(name, what)| (name.clone(), json!(what))).collect();
    let file = line.file.path.as_ref().map(|path| path.display().to_string());
    json!({ "file": file, "settings": settings, "servers": servers })
}

/// The servers that have names, and what is wrong with them.
fn servers(line: &Line) -> Result<Vec<(String, String)>, Failure> {
    let mut servers = Vec::new();
    for target in line.resolve(&[], &[])? {
        let what = match &target.spec {
            Ok(spec) => settings::server_name(spec),
            Err(Wrong::Entry(fault)) => format!("wrong: {fault}"),
            Err(Wrong::Settings(usage) | Wrong::Word(usage)) => format!("wrong: {}", usage.0),
        };
        servers.push((target.name, what));
    }
    let off = line.file.servers.entries.iter().flatten().filter(|entry| !entry.enabled);
    servers.extend(off.map(|entry| (entry.name.clone(), "disabled".to_owned())));
    Ok(servers)
}

/// The server that was named, if it is a program; the URL of another is an option.
fn program(entry: &ConfigEntry) -> Option<Row> {
    let value = entry.options.command.as_ref()?.first()?.display().to_string();
    let origin = format!("server '{}'", entry.name);
    Some(Row { name: "command".to_owned(), value, origin })
}

/// Variables of others that are read as well.
fn others(variables: &Variables) -> impl Iterator<Item = (String, String)> {
    let names =
        ["DEBUG", "LOG_LEVEL", "RUST_LOG", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"];
    names.into_iter().filter_map(|name| Some((name.to_owned(), variables.text(name)?)))
}

fn row(option: &'static OptionInfo, options: &ServerOptions, all: bool) -> Option<Row> {
    let name = option.name.to_owned();
    let (value, origin) = match (options.texts(option), options.origin(option.name)) {
        (Some(texts), origin) => {
            let origin = match origin {
                Some(Origin::Flag) => "flag".to_owned(),
                Some(Origin::Variable) => option.variable(),
                Some(Origin::Foreign(program)) => program.clone(),
                Some(Origin::File(place)) => format!("configuration file, line {}", place.line),
                Some(Origin::Server(server, _)) => format!("server '{server}'"),
                _ => "default".to_owned(),
            };
            if origin == "default" && !all {
                return None;
            }
            (shown_value(option.name, &texts), origin)
        }
        (None, _) if !all => return None,
        (None, _) => match (option.default)() {
            Some(default) => (default, "default".to_owned()),
            None if option.kind == ValueKind::Switch => ("false".to_owned(), "default".to_owned()),
            None => ("-".to_owned(), "not set".to_owned()),
        },
    };
    Some(Row { name, value, origin })
}

/// What was given for an option, without secrets.
pub(super) fn shown_value(name: &str, texts: &[String]) -> String {
    match texts {
        [] => "-".to_owned(),
        texts if name == "header" => {
            let names = texts.iter().map(|text| text.split(':').next().unwrap_or_default().trim());
            names.map(|name| format!("{name}: [hidden]")).collect::<Vec<_>>().join(", ")
        }
        texts if name == "proxy" => texts.iter().map(|text| shown_proxy(text)).collect(),
        _ if mcp_span::options::find(name).is_some_and(|option| option.is_secret) => {
            "[hidden]".to_owned()
        }
        texts if name == "url" || name == "mcp-hub" => {
            texts.iter().map(|text| place(text)).collect()
        }
        texts => texts.join(" "),
    }
}

fn place(text: &str) -> String {
    if text == LOCAL_HUB {
        return text.to_owned();
    }
    Url::parse(text).map_or_else(|_| "[not a URL]".to_owned(), |url| shown(&url))
}
