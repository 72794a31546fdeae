//! The files of clients: read, backed up, and replaced in one step.

use std::fs::{self, File, Metadata, Permissions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::super::Failure;
use super::super::report::Usage;
use super::clients::Scope;
use mcp_span::limits::{BACKUPS, CLIENT_FILE, EDIT_LOCK, EDIT_LOCK_PAUSE, LINKS};
use mcp_span::private_file;

/// A file that may or may not be there.
pub(super) struct ClientFile {
    /// As the client names it.
    pub(super) path: PathBuf,
    /// Where it is, behind all links: these stay as they are.
    real: PathBuf,
    scope: Scope,
}

impl ClientFile {
    pub(super) fn at(path: PathBuf, scope: Scope) -> Result<Self, Failure> {
        let real = resolve_links(&path).map_err(|error| cannot("be found", &path, &error))?;
        Ok(Self { path, real, scope })
    }

    /// Keeps other runs of this program off the file until the lock is dropped. Where no lock can be
    /// had, as on some network drives, what is compared before the file is replaced has to do.
    pub(super) fn lock(&self) -> Result<Option<File>, Failure> {
        let Ok(lock) = self.open_lock() else { return Ok(None) };
        let end = Instant::now() + EDIT_LOCK;
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(Some(lock)),
                Err(TryLockError::Error(_)) => return Ok(None),
                Err(TryLockError::WouldBlock) if Instant::now() > end => {
                    let shown = self.path.display();
                    let sentence = format!("another mcp-span works on {shown}: try again later");
                    return Err(Usage::new(sentence).into());
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(EDIT_LOCK_PAUSE),
            }
        }
    }

    /// The folder itself, so that nothing is left lying about in it.
    #[cfg(unix)]
    fn open_lock(&self) -> io::Result<File> {
        File::open(self.real.parent().unwrap_or(Path::new("/")))
    }

    /// Folders cannot be locked here; the folder for temporary files is the user's own.
    #[cfg(not(unix))]
    fn open_lock(&self) -> io::Result<File> {
        let path = std::env::temp_dir().join("mcp-span-install.lock");
        private_file::open_lock(&path)
    }

    /// Whether others can read what is written into it. A file for a project is meant to be shared.
    pub(super) fn is_open_to_others(&self) -> bool {
        #[cfg(unix)]
        let is_readable = fs::metadata(&self.real)
            .is_ok_and(|meta| std::os::unix::fs::MetadataExt::mode(&meta) & 0o044 != 0);
        #[cfg(not(unix))]
        let is_readable = false;
        is_readable || self.scope == Scope::Project
    }

    /// Makes the folder that the file belongs into.
    pub(super) fn make_folder(&self) -> Result<(), Failure> {
        let folder = self.real.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(|error| cannot("be made", folder, &error))
    }

    /// Its text; None if it is not there.
    pub(super) fn read(&self) -> Result<Option<String>, Failure> {
        let shown = self.path.display();
        // To open a pipe would wait for somebody to write to it.
        if fs::metadata(&self.real).is_ok_and(|meta| !meta.is_file()) {
            return Err(Usage::new(format!("{shown} is not a file, and left alone")).into());
        }
        let file = match File::open(&self.real) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|error| cannot("be read", &self.path, &error))?,
        };
        let mut bytes = Vec::new();
        let read = file.take(CLIENT_FILE + 1).read_to_end(&mut bytes);
        read.map_err(|error| cannot("be read", &self.path, &error))?;
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > CLIENT_FILE {
            return Err(Usage::new(format!("{shown} is too large to be a configuration")).into());
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let line = 1 + error.as_bytes()[..error.utf8_error().valid_up_to()]
                .iter()
                .filter(|byte| **byte == b'\n')
                .count();
            Usage::new(format!("{shown}, line {line}: this is not UTF-8; the file is left alone"))
        })?;
        Ok(Some(text))
    }

    /// Whether somebody has protected it.
    pub(super) fn check_writable(&self) -> Result<(), Failure> {
        let shown = self.path.display();
        match fs::metadata(&self.real).is_ok_and(|meta| meta.permissions().readonly()) {
            true => Err(Usage::new(format!("{shown} is write-protected, and left alone")).into()),
            false => Ok(()),
        }
    }

    /// Keeps `text`, which the file holds, beside it, in place of an older backup. It is for its
    /// owner alone: whatever servers are in it, their keys may be as well.
    pub(super) fn back_up(&self, text: &str) -> Result<PathBuf, Failure> {
        let path = self.backup(0);
        let kept = private_file::replace(&path, text.as_bytes());
        kept.map_err(|error| cannot("be written", &path, &error))?;
        Ok(path)
    }

    /// Takes an entry out of the backups: they would keep its secrets. `without` gives the text
    /// without it, if it is in there. A backup that holds no more than the file, which is `now`,
    /// is removed. Gives back what could not be changed.
    pub(super) fn scrub_backups(
        &self,
        now: &str,
        without: impl Fn(&str) -> Option<String>,
    ) -> Vec<PathBuf> {
        let mut left = Vec::new();
        for (path, text) in self.backups() {
            let scrubbed = without(&text);
            let done = match &scrubbed {
                _ if text == now => fs::remove_file(&path),
                Some(scrubbed) if scrubbed == now => fs::remove_file(&path),
                Some(scrubbed) => private_file::replace(&path, scrubbed.as_bytes()),
                None => Ok(()),
            };
            if done.is_err() && scrubbed.is_some() {
                left.push(path);
            }
        }
        left
    }

    /// The texts that were kept.
    pub(super) fn earlier(&self) -> Vec<String> {
        self.backups().into_iter().map(|(_, text)| text).collect()
    }

    /// The backup, and those with numbers that older versions have made.
    fn backups(&self) -> Vec<(PathBuf, String)> {
        let numbered = (1..BACKUPS).map(|number| self.backup(number));
        let paths = [self.backup(0)].into_iter().chain(numbered.take_while(|path| path.exists()));
        let is_small = |path: &PathBuf| {
            fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() <= CLIENT_FILE)
        };
        paths
            .filter(is_small)
            .filter_map(|path| {
                let text = String::from_utf8(private_file::read_beside(&path).ok()?).ok()?;
                Some((path, text))
            })
            .collect()
    }

    fn backup(&self, number: usize) -> PathBuf {
        let number = if number == 0 { String::new() } else { format!(".{number}") };
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".mcp-span.bak{number}"));
        name.into()
    }

    /// Puts `after` in the place of `before`. False if the file holds something else by now.
    pub(super) fn write(&self, before: Option<&str>, after: &str) -> Result<bool, Failure> {
        let folder = self.real.parent().unwrap_or(Path::new("."));
        self.make_folder()?;
        let meta = fs::metadata(&self.real).ok();
        let written = self.write_beside(folder, meta.as_ref(), after);
        let beside = written.map_err(|error| cannot("be written", &self.path, &error))?;
        // As late as can be: some clients write to their files all the time.
        let is_same = self.read().is_ok_and(|now| now.as_deref() == before);
        let moved = if is_same { fs::rename(&beside, &self.real) } else { Ok(()) };
        if !is_same || moved.is_err() {
            let _ = fs::remove_file(&beside);
        }
        moved.map_err(|error| cannot("be written", &self.path, &error))?;
        Ok(is_same)
    }

    /// All of it, in a file of its own in the same folder, with the rights of the old one.
    fn write_beside(
        &self,
        folder: &Path,
        old: Option<&Metadata>,
        text: &str,
    ) -> io::Result<PathBuf> {
        let name = self.real.file_name().unwrap_or_default().to_string_lossy();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let path = folder.join(format!(".{name}.mcp-span.{}.{now}", std::process::id()));
        let permissions = old.map(Metadata::permissions);
        let file = match self.scope {
            // Such a file is meant to be shared, and one that is new gets the usual rights.
            Scope::Project if old.is_none() => File::create_new(&path)?,
            _ => private_file::create_new(&path)?,
        };
        keep_owner(&file, old);
        match fill(file, text, permissions) {
            Ok(()) => Ok(path),
            Err(error) => {
                let _ = fs::remove_file(&path);
                Err(error)
            }
        }
    }
}

fn fill(mut file: File, text: &str, permissions: Option<Permissions>) -> io::Result<()> {
    file.write_all(text.as_bytes())?;
    if let Some(permissions) = permissions {
        file.set_permissions(permissions)?;
    }
    file.sync_all()
}

/// Only root can work on somebody else's file, and should leave it theirs.
#[cfg(unix)]
fn keep_owner(file: &File, old: Option<&Metadata>) {
    use std::os::unix::fs::MetadataExt;
    if let Some(old) = old {
        let _ = std::os::unix::fs::fchown(file, Some(old.uid()), Some(old.gid()));
    }
}

#[cfg(not(unix))]
fn keep_owner(_: &File, _: Option<&Metadata>) {}

/// The end of a chain of links, which need not be there.
fn resolve_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        let is_link = fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_symlink());
        if !is_link {
            return Ok(path);
        }
        let target = fs::read_link(&path)?;
        path = path.parent().unwrap_or(Path::new(".")).join(target);
    }
    Err(io::Error::other("its links lead nowhere"))
}

/// What the user can mend is said as such.
fn cannot(what: &str, path: &Path, error: &io::Error) -> Failure {
    let sentence = format!("{} cannot {what}: {error}", path.display());
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::OutOfMemory | ErrorKind::Interrupted => {
            Failure::Unexpected(io::Error::new(error.kind(), sentence))
        }
        _ => Usage::new(sentence).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_folder(test: impl Fn(&Path)) {
        let folder = tempfile::tempdir().unwrap();
        test(folder.path());
        // Nothing of ours is left lying about.
        let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), ["f"]);
    }

    fn at(folder: &Path) -> ClientFile {
        ClientFile::at(folder.join("f"), Scope::User).unwrap_or_else(|_| panic!("a file"))
    }

    fn write(file: &ClientFile, before: Option<&str>, after: &str) -> bool {
        file.write(before, after).unwrap_or_else(|_| panic!("written"))
    }

    #[test]
    fn what_a_client_has_written_meanwhile_is_not_lost() {
        in_folder(|folder| {
            let file = at(folder);
            fs::write(&file.path, "newer").unwrap();
            assert!(!write(&file, Some("older"), "ours"));
            assert!(!write(&file, None, "ours"));
            assert_eq!(fs::read_to_string(&file.path).unwrap(), "newer");
            assert!(write(&file, Some("newer"), "ours"));
            assert_eq!(fs::read_to_string(&file.path).unwrap(), "ours");
        });
    }

    #[test]
    fn a_file_that_is_gone_meanwhile_is_not_made_again() {
        in_folder(|folder| {
            let file = at(folder);
            assert!(!write(&file, Some("older"), "ours"));
            assert!(!file.path.exists());
            assert!(write(&file, None, "ours"));
        });
    }

    #[cfg(unix)]
    #[test]
    fn links_in_a_circle_end() {
        in_folder(|folder| {
            std::os::unix::fs::symlink("f", folder.join("f")).unwrap();
            assert!(ClientFile::at(folder.join("f"), Scope::User).is_err());
        });
    }
}
