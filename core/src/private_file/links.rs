//! Follows a path on Unix, part by part: every link on the way must be one that nobody else can have
//! made or can replace.

use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::unix::{check_shared_folder, check_trusted};
use super::{Target, parent, refused};
use crate::limits;

/// Where `path` leads to, without a link in it. What is not there yet stays as it is written.
pub(super) fn follow_links(path: &Path) -> io::Result<Target> {
    let mut way = Way::default();
    way.add(path);
    for _ in 0..=limits::LINKS {
        let Some((link, meta)) = way.next_link()? else {
            return Ok(Target { path: way.passed, is_magic: false });
        };
        check_trusted(&meta).map_err(|_| refused(another_users(&link, &meta)))?;
        check_shared_folder(parent(&link))?;
        let target = std::fs::read_link(&link)?;
        let next = parent(&link).join(&target);
        if way.is_at_end() && next.symlink_metadata().is_err() && link.metadata().is_ok() {
            return Ok(Target { path: link, is_magic: true });
        }
        way.add(&target);
    }
    Err(io::Error::other("its links lead nowhere"))
}

#[derive(Default)]
struct Way {
    /// Without links.
    passed: PathBuf,
    /// The parts that are still to be looked at, the next one last.
    left: Vec<OsString>,
}

impl Way {
    /// Lets `path` come next.
    fn add(&mut self, path: &Path) {
        self.left.extend(path.components().rev().map(|part| part.as_os_str().to_owned()));
    }

    fn is_at_end(&self) -> bool {
        self.left.is_empty()
    }

    /// Passes what is no link, up to the next that is one.
    fn next_link(&mut self) -> io::Result<Option<(PathBuf, Metadata)>> {
        while let Some(part) = self.left.pop() {
            match Path::new(&part).components().next() {
                Some(Component::ParentDir) => self.go_up(),
                Some(Component::Normal(name)) => {
                    let next = self.passed.join(name);
                    match next.symlink_metadata() {
                        Ok(meta) if meta.is_symlink() => return Ok(Some((next, meta))),
                        // Before it is opened: a pipe of somebody else's would hold us up.
                        Ok(meta) if self.is_at_end() && !meta.is_dir() => {
                            check_trusted(&meta)
                                .map_err(|_| refused(another_users(&next, &meta)))?;
                        }
                        _ => {}
                    }
                    self.passed = next;
                }
                Some(Component::CurDir) | None => {}
                Some(root) => self.passed.push(root.as_os_str()),
            }
        }
        if self.passed.as_os_str().is_empty() {
            self.passed.push(".");
        }
        Ok(None)
    }

    /// There are no links in what was passed: the folder above is that of the name.
    fn go_up(&mut self) {
        match self.passed.components().next_back() {
            Some(Component::Normal(_)) => drop(self.passed.pop()),
            Some(Component::RootDir) => {}
            _ => self.passed.push(".."),
        }
    }
}

fn another_users(path: &Path, meta: &Metadata) -> String {
    let sort = if meta.is_symlink() { "the link" } else { "the file" };
    format!("{sort} {} belongs to another user", path.display())
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
