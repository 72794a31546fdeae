//! Which file tokens are in: that of this environment, or of another one on the same machine.
//!
//! A login in a terminal and a client that was started by a desktop differ in their environment, and
//! with it in where state is kept.

use std::io;
use std::path::{Path, PathBuf};

use tracing::debug;

use crate::private_file;

/// The files that may hold the tokens of one server and profile.
#[derive(Clone, Debug)]
pub(super) struct Places {
    /// That of this environment.
    own: PathBuf,
    /// That of an environment which says nothing about it. It is the same for all.
    usual: PathBuf,
}

impl Places {
    /// How many there are.
    pub(super) const COUNT: usize = 3;

    /// The file `name`, below the folder of this environment or the usual one.
    pub(super) fn new(folder: &Path, usual: Option<&Path>, name: &str) -> Self {
        let file = |folder: &Path| folder.join("tokens").join(format!("{name}.json"));
        Self { own: file(folder), usual: file(usual.unwrap_or(folder)) }
    }

    /// The one that is there and ours, or else that of this environment.
    pub(super) fn current(&self) -> PathBuf {
        let usual = [&self.own, &self.usual].into_iter().find(|file| is_ours(file)).cloned();
        usual.or_else(|| self.noted()).unwrap_or_else(|| self.own.clone())
    }

    /// Tells runs in other environments where the tokens are now.
    pub(super) fn note(&self) -> io::Result<()> {
        let is_known = self.own == self.usual || self.noted().as_ref() == Some(&self.own);
        match self.own.to_str().filter(|_| !is_known && self.current() == self.own) {
            Some(own) => replace(&self.note_file(), own.as_bytes()),
            None => Ok(()),
        }
    }

    /// Where a run in another environment has put them, if they are still there and ours. A note
    /// that leads to anything else is dropped: somebody else may have made that place again.
    fn noted(&self) -> Option<PathBuf> {
        let note = self.note_file();
        private_file::read(&note).ok()?;
        if let Some(noted) = noted_in(&note) {
            return Some(noted);
        }
        debug!("the note {} leads to no tokens of ours: it is dropped", note.display());
        let _ = std::fs::remove_file(&note);
        None
    }

    fn note_file(&self) -> PathBuf {
        self.usual.with_extension("at")
    }

    /// The name of the file, without its ending.
    pub(super) fn name(&self) -> Option<&str> {
        self.own.file_stem()?.to_str()
    }
}

/// Writes a file of ours as a whole, and makes its folder where there is none.
pub(super) fn replace(file: &Path, text: &[u8]) -> io::Result<()> {
    private_file::make_folder_of(file)?;
    private_file::replace(file, text)
}

/// The files of tokens below `folder`, with those that notes there lead to, and the notes of pending
/// logins.
pub(super) fn all_below(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries = match std::fs::read_dir(folder.join("tokens")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        entries => entries?,
    };
    for entry in entries {
        let file = entry?.path();
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("json" | "page") => found.push(file),
            Some("at") => found.extend(noted_in(&file)),
            _ => {}
        }
    }
    Ok(found)
}

/// Where a note leads, if that is a file of the same name, and ours.
fn noted_in(note: &Path) -> Option<PathBuf> {
    let noted = PathBuf::from(String::from_utf8(private_file::read(note).ok()?).ok()?);
    let is_such = noted.is_absolute()
        && noted.file_stem() == note.file_stem()
        && noted.extension().is_some_and(|extension| extension == "json");
    (is_such && is_ours(&noted)).then_some(noted)
}

fn is_ours(file: &Path) -> bool {
    private_file::check(file).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_environment_keeps_is_found_in_another() {
        let folder = tempfile::tempdir().unwrap();
        let (usual, other) = (folder.path().join("usual"), folder.path().join("other"));
        let bare = Places::new(&usual, None, "n");
        let named = Places::new(&other, Some(&usual), "n");
        assert_eq!((bare.current(), named.current()), (bare.own.clone(), named.own.clone()));
        replace(&named.own, b"{}").unwrap();
        named.note().unwrap();
        assert_eq!(bare.current(), named.own);
        std::fs::remove_file(&named.own).unwrap();
        assert_eq!(bare.current(), bare.own, "what is no longer there");
        replace(&bare.own, b"{}").unwrap();
        assert_eq!(named.current(), bare.own);
        bare.note().unwrap();
        assert!(!bare.note_file().exists(), "all look there");
    }

    #[test]
    fn a_note_leads_to_nothing_but_tokens_of_the_same_name() {
        let folder = tempfile::tempdir().unwrap();
        let places = Places::new(folder.path(), None, "n");
        let other = folder.path().join("other.json");
        replace(&other, b"{}").unwrap();
        for text in [other.to_str().unwrap(), "n.json", "", "\0"] {
            replace(&places.note_file(), text.as_bytes()).unwrap();
            assert_eq!(places.current(), places.own, "{text}");
        }
    }
}
