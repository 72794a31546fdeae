//! The list of the library's public items is current. `MCP_SPAN_RENEW_API=1 cargo test --test
//! public_api` writes it anew.
//!
//! The items are those that `lib.rs` re-exports; all modules are private or hidden. They are read
//! from the sources, which rustfmt has brought into one form: an item begins a line, its members are
//! indented by four blanks.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails where it is wrong")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

const LIST: &str = "../../docs/public-api.txt";

const TITLE: &str = "\
# The public items of the library mcp-span, as of this commit. Renewed by
# MCP_SPAN_RENEW_API=1 cargo test -p mcp-span --test public_api
";

#[test]
fn the_list_of_public_items_is_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = Sources::read(&root.join("src"));
    let names = exported(&sources.lib);
    let mut list = TITLE.to_owned();
    for (name, module) in &names {
        let item = sources.describe(module, name);
        assert!(!item.is_empty(), "{name} is re-exported, and its definition was not found");
        write!(list, "\n{item}").unwrap();
    }
    let path = root.join(LIST);
    if std::env::var_os("MCP_SPAN_RENEW_API").is_some() {
        fs::write(&path, &list).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(kept, list, "renew {LIST} as its first lines say, and look at what changes");
}

#[test]
fn every_module_is_private_or_hidden() {
    let lib = include_str!("../src/lib.rs");
    for (hidden, line) in lib.lines().zip(lib.lines().skip(1)) {
        let is_public = line.starts_with("pub mod ") || line.starts_with("pub const ");
        assert!(!is_public || hidden == "#[doc(hidden)]", "{line}");
    }
}

/// What `lib.rs` re-exports, and of which module.
fn exported(lib: &str) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for path in lib.split("\npub use ").skip(1).filter_map(|rest| rest.split(';').next()) {
        let (module, _) = path.split_once("::").expect("a path");
        let items = path.rsplit("::").next().unwrap_or_default();
        for item in items.trim_matches(['{', '}']).split(',').map(str::trim) {
            names.insert(item.to_owned(), module.to_owned());
        }
    }
    names.remove("");
    names
}

/// The source files, without their tests.
struct Sources {
    lib: String,
    /// With the top-level module of each.
    files: Vec<(String, String)>,
}

impl Sources {
    fn read(folder: &Path) -> Self {
        let mut paths = files_below(folder);
        paths.sort();
        let read = |path: &PathBuf| {
            let module = path.strip_prefix(folder).unwrap().iter().next().unwrap();
            let module = module.to_str().unwrap().trim_end_matches(".rs").to_owned();
            let text = fs::read_to_string(path).unwrap();
            (module, expanded(text.split("\n#[cfg(test)]\nmod tests {").next().unwrap()))
        };
        let lib = fs::read_to_string(folder.join("lib.rs")).unwrap();
        Self { lib, files: paths.iter().map(read).collect() }
    }

    /// The item of this name with its public members, a line each.
    fn describe(&self, module: &str, name: &str) -> String {
        let files = || self.files.iter().filter(|(of, _)| of == module).map(|(_, text)| text);
        let mut described = String::new();
        let is_item = |line: &&str| {
            let mut words = line.split(['(', '<', ' ', ':', ';']).filter(|word| *word != "async");
            let kinds = ["struct", "enum", "trait", "fn", "type", "macro"];
            words.next() == Some("pub")
                && words.next().is_some_and(|kind| kinds.contains(&kind))
                && words.next() == Some(name)
        };
        let Some(file) = files().find(|file| file.lines().any(|line| is_item(&line))) else {
            return described;
        };
        let start = file.lines().position(|line| is_item(&line)).unwrap();
        let item = block(file, start);
        let _ = writeln!(described, "{}", signature(&item));
        members(&item, is_shown_member, &mut described);
        for file in files() {
            for (start, line) in file.lines().enumerate() {
                if is_impl_of(line, name) {
                    members(
                        &block(file, start),
                        |line| line.starts_with("    pub "),
                        &mut described,
                    );
                } else if let Some(of) = implemented(line, name) {
                    let _ = writeln!(described, "    impl {of}");
                }
            }
        }
        described
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.flat_map(|path| match path.is_dir() {
        true => files_below(&path),
        false => vec![path],
    });
    files.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}

/// The source with what the macros `item` and `options` declare written out.
fn expanded(text: &str) -> String {
    if let Some((_, table)) = text.split_once("\noptions! {\n") {
        return text.to_owned() + &options_of(table);
    }
    let Some((before, rest)) = text.split_once("macro_rules! item {") else {
        return text.to_owned();
    };
    let (body, rest) = rest.split_once("\n}\n").unwrap();
    let body = body.split_once("=> {\n").unwrap().1.trim_end().trim_end_matches("};");
    let body: String = body
        .lines()
        .map(|line| line.strip_prefix("        ").unwrap_or(line).to_owned() + "\n")
        .collect();
    let types = rest.split("\nitem!(").skip(1).map(|call| {
        let mut lines = call.lines().map(str::trim);
        let named = lines.find(|line| !line.is_empty() && !line.starts_with("//"));
        body.replace("$name", named.unwrap().split(',').next().unwrap())
    });
    before.to_owned() + &types.collect::<String>() + rest
}

/// The struct that the table of options declares: `name: Type = …` is an optional field.
fn options_of(table: &str) -> String {
    let fields = table.lines().filter_map(|line| {
        let row = line.strip_prefix("        ").filter(|row| !row.starts_with([' ', '/']))?;
        match row.split_once(": ")? {
            (name, _) if name.starts_with("pub ") => Some(format!("    {row}\n")),
            (name, rest) => {
                let (kind, _) = rest.split_once(" = ")?;
                Some(format!("    pub {name}: Option<{kind}>,\n"))
            }
        }
    });
    format!("\npub struct ServerOptions {{\n{}}}\n", fields.collect::<String>())
}

/// From the line with this number to the end of the item that begins there.
fn block(file: &str, start: usize) -> Vec<&str> {
    let mut lines = Vec::new();
    for line in file.lines().skip(start) {
        lines.push(line);
        let is_whole = line.ends_with(';') || line.ends_with("{}");
        if line.starts_with('}') || (!line.starts_with(' ') && is_whole) {
            break;
        }
    }
    lines
}

/// A declaration on one line: up to the brace or the semicolon that ends it.
fn signature(lines: &[&str]) -> String {
    let mut words = String::new();
    for line in lines {
        let part = line.trim();
        let is_opened = words.ends_with(['(', '<']);
        let is_closed = part.starts_with([')', '>']);
        if is_closed && words.ends_with(',') {
            words.pop();
        }
        if !words.is_empty() && !is_opened && !is_closed {
            words.push(' ');
        }
        words += part;
        if words.ends_with(['{', ';', ',']) && is_balanced(&words) {
            break;
        }
        if words.ends_with("{}") {
            break;
        }
    }
    let words = words.trim_end_matches(['{', '}', ';', ',']).trim_end();
    // Fields without a name are private, unless they say otherwise.
    let is_opaque = words.starts_with("pub struct") && !words.contains("(pub ");
    let words = if is_opaque { words.split('(').next().unwrap_or_default() } else { words };
    words.replace("(mut ", "(").replace(", mut ", ", ")
}

fn is_balanced(words: &str) -> bool {
    let count = |letter| words.matches(letter).count();
    count('(') == count(')') && !words.contains(" where ") || words.ends_with('{')
}

/// The members of `item` that `is_shown`, unless they are hidden.
fn members(item: &[&str], is_shown: impl Fn(&str) -> bool, list: &mut String) {
    let is_hidden = |at: usize| {
        item[..at]
            .iter()
            .rev()
            .take_while(|line| line.contains("#["))
            .any(|line| line.contains("doc(hidden)"))
    };
    for (at, line) in item.iter().enumerate().skip(1) {
        if is_shown(line) && !is_hidden(at) {
            let _ = writeln!(list, "    {}", signature(&item[at..]));
        }
    }
}

/// A public field, a variant or a method of a trait: what is indented once and begins as one.
fn is_shown_member(line: &str) -> bool {
    let Some(member) = line.strip_prefix("    ") else { return false };
    member.starts_with("pub ")
        || member.starts_with("fn ")
        || member.starts_with("const ")
        || member.starts_with(char::is_uppercase)
}

fn is_impl_of(line: &str, name: &str) -> bool {
    line.starts_with("impl") && line.ends_with('{') && !line.contains(" for ") && {
        let of = line.trim_end_matches(" {").rsplit(' ').next().unwrap_or_default();
        of.split('<').next() == Some(name) || line.contains(&format!("> {name}<"))
    }
}

/// The trait that this line begins to implement for `name`.
fn implemented<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (of, rest) = line.strip_prefix("impl")?.split_once(" for ")?;
    let who = rest.trim_end_matches(" {").split(['<', ' ']).next()?;
    (who == name).then(|| {
        of.rsplit_once("> ")
            .filter(|(start, _)| start.starts_with('<'))
            .map_or(of, |(_, of)| of)
            .trim()
    })
}
