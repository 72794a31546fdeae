//! Tokens at rest: where they are, whose they are, and that they are whole.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;

use crate::support::process::command;
use crate::support::provider::files_below;
use crate::support::{Bridge, Manners, Provider, request};

/// The files of tokens below a folder.
fn tokens_below(folder: &std::path::Path) -> Vec<PathBuf> {
    let mut files = files_below(folder);
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files
}

#[cfg(unix)]
#[tokio::test]
async fn bounty_challenge_46833_files_are_private_from_their_creation_whatever_the_umask() {
    use std::os::unix::fs::PermissionsExt;
    let provider = Provider::start(Manners::default()).await;
    let mut login = tokio::process::Command::new("sh");
    login.args(["-c", "umask 000; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_mcp-span")]);
    login.args(["login", &*provider.url]).envs(provider.env()).stdin(Stdio::null());
    let output = login.output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let files = files_below(&provider.path("state"));
    assert!(!files.is_empty());
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
        for folder in file
            .ancestors()
            .skip(1)
            .take_while(|path| path.ends_with("state") || path.ends_with("tokens"))
        {
            assert_eq!(mode(folder), 0o700, "{}", folder.display());
        }
    }
}

#[cfg(unix)]
#[tokio::test]
async fn what_is_stored_is_replaced_at_once_and_never_seen_half() {
    use std::os::unix::fs::MetadataExt;
    let provider = Provider::start(Manners::default()).await;
    let mut bridge = provider.ready(&["--no-server-stream"]).await;
    let kept = provider.kept();
    let file = kept.clone();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let reader = std::thread::spawn(move || {
        let mut seen = BTreeSet::new();
        while stopped.try_recv() != Err(std::sync::mpsc::TryRecvError::Disconnected) {
            let text = std::fs::read(&file).expect("there is always one");
            let stored: Value = serde_json::from_slice(&text).expect("and it is whole");
            seen.insert(stored["token"]["refresh_token"].as_str().unwrap().to_owned());
        }
        seen.len()
    });
    let mut inodes = BTreeSet::from([kept.metadata().unwrap().ino()]);
    let mut last = kept.metadata().unwrap().ino();
    for id in 0..20 {
        provider.desk.expire();
        assert!(bridge.ask(request(id, "a")).await["result"].is_object());
        let now = kept.metadata().unwrap().ino();
        assert_ne!(now, last, "another file has taken its place");
        last = now;
        inodes.insert(now);
    }
    drop(stop);
    assert!(reader.join().unwrap() > 1 && inodes.len() > 1);
    assert_eq!(provider.grants("refresh_token"), 20);
    assert_eq!(tokens_below(&provider.path("state")), [kept], "nothing is left behind");
}

#[tokio::test]
async fn every_server_has_tokens_of_its_own() {
    let (first, second) =
        (Provider::start(Manners::default()).await, Provider::start(Manners::default()).await);
    let state = first.path("state");
    let shared = [("MCP_SPAN_STATE_DIR", state.to_str().unwrap())];
    first.ready(&[]).await;
    second.bridge_with(&[], &shared).handshake().await;
    assert_eq!((first.pages().len(), second.pages().len()), (1, 1));
    assert_eq!(tokens_below(&state).len(), 2);
    let (_, token) = second.carried().remove(0);
    assert_eq!(token, "-", "what the first gave is not shown to the second");
    first.ready(&[]).await;
    second.bridge_with(&[], &shared).handshake().await;
    assert_eq!((first.pages().len(), second.pages().len()), (1, 1));
}

#[tokio::test]
async fn a_client_that_passes_nothing_but_a_home_finds_what_login_has_stored_there() {
    let provider = Provider::start(Manners::default()).await;
    let home = provider.path("home");
    let [(browser, script), _] = provider.env();
    let start = |words: &[&str]| {
        let mut command = command(words);
        command.env("HOME", &home).env(browser, &script);
        command
    };
    let output = start(&["login", &*provider.url]).output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    let kept = tokens_below(&home.join(".local/state/mcp-span"));
    assert_eq!(kept.len(), 1, "{kept:?}");
    let mut bridge = Bridge::spawn(start(&[&*provider.url]));
    bridge.handshake().await;
    assert_eq!(provider.pages().len(), 1);
}

#[tokio::test]
async fn tokens_are_found_by_runs_whose_environment_names_another_place_for_them() {
    // A terminal has XDG_STATE_HOME, a client that a desktop has started has not; or the reverse.
    for login_has_it in [true, false] {
        let provider = Provider::start(Manners::default()).await;
        let (home, state) = (provider.path("home"), provider.path("elsewhere"));
        let [(browser, script), _] = provider.env();
        let start = |words: &[&str], has_it: bool| {
            let mut command = command(words);
            command.env("HOME", &home).env(browser, &script);
            if has_it {
                command.env("XDG_STATE_HOME", &state);
            }
            command
        };
        let output = start(&["login", &*provider.url], login_has_it).output().await.unwrap();
        assert!(output.status.success(), "{output:?}");
        let (is, is_not) = if login_has_it { (&state, &home) } else { (&home, &state) };
        assert_eq!((tokens_below(is).len(), tokens_below(is_not).len()), (1, 0));

        let mut bridge =
            Bridge::spawn(start(&[&*provider.url, "--no-server-stream"], !login_has_it));
        bridge.handshake().await;
        assert_eq!(provider.pages().len(), 1);
        provider.desk.expire();
        assert!(bridge.ask(request(1, "a")).await["result"].is_object());
        assert_eq!(provider.grants("refresh_token"), 1);
        assert_eq!((tokens_below(is).len(), tokens_below(is_not).len()), (1, 0), "where it was");

        let logout = start(&["logout", &*provider.url], !login_has_it).output().await.unwrap();
        assert!(logout.status.success(), "{logout:?}");
        assert_eq!((tokens_below(is).len(), tokens_below(is_not).len()), (0, 0));
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_folder_of_tokens_that_others_can_read_is_closed_and_what_is_above_it_left_alone() {
    use std::os::unix::fs::PermissionsExt;
    let provider = Provider::start(Manners::default()).await;
    let tokens = provider.path("state/tokens");
    std::fs::create_dir_all(&tokens).unwrap();
    for folder in [&provider.path("state"), &tokens] {
        std::fs::set_permissions(folder, PermissionsExt::from_mode(0o755)).unwrap();
    }
    provider.ready(&[]).await;
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&tokens), 0o700);
    assert_eq!(mode(&provider.path("state")), 0o755);
}

#[tokio::test]
async fn a_file_of_tokens_that_holds_json_of_another_type_is_named_in_one_warning() {
    let provider = Provider::start(Manners::default()).await;
    provider.ready(&[]).await;
    let file = provider.kept();
    for text in ["[]", "7", r#"{"token": []}"#] {
        std::fs::write(&file, text).unwrap();
        let bridge = provider.ready(&[]).await;
        let (_, status, stderr) = bridge.finish().await;
        assert_eq!(status.code(), Some(0), "{text}");
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(stderr.contains(name) && stderr.contains("damaged"), "{text}: {stderr}");
        assert_eq!(stderr.matches("damaged").count(), 1, "{text}: {stderr}");
    }
}
