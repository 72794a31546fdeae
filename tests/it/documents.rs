//! The documents of the repository: links, headings, the table of contents.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// The repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The texts of all documents, by their paths in the repository.
fn documents() -> BTreeMap<PathBuf, String> {
    let root = Path::new(ROOT);
    let named = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"].map(PathBuf::from);
    let pages = std::fs::read_dir(root.join("docs")).unwrap();
    let pages = pages.map(|entry| Path::new("docs").join(entry.unwrap().file_name()));
    let pages = pages.filter(|path| path.extension().is_some_and(|end| end == "md"));
    let paths: BTreeSet<PathBuf> = named.into_iter().chain(pages).collect();
    assert!(paths.len() > 15, "the pages were found: {paths:?}");
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(root.join(&path)).unwrap();
        (path, text)
    };
    paths.into_iter().map(read).collect()
}

/// The lines outside of blocks of code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// The targets of links and pictures.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(text) {
        // What stands between backticks is no link.
        let line: String = line.split('`').step_by(2).collect::<Vec<_>>().join("x");
        let targets = line.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
        found.extend(targets.map(str::to_owned));
    }
    found
}

/// The anchors of the headings, as GitHub and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|line| line.starts_with('#'));
    let mut anchors = BTreeSet::new();
    for heading in headings {
        let title = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        assert!(!anchors.contains(&anchor), "{heading:?} is there twice: which one is meant?");
        anchors.insert(anchor);
    }
    anchors
}

/// `target` as seen from the folder of `page`, without its detours.
fn resolved(page: &Path, target: &str) -> PathBuf {
    let mut path = page.parent().unwrap().to_path_buf();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => {
                assert!(path.pop(), "{target} in {page:?} leaves the repository");
            }
            part => path.push(part),
        }
    }
    path
}

#[test]
fn every_link_leads_to_a_file_and_a_heading_that_exist() {
    let documents = documents();
    let mut seen = 0;
    for (page, text) in &documents {
        for link in links(text) {
            if link.contains("://") {
                continue;
            }
            seen += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let path = if file.is_empty() { page.clone() } else { resolved(page, file) };
            assert!(Path::new(ROOT).join(&path).exists(), "{page:?}: there is no {link}");
            if !anchor.is_empty() {
                let target = documents.get(&path);
                let target = target.unwrap_or_else(|| panic!("{page:?}: {link} is no document"));
                assert!(anchors(target).contains(anchor), "{page:?}: no heading for {link}");
            }
        }
    }
    assert!(seen > 50, "the links were found: {seen}");
}

#[test]
fn the_table_of_contents_has_every_page_once() {
    let documents = documents();
    let summary = &documents[Path::new("docs/SUMMARY.md")];
    let mut listed = links(summary);
    listed.sort();
    let pages =
        documents.keys().filter(|path| path.starts_with("docs") && !path.ends_with("SUMMARY.md"));
    let pages: Vec<&str> = pages.map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(listed, pages);
    for (page, text) in &documents {
        let titles = prose(text).filter(|line| line.starts_with("# ")).count();
        let is_contents = page.ends_with("SUMMARY.md");
        assert!(titles == 1 || is_contents, "{page:?} has {titles} titles");
    }
}

/// Below these is what a document may name by the end of its path.
const SOURCES: [&str; 5] = ["benches", "crates", "fuzz", "scripts", "tests"];

/// The sources, by their paths in the repository.
fn sources() -> Vec<String> {
    let root = Path::new(ROOT);
    let (mut folders, mut found) = (SOURCES.map(|name| root.join(name)).to_vec(), Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
            if !path.is_dir() {
                found.push(name);
            } else if !path.ends_with("node_modules") && !path.ends_with("target") {
                found.push(format!("{name}/"));
                folders.push(path);
            }
        }
    }
    found
}

/// What stands between backticks and is the name of a file of the repository, or of a folder.
fn named_files(text: &str) -> Vec<&str> {
    let words = prose(text).flat_map(|line| line.split('`').skip(1).step_by(2));
    let is_path = |word: &&str| {
        let is_source = SOURCES.iter().any(|name| word.starts_with(&format!("{name}/")));
        word.ends_with(".rs") || (is_source && !word.contains(char::is_whitespace))
    };
    words.filter(is_path).collect()
}

#[test]
fn files_that_documents_name_exist() {
    let (sources, mut seen) = (sources(), 0);
    for (page, text) in &documents() {
        for name in named_files(text) {
            seen += 1;
            let ending = format!("/{name}");
            let folder = format!("{name}/");
            let exists = sources
                .iter()
                .any(|path| path == name || *path == folder || path.ends_with(&ending));
            assert!(exists, "{page:?}: there is no {name}");
        }
    }
    assert!(seen > 40, "the names were found: {seen}");
}

#[test]
fn the_readme_is_short_and_has_the_two_commands() {
    let documents = documents();
    let readme = &documents[Path::new("README.md")];
    assert!(readme.lines().count() <= 250, "{} lines", readme.lines().count());
    let first = readme.find("cargo run --release -- demo").unwrap();
    assert!(readme[..first].lines().count() < 50, "the first success comes late");
    assert!(readme.contains("\nmake test "), "the command that runs all tests");
    let ci = std::fs::read_to_string(Path::new(ROOT).join(".ci/run")).unwrap();
    assert!(ci.trim_end().ends_with("make test"), "{ci}");
}
