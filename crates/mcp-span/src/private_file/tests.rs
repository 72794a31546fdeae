use super::*;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn what_is_replaced_is_read_again_and_nothing_is_left_beside_it() {
    let folder = folder();
    let path = folder.path().join("new/state.json");
    assert_eq!(read(&path).unwrap_err().kind(), ErrorKind::NotFound);
    make_folder_of(&path).unwrap();
    for text in ["one", "two"] {
        replace(&path, text.as_bytes()).unwrap();
        assert_eq!(read(&path).unwrap(), text.as_bytes());
    }
    let names = std::fs::read_dir(path.parent().unwrap()).unwrap();
    assert_eq!(names.count(), 1);
    assert!(create_new(&path).is_err(), "there is one");
}

#[test]
fn what_threads_replace_at_the_same_time_is_whole() {
    let folder = folder();
    let path = folder.path().join("state");
    std::thread::scope(|scope| {
        for letter in [b'a', b'b', b'c', b'd'] {
            let path = &path;
            scope.spawn(move || {
                for _ in 0..50 {
                    replace(path, &[letter; 9]).unwrap();
                    let found = read(path).unwrap();
                    assert!(found.len() == 9 && found.iter().all(|byte| *byte == found[0]));
                }
            });
        }
    });
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[cfg(unix)]
mod on_unix {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};

    use super::*;

    /// An id that is nobody's here.
    const ANOTHER: u32 = 65_534;

    fn is_root() -> bool {
        rustix::process::geteuid().is_root()
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().mode() & 0o7777
    }

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn why<T: std::fmt::Debug>(result: io::Result<T>) -> String {
        result.unwrap_err().to_string()
    }

    /// A file of another user: given away by root, or one of root's for everybody else.
    fn anothers(folder: &Path) -> PathBuf {
        if !is_root() {
            return PathBuf::from("/etc/passwd");
        }
        let path = folder.join("anothers");
        std::fs::write(&path, "theirs").unwrap();
        chown(&path, Some(ANOTHER), None).unwrap();
        path
    }

    #[test]
    fn a_file_of_another_user_is_neither_read_nor_written() {
        let folder = folder();
        let path = anothers(folder.path());
        assert!(why(read(&path)).contains("belongs to another user"));
        assert!(why(read_beside(&path)).contains("belongs to another user"));
        assert!(why(check(&path)).contains("belongs to another user"));
        // Without root's rights the system is quicker to refuse.
        assert!(append(&path).is_err() && append_log(&path).is_err() && open_lock(&path).is_err());
        if is_root() {
            assert!(why(append(&path)).contains("belongs to another user"));
            assert!(why(append_log(&path)).contains("belongs to another user"));
            assert!(why(open_lock(&path)).contains("belongs to another user"));
            assert!(why(read_configuration(&path)).contains("belongs to another user"));
            assert_eq!(std::fs::read(&path).unwrap(), b"theirs");
        } else {
            assert!(read_configuration(&path).is_ok(), "what is root's may configure us");
        }
    }

    #[test]
    fn a_link_is_not_followed_to_a_token_or_a_trace() {
        let folder = folder();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "precious").unwrap();
        symlink(&file, &link).unwrap();
        assert!(why(read(&link)).contains("symbolic link"));
        assert!(why(append(&link)).contains("symbolic link"));
        assert!(why(open_lock(&link)).contains("symbolic link"));
        assert!(create_new(&link).is_err());
        replace(&link, b"new").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"precious", "the link itself was replaced");
        assert!(!link.symlink_metadata().unwrap().is_symlink());
    }

    #[test]
    fn a_log_goes_through_a_link_of_ones_own_and_no_other() {
        let folder = folder();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        symlink(&file, &link).unwrap();
        append_log(&link).unwrap().write_all(b"one\n").unwrap();
        assert_eq!((std::fs::read(&file).unwrap(), mode(&file)), (b"one\n".to_vec(), 0o600));
        symlink("link", folder.path().join("loop")).unwrap();
        append_log(&folder.path().join("loop")).unwrap();
        std::fs::remove_file(&link).unwrap();
        symlink("loop", &link).unwrap();
        assert!(append_log(&link).is_err(), "in a circle");
        // Anybody could put another link there.
        set_mode(folder.path(), 0o777);
        std::fs::remove_file(&link).unwrap();
        symlink(&file, &link).unwrap();
        assert!(why(append_log(&link)).contains("others can write to its folder"));
        set_mode(folder.path(), 0o1777);
        append_log(&link).unwrap();
        if is_root() {
            lchown(&link, Some(ANOTHER), None).unwrap();
            assert!(why(append_log(&link)).contains("the link"), "{}", why(append_log(&link)));
        }
        append_log(Path::new("/dev/null")).unwrap();
    }

    #[test]
    fn a_second_name_is_no_place_to_write_to() {
        let folder = folder();
        let (file, name) = (folder.path().join("file"), folder.path().join("name"));
        std::fs::write(&file, "precious").unwrap();
        std::fs::hard_link(&file, &name).unwrap();
        assert!(why(append(&name)).contains("second name"));
        assert!(why(append_log(&name)).contains("second name"));
    }

    #[test]
    fn what_others_can_write_is_refused_and_what_they_can_read_is_closed() {
        let folder = folder();
        let path = folder.path().join("f");
        std::fs::write(&path, "text").unwrap();
        set_mode(&path, 0o620);
        assert!(why(read(&path)).contains("others can write to it"));
        assert!(why(read_configuration(&path)).contains("chmod 600"));
        set_mode(&path, 0o644);
        assert_eq!(read(&path).unwrap(), b"text");
        assert_eq!(mode(&path), 0o600);
        set_mode(&path, 0o666);
        tighten(&append(&path).unwrap(), &path).unwrap();
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn a_folder_of_ours_is_closed_and_that_of_another_is_not_used() {
        let folder = folder();
        let path = folder.path().join("tokens/f");
        make_folder_of(&path).unwrap();
        replace(&path, b"text").unwrap();
        set_mode(path.parent().unwrap(), 0o1777);
        assert!(read(&path).is_ok());
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        if is_root() {
            chown(path.parent().unwrap(), Some(ANOTHER), None).unwrap();
            assert!(why(read(&path)).contains("the folder"), "{}", why(read(&path)));
            assert!(why(make_folder_of(&path)).contains("belongs to another user"));
        } else {
            assert!(why(make_folder_of(Path::new("/etc/x"))).contains("belongs to another user"));
        }
    }

    #[test]
    fn a_configuration_may_be_linked_to_but_not_from_where_others_write() {
        let folder = folder();
        let (file, link) = (folder.path().join("dotfile"), folder.path().join("config"));
        std::fs::write(&file, "{}").unwrap();
        symlink("dotfile", &link).unwrap();
        assert_eq!(read_configuration(&link).unwrap(), b"{}");
        set_mode(folder.path(), 0o777);
        assert!(why(read_configuration(&link)).contains("others can write to its folder"));
        assert!(why(read_configuration(&file)).contains("others can write to its folder"));
        set_mode(folder.path(), 0o1777);
        assert_eq!(read_configuration(&link).unwrap(), b"{}", "as in /tmp");
    }

    #[test]
    fn a_private_folder_is_no_link_and_what_a_link_leads_to_stays_as_it_is() {
        let folder = folder();
        let (other, link) = (folder.path().join("other"), folder.path().join("tokens"));
        std::fs::create_dir(&other).unwrap();
        std::fs::write(other.join("f"), "text").unwrap();
        set_mode(&other, 0o755);
        symlink(&other, &link).unwrap();
        let path = link.join("f");
        assert!(why(make_folder_of(&path)).contains("symbolic link"));
        assert!(why(read(&path)).contains("symbolic link"));
        assert!(why(check(&path)).contains("symbolic link"));
        assert_eq!(mode(&other), 0o755);
    }

    #[test]
    fn a_private_folder_lies_where_nobody_else_can_put_another() {
        let folder = folder();
        let state = folder.path().join("state");
        let path = state.join("tokens/f");
        make_folder_of(&path).unwrap();
        replace(&path, b"text").unwrap();
        set_mode(&state, 0o777);
        assert!(why(make_folder_of(&path)).contains("others can write to its folder"));
        assert!(why(read(&path)).contains("others can write to its folder"));
        set_mode(&state, 0o1777);
        assert!(make_folder_of(&path).is_ok(), "as in /tmp");
        // Further up, others can put only what is theirs.
        set_mode(&state, 0o755);
        set_mode(folder.path(), 0o777);
        assert!(read(&path).is_ok());
        if is_root() {
            chown(&state, Some(ANOTHER), None).unwrap();
            assert!(why(make_folder_of(&path)).contains("belongs to another user"));
        }
    }

    #[test]
    fn links_on_the_way_are_ours_or_roots() {
        let folder = folder();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        std::fs::create_dir(&real).unwrap();
        symlink("real", &link).unwrap();
        let (log, trace, state) = (link.join("log"), link.join("trace"), link.join("a/b/f"));
        append_log(&log).unwrap();
        append(&trace).unwrap();
        make_folder_of(&state).unwrap();
        assert!(real.join("log").exists() && real.join("trace").exists());
        std::fs::write(real.join("config"), "{}").unwrap();
        read_configuration(&link.join("config")).unwrap();
        if is_root() {
            lchown(&link, Some(ANOTHER), None).unwrap();
            for why in [
                why(append_log(&log)),
                why(append(&trace)),
                why(make_folder_of(&state)),
                why(make_folder_of(&link.join("new/folder/f"))),
                why(read_configuration(&link.join("config"))),
            ] {
                assert!(why.contains("the link") && why.contains("another user"), "{why}");
            }
            assert!(!real.join("new").exists(), "nothing was made behind it");
        }
    }

    #[test]
    fn a_log_or_trace_lies_where_nobody_else_can_put_another() {
        let folder = folder();
        let (log, trace) = (folder.path().join("log"), folder.path().join("trace"));
        set_mode(folder.path(), 0o777);
        assert!(why(append_log(&log)).contains("others can write to its folder"));
        assert!(why(append(&trace)).contains("others can write to its folder"));
        assert!(!log.exists() && !trace.exists());
        set_mode(folder.path(), 0o1777);
        assert!(append_log(&log).is_ok() && append(&trace).is_ok());
        if is_root() {
            chown(folder.path(), Some(ANOTHER), None).unwrap();
            assert!(why(append_log(&log)).contains("belongs to another user"));
            assert!(why(append(&trace)).contains("belongs to another user"));
        }
    }

    #[test]
    fn nobody_waits_for_a_pipe() {
        let folder = folder();
        let path = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        assert!(why(read(&path)).contains("not a regular file"));
        assert!(why(read_configuration(&path)).contains("not a regular file"));
    }
}
