//! Things that all code must do in one way: the sources are searched for others.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The sources of the library and of the command line, without comments and tests.
fn sources() -> Vec<(String, String)> {
    let root = Path::new(ROOT);
    let (mut folders, mut found) =
        (vec![root.join("crates/mcp-span/src"), root.join("crates/mcp-span-cli/src")], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("tests") {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs")
            {
                let text = std::fs::read_to_string(&path).unwrap();
                let is_test = text.starts_with("//! Tests");
                let code = text.split("mod tests {").next().filter(|_| !is_test);
                let lines = code.unwrap_or_default().lines();
                let code: Vec<_> =
                    lines.filter(|line| !line.trim_start().starts_with("//")).collect();
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
                found.push((name, code.join("\n")));
            }
        }
    }
    assert!(found.len() > 250, "the sources were looked at: {}", found.len());
    found
}

/// Whether `part` stands there, and not as the end of a longer name.
fn has_word(code: &str, part: &str) -> bool {
    let is_name = |before: &str| before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    code.match_indices(part).any(|(at, _)| !is_name(&code[..at]))
}

/// Asserts that `parts` stand in no file but those of `allowed`, and in each of these.
fn stand_only_in(parts: &[&str], allowed: &[(&str, &str)]) {
    let uses: Vec<String> = sources()
        .into_iter()
        .filter(|(_, code)| parts.iter().any(|part| has_word(code, part)))
        .map(|(name, _)| name)
        .collect();
    for name in &uses {
        assert!(
            allowed.iter().any(|(known, _)| known == name),
            "{name} has one of {parts:?}: is there a reason to be in this list?"
        );
    }
    for (name, reason) in allowed {
        assert!(uses.iter().any(|known| known == name), "{name} ({reason}) needs no exception");
    }
}

#[test]
fn files_are_opened_by_the_module_for_private_files_but_for_those_that_the_user_names() {
    let opened = [
        "fs::read(",
        "fs::read_to_string(",
        "fs::write(",
        "fs::copy(",
        "fs::create_dir",
        "DirBuilder",
        "File::open(",
        "File::create",
        "OpenOptions",
    ];
    stand_only_in(
        &opened,
        &[
            ("crates/mcp-span/src/private_file/mod.rs", "the module itself"),
            ("crates/mcp-span/src/private_file/unix.rs", "the module itself"),
            ("crates/mcp-span/src/private_file/other.rs", "the module itself"),
            (
                "crates/mcp-span/src/auth/file.rs",
                "--bearer-file: Kubernetes links to files of root's",
            ),
            (
                "crates/mcp-span-cli/src/account/process.rs",
                "the kernel's file for the name of this process",
            ),
            ("crates/mcp-span/src/net/pem.rs", "certificates and keys that the user names"),
            ("crates/mcp-span/src/options/headers.rs", "--header-file"),
            ("crates/mcp-span/src/options/login.rs", "--oauth-private-key"),
            ("crates/mcp-span/src/os/peer_linux.rs", "the system's list of sockets"),
            (
                "crates/mcp-span-cli/src/explore/arguments.rs",
                "an argument that the user names as a file",
            ),
            (
                "crates/mcp-span-cli/src/explore/files.rs",
                "results, in files or a folder that the user names",
            ),
            (
                "crates/mcp-span-cli/src/compat/client_info.rs",
                "a file that the user names for mcp-remote",
            ),
            ("crates/mcp-span-cli/src/hub.rs", "mcp-hub's list, which names ports of this machine"),
            (
                "crates/mcp-span-cli/src/install/files.rs",
                "files of clients, which stay as open as they are",
            ),
            ("crates/mcp-span-cli/src/trace/mod.rs", "a trace that the user wants to read"),
        ],
    );
}

#[test]
fn the_library_reads_no_variables() {
    let readers = ["env::var", "env::vars"];
    let uses: Vec<String> = sources()
        .into_iter()
        .filter(|(name, _)| !name.starts_with("crates/mcp-span-cli/src/"))
        .filter(|(_, code)| readers.iter().any(|reader| code.contains(reader)))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(uses, [""; 0], "the environment belongs to the command line");
}

#[test]
fn text_reaches_a_terminal_from_these_files_alone_and_each_of_them_filters_it() {
    let writers = ["print!(", "println!(", "eprint!(", "eprintln!(", "stdout()", "stderr()"];
    let filtered = [
        ("crates/mcp-span-cli/src/report.rs", "sentences and errors, through `plain`"),
        ("crates/mcp-span-cli/src/output/page.rs", "what a command shows, through `Page`"),
        ("crates/mcp-span-cli/src/output/status.rs", "the line that tells what is being done"),
        ("crates/mcp-span-cli/src/oauth.rs", "where to log in"),
        (
            "crates/mcp-span-cli/src/account/paste.rs",
            "where to log in, and what was pasted wrongly",
        ),
        (
            "crates/mcp-span-cli/src/check/mod.rs",
            "findings, which are filtered where they are written",
        ),
        ("crates/mcp-span-cli/src/check/spinner.rs", "the line that tells what is being checked"),
        ("crates/mcp-span-cli/src/trace/mod.rs", "lines of a trace, through `trace::line`"),
        (
            "crates/mcp-span-cli/src/explore/server_requests.rs",
            "questions of a server, through `form`",
        ),
    ];
    let own_words = [
        ("crates/mcp-span-cli/src/explore/login.rs", "asks whether it is a terminal"),
        ("crates/mcp-span-cli/src/explore/read.rs", "asks whether it is a terminal"),
        ("crates/mcp-span-cli/src/logging.rs", "the log, whose writer filters each line"),
        (
            "crates/mcp-span-cli/src/account/process.rs",
            "single words, for the process that started it",
        ),
        ("crates/mcp-span/src/os/unix.rs", "messages for the client"),
        ("crates/mcp-span/src/os/other.rs", "messages for the client"),
    ];
    stand_only_in(&writers, &[&filtered[..], &own_words[..]].concat());
    let sources = sources();
    for (name, reason) in filtered {
        let (_, code) = sources.iter().find(|(known, _)| known == name).unwrap();
        let filters = ["Untrusted", "plain(", "one_line", "trace_line", "form::ask", "report"];
        assert!(filters.iter().any(|filter| code.contains(filter)), "{name}: {reason}");
    }
}

#[test]
fn what_is_installed_for_tests_runs_no_scripts_and_is_pinned_by_hash() {
    for path in ["tests/real/setup.sh", "benches/bridges/install.rs"] {
        let text = std::fs::read_to_string(Path::new(ROOT).join(path));
        let text = text.unwrap();
        let npm: Vec<_> = text
            .lines()
            .filter(|line| line.contains("npm ci") || line.contains("npm.args("))
            .collect();
        assert!(!npm.is_empty(), "{path}");
        assert!(npm.iter().all(|line| line.contains("--ignore-scripts")), "{path}: {npm:?}");
        assert!(!text.contains("npm install") && !text.contains("npx "), "{path}");
        assert!(text.contains("--require-hashes"), "{path}");
    }
}

#[test]
fn processes_are_started_in_an_environment_without_our_secrets() {
    stand_only_in(
        &["process::Command::new(", "Command::new(&", "Command::new(program"],
        &[("crates/mcp-span/src/environment.rs", "the one place")],
    );
    // An import under this name would be a way around the test above.
    stand_only_in(
        &["use std::process::Command;", "process::{Command", "process::{Child, Command"],
        &[
            ("crates/mcp-span/src/environment.rs", "the one place"),
            (
                "crates/mcp-span/src/os/unix.rs",
                "detaches a process whose command was made elsewhere",
            ),
            (
                "crates/mcp-span/src/os/other.rs",
                "detaches a process whose command was made elsewhere",
            ),
        ],
    );
}

#[test]
fn no_type_name_of_the_core_stands_for_two_things() {
    let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
    // What stands in `os/` is the same thing for each system. What programs use is called by its
    // module: `manager::Event`, `config::Value`.
    let for_programs = ["os", "client", "config", "demo", "manager", "options"];
    let is_core = |name: &str| {
        let inside = name.strip_prefix("crates/mcp-span/src/");
        let module = inside.map(|inside| inside.split('/').next().unwrap_or_default());
        module.is_some_and(|module| !for_programs.contains(&module))
    };
    for (name, code) in sources().into_iter().filter(|(name, _)| is_core(name)) {
        // What is indented is a type of a trait.
        for line in code.lines().filter(|line| !line.starts_with(' ')) {
            let visible = line.strip_prefix("pub").map_or(line, |rest| {
                rest.split_once(')')
                    .filter(|_| rest.starts_with('('))
                    .map_or(rest, |(_, rest)| rest)
            });
            let mut words = visible.split_whitespace();
            if !matches!(words.next(), Some("struct" | "enum" | "trait" | "type")) {
                continue;
            }
            let is_end = |c: char| !(c.is_alphanumeric() || c == '_');
            let declared = words.next().unwrap_or_default().split(is_end).next();
            files.entry(declared.unwrap_or_default().to_owned()).or_default().push(name.clone());
        }
    }
    assert!(files.len() > 300, "the declarations were looked at: {}", files.len());
    let twice: Vec<_> = files.iter().filter(|(_, files)| files.len() > 1).collect();
    assert!(twice.is_empty(), "declared more than once: {twice:#?}");
}
