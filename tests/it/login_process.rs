//! Logins that outlive their client: a process of its own does them, and whoever comes next finds it.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;

use crate::support::desk::{Form, back};
use crate::support::process::command;
use crate::support::provider::{files_below, place};
use crate::support::{Bridge, INITIALIZE, INITIALIZED, Manners, Provider, Request, request, soon};

/// A person who comes when the test says so, and looks at the page that comes of it.
const LATE: &str = "while [ -e \"$0\" ] && [ ! -e \"$2/go\" ]; do sleep 0.02; done
                    curl -sL \"$1\" > \"$2/last.part\" && mv \"$2/last.part\" \"$2/last\"";

/// A login that waits for a person, and the bridge that began it.
async fn pending(provider: &Provider, args: &[&str]) -> Bridge {
    provider.browse(LATE);
    let mut bridge = provider.bridge(args);
    bridge.send(INITIALIZE).await;
    provider.browsed(1).await;
    bridge
}

/// The person goes on; gives the last page.
async fn go(provider: &Provider) -> String {
    std::fs::write(provider.path("go"), "").unwrap();
    let last = provider.path("last");
    wait_until("the last page", || last.exists()).await;
    std::fs::read_to_string(last).unwrap()
}

async fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon(what, waiting).await;
}

/// The note of the login that is under way.
fn note(provider: &Provider) -> Option<Value> {
    let files = files_below(&provider.path("state"));
    let page = files.iter().find(|file| file.extension().is_some_and(|e| e == "page"))?;
    serde_json::from_slice(&std::fs::read(page).ok()?).ok()
}

/// The process that does it.
fn process(provider: &Provider) -> u64 {
    note(provider).expect("a login under way")["process"].as_u64().unwrap()
}

fn lives(pid: u64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

fn kill(target: &str) {
    let killed = std::process::Command::new("kill").args(["-KILL", "--", target]).status();
    assert!(killed.unwrap().success());
}

/// The next bridge has the token without asking anybody.
async fn is_logged_in(provider: &Provider) {
    let (pages, tokens) = (provider.pages().len(), provider.at("/token").len());
    let mut bridge = provider.ready(&["--no-server-stream"]).await;
    assert!(bridge.ask(request(7, "tools/call")).await["result"].is_object());
    assert_eq!((provider.pages().len(), provider.at("/token").len()), (pages, tokens));
}

#[tokio::test]
async fn a_login_goes_on_when_the_client_closes_stdin_and_is_found_by_the_next_bridge() {
    let provider = Provider::start(Manners::default()).await;
    let bridge = pending(&provider, &["--oauth-wait", "0.2"]).await;
    let process = process(&provider);
    let (_, status, stderr) = bridge.finish().await;
    assert!(status.success(), "{stderr}");
    assert!(lives(process));
    let page = go(&provider).await;
    assert!(page.contains("You are logged in"), "{page}");
    wait_until("nothing stays afterwards", || !lives(process)).await;
    is_logged_in(&provider).await;
}

#[tokio::test]
async fn a_login_goes_on_when_the_client_kills_the_bridges_process_group() {
    let provider = Provider::start(Manners::default()).await;
    provider.browse(LATE);
    let mut started = command(&[&*provider.url]);
    started.envs(provider.env());
    started.as_std_mut().process_group(0);
    let mut bridge = Bridge::spawn(started);
    bridge.send(INITIALIZE).await;
    provider.browsed(1).await;
    kill(&format!("-{}", bridge.pid()));
    bridge.exit().await;
    assert!(go(&provider).await.contains("You are logged in"));
    is_logged_in(&provider).await;
}

#[tokio::test]
async fn nobody_who_reads_the_bridges_streams_has_to_wait_for_the_login() {
    let provider = Provider::start(Manners::default()).await;
    let bridge = pending(&provider, &["--oauth-wait", "0.2"]).await;
    let process = process(&provider);
    // Until the end of stdout and stderr: a process that held one of them would keep it from coming.
    bridge.finish().await;
    assert!(lives(process));
}

#[tokio::test]
async fn a_bridge_that_is_started_during_a_login_waits_for_it_and_names_its_page() {
    let provider = Provider::start(Manners::default()).await;
    let mut first = pending(&provider, &["--oauth-wait", "0.2"]).await;
    first.signal("KILL");
    first.exit().await;
    let mut second = provider.bridge(&["--oauth-wait", "0.2"]);
    let welcome = second.ask(INITIALIZE).await;
    let instructions = welcome["result"]["instructions"].as_str().unwrap();
    assert!(instructions.contains(&provider.pages()[0]), "{welcome}");
    second.send(INITIALIZED).await;
    assert!(go(&provider).await.contains("You are logged in"));
    let served = async {
        while second.ask(request(1, "tools/call")).await["result"].is_null() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon("the token", served).await;
    assert_eq!(provider.pages().len(), 1, "the page was opened a moment ago");
    assert!(second.stderr().contains(&provider.pages()[0]), "{}", second.stderr());
}

#[tokio::test]
async fn a_login_process_that_is_killed_leaves_nothing_that_blocks_the_next_one() {
    let provider = Provider::start(Manners::default()).await;
    let mut bridge = pending(&provider, &["--oauth-wait", "0.2"]).await;
    bridge.receive().await;
    bridge.send(INITIALIZED).await;
    let first = process(&provider);
    kill(&first.to_string());
    wait_until("the end", || !lives(first)).await;
    // The bridge that waited begins another one with the next call, and so does a new bridge.
    let asking = async {
        while provider.pages().len() < 2 {
            bridge.ask(request(1, "tools/call")).await;
        }
    };
    soon("another login", asking).await;
    let second = process(&provider);
    assert_ne!(first, second);
    bridge.finish().await;
    kill(&second.to_string());
    wait_until("the end", || !lives(second)).await;
    std::fs::write(provider.path("go"), "").unwrap();
    let mut bridge = provider.ready(&["--no-server-stream"]).await;
    assert!(bridge.ask(request(1, "tools/call")).await["result"].is_object());
    assert_eq!(provider.pages().len(), 3);
}

#[tokio::test]
async fn a_refusal_is_told_to_all_who_waited_and_to_those_who_come_within_a_minute() {
    let instead = |r: &Request| {
        let iss = format!("http://{}", r.header("host").unwrap());
        let fields = [("error", "access_denied"), ("error_description", "not you"), ("iss", &*iss)];
        (place(r) == "/authorize").then(|| back(&Form::of_query(r), &fields))
    };
    let manners = Manners { instead: Arc::new(instead), ..Manners::default() };
    let provider = Provider::start(manners).await;
    let mut first = pending(&provider, &["--oauth-wait", "60"]).await;
    let mut second = provider.bridge(&["--oauth-wait", "60"]);
    second.send(INITIALIZE).await;
    provider.server().saw_count("initialize", 2).await;
    let page = go(&provider).await;
    assert!(page.contains("The login was refused") && page.contains("not you"), "{page}");
    for bridge in [&mut first, &mut second] {
        let error = bridge.receive().await["error"].clone();
        assert!(error["message"].as_str().unwrap().contains("was refused: not you"), "{error}");
    }
    let error = provider.bridge(&[]).ask(INITIALIZE).await["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("was refused: not you"), "{error}");
    assert_eq!(provider.pages().len(), 1);
}

#[tokio::test]
async fn a_person_who_did_not_come_in_time_is_asked_again_by_the_next_bridge() {
    let provider = Provider::start(Manners::default()).await;
    provider.browse("exec sleep 60");
    let args = ["--oauth-login-timeout", "0.5", "--oauth-wait", "30"];
    let error = provider.bridge(&args).ask(INITIALIZE).await["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("in time"), "{error}");
    assert!(note(&provider).is_none());
    provider.browse("exec curl -sL -o /dev/null \"$1\"");
    provider.ready(&[]).await;
    assert_eq!(provider.pages().len(), 2);
}

#[tokio::test]
async fn a_code_that_brings_no_token_ends_on_a_page_that_says_why() {
    let reply = crate::support::Reply::status(
        400,
        "application/json",
        r#"{"error":"invalid_grant","error_description":"the code <b>is</b> old"}"#,
    );
    let provider = Provider::start(Manners::default().instead("/token", reply)).await;
    let _bridge = pending(&provider, &[]).await;
    let page = go(&provider).await;
    assert!(page.contains("the code &lt;b&gt;is&lt;/b&gt; old"), "{page}");
    assert!(!page.contains("You are logged in"), "{page}");
    assert!(page.contains(&provider.url) && page.contains(&provider.desk.issuer()), "{page}");
}

#[tokio::test]
async fn secrets_reach_the_login_process_by_neither_arguments_nor_variables() {
    let manners = Manners {
        known: Some(("me", "hidden-secret")),
        proof: "client_secret_basic",
        ..Manners::default()
    };
    let provider = Provider::start(manners).await;
    provider.browse(LATE);
    let args = ["--oauth-client-id", "me", "--oauth-client-secret-env", "OTHER"];
    let env =
        [("OTHER", "hidden-secret"), ("MCP_SPAN_HEADER", "X-Key: hidden-header"), ("X", "kept")];
    let mut bridge = provider.bridge_with(&args, &env);
    bridge.send(INITIALIZE).await;
    provider.browsed(1).await;
    let process = process(&provider);
    let read = |name: &str| std::fs::read(format!("/proc/{process}/{name}")).unwrap();
    for name in ["cmdline", "environ"] {
        let text = String::from_utf8_lossy(&read(name)).into_owned();
        assert!(!text.contains("hidden"), "{name}: {text}");
    }
    let links = ["0", "1", "2"].map(|fd| std::fs::read_link(format!("/proc/{process}/fd/{fd}")));
    let bridges =
        ["0", "1", "2"].map(|fd| std::fs::read_link(format!("/proc/{}/fd/{fd}", bridge.pid())));
    for (link, bridges) in links.into_iter().zip(bridges) {
        assert_ne!(link.unwrap(), bridges.unwrap(), "a stream of the bridge's");
    }
    assert!(go(&provider).await.contains("You are logged in"));
    let answer = bridge.receive().await;
    assert!(answer["result"].is_object(), "{answer}");
}

#[tokio::test]
async fn what_the_browser_is_started_with_leads_on_once_and_a_second_visit_ends_the_login() {
    let provider = Provider::start(Manners::default()).await;
    let mut bridge = pending(&provider, &["--oauth-wait", "60"]).await;
    let opened = provider.opened().remove(0);
    assert!(opened.starts_with("http://127.0.0.1:") && opened.contains("/start/"), "{opened}");
    assert!(!opened.contains("state") && !opened.contains("client"), "{opened}");
    // Another user of this machine has read the arguments of the browser.
    let stolen = Command::new("curl").args(["-s", "-i", &opened]).output().await.unwrap();
    let stolen = String::from_utf8(stolen.stdout).unwrap();
    assert!(stolen.contains(" 410 ") && stolen.contains("already used"), "{stolen}");
    assert!(!stolen.contains("authorize"), "the provider's page is not given away: {stolen}");
    let error = bridge.receive().await["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("opened twice"), "{error}");
    assert!(provider.at("/token").is_empty());
}

#[tokio::test]
async fn another_user_who_is_quicker_than_the_browser_gets_nothing_and_ends_nothing() {
    let provider = Provider::start(Manners::default()).await;
    // The browser takes its time to start.
    let folder = provider.path("").display().to_string();
    let browser = format!(
        "printf %s \"$1\" > {folder}/part; mv {folder}/part {folder}/link\n\
         set -- \"$1\" {folder}\n{LATE}\n"
    );
    std::fs::write(provider.path("browser"), browser).unwrap();
    let mut bridge = provider.bridge(&["--oauth-wait", "60"]);
    bridge.send(INITIALIZE).await;
    wait_until("the link", || provider.path("link").exists()).await;
    let link = std::fs::read_to_string(provider.path("link")).unwrap();
    if rustix::process::geteuid().is_root() {
        let as_another = ["--reuid=4242", "--regid=4242", "--clear-groups", "curl", "-sL", &link];
        let stolen = Command::new("setpriv").args(as_another).output().await.unwrap();
        let stolen = String::from_utf8(stolen.stdout).unwrap();
        assert!(stolen.contains("belongs to another user"), "{stolen}");
    } else {
        eprintln!("not root: nobody else can be asked to steal the login");
    }
    assert!(go(&provider).await.contains("You are logged in"), "the person goes on");
    assert!(bridge.receive().await["result"].is_object());
}

#[tokio::test]
async fn a_logout_calls_a_pending_login_off() {
    let provider = Provider::start(Manners::default()).await;
    let mut bridge = pending(&provider, &["--oauth-wait", "60"]).await;
    let process = process(&provider);
    provider.run("logout", &[]).await;
    wait_until("the end of the login", || !lives(process)).await;
    let error = bridge.receive().await["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("was called off"), "{error}");
}

#[tokio::test]
async fn mcp_span_login_waits_for_a_login_that_is_under_way() {
    let provider = Provider::start(Manners::default()).await;
    let _bridge = pending(&provider, &["--oauth-wait", "60"]).await;
    let mut started = command(&["login", &*provider.url]);
    started.envs(provider.env());
    let login = Bridge::spawn(started);
    wait_until("a word", || login.stderr().contains("another process is logging in")).await;
    go(&provider).await;
    let (_, status, stderr) = login.finish().await;
    assert!(status.success(), "{stderr}");
    assert_eq!(provider.at("/token").len(), 1);
}

#[tokio::test]
async fn mcp_span_login_opens_a_pending_page_however_often_that_was_done_and_names_it_once() {
    let provider = Provider::start(Manners::default()).await;
    let _bridge = pending(&provider, &["--oauth-wait", "60"]).await;
    for times in 2..=5 {
        let mut started = command(&["login", &*provider.url]);
        started.envs(provider.env());
        let login = Bridge::spawn(started);
        provider.browsed(times).await;
        let page = &provider.pages()[0];
        wait_until("the page", || login.stderr().contains(page.as_str())).await;
        assert!(login.stderr().contains("another process is logging in"), "{}", login.stderr());
        assert_eq!(login.stderr().matches(page.as_str()).count(), 1, "{}", login.stderr());
    }
    go(&provider).await;
}

#[tokio::test]
async fn where_no_process_can_be_started_the_bridge_logs_in_itself() {
    // Without /proc, the program has no name for itself: as in some sandboxes.
    let can = std::process::Command::new("unshare").args(["--mount", "true"]).status();
    if !can.is_ok_and(|status| status.success()) {
        // Not root. What is left of it is shown without a sandbox in `library`.
        return;
    }
    let provider = Provider::start(Manners::default()).await;
    let mut sandboxed = Command::new("unshare");
    let script = "umount -l /proc && exec \"$0\" \"$@\"";
    sandboxed.args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_mcp-span"), &provider.url]);
    sandboxed.env_clear().env("PATH", std::env::var("PATH").unwrap()).envs(provider.env());
    sandboxed.stdin(Stdio::piped()).kill_on_drop(true);
    let mut bridge = Bridge::spawn(sandboxed);
    bridge.handshake().await;
    assert!(bridge.ask(request(1, "tools/call")).await["result"].is_object());
    assert_eq!(provider.pages().len(), 1);
    assert_eq!(tokens_below(&provider.path("state")).len(), 1);
}

fn tokens_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = files_below(folder);
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files
}
