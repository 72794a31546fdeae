//! Systems whose file owners the standard library does not know: files are opened as they are.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::{Purpose, Target, refused};

/// Nothing is known about the owner.
pub(super) fn open(options: &mut OpenOptions, path: &Path, _: Purpose) -> io::Result<File> {
    if std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink()) {
        return Err(refused("it is a symbolic link"));
    }
    options.open(path)
}

pub(super) fn owner_only(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

#[expect(clippy::unnecessary_wraps, reason = "the same form as on Unix")]
pub(super) fn follow_links(path: &Path) -> io::Result<Target> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    Ok(Target { path, is_magic: false })
}

#[expect(clippy::unnecessary_wraps, reason = "the same form as on Unix")]
pub(super) fn place(path: &Path) -> io::Result<PathBuf> {
    Ok(path.to_owned())
}

pub(super) fn open_target(
    options: &mut OpenOptions,
    target: &Target,
    _: Purpose,
) -> io::Result<File> {
    options.open(&target.path)
}

/// Takes from others what they may do with a file of ours.
///
/// # Errors
///
/// When the system refuses that.
#[expect(clippy::unnecessary_wraps, reason = "the same form as on Unix")]
pub fn tighten(_: &File, _: &Path) -> io::Result<()> {
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "the same form as on Unix")]
pub(super) fn check_private_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

pub(super) use self::check_private_folder as check_shared_folder;
