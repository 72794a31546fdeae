//! `mcp-span config`: every setting, its value, and where it came from.
#![expect(clippy::print_stdout, reason = "this command is there to print")]

use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use url::Url;

use super::args::LOCAL_HUB;
use super::config_file::ConfigFile;
use super::proxy;
use crate::secret::shown;

/// Flags whose values are, or may hold, secrets: their names are enough.
const HIDDEN: [&str; 3] = ["header", "bearer-command", "header-command"];

/// Prints the table.
pub(super) fn run(
    command: &Command,
    matches: &ArgMatches,
    file: &ConfigFile,
    ignored: &[String],
) -> ExitCode {
    match &file.path {
        Some(path) => println!("configuration file: {}", path.display()),
        None => println!("configuration file: none"),
    }
    for arg in command.get_arguments().filter(|arg| is_setting(arg)) {
        let (name, value, from) = line(arg, matches, file);
        println!("{name:<20} {value:<32} {from}");
    }
    for (name, value) in proxy::usual_variables(|name| std::env::var(name).ok()) {
        println!("{name:<20} {value:<32} environment");
    }
    if !ignored.is_empty() {
        println!("accepted without any effect: {}", ignored.join(" "));
    }
    ExitCode::SUCCESS
}

fn is_setting(arg: &Arg) -> bool {
    !matches!(arg.get_id().as_str(), "help" | "version" | "config" | "no_config")
}

fn line(arg: &Arg, matches: &ArgMatches, file: &ConfigFile) -> (String, String, String) {
    let id = arg.get_id().as_str();
    let name = arg.get_long().unwrap_or(id).to_owned();
    let texts: Vec<String> = matches
        .get_raw(id)
        .into_iter()
        .flatten()
        .map(|text| text.to_string_lossy().into_owned())
        .collect();
    let value = match &texts[..] {
        [] => "-".to_owned(),
        texts if HIDDEN.contains(&&*name) => hidden(&name, texts),
        texts if name == "proxy" => texts.iter().map(|t| proxy::shown(t)).collect(),
        texts if name == "url" || name == "mcp-hub" => texts.iter().map(|t| place(t)).collect(),
        texts => texts.join(" "),
    };
    let from = match matches.value_source(id) {
        Some(ValueSource::CommandLine) => "flag".to_owned(),
        Some(ValueSource::EnvVariable) => {
            arg.get_env().map_or_else(String::new, |env| env.to_string_lossy().into_owned())
        }
        Some(_) if file.has(&name) => "configuration file".to_owned(),
        Some(_) => "default".to_owned(),
        None => "not set".to_owned(),
    };
    (name, value, from)
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
