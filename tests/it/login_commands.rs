//! The commands that pages and hints name: they are about the login that they stand beside.

use std::path::Path;

use crate::support::process::command;
use crate::support::provider::place;
use crate::support::{
    Bridge, INITIALIZE, Manners, Provider, Reply, Request, polite, request, soon,
};
use crate::tenants::as_mcp_remote;

/// A person who keeps the last page.
const KEEPS: &str = "curl -sL \"$1\" > \"$2/last.part\" && mv \"$2/last.part\" \"$2/last\"";

async fn last_page(provider: &Provider) -> String {
    let last = provider.path("last");
    let waiting = async {
        while !last.exists() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    soon("the last page", waiting).await;
    let page = std::fs::read_to_string(&last).unwrap();
    std::fs::remove_file(last).unwrap();
    page.replace("&#39;", "'").replace("&quot;", "\"").replace("&amp;", "&")
}

/// The command in a text that begins so.
fn command_in(text: &str, start: &str) -> String {
    let from = text.find(&format!("'{start}")).unwrap_or_else(|| panic!("{start} in {text}")) + 1;
    let length = text[from..].find('\'').unwrap();
    text[from..from + length].to_owned()
}

/// Runs it in a shell that knows nothing of what the bridge was started with.
async fn run_in_shell(folder: &Path, line: &str) -> (Option<i32>, String) {
    let program = folder.join("mcp-span");
    if !program.exists() {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_mcp-span"), &program).unwrap();
    }
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut shell = tokio::process::Command::new("sh");
    shell.args(["-c", line]).env_clear().env("PATH", path).env("HOME", folder);
    let output = soon("the command", shell.output()).await.unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

fn known() -> Manners {
    Manners { known: Some(("me", "")), ..Manners::default() }
}

#[tokio::test]
async fn the_command_on_the_page_of_a_login_logs_out_of_that_login() {
    let folder = tempfile::tempdir().unwrap();
    let provider = Provider::start(known()).await;
    provider.browse(KEEPS);
    let ours = |args: &[&str]| provider.bridge(args);
    let theirs = |args: &[&str]| as_mcp_remote(&provider, args);
    type Start<'a> = &'a dyn Fn(&[&str]) -> Bridge;
    let all: [(Start<'_>, &[&str], &str); 7] = [
        (&ours, &[], ""),
        (&ours, &["--profile", "my work"], "<dt>Profile<dd>my work"),
        (
            &ours,
            &["--oauth-resource", "https://t.example/?a=b"],
            "<dt>Resource<dd>https://t.example/",
        ),
        (&ours, &["--oauth-scope", "read write"], ""),
        (&ours, &["--oauth-client-id", "me"], ""),
        (&ours, &["--oauth-authorize-param", "tenant=hidden-t"], ""),
        (&theirs, &["--header", "X-Team: hidden-red"], ""),
    ];
    for (start, args, fact) in all {
        let mut bridge = start(args);
        bridge.handshake().await;
        let page = last_page(&provider).await;
        assert!(page.contains("You are logged in") && page.contains(fact), "{page}");
        assert!(!page.contains("hidden-"), "{page}");
        let line = command_in(&page, "mcp-span logout");
        let (code, said) = run_in_shell(folder.path(), &line).await;
        assert_eq!(code, Some(0), "{line}: {said}");
        assert!(said.starts_with("logged out of"), "{args:?}: {line}: {said}");
    }
}

#[tokio::test]
async fn hints_name_the_login_that_is_meant() {
    let script = |r: &Request| match &*r.what() {
        "tools/list" => Reply::status(403, "text/plain", "not this"),
        _ => polite(r),
    };
    let folder = tempfile::tempdir().unwrap();
    let provider = Provider::guarding(Manners::default(), script).await;
    let mut bridge = provider.ready(&["--profile", "work"]).await;
    let error = bridge.ask(request(1, "tools/list")).await["error"].clone();
    let line = command_in(error["data"]["hint"].as_str().unwrap(), "mcp-span logout");
    let (_, said) = run_in_shell(folder.path(), &line).await;
    assert!(said.starts_with("logged out of"), "{line}: {said}");

    let denied = Reply::status(400, "application/json", r#"{"error":"invalid_request"}"#);
    let provider = Provider::start(Manners::default().instead("/register", denied)).await;
    for (args, part) in [
        (&["--profile", "work"][..], "--profile work"),
        (&["--oauth-param", "tenant=hidden-t"], "'mcp-span login' with the arguments"),
    ] {
        let error = provider.bridge(args).ask(INITIALIZE).await["error"].clone();
        let hint = error["data"]["hint"].as_str().unwrap();
        assert!(hint.contains(part) && !hint.contains("hidden-"), "{hint}");
    }
}

#[tokio::test]
async fn the_page_of_a_refusal_names_the_server_once() {
    let instead = |r: &Request| {
        let iss = format!("http://{}", r.header("host").unwrap());
        let fields = [("error", "access_denied"), ("error_description", "not you"), ("iss", &*iss)];
        let asked = crate::support::desk::Form::of_query(r);
        (place(r) == "/authorize").then(|| crate::support::desk::back(&asked, &fields))
    };
    let manners = Manners { instead: std::sync::Arc::new(instead), ..Manners::default() };
    let provider = Provider::start(manners).await;
    provider.browse(KEEPS);
    let mut bridge = provider.bridge(&["--profile", "work"]);
    bridge.send(INITIALIZE).await;
    let page = last_page(&provider).await;
    assert!(page.contains("<dt>Reason<dd>not you</dl>"), "{page}");
    assert!(command_in(&page, "mcp-span login").contains("--profile work"), "{page}");
    let error = bridge.receive().await["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("was refused: not you"), "{error}");
}

#[tokio::test]
async fn the_page_of_a_token_endpoint_that_fails_says_so_and_gives_advice_that_holds() {
    let broken = Reply::status(500, "text/plain", "later");
    let provider = Provider::start(Manners::default().instead("/token", broken)).await;
    provider.browse(KEEPS);
    let mut bridge = provider.bridge(&[]);
    bridge.send(INITIALIZE).await;
    let page = last_page(&provider).await;
    assert!(page.contains("failed (HTTP 500): later"), "{page}");
    assert!(!page.contains("refused") && !page.contains("mcp-span check"), "{page}");
    assert!(page.contains("'mcp-span login "), "{page}");
}

#[tokio::test]
async fn a_log_does_not_say_that_credentials_were_refused_where_there_were_none() {
    let provider = Provider::start(Manners::default()).await;
    let mut bridge = provider.bridge(&["--log-level", "info", "--no-server-stream"]);
    bridge.handshake().await;
    provider.desk.expire();
    bridge.ask(request(1, "a")).await;
    let (_, _, stderr) = bridge.finish().await;
    let at = |text: &str| stderr.find(text).unwrap_or_else(|| panic!("{text} in {stderr}"));
    assert!(at("Credentials wanted, sending again with them") < at("Credentials refused"));
    assert_eq!(stderr.matches("Credentials refused").count(), 1, "{stderr}");
}

#[tokio::test]
async fn the_process_of_a_login_goes_by_the_name_of_the_program() {
    let provider = Provider::start(Manners::default()).await;
    provider.browse("while [ -e \"$0\" ]; do sleep 0.05; done");
    let mut started = command(&[&*provider.url]);
    started.envs(provider.env());
    let mut bridge = Bridge::spawn(started);
    bridge.send(INITIALIZE).await;
    provider.browsed(1).await;
    let files = crate::support::provider::files_below(&provider.path("state"));
    let page = files.iter().find(|file| file.extension().is_some_and(|e| e == "page")).unwrap();
    let note: serde_json::Value = serde_json::from_slice(&std::fs::read(page).unwrap()).unwrap();
    let read =
        |name: &str| std::fs::read_to_string(format!("/proc/{}/{name}", note["process"])).unwrap();
    assert!(read("cmdline").starts_with("mcp-span\0__login\0"), "{}", read("cmdline"));
    assert_eq!(read("comm"), "mcp-span\n");
    provider.run("logout", &[]).await;
}
