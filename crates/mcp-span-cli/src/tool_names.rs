//! Remembers the names of a server's tools, so that shells can complete them without a connection.

use std::io;
use std::path::{Path, PathBuf};

use tracing::debug;

use mcp_span::{limits, private_file};

/// The file for one server, named after a hash of what was typed for it, which may hold secrets.
#[derive(Clone, Debug)]
pub(super) struct ToolNames {
    file: PathBuf,
}

impl ToolNames {
    /// The tools of the server that `target`, a URL or a name, stands for.
    pub(super) fn new(state: &Path, target: &str) -> Self {
        Self { file: state.join("tools").join(private_file::hashed_name(target)) }
    }

    /// The names as last listed; none if nothing usable is stored.
    pub(super) fn load(&self) -> Vec<String> {
        let text = private_file::read(&self.file).unwrap_or_default();
        let text = String::from_utf8(text).unwrap_or_default();
        completable(text.lines()).map(str::to_owned).collect()
    }

    /// Replaces what is stored. A failure is no loss: completion offers less.
    pub(super) fn store<'a>(&self, names: impl Iterator<Item = &'a str>) {
        let text: String = completable(names).flat_map(|name| [name, "\n"]).collect();
        if let Err(error) = self.write(&text) {
            debug!("the names of tools were not stored: {error}");
        }
    }

    fn write(&self, text: &str) -> io::Result<()> {
        if private_file::read(&self.file).is_ok_and(|known| known == text.as_bytes()) {
            return Ok(());
        }
        private_file::make_folder_of(&self.file)?;
        private_file::replace(&self.file, text.as_bytes())
    }
}

/// The names that a shell may be given: the server chose them, and a shell would act on the rest.
fn completable<'a>(names: impl Iterator<Item = &'a str>) -> impl Iterator<Item = &'a str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '-');
    let is_name = move |name: &&str| {
        let is_short = (1..=limits::COMPLETED_TOOL_NAME).contains(&name.len());
        is_short && !name.starts_with('-') && name.chars().all(is_plain)
    };
    names.filter(is_name).take(limits::COMPLETED_TOOLS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_no_shell_acts_on_are_kept_and_only_so_many() {
        let folder = tempfile::tempdir().unwrap();
        let names = ToolNames::new(folder.path(), "https://h/mcp?key=s3cret");
        assert_eq!(names.load(), Vec::<String>::new());
        let long = "x".repeat(limits::COMPLETED_TOOL_NAME + 1);
        let odd = ["$(reboot)", "a b", "a;b", "-rf", "", "a\u{1b}[2J", "a\nb", &long];
        names.store(["echo", "files.read"].into_iter().chain(odd).chain(["last"]));
        assert_eq!(names.load(), ["echo", "files.read", "last"]);
        names.store((0..limits::COMPLETED_TOOLS * 2).map(|_| "same"));
        assert_eq!(names.load().len(), limits::COMPLETED_TOOLS);
        std::fs::write(&names.file, b"good\n$(reboot)\n").unwrap();
        assert_eq!(names.load(), ["good"], "whoever wrote the file");
        std::fs::write(&names.file, b"\xff").unwrap();
        assert_eq!(names.load(), Vec::<String>::new());
        assert!(!names.file.to_str().unwrap().contains("s3cret"));
    }
}
