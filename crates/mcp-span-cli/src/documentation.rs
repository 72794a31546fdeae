//! Tests that the documentation agrees with the code. The tables in `docs/` of options, keys, kinds
//! of errors and exit codes are made here; `make docs-renew` writes them into their pages.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use clap::{Arg, Command};
use mcp_span::error::{Error, ErrorKind};
use mcp_span::options::{self, OPTIONS, OptionInfo};

use crate::args::documented;

/// The repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Set to write the tables into the pages.
const RENEW: &str = "MCP_SPAN_RENEW_DOCS";

#[test]
fn tables_in_the_documentation_are_those_of_the_code() {
    let mut command = documented();
    command.build();
    let stale: Vec<&str> = [
        ("docs/options.md", "options", options(&command)),
        ("docs/configuration.md", "keys", keys()),
        ("docs/errors.md", "kinds", kinds()),
        ("docs/cli.md", "exit codes", exit_codes(&command, "call")),
        ("docs/check.md", "exit codes", exit_codes(&command, "check")),
    ]
    .into_iter()
    .filter(|(page, name, table)| is_stale(page, name, table))
    .map(|(page, ..)| page)
    .collect();
    assert!(stale.is_empty(), "{stale:?} differ from the code; run `make docs-renew`");
}

#[test]
fn every_kind_of_error_has_its_delivery_in_the_documentation() {
    let page = read("docs/errors.md");
    let (_, rows) = page.split_once("| `kind` | `delivery` |").unwrap();
    let rows = rows.split("\n\n").next().unwrap_or_default();
    let named: Vec<&str> = rows
        .lines()
        .filter_map(|row| row.split('|').nth(1))
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect();
    let known: Vec<String> = kinds_with_words().into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(named.len(), named.iter().collect::<BTreeSet<_>>().len(), "a kind is there twice");
    assert_eq!(
        named.into_iter().collect::<BTreeSet<_>>(),
        known.iter().map(String::as_str).collect()
    );
}

#[test]
fn every_command_and_every_client_has_a_place_in_the_documentation() {
    let command = documented();
    let page = read("docs/cli.md");
    for name in command.get_subcommands().map(Command::get_name) {
        let is_there = [format!("`{name}`"), format!("`mcp-span {name}")]
            .iter()
            .any(|text| page.contains(text));
        assert!(is_there, "{name} is not in docs/cli.md");
    }
    let install = command.find_subcommand("install").unwrap();
    let clients = install.get_arguments().find(|arg| arg.get_id() == "client").unwrap();
    let pages = [read("README.md"), read("docs/clients.md")];
    for client in clients.get_possible_values() {
        let name = format!("`{}`", client.get_name());
        assert!(pages.iter().all(|page| page.contains(&name)), "{name} is not in a page");
    }
}

#[test]
fn options_that_the_documentation_names_are_there() {
    let mut command = documented();
    command.build();
    let all = [&command].into_iter().chain(command.get_subcommands());
    let mut known: BTreeSet<String> =
        all.flat_map(Command::get_arguments).flat_map(names).collect();
    known.extend(OTHER_OPTIONS.map(str::to_owned));
    let folder = std::fs::read_dir(Path::new(ROOT).join("docs")).unwrap();
    let pages = folder.map(|entry| format!("docs/{}", entry.unwrap().file_name().display()));
    let pages = pages
        .filter(|page| page.ends_with(".md"))
        .chain(["README.md".into(), "SECURITY.md".into()]);
    // The page for those who come from other programs has their options.
    let pages = pages.filter(|page| page != "docs/migrating.md");
    let unknown: Vec<String> = pages
        .flat_map(|page| {
            let options = named_options(&read(&page)).into_iter();
            let unknown = options.filter(|option| !known.contains(option));
            unknown.map(|option| format!("{page}: --{option}")).collect::<Vec<_>>()
        })
        .collect();
    assert!(unknown.is_empty(), "these options do not exist: {unknown:?}");
}

/// Options of cargo, of a linker and of other bridges.
const OTHER_OPTIONS: [&str; 7] =
    ["features", "icf", "open", "path", "protocol-era", "release", "resource"];

fn names(arg: &Arg) -> Vec<String> {
    let aliases = arg.get_all_aliases().unwrap_or_default();
    arg.get_long().into_iter().chain(aliases).map(str::to_owned).collect()
}

/// The words that begin with two dashes.
fn named_options(text: &str) -> BTreeSet<String> {
    let is_name =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    let parts = text.split("--").zip(text.split("--").skip(1));
    parts
        .filter(|(before, _)| before.ends_with([' ', '`', '(', '[']))
        .map(|(_, after)| after.split(|letter| !is_name(letter)).next().unwrap_or_default())
        .filter(|name| !name.is_empty() && !name.ends_with('-'))
        .map(str::to_owned)
        .collect()
}

fn read(page: &str) -> String {
    std::fs::read_to_string(Path::new(ROOT).join(page)).unwrap()
}

/// Whether what is between the markers of `name` is not `table`. Writes it there instead, if that is
/// asked for.
fn is_stale(page: &str, name: &str, table: &str) -> bool {
    let text = read(page);
    let (begin, end) = (format!("<!-- {name}: begin -->\n"), format!("<!-- {name}: end -->"));
    let parts = text.split_once(&begin).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(&end)?;
        Some((before, after))
    });
    let (before, after) = parts.unwrap_or_else(|| panic!("{page} has no markers for {name}"));
    let renewed = format!("{before}{begin}\n{table}\n{end}{after}");
    if renewed == text {
        return false;
    }
    let is_renewed = std::env::var_os(RENEW).is_some();
    if is_renewed {
        std::fs::write(Path::new(ROOT).join(page), renewed).unwrap();
    }
    !is_renewed
}

/// A section for each group of options of a connection, then one for each command.
fn options(command: &Command) -> String {
    let connect = command.find_subcommand("connect").unwrap();
    let shared: Vec<&Arg> = shown(connect).collect();
    let mut headings: Vec<&str> = Vec::new();
    for heading in shared.iter().map(|arg| heading(arg)) {
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    let mut text = String::from("## Options of a connection\n");
    for title in headings {
        let group = shared.iter().copied().filter(|arg| heading(arg) == title);
        write!(text, "\n### {title}\n\n{}", table(group)).unwrap();
    }
    text += "\n## Options of each command\n";
    for command in command.get_subcommands().filter(|command| command.get_name() != "help") {
        write!(text, "\n### {}\n\n{}", command.get_name(), own_options(command, &shared)).unwrap();
    }
    text
}

/// What a command has beside the options of a connection, and which of these it has.
fn own_options(command: &Command, shared: &[&Arg]) -> String {
    let is_shared = |arg: &&Arg| shared.iter().any(|one| one.get_long() == arg.get_long());
    let own: Vec<&Arg> = shown(command).filter(|arg| !is_shared(arg)).collect();
    let has = |one: &&&Arg| shown(command).any(|arg| arg.get_long() == one.get_long());
    let (there, missing): (Vec<&Arg>, Vec<&Arg>) = shared.iter().partition(|one| has(one));
    let names = |args: &[&Arg]| {
        let names: Vec<String> = args.iter().map(|arg| flag(arg)).collect();
        names.join(", ")
    };
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut text = format!("{about}.\n\n");
    if !own.is_empty() {
        text += &format!("{}\n", table(own.into_iter()));
    }
    text + &match (there.len(), missing.len()) {
        (0, _) => "No option of a connection.\n".to_owned(),
        (_, 0) => "All options of a connection.\n".to_owned(),
        (some, none) if some <= none => format!("Of a connection: {}.\n", names(&there)),
        _ => format!("Of a connection all but {}.\n", names(&missing)),
    }
}

/// What a reader can type; `--help` and `--version` are everywhere.
fn shown(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| {
        let long = arg.get_long();
        long.is_some_and(|long| long != "help" && long != "version") && !arg.is_hide_set()
    })
}

fn heading(arg: &Arg) -> &str {
    arg.get_help_heading().unwrap_or("Server")
}

fn table<'a>(args: impl Iterator<Item = &'a Arg>) -> String {
    let mut text =
        String::from("| Option | Variable | Default | What it does |\n|---|---|---|---|\n");
    for arg in args {
        let (help, default) = help_and_default(arg);
        let cells = [typed(arg), variable(arg), default, help + &values(arg)];
        let cells = cells.map(|cell| escaped(&cell));
        text += &format!("| {} |\n", cells.join(" | "));
    }
    text
}

/// The option of a server that an argument stands for.
fn option_of(arg: &Arg) -> Option<&'static OptionInfo> {
    options::find(arg.get_long()?)
}

fn variable(arg: &Arg) -> String {
    let own = arg.get_env().map(|name| name.to_string_lossy().into_owned());
    let variable = own.or_else(|| Some(option_of(arg)?.variable()));
    variable.map(|name| format!("`{name}`")).unwrap_or_default()
}

/// Such as `-H`, `--header HEADER`.
fn typed(arg: &Arg) -> String {
    let short = arg.get_short().map(|short| format!("`-{short}`, ")).unwrap_or_default();
    let aliases = arg.get_visible_aliases().unwrap_or_default();
    let aliases: String = aliases.iter().map(|alias| format!(", `--{alias}`")).collect();
    let value = arg.get_value_names().filter(|_| arg.get_action().takes_values());
    let Some([value]) = value else { return format!("{short}{}{aliases}", flag(arg)) };
    let is_optional = arg.get_num_args().is_some_and(|number| number.min_values() == 0);
    let value = match (is_optional, arg.is_require_equals_set()) {
        (true, true) => format!("[={value}]"),
        (true, false) => format!(" [{value}]"),
        (false, true) => format!("={value}"),
        (false, false) => format!(" {value}"),
    };
    format!("{short}`--{}{value}`{aliases}", arg.get_long().unwrap_or_default())
}

fn flag(arg: &Arg) -> String {
    format!("`--{}`", arg.get_long().unwrap_or_default())
}

/// The paragraphs of the help in one, and the default, which may stand in the help.
fn help_and_default(arg: &Arg) -> (String, String) {
    let help = arg.get_long_help().or_else(|| arg.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let paragraphs: Vec<&str> =
        help.split("\n\n").map(|paragraph| paragraph.trim().trim_end_matches('.')).collect();
    let mut help = paragraphs.join(". ");
    if let Some((before, rest)) = help.split_once(" [default: ")
        && let Some((default, after)) = rest.split_once(']')
    {
        let default = default.to_owned();
        help = format!("{before}{after}");
        return (help, default);
    }
    if !arg.get_action().takes_values() {
        return (help, String::new());
    }
    let typed = arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned());
    let default = typed.filter(|value| !value.is_empty()).reduce(|all, value| all + " " + &value);
    let default = default.or_else(|| (option_of(arg)?.default)());
    (help, default.map(|value| format!("`{value}`")).unwrap_or_default())
}

/// The values that an option can have, if they are few, and what each means.
fn values(arg: &Arg) -> String {
    let values = arg.get_possible_values();
    let values = values.iter().filter(|value| !value.is_hide_set());
    if !arg.get_action().takes_values() || arg.is_hide_possible_values_set() {
        return String::new();
    }
    let values: Vec<String> = values
        .map(|value| match value.get_help() {
            Some(help) => format!("`{}`: {help}", value.get_name()),
            None => format!("`{}`", value.get_name()),
        })
        .collect();
    if values.is_empty() { String::new() } else { format!(". {}", values.join("; ")) }
}

/// In one line that ends as a cell, without what Markdown takes for its own.
fn escaped(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.replace('|', "\\|").replace('<', "\\<").replace(" *", " \\*").replace("'*'", "`*`")
}

/// Keys that the page explains itself: they say which server it is.
const EXPLAINED: [&str; 5] = ["url", "mcp-hub", "header", "timeout", "transport"];

/// The keys of a configuration file, by what they take.
fn keys() -> String {
    let mut rows = [
        ("`true` or `false`", Vec::new()),
        ("a text or a number", Vec::new()),
        ("a list of texts, or an object of them; one text will do", Vec::new()),
    ];
    for option in OPTIONS.iter().filter(|option| !EXPLAINED.contains(&option.name)) {
        let row = match option.kind {
            options::ValueKind::Switch => 0,
            kind if kind.is_many() => 2,
            _ => 1,
        };
        rows[row].1.push(format!("`{}`", camel_case(option.name)));
    }
    let mut text = String::from("| Value | Keys |\n|---|---|\n");
    for (value, mut names) in rows {
        names.sort();
        text += &format!("| {value} | {} |\n", names.join(", "));
    }
    text
}

fn camel_case(flag: &str) -> String {
    let mut parts = flag.split('-');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |name, part| {
        let (initial, rest) = part.split_at(1);
        name + &initial.to_uppercase() + rest
    })
}

fn kinds() -> String {
    let mut text = String::from("| `kind` | `code` | What happened |\n|---|---|---|\n");
    for (name, words) in kinds_with_words() {
        let kind: ErrorKind = serde_json::from_value(name.as_str().into()).unwrap();
        text += &format!("| `{name}` | {} | {} |\n", Error::new(kind, "").code(), escaped(&words));
    }
    text
}

/// The kinds in their text form, with their doc comments: the code has no list of them, so its
/// source is read.
fn kinds_with_words() -> Vec<(String, String)> {
    let source = read("crates/mcp-span/src/error.rs");
    let (_, body) = source.split_once("pub enum ErrorKind {\n").unwrap();
    let (body, _) = body.split_once("\n}").unwrap();
    let (mut kinds, mut words, mut name) = (Vec::new(), String::new(), None);
    for line in body.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix("///") {
            words += comment;
        } else if let Some(renamed) = line.strip_prefix("#[serde(rename = \"") {
            name = renamed.strip_suffix("\")]").map(str::to_owned);
        } else if let Some(variant) = line.strip_suffix(',') {
            let name = name.take().unwrap_or_else(|| kebab_case(variant));
            kinds.push((name, std::mem::take(&mut words)));
        }
    }
    kinds
}

fn kebab_case(variant: &str) -> String {
    let mut name = String::new();
    for letter in variant.chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.extend(letter.to_lowercase());
    }
    name
}

/// The exit codes that the help of a command names: a number and its meaning in each line.
fn exit_codes(command: &Command, name: &str) -> String {
    let command = command.find_subcommand(name).unwrap();
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let mut text = String::from("| Code | Meaning |\n|---|---|\n");
    for line in help.lines().filter_map(|line| line.strip_prefix("  ")) {
        let Some((code, meaning)) = line.split_once(' ') else { continue };
        if code.parse::<u8>().is_ok() {
            text += &format!("| {code} | {} |\n", escaped(meaning));
        }
    }
    assert!(text.lines().count() > 4, "{name} has no exit codes in its help");
    text
}
