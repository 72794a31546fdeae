//! The files of clients: read, backed up, and replaced in one step.

use std::fs::{self, File, Metadata, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::super::Failure;
use super::super::report::Usage;
use super::clients::Scope;
use mcp_span::limits::{
    BACKUPS, CLIENT_FILE, EDIT_LOCK, EDIT_LOCK_PAUSE, EDIT_PAUSE, EDIT_TRIES, LINKS,
};
use mcp_span::private_file;

/// A file that may or may not be there.
pub(super) struct ClientFile {
    /// As the client names it.
    pub(super) path: PathBuf,
    /// Where it is, behind all links: these stay as they are.
    real: PathBuf,
    scope: Scope,
}

/// What becomes of a file.
pub(super) struct Change<T> {
    /// None if it stays as it is.
    pub(super) after: Option<String>,
    pub(super) is_backed_up: bool,
    pub(super) result: T,
}

impl ClientFile {
    pub(super) fn at(path: PathBuf, scope: Scope) -> Result<Self, Failure> {
        let real = resolve_links(&path).map_err(|error| cannot("find", &path, &error))?;
        Ok(Self { path, real, scope })
    }

    /// Keeps other runs of this program off the file until the lock is dropped. Where no lock can be
    /// had, as on some network drives, what is compared before the file is replaced has to do.
    pub(super) fn lock(&self) -> Result<Option<File>, Failure> {
        let Ok(lock) = self.open_lock() else { return Ok(None) };
        let end = Instant::now() + EDIT_LOCK;
        while let Err(error) = lock.try_lock() {
            match error {
                TryLockError::Error(_) => return Ok(None),
                TryLockError::WouldBlock if Instant::now() > end => {
                    let path = self.path.display();
                    let sentence = format!("another mcp-span is editing {path}. Try again later");
                    return Err(Usage::new(sentence).into());
                }
                TryLockError::WouldBlock => sleep(EDIT_LOCK_PAUSE),
            }
        }
        Ok(Some(lock))
    }

    /// The folder itself, so that nothing is left lying about in it.
    #[cfg(unix)]
    fn open_lock(&self) -> io::Result<File> {
        File::open(folder_of(&self.real))
    }

    /// Folders cannot be locked here; the folder for temporary files is the user's own.
    #[cfg(not(unix))]
    fn open_lock(&self) -> io::Result<File> {
        private_file::open_lock(&std::env::temp_dir().join("mcp-span-install.lock"))
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
        let folder = folder_of(&self.real);
        fs::create_dir_all(folder).map_err(|error| cannot("create", folder, &error))
    }

    /// Replaces the text by what `change` makes of it, which is asked again if the client has written
    /// meanwhile. Gives the result and the path of the backup.
    pub(super) fn edit<T>(
        &self,
        mut change: impl FnMut(Option<&str>) -> Result<Change<T>, Failure>,
    ) -> Result<(T, Option<PathBuf>), Failure> {
        for _ in 0..EDIT_TRIES {
            let before = self.read()?;
            let change = change(before.as_deref())?;
            let Some(after) = change.after else { return Ok((change.result, None)) };
            if fs::metadata(&self.real).is_ok_and(|meta| meta.permissions().readonly()) {
                let path = self.path.display();
                return Err(Usage::new(format!("{path} is write-protected")).into());
            }
            let old = before.as_deref().filter(|_| change.is_backed_up);
            let backup = old.map(|text| self.back_up(text)).transpose()?;
            if self.write(before.as_deref(), &after)? {
                return Ok((change.result, backup));
            }
            sleep(EDIT_PAUSE);
        }
        let path = self.path.display();
        Err(Usage::new(format!("{path} keeps changing. Quit the client and try again")).into())
    }

    /// Its text; None if it is not there.
    fn read(&self) -> Result<Option<String>, Failure> {
        let path = self.path.display();
        let failed = |error| cannot("read", &self.path, &error);
        let meta = match fs::metadata(&self.real) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            meta => meta.map_err(failed)?,
        };
        // To open a pipe would wait for somebody to write to it.
        if !meta.is_file() {
            return Err(Usage::new(format!("{path} is not a file")).into());
        }
        if meta.len() > CLIENT_FILE {
            return Err(Usage::new(format!("{path} is too large for a configuration file")).into());
        }
        let bytes = fs::read(&self.real).map_err(failed)?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = valid.split(|byte| *byte == b'\n').count();
            Usage::new(format!("{path}:{line}: invalid UTF-8"))
        })?;
        Ok(Some(text))
    }

    /// Keeps `text`, which the file holds, beside it, in place of an older backup.
    fn back_up(&self, text: &str) -> Result<PathBuf, Failure> {
        let path = self.backup(0);
        let kept = self.write_beside(&path, text).and_then(|beside| put(&beside, &path));
        kept.map_err(|error| cannot("write", &path, &error))?;
        Ok(path)
    }

    /// Deletes the backups of which `is_obsolete` is true; gives back those where that failed.
    pub(super) fn delete_backups(
        &self,
        is_obsolete: impl Fn(&str) -> bool,
    ) -> Vec<(PathBuf, io::Error)> {
        let obsolete = self.backups().filter(|(_, text)| is_obsolete(text));
        let failed = |(path, _)| fs::remove_file(&path).err().map(|error| (path, error));
        obsolete.filter_map(failed).collect()
    }

    /// The texts that were kept.
    pub(super) fn earlier(&self) -> Vec<String> {
        self.backups().map(|(_, text)| text).collect()
    }

    /// The backup, and those with numbers that older versions have made.
    fn backups(&self) -> impl Iterator<Item = (PathBuf, String)> {
        (0..BACKUPS).map(|number| self.backup(number)).filter_map(|path| {
            fs::metadata(&path).ok().filter(|meta| meta.is_file() && meta.len() <= CLIENT_FILE)?;
            let text = String::from_utf8(private_file::read_beside(&path).ok()?).ok()?;
            Some((path, text))
        })
    }

    fn backup(&self, number: usize) -> PathBuf {
        let number = if number == 0 { String::new() } else { format!(".{number}") };
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".mcp-span.bak{number}"));
        name.into()
    }

    /// Puts `after` in the place of `before`. False if the file holds something else by now.
    fn write(&self, before: Option<&str>, after: &str) -> Result<bool, Failure> {
        let failed = |error| cannot("write", &self.path, &error);
        let beside = self.write_beside(&self.real, after).map_err(failed)?;
        // As late as can be: some clients write to their files all the time.
        if self.read().is_ok_and(|now| now.as_deref() == before) {
            put(&beside, &self.real).map_err(failed)?;
            return Ok(true);
        }
        let _ = fs::remove_file(&beside);
        Ok(false)
    }

    /// A new file beside `path`, with the mode and the owner that the client's file has.
    fn write_beside(&self, path: &Path, text: &str) -> io::Result<PathBuf> {
        let old = fs::metadata(&self.real).ok();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let beside = path.with_file_name(format!(".{name}.mcp-span.{}.{now}", std::process::id()));
        let file = match self.scope {
            // Such a file is meant to be shared, and one that is new gets the usual rights.
            Scope::Project if old.is_none() => File::create_new(&beside)?,
            _ => private_file::create_new(&beside)?,
        };
        fill(file, text, old.as_ref()).inspect_err(|_| drop(fs::remove_file(&beside)))?;
        Ok(beside)
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}

/// Moves a new file to its place, or removes it.
fn put(new: &Path, path: &Path) -> io::Result<()> {
    fs::rename(new, path).inspect_err(|_| drop(fs::remove_file(new)))
}

fn fill(mut file: File, text: &str, like: Option<&Metadata>) -> io::Result<()> {
    // Only root can work on somebody else's file, and should leave it theirs.
    #[cfg(unix)]
    if let Some(like) = like {
        use std::os::unix::fs::MetadataExt;
        let _ = std::os::unix::fs::fchown(&file, Some(like.uid()), Some(like.gid()));
    }
    file.write_all(text.as_bytes())?;
    if let Some(like) = like {
        file.set_permissions(like.permissions())?;
    }
    file.sync_all()
}

/// The end of a chain of links, which need not be there.
fn resolve_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        if !fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_symlink()) {
            return Ok(path);
        }
        path = folder_of(&path).join(fs::read_link(&path)?);
    }
    Err(io::Error::other("too many symbolic links"))
}

/// What the user can mend is said as such.
fn cannot(what: &str, path: &Path, error: &io::Error) -> Failure {
    let sentence = format!("cannot {what} {}: {error}", path.display());
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
