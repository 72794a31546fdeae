//! Follows a path on Unix, part by part: every link on the way must be one that nobody else can have
//! made or can replace.

use std::fs::Metadata;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::unix::{check_shared_folder, check_trusted};
use super::{Target, parent, refused};
use crate::limits;

/// Where `path` leads to, without a link in it. What is not there yet stays as it is written.
pub(super) fn follow_links(path: &Path) -> io::Result<Target> {
    let mut path = path.to_owned();
    for _ in 0..=limits::LINKS {
        let (passed, link) = pass(&path)?;
        let Some((meta, left)) = link else {
            return Ok(Target { path: passed, is_magic: false });
        };
        let link = passed;
        check(&link, &meta)?;
        check_shared_folder(parent(&link))?;
        let next = parent(&link).join(std::fs::read_link(&link)?);
        let is_at_end = left.as_os_str().is_empty();
        if is_at_end && next.symlink_metadata().is_err() && link.metadata().is_ok() {
            return Ok(Target { path: link, is_magic: true });
        }
        path = next.join(left);
    }
    Err(io::Error::other("its links lead nowhere"))
}

/// Goes along `path` as far as there is no link: to its end, or to a link, with the path behind that.
fn pass(path: &Path) -> io::Result<(PathBuf, Option<(Metadata, &Path)>)> {
    let mut passed = PathBuf::new();
    let mut left = path.components();
    while let Some(part) = left.next() {
        match (part, passed.components().next_back()) {
            (Component::CurDir, _) | (Component::ParentDir, Some(Component::RootDir)) => continue,
            // There are no links in what was passed: the folder above is that of the name.
            (Component::ParentDir, Some(Component::Normal(_))) => drop(passed.pop()),
            _ => passed.push(part),
        }
        let is_at_end = left.as_path().as_os_str().is_empty();
        match passed.symlink_metadata() {
            Ok(meta) if meta.is_symlink() => return Ok((passed, Some((meta, left.as_path())))),
            // Before it is opened: a pipe of somebody else's would hold us up.
            Ok(meta) if is_at_end && !meta.is_dir() => check(&passed, &meta)?,
            _ => {}
        }
    }
    if passed.as_os_str().is_empty() {
        passed.push(".");
    }
    Ok((passed, None))
}

/// Nobody but us and root may have made it.
fn check(path: &Path, meta: &Metadata) -> io::Result<()> {
    let sort = if meta.is_symlink() { "the link" } else { "the file" };
    let why = || refused(format!("{sort} {} belongs to another user", path.display()));
    check_trusted(meta).map_err(|_| why())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_is_followed_as_the_system_does_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/file"), "").unwrap();
        symlink("a/b", root.join("relative")).unwrap();
        symlink(root.join("relative"), root.join("absolute")).unwrap();
        symlink("../../relative/../file", root.join("a/b/up")).unwrap();
        for path in ["a/file", "relative/../file", "absolute/up", "./a//b/../../a/./file"] {
            let path = root.join(path);
            assert_eq!(follow_links(&path).unwrap().path, path.canonicalize().unwrap());
        }
        let new = follow_links(&root.join("absolute/new/file")).unwrap();
        assert_eq!(new.path, root.join("a/b/new/file"));
        symlink("round", root.join("round")).unwrap();
        assert!(follow_links(&root.join("round/x")).is_err());
    }

    #[test]
    fn paths_from_the_current_folder_stay_so() {
        let end = |path: &str| follow_links(Path::new(path)).unwrap().path;
        assert_eq!(end("new.log"), Path::new("new.log"));
        assert_eq!(end("./new.log"), Path::new("new.log"));
        assert_eq!(end("."), Path::new("."));
        assert_eq!(end("../../x"), Path::new("../../x"));
        assert_eq!(end("/.."), Path::new("/"));
    }
}
