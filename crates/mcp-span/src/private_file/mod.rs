//! Opens, checks and writes the files that belong to the user alone: one open, then every check on
//! what was opened.
//!
//! On Unix, a file or a link that somebody else has put in our place is refused. Other systems do
//! not tell the standard library who owns a file; the folders of a Windows profile are private.

#[cfg(unix)]
mod links;
#[cfg(not(unix))]
mod other;
#[cfg(unix)]
mod unix;

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use ring::digest::{SHA256, digest};

#[cfg(not(unix))]
use other as platform;
#[cfg(unix)]
use unix as platform;

pub use platform::tighten;

/// A file name that stands for `text` and does not reveal it: URLs may hold secrets.
#[must_use]
pub fn hashed_name(text: &str) -> String {
    let hash = digest(&SHA256, text.as_bytes());
    hash.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Reads a file of ours that may hold secrets.
///
/// It is tightened if others can read it.
///
/// # Errors
///
/// When it is a link, is not a regular file, belongs to another user, or others can write to it or
/// replace it.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = open_to_read(path)?;
    platform::check_private_folder(parent(path))?;
    tighten(&file, path)?;
    contents(file)
}

/// The same for a file in a folder that is not ours to judge, such as that of a client.
///
/// # Errors
///
/// As for [`read`], but for the folder.
pub fn read_beside(path: &Path) -> io::Result<Vec<u8>> {
    contents(open_to_read(path)?)
}

/// Whether [`read`] would read this file.
///
/// # Errors
///
/// As for [`read`].
pub fn check(path: &Path) -> io::Result<()> {
    open_to_read(path)?;
    platform::check_private_folder(parent(path))
}

/// Reads a configuration file, which may also be root's, and behind links of the user's or of root's.
///
/// # Errors
///
/// When somebody else could have written it, or could put another one in its place.
pub fn read_configuration(path: &Path) -> io::Result<Vec<u8>> {
    let target = platform::follow_links(path)?;
    platform::check_shared_folder(parent(&target.path))?;
    let mut options = OpenOptions::new();
    contents(platform::open(options.read(true), &target.path, Purpose::Configuration)?)
}

/// Opens a log to append to, for its owner alone if it is new.
///
/// A link is followed if it is the user's own or root's. Terminals, pipes and `/dev/null` will do.
///
/// # Errors
///
/// When the file, its folder, or a link on the way belongs to another user, when others can replace
/// one of them, or when the file has a second name.
pub fn append_log(path: &Path) -> io::Result<File> {
    let target = platform::follow_links(path)?;
    platform::check_shared_folder(parent(&target.path))?;
    platform::open_target(OpenOptions::new().append(true).create(true), &target, Purpose::Logging)
}

/// Opens a regular file to read and to append to, for its owner alone if it is new. It must not be a
/// link; folders on the way to it may be, if they are the user's own or root's.
///
/// # Errors
///
/// When it is a link or another sort of file, belongs to another user, or has a second name; when
/// its folder is another user's, or others can put something else in its place.
pub fn append(path: &Path) -> io::Result<File> {
    let path = platform::place(path)?;
    let mut options = OpenOptions::new();
    platform::open(options.read(true).append(true).create(true), &path, Purpose::Appending)
}

/// Opens a file that is only locked, never written.
///
/// # Errors
///
/// When it is a link or another sort of file, or belongs to another user.
pub fn open_lock(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    platform::open(options.write(true).create(true).truncate(false), path, Purpose::Locking)
}

/// Creates a file that nobody else can read from the moment it exists.
///
/// # Errors
///
/// When there is something of this name already, a link included.
pub fn create_new(path: &Path) -> io::Result<File> {
    platform::owner_only(OpenOptions::new().write(true).create_new(true)).open(path)
}

/// Replaces a file in one step, or not at all.
///
/// # Errors
///
/// When it cannot be written.
pub fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    // Threads of one process may replace the same file at the same time.
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let new = path.with_added_extension(format!("new{}-{count}", std::process::id()));
    // Left behind by a process of the same number that was killed.
    let _ = std::fs::remove_file(&new);
    let written = create_new(&new).and_then(|mut file| {
        file.write_all(text)?;
        file.sync_all()
    });
    written
        .and_then(|()| std::fs::rename(&new, path))
        .inspect_err(|_| drop(std::fs::remove_file(&new)))
}

/// Makes the folder that `path` is in, for its owner alone. What is above it is left as it is.
///
/// # Errors
///
/// When it is a link or belongs to another user, or others can write to it and that cannot be
/// changed; when the folder above it is another user's, or others can put something else in its
/// place.
pub fn make_folder_of(path: &Path) -> io::Result<()> {
    // Before anything is made: nothing is made behind a link of somebody else's.
    platform::follow_links(parent(parent(path)))?;
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(parent(path))?;
    platform::check_private_folder(parent(path))
}

/// What a file is opened for, by which it is checked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Ours, which nobody else can have written.
    Reading,
    /// Ours.
    Locking,
    /// Ours, and not another file of ours under a second name.
    Appending,
    /// The same, or what the system has in place of a regular file.
    Logging,
    /// Ours or root's, which nobody else can have written.
    Configuration,
}

/// Where a chain of links ends.
struct Target {
    path: PathBuf,
    /// The system follows this last link itself: `/proc/self/fd/2` leads to a pipe without a name.
    #[cfg_attr(not(unix), expect(dead_code, reason = "other systems have no such links"))]
    is_magic: bool,
}

fn open_to_read(path: &Path) -> io::Result<File> {
    platform::open(OpenOptions::new().read(true), path, Purpose::Reading)
}

fn contents(mut file: File) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    Ok(text)
}

/// The folder of a file; the current one for a bare name.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn refused(why: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, why.into())
}

#[cfg(test)]
mod tests;
