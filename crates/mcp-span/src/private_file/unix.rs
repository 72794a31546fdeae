//! The checks on Unix: owner, mode, sort and number of names of what was opened, and its folder.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, StatVfsMountFlags, statvfs};
use rustix::process::{getegid, geteuid};
use tracing::warn;

pub(super) use super::links::follow_links;
use super::{Purpose, Target, parent, refused};

const ROOT: u32 = 0;
const OTHERS_WRITE: u32 = 0o022;
const OTHERS: u32 = 0o077;
const STICKY: u32 = 0o1000;

/// Opens `path` itself, never what a link of that name leads to, and never waits for a pipe.
pub(super) fn open(options: &mut OpenOptions, path: &Path, purpose: Purpose) -> io::Result<File> {
    checked(open_with(options, OFlags::NOFOLLOW | OFlags::NONBLOCK, path)?, purpose)
}

/// Opens what a chain of links that were checked leads to, and no other link.
pub(super) fn open_target(
    options: &mut OpenOptions,
    target: &Target,
    purpose: Purpose,
) -> io::Result<File> {
    let flags = if target.is_magic { OFlags::empty() } else { OFlags::NOFOLLOW };
    checked(open_with(options, flags, &target.path)?, purpose)
}

fn open_with(options: &mut OpenOptions, flags: OFlags, path: &Path) -> io::Result<File> {
    let opened = owner_only(options).custom_flags(flags.bits().cast_signed()).open(path);
    opened.map_err(|error| match std::fs::symlink_metadata(path) {
        // Systems have different numbers for this error.
        Ok(meta) if meta.is_symlink() && !flags.is_empty() => refused("it is a symbolic link"),
        _ => error,
    })
}

pub(super) fn owner_only(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}

/// The same file, if it may be used for this.
fn checked(file: File, purpose: Purpose) -> io::Result<File> {
    let meta = file.metadata()?;
    let sort = meta.file_type();
    if purpose == Purpose::Logging && (sort.is_char_device() || sort.is_fifo() || sort.is_socket())
    {
        return check_trusted(&meta).map(|()| file);
    }
    if !sort.is_file() {
        return Err(refused("it is not a regular file"));
    }
    match purpose {
        Purpose::Configuration => check_trusted(&meta)?,
        _ if meta.uid() == geteuid().as_raw() => {}
        _ => return Err(refused("it belongs to another user")),
    }
    match purpose {
        Purpose::Reading | Purpose::Configuration if meta.mode() & OTHERS_WRITE != 0 => {
            Err(refused("others can write to it: make it yours alone with chmod 600"))
        }
        Purpose::Appending | Purpose::Logging if meta.nlink() > 1 => {
            Err(refused("it has a second name (hard link), under which it may be another file"))
        }
        _ => Ok(file),
    }
}

/// Root can do everything anyway.
pub(super) fn check_trusted(meta: &Metadata) -> io::Result<()> {
    match meta.uid() {
        uid if is_trusted(uid, geteuid().as_raw()) => Ok(()),
        _ => Err(refused("it belongs to another user: make it yours with chown")),
    }
}

const fn is_trusted(owner: u32, we: u32) -> bool {
    owner == we || owner == ROOT
}

/// Takes from others what they may do with a file of ours.
///
/// # Errors
///
/// When the system refuses that.
pub fn tighten(file: &File, path: &Path) -> io::Result<()> {
    if file.metadata()?.mode() & OTHERS == 0 {
        return Ok(());
    }
    file.set_permissions(Permissions::from_mode(0o600))?;
    warn!("others could read {}: now it is for its owner alone", path.display());
    Ok(())
}

/// A folder of ours, which nobody else can write to from now on. All that is done is done to the one
/// that was opened: somebody else's link in its place could lead to any other folder of ours.
pub(super) fn check_private_folder(folder: &Path) -> io::Result<()> {
    let place = place(folder)?;
    let flags = OFlags::NOFOLLOW | OFlags::DIRECTORY;
    let shown = folder.display();
    let opened = open_with(OpenOptions::new().read(true), flags, &place);
    let opened = opened.map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => refused(format!("the folder {shown}: {error}")),
        _ => error,
    })?;
    let meta = opened.metadata()?;
    if meta.uid() != geteuid().as_raw() {
        return Err(refused(format!("the folder {shown} belongs to another user")));
    }
    if meta.mode() & OTHERS == 0 {
        return Ok(());
    }
    let closed = opened.set_permissions(Permissions::from_mode(0o700));
    // Some file systems have no modes, and say nothing.
    match opened.metadata()?.mode() & OTHERS_WRITE {
        0 => Ok(()),
        _ => Err(closed.err().unwrap_or_else(|| {
            refused(format!("others can write to the folder {shown}: close it with chmod 700"))
        })),
    }
}

/// The same file or folder by a path that has no link in it, but that it may be one itself; in a
/// folder where nobody but us and root can replace it.
pub(super) fn place(path: &Path) -> io::Result<PathBuf> {
    let Some(name) = path.file_name() else {
        return Ok(follow_links(path)?.path);
    };
    let folder = follow_links(parent(path))?.path;
    check_shared_folder(&folder)?;
    Ok(folder.join(name))
}

/// A folder in which nobody but us and root can replace files of ours.
pub(super) fn check_shared_folder(folder: &Path) -> io::Result<()> {
    let meta = folder.metadata()?;
    let shown = folder.display();
    // Kubernetes mounts configuration in folders that all may write to, read-only.
    let is_read_only =
        || statvfs(folder).is_ok_and(|s| s.f_flag.contains(StatVfsMountFlags::RDONLY));
    if !is_trusted(meta.uid(), geteuid().as_raw()) && !is_read_only() {
        return Err(refused(format!("its folder {shown} belongs to another user")));
    }
    // A sticky one, such as /tmp, lets nobody replace what is not theirs.
    let is_sticky = meta.mode() & STICKY != 0;
    let we = (geteuid().as_raw(), getegid().as_raw());
    if !is_sticky && others_write(meta.mode(), meta.gid(), we) && !is_read_only() {
        let why = format!("others can write to its folder {shown}: close it with chmod go-w");
        return Err(refused(why));
    }
    Ok(())
}

/// Many systems give each user a group of the same number, and let it write to all that is new.
const fn others_write(mode: u32, group: u32, (user, own_group): (u32, u32)) -> bool {
    let is_private_group = group == own_group && group == user;
    mode & 0o002 != 0 || mode & 0o020 != 0 && !is_private_group
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_be_ours_or_of_the_system() {
        assert!(is_trusted(1000, 1000) && is_trusted(0, 1000));
        assert!(!is_trusted(1001, 1000) && !is_trusted(1000, 0));
    }

    #[test]
    fn a_group_of_ones_own_is_nobody_else() {
        let we = (1000, 1000);
        assert!(!others_write(0o775, 1000, we) && !others_write(0o755, 20, we));
        assert!(others_write(0o777, 1000, we) && others_write(0o775, 20, we));
        assert!(others_write(0o775, 20, (1000, 20)), "a group of many, as on macOS");
    }
}
