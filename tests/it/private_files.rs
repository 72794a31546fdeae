//! Files that mcp-span reads state from and writes: whose they are, and what others can do about it.
//!
//! Root gives files away to another user. Everybody else cannot, and lets others write to them.
#![cfg(unix)]
#![expect(clippy::print_stderr, reason = "a test that cannot do all of it says so")]

use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::process::command;
use crate::support::provider::files_below;
use crate::support::{Bridge, Manners, Provider, Reply, Server, polite, request, run};

/// An id that is nobody's here.
const ANOTHER: u32 = 65_534;

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

/// Makes a file one that somebody else may have written. Whether it is theirs by its owner.
fn give_away(path: &Path) -> bool {
    let is_root = lchown(path, Some(ANOTHER), None).is_ok();
    if !is_root {
        eprintln!("not root: the owner of {} stays, others can write to it", path.display());
        set_mode(path, 0o666);
    }
    is_root
}

/// A login with `XDG_STATE_HOME`, and later runs that have no more than a home.
struct Moved {
    provider: Provider,
}

impl Moved {
    async fn new() -> Self {
        let moved = Self { provider: Provider::start(Manners::default()).await };
        let mut login = moved.start(&["login", &*moved.provider.url]);
        login.env("XDG_STATE_HOME", moved.provider.path("elsewhere"));
        let output = login.output().await.unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(moved.note().exists());
        moved
    }

    fn start(&self, words: &[&str]) -> tokio::process::Command {
        let [(browser, script), _] = self.provider.env();
        let mut command = command(words);
        command.env("HOME", self.provider.path("home")).env(browser, script);
        command
    }

    fn below(&self, folder: &str, ending: &str) -> PathBuf {
        let files = files_below(&self.provider.path(folder));
        let file = files.into_iter().find(|f| f.extension().is_some_and(|e| e == ending));
        file.unwrap_or_else(|| PathBuf::from("/nothing"))
    }

    fn kept(&self) -> PathBuf {
        self.below("elsewhere", "json")
    }

    fn note(&self) -> PathBuf {
        self.below("home", "at")
    }

    /// A bridge in an environment where the note is all that leads to the tokens.
    async fn bridge(&self) -> Bridge {
        let words = [&*self.provider.url, "--no-server-stream"];
        let mut bridge = Bridge::spawn(self.start(&words));
        bridge.handshake().await;
        bridge
    }
}

/// Lets stored tokens be renewed at `endpoint`.
fn redirect(kept: &Path, endpoint: &str) {
    let mut stored: Value = serde_json::from_slice(&std::fs::read(kept).unwrap()).unwrap();
    stored["token_endpoint"] = endpoint.into();
    std::fs::write(kept, stored.to_string()).unwrap();
}

async fn trap() -> Server {
    Server::start(|_| Reply::status(400, "application/json", r#"{"error":"invalid_grant"}"#)).await
}

#[tokio::test]
async fn tokens_that_somebody_else_may_have_written_are_not_used_where_a_note_leads_to_them() {
    let (moved, trap) = (Moved::new().await, trap().await);
    redirect(&moved.kept(), &trap.url);
    give_away(&moved.kept());
    moved.provider.desk.expire();
    let mut bridge = moved.bridge().await;
    assert!(bridge.ask(request(1, "a")).await["result"].is_object());
    assert_eq!(trap.requests().len(), 0, "no refresh token goes there");
    assert_eq!(moved.provider.pages().len(), 2, "a login in place of it");
    assert!(!moved.note().exists(), "and the note is dropped");
    assert!(moved.below("home", "json").exists());
}

#[tokio::test]
async fn tokens_that_somebody_else_may_have_written_are_not_used_in_the_usual_place_either() {
    let (provider, trap) = (Provider::start(Manners::default()).await, trap().await);
    provider.ready(&[]).await;
    redirect(&provider.kept(), &trap.url);
    let is_theirs = give_away(&provider.kept());
    provider.desk.expire();
    let mut bridge = provider.ready(&["--no-server-stream"]).await;
    assert!(bridge.ask(request(1, "a")).await["result"].is_object());
    let (_, _, stderr) = bridge.finish().await;
    let why = if is_theirs { "belongs to another user" } else { "others can write to it" };
    assert!(stderr.contains(why), "{stderr}");
    assert_eq!((trap.requests().len(), provider.pages().len()), (0, 2));
    // What the second login brought has taken its place.
    provider.ready(&[]).await;
    assert_eq!(provider.pages().len(), 2);
}

#[tokio::test]
async fn a_folder_that_somebody_else_has_made_holds_no_tokens_of_ours() {
    let provider = Provider::start(Manners::default()).await;
    provider.ready(&[]).await;
    let (kept, tokens) = (provider.kept(), provider.path("state/tokens"));
    if chown(&tokens, Some(ANOTHER), None).is_err() {
        // Not root: the folder stays ours, and is closed to all who could write to it.
        set_mode(&tokens, 0o1777);
        provider.ready(&[]).await;
        assert_eq!((mode(&tokens), provider.pages().len()), (0o700, 1));
        return;
    }
    let before = std::fs::read(&kept).unwrap();
    let bridge = provider.ready(&[]).await;
    let (_, _, stderr) = bridge.finish().await;
    assert!(stderr.contains("belongs to another user"), "{stderr}");
    assert_eq!(provider.pages().len(), 2);
    assert_eq!(std::fs::read(&kept).unwrap(), before, "nothing new is written there");
    let login = provider.run("login", &[]).await;
    assert_eq!(login.status.code(), Some(1), "{login:?}");
    let stderr = String::from_utf8_lossy(&login.stderr);
    assert!(stderr.contains("belongs to another user"), "{stderr}");
}

#[tokio::test]
async fn a_token_behind_a_link_is_not_used() {
    let provider = Provider::start(Manners::default()).await;
    provider.ready(&[]).await;
    let (kept, moved) = (provider.kept(), provider.path("moved.json"));
    std::fs::rename(&kept, &moved).unwrap();
    symlink(&moved, &kept).unwrap();
    let bridge = provider.ready(&[]).await;
    let (_, _, stderr) = bridge.finish().await;
    assert!(stderr.contains("symbolic link"), "{stderr}");
    assert_eq!(provider.pages().len(), 2);
}

#[tokio::test]
async fn a_folder_that_somebody_elses_link_leads_to_gets_no_tokens_and_keeps_its_mode() {
    let provider = Provider::start(Manners::default()).await;
    let (state, precious) = (provider.path("state"), provider.path("precious"));
    std::fs::create_dir_all(&state).unwrap();
    std::fs::create_dir_all(&precious).unwrap();
    set_mode(&precious, 0o755);
    let link = state.join("tokens");
    symlink(&precious, &link).unwrap();
    if lchown(&link, Some(ANOTHER), None).and_then(|()| chown(&state, Some(ANOTHER), None)).is_err()
    {
        eprintln!("not root: the link is our own, and not followed either");
    }
    for command in ["login", "status", "logout"] {
        let output = provider.run(command, &[]).await;
        assert_eq!(mode(&precious), 0o755, "{command}: {output:?}");
        assert!(command != "login" || output.status.code() == Some(1), "{output:?}");
    }
    assert!(files_below(&precious).is_empty(), "{:?}", files_below(&precious));
}

#[tokio::test]
async fn a_note_about_tokens_that_are_gone_is_dropped() {
    let moved = Moved::new().await;
    std::fs::remove_dir_all(moved.provider.path("elsewhere")).unwrap();
    let status = moved.start(&["status", &*moved.provider.url]).output().await.unwrap();
    assert_eq!(status.status.code(), Some(1), "{status:?}");
    assert!(!moved.note().exists());
}

#[tokio::test]
async fn a_stored_token_endpoint_is_checked_again_before_a_refresh_token_goes_there() {
    let (provider, trap) = (Provider::start(Manners::default()).await, trap().await);
    provider.ready(&[]).await;
    // Nobody whom a server names has an address like this.
    redirect(&provider.kept(), &trap.url.replace("http://", "http://user@"));
    provider.desk.expire();
    let mut bridge = provider.ready(&["--no-server-stream"]).await;
    assert!(bridge.ask(request(1, "a")).await["result"].is_object());
    let (_, _, stderr) = bridge.finish().await;
    assert!(stderr.contains("the token is not renewed"), "{stderr}");
    assert_eq!((trap.requests().len(), provider.pages().len()), (0, 2));
}

#[tokio::test]
async fn what_is_remembered_of_eras_is_for_its_owner_alone() {
    let server = Server::start(crate::eras::strict).await;
    let folder = tempfile::tempdir().unwrap();
    let mut bridge = tokio::process::Command::new("sh");
    bridge.args(["-c", "umask 000; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_mcp-span")]);
    bridge.arg(&server.url).env("MCP_SPAN_STATE_DIR", folder.path()).kill_on_drop(true);
    let mut bridge = Bridge::spawn(bridge);
    bridge.handshake().await;
    bridge.finish().await;
    let files = files_below(&folder.path().join("eras"));
    assert!(!files.is_empty(), "something was remembered");
    assert!(files.iter().all(|file| mode(file) == 0o600), "{files:?}");
    assert_eq!(mode(&folder.path().join("eras")), 0o700);
}

/// What becomes of a bridge with this log file: its exit code and stderr.
async fn logging_to(path: &Path) -> (Option<i32>, String) {
    let server = Server::start(polite).await;
    let args = [&*server.url, "--debug", "--log-file", path.to_str().unwrap()];
    let output = run(&args, &[], "").await;
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[tokio::test]
async fn a_log_is_not_written_through_a_link_that_somebody_else_may_have_made() {
    let folder = tempfile::tempdir().unwrap();
    let (precious, link) = (folder.path().join("precious"), folder.path().join("log"));
    std::fs::write(&precious, "precious").unwrap();
    symlink(&precious, &link).unwrap();
    let why = match lchown(&link, Some(ANOTHER), None) {
        Ok(()) => "belongs to another user",
        Err(_) => {
            eprintln!("not root: the link stays ours, in a folder that all can write to");
            set_mode(folder.path(), 0o777);
            "others can write to its folder"
        }
    };
    let (code, stderr) = logging_to(&link).await;
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("the log file") && stderr.contains(why), "{stderr}");
    assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
}

#[tokio::test]
async fn a_log_is_written_through_a_link_of_ones_own_and_to_no_second_name() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    symlink(at("real"), at("log")).unwrap();
    let (code, stderr) = logging_to(&at("log")).await;
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert_eq!(mode(&at("real")), 0o600);
    for device in ["/dev/null", "/dev/stderr"] {
        assert_eq!(logging_to(Path::new(device)).await.0, Some(0), "{device}");
    }
    std::fs::hard_link(at("real"), at("second")).unwrap();
    let (code, stderr) = logging_to(&at("second")).await;
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("second name"), "{stderr}");
}

#[tokio::test]
async fn a_log_and_a_trace_of_another_user_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    set_mode(&file, 0o666);
    let is_given_away = chown(&file, Some(ANOTHER), None).is_ok();
    if !is_given_away {
        eprintln!("not root: a file of root's, to which the system lets nobody write");
        file = PathBuf::from("/etc/passwd");
    }
    let before = std::fs::read(&file).unwrap();
    let (code, stderr) = logging_to(&file).await;
    assert_eq!(code, Some(2), "{stderr}");
    assert!(!is_given_away || stderr.contains("belongs to another user"), "{stderr}");
    let args = ["http://127.0.0.1:1/", "--trace-file", file.to_str().unwrap()];
    let output = run(&args, &[], "").await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

#[tokio::test]
async fn a_log_and_a_trace_are_not_written_by_way_of_somebody_elses_folder_or_link() {
    let folder = tempfile::tempdir().unwrap();
    let precious = folder.path().join("precious");
    let write = async |path: &Path| {
        let path = path.to_str().unwrap();
        for option in ["--log-file", "--trace-file"] {
            let args = ["http://127.0.0.1:1/", "--debug", option, path];
            let output = run(&args, &[], "").await;
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{option} {path}: {stderr}");
            assert!(stderr.contains("another user") || stderr.contains("others can"), "{stderr}");
        }
    };
    let theirs = folder.path().join("theirs");
    std::fs::create_dir(&theirs).unwrap();
    set_mode(&theirs, 0o777);
    let is_root = chown(&theirs, Some(ANOTHER), None).is_ok();
    write(&theirs.join("file")).await;
    assert!(!theirs.join("file").exists());
    std::fs::write(&precious, "precious").unwrap();
    let link = folder.path().join("link");
    symlink(folder.path(), &link).unwrap();
    if is_root {
        lchown(&link, Some(ANOTHER), None).unwrap();
    } else {
        eprintln!("not root: the link stays ours, in a folder that all can write to");
        set_mode(folder.path(), 0o777);
    }
    write(&link.join("precious")).await;
    assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
}

#[tokio::test]
async fn a_log_in_the_current_folder_is_written() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["log", "./log", "new/../log"] {
        std::fs::create_dir_all(folder.path().join("new")).unwrap();
        let mut bridge = command(&["http://127.0.0.1:1/", "--debug", "--log-file", name]);
        bridge.current_dir(folder.path()).stdin(std::process::Stdio::null());
        let output = bridge.output().await.unwrap();
        assert_eq!(output.status.code(), Some(0), "{name}: {output:?}");
    }
    assert_eq!(mode(&folder.path().join("log")), 0o600);
}

#[tokio::test]
async fn a_configuration_is_not_believed_where_others_can_put_another_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.json");
    std::fs::write(&file, "{}").unwrap();
    let read = async || {
        let args = ["config", "--config", file.to_str().unwrap()];
        let output = run(&args, &[], "").await;
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(read().await, (Some(0), String::new()));
    set_mode(folder.path(), 0o777);
    let (code, stderr) = read().await;
    assert_eq!(code, Some(2));
    assert!(stderr.contains("others can write to its folder"), "{stderr}");
    set_mode(folder.path(), 0o1777);
    assert_eq!(read().await.0, Some(0), "nobody can replace it in a sticky folder");
    set_mode(folder.path(), 0o700);
    if chown(folder.path(), Some(ANOTHER), None).is_ok() {
        let (code, stderr) = read().await;
        assert_eq!(code, Some(2));
        assert!(stderr.contains("belongs to another user"), "{stderr}");
    }
}
