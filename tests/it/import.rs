//! `mcp-span login --import`: what mcp-remote has kept is taken over.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::attackers::{issuer, switched, thief};
use crate::support::provider::{files_below, place};
use crate::support::{INITIALIZE, Manners, Provider, request, run};
use crate::tenants::{as_mcp_remote, bearer, bearer_of};

/// mcp-remote's folder, as version 0.15.1 lays it out.
struct Kept(tempfile::TempDir);

impl Kept {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, version: &str, file: &str, text: &str) -> PathBuf {
        let folder = self.0.path().join(version);
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join(file);
        std::fs::write(&path, text).unwrap();
        path
    }

    async fn import(&self, provider: &Provider, args: &[&str]) -> (Option<i32>, String, String) {
        self.run(provider, &[&["login", "--import", &provider.url][..], args].concat()).await
    }

    async fn run(&self, provider: &Provider, args: &[&str]) -> (Option<i32>, String, String) {
        let env = provider.env();
        let mut env: Vec<(&str, &str)> = env.iter().map(|(n, v)| (*n, v.as_str())).collect();
        env.push(("MCP_REMOTE_CONFIG_DIR", self.0.path().to_str().unwrap()));
        let output = run(args, &env, "").await;
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }
}

/// The names that mcp-remote gives are checked with digests that its own function has made.
const NAMED: [(&str, &[&str], &str); 4] = [
    ("https://example.com/mcp", &[], "8724945d3c4865fe12d6890203193588"),
    ("https://example.com/mcp", &["--header", "X-A: 1"], "08279a8436b9d90f5f37883c213a6acd"),
    (
        "https://example.com/mcp",
        &["--resource", "https://example.com/other"],
        "5d207673b240aaf1c11c2b28e6dfbd88",
    ),
    (
        "https://example.com/mcp",
        &["--authorize-param=b=2", "--authorize-param=a=1", "-H", "X-B: 2 \"x\"", "-H", "X-A: 1"],
        "8fb288af886a2c3928549c98b3caf251",
    ),
];

#[tokio::test]
async fn files_are_found_under_the_names_that_mcp_remote_gives_them() {
    for (url, args, name) in NAMED {
        let kept = Kept::new();
        let file = kept.write("mcp-remote-v1", &format!("{name}_tokens.json"), "{broken");
        let folder = kept.0.path().to_str().unwrap();
        let args = [&["login", "--import", url][..], args].concat();
        // Nobody is asked anything: the file is looked at first.
        let output = run(&args, &[("MCP_REMOTE_CONFIG_DIR", folder)], "").await;
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(file.to_str().unwrap()), "{stderr}");
        assert!(stderr.contains("it is not JSON (line 1, column 2)"), "{stderr}");
    }
}

/// A login that somebody else has made: tokens that the provider knows, and their client.
async fn foreign(provider: &Provider) -> (Value, Value) {
    assert!(provider.run("login", &[]).await.status.success());
    let file = provider.kept();
    let kept: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    std::fs::remove_file(&file).unwrap();
    let tokens = json!({
        "access_token": kept["token"]["access_token"], "token_type": "Bearer", "scope": "read",
        "refresh_token": kept["token"]["refresh_token"], "expires_in": 3600,
        "expires_at": kept["token"]["expires_at"].as_u64().unwrap() * 1000,
        "issuer": kept["issuer"],
    });
    let client = json!({"client_id": kept["client_id"], "token_endpoint_auth_method": "none",
        "redirect_uris": ["http://localhost:3334/oauth/callback"]});
    (tokens, client)
}

/// The name that mcp-remote gives to what it keeps for this server.
fn name(provider: &Provider) -> String {
    digest(&provider.url)
}

/// What mcp-remote makes of the URL and of all else that it keeps logins apart by.
fn digest(text: &str) -> String {
    // The digest program of the system, so that ours is not measured by itself.
    let (program, args): (_, &[&str]) =
        if cfg!(target_os = "macos") { ("md5", &["-q"]) } else { ("md5sum", &[]) };
    let mut child = std::process::Command::new(program)
        .args(args)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap()[..32].to_owned()
}

#[tokio::test]
async fn tokens_and_client_are_taken_over_and_renewed() {
    let provider = Provider::start(Manners::default()).await;
    let (tokens, client) = foreign(&provider).await;
    let (kept, name) = (Kept::new(), name(&provider));
    kept.write("mcp-remote-0.1.38", &format!("{name}_tokens.json"), r#"{"access_token": "old"}"#);
    let tokens = kept.write("mcp-remote-v1", &format!("{name}_tokens.json"), &tokens.to_string());
    let client =
        kept.write("mcp-remote-v1", &format!("{name}_client_info.json"), &client.to_string());
    let (code, stdout, stderr) = kept.import(&provider, &[]).await;
    assert_eq!((code, &*stderr), (Some(0), ""), "{stdout}");
    for part in ["logged in to", tokens.to_str().unwrap(), client.to_str().unwrap(), "kept in"] {
        assert!(stdout.contains(part), "{part} in {stdout}");
    }
    assert!(!stdout.contains("cannot be renewed") && !stdout.contains("hidden-"), "{stdout}");

    let mut bridge = provider.ready(&["--no-server-stream"]).await;
    bridge.ask(request(1, "a")).await;
    provider.desk.expire();
    assert!(bridge.ask(request(2, "a")).await["result"].is_object());
    assert_eq!(provider.grants("refresh_token"), 1);
    assert_eq!(provider.pages().len(), 1, "that of the login before");
    // Its client has another way back: a login is made with one of our own.
    provider.desk.forget_tokens();
    assert!(bridge.ask(request(3, "a")).await["result"].is_object());
    assert_eq!(provider.at("/register").len(), 2);
}

#[tokio::test]
async fn tokens_without_a_client_are_good_until_they_expire() {
    let provider = Provider::start(Manners::default()).await;
    let (tokens, _) = foreign(&provider).await;
    let kept = Kept::new();
    let file = format!("{}_tokens.json", name(&provider));
    kept.write("mcp-remote-v1", &file, &tokens.to_string());
    let (code, stdout, _) = kept.import(&provider, &[]).await;
    assert_eq!(code, Some(0));
    assert!(
        stdout.contains("cannot be renewed") && stdout.contains("--oauth-client-id"),
        "{stdout}"
    );
    provider.ready(&[]).await;
    assert_eq!(provider.pages().len(), 1);
}

#[tokio::test]
async fn where_there_is_nothing_that_is_said() {
    let provider = Provider::start(Manners::default()).await;
    let kept = Kept::new();
    let (code, stdout, stderr) = kept.import(&provider, &[]).await;
    assert_eq!((code, &*stdout), (Some(1), ""));
    assert!(stderr.contains("mcp-remote has no login for"), "{stderr}");
    let file = format!("{}_tokens.json", name(&provider));
    for (text, part) in [
        ("[]", "not a JSON object"),
        ("{\"a\": hidden-x", "not JSON"),
        (r#"{"refresh_token": "hidden-r"}"#, "no access token"),
    ] {
        let path = kept.write("mcp-remote-v1", &file, text);
        let (code, _, stderr) = kept.import(&provider, &[]).await;
        assert_eq!(code, Some(1), "{stderr}");
        assert!(stderr.contains(part) && stderr.contains(path.to_str().unwrap()), "{stderr}");
        assert!(!stderr.contains("hidden-"), "{stderr}");
    }
    assert_eq!(provider.run("status", &[]).await.status.code(), Some(1));
}

/// Tokens that are over, and their client.
fn prey() -> (Value, Value) {
    let tokens = json!({"access_token": "hidden-access", "token_type": "Bearer",
        "refresh_token": "hidden-refresh", "expires_in": 0, "expires_at": 1000});
    (tokens, json!({"client_id": "c", "client_secret": "hidden-secret"}))
}

/// The same document with the note that newer versions of mcp-remote make.
fn noted(document: &Value, issuer: &str) -> Value {
    let mut document = document.clone();
    document["issuer"] = issuer.into();
    document
}

/// The same tokens with one that says who gave it out.
fn telling(tokens: &Value, issuer: &str) -> Value {
    let claims = URL_SAFE_NO_PAD.encode(json!({"iss": issuer}).to_string());
    let mut tokens = tokens.clone();
    tokens["access_token"] = format!("e30.{claims}.hidden-x").into();
    tokens
}

impl Kept {
    fn put(&self, provider: &Provider, tokens: &Value, client: &Value) {
        let name = name(provider);
        self.write("mcp-remote-v1", &format!("{name}_tokens.json"), &tokens.to_string());
        self.write("mcp-remote-v1", &format!("{name}_client_info.json"), &client.to_string());
    }
}

#[tokio::test]
async fn what_was_kept_of_one_provider_does_not_go_to_another() {
    let thief = thief().await;
    let (provider, switch) = switched(Manners::default(), &thief.url).await;
    switch.store(true, Ordering::SeqCst);
    let (kept, honest, (tokens, client)) = (Kept::new(), issuer(&provider), prey());
    for (tokens, client) in [
        (noted(&tokens, &honest), client.clone()),
        (tokens.clone(), noted(&client, &honest)),
        (telling(&tokens, &honest), client.clone()),
        (noted(&tokens, &thief.url.replace("/mcp", "")), noted(&client, &honest)),
    ] {
        kept.put(&provider, &tokens, &client);
        let (code, _, stderr) = kept.import(&provider, &[]).await;
        assert_eq!(code, Some(1), "{stderr}");
        assert!(stderr.contains("were given out by") && stderr.contains("anew"), "{stderr}");
        assert!(stderr.contains(&honest) && !stderr.contains("hidden-"), "{stderr}");
        assert_eq!(provider.run("status", &[]).await.status.code(), Some(1));
    }
    let asked = thief.requests();
    assert!(asked.iter().all(|r| place(r).contains(".well-known")), "{asked:?}");
}

#[tokio::test]
async fn where_nothing_shows_who_gave_a_token_out_it_is_good_for_its_server_alone() {
    let thief = thief().await;
    let (provider, switch) = switched(Manners::default(), &thief.url).await;
    switch.store(true, Ordering::SeqCst);
    let (kept, honest, (tokens, client)) = (Kept::new(), issuer(&provider), prey());
    kept.put(&provider, &tokens, &client);
    let (code, stdout, stderr) = kept.import(&provider, &[]).await;
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("cannot be renewed") && stdout.contains("--oauth-issuer"), "{stdout}");
    let stored = std::fs::read_to_string(provider.kept()).unwrap();
    assert!(!stored.contains("hidden-refresh") && !stored.contains("hidden-secret"), "{stored}");
    let mut bridge = provider.bridge(&["--oauth-no-interactive"]);
    bridge.ask(INITIALIZE).await;
    bridge.finish().await;
    let asked = thief.requests();
    assert!(asked.iter().all(|r| place(r).contains(".well-known")), "{asked:?}");
    // The user may say whose it is, and the token may.
    switch.store(false, Ordering::SeqCst);
    for (tokens, args) in
        [(tokens.clone(), &["--oauth-issuer", &*honest][..]), (telling(&tokens, &honest), &[])]
    {
        kept.put(&provider, &tokens, &client);
        let (code, stdout, stderr) = kept.import(&provider, args).await;
        assert_eq!(code, Some(0), "{stderr}");
        assert!(!stdout.contains("cannot be renewed"), "{stdout}");
    }
}

impl Kept {
    /// A login of mcp-remote's with what it keeps logins apart by; gives its token.
    async fn login(&self, provider: &Provider, apart: &str) -> String {
        let (tokens, client) = foreign(provider).await;
        let name = digest(&format!("{}{apart}", provider.url));
        self.write("mcp-remote-v1", &format!("{name}_tokens.json"), &tokens.to_string());
        self.write("mcp-remote-v1", &format!("{name}_client_info.json"), &client.to_string());
        tokens["access_token"].as_str().unwrap().to_owned()
    }
}

#[tokio::test]
async fn logins_that_mcp_remote_keeps_apart_stay_apart_and_are_found_by_its_command_line() {
    let provider = Provider::start(Manners::default()).await;
    let kept = Kept::new();
    let red = kept.login(&provider, r#"|{"X-Team":"red"}"#).await;
    let blue = kept.login(&provider, r#"|{"X-Team":"blue"}"#).await;
    let (in_red, in_blue) = (["--header", "X-Team: red"], ["--header", "X-Team: blue"]);
    assert_eq!(kept.import(&provider, &in_red).await.0, Some(0));
    let as_client = ["login", "--import", "-y", "mcp-remote", &*provider.url];
    let (code, _, stderr) = kept.run(&provider, &[&as_client[..], &in_blue].concat()).await;
    assert_eq!(code, Some(0), "{stderr}");
    let before = provider.logins().len();
    for (headers, token) in [(&in_red, &red), (&in_blue, &blue)] {
        assert_eq!(bearer_of(&provider, as_mcp_remote(&provider, headers)).await, *token);
        assert_eq!(bearer(&provider, headers).await, *token);
        let words = [&["status", "mcp-remote", &*provider.url][..], headers].concat();
        assert_eq!(kept.run(&provider, &words).await.0, Some(0));
    }
    assert_eq!(provider.logins().len(), before, "nobody had to log in");
    let green = bearer(&provider, &["--header", "X-Team: green"]).await;
    assert!(green != red && green != blue, "another team has a login of its own");
}

#[tokio::test]
async fn a_header_file_is_one_of_the_things_that_mcp_remote_keeps_logins_apart_by() {
    let provider = Provider::start(Manners::default()).await;
    let kept = Kept::new();
    let red = kept.login(&provider, r#"|{"X-Team":"red"}"#).await;
    let file = provider.path("headers.txt");
    std::fs::write(&file, "X-Team: red\n").unwrap();
    let in_file = ["--header-file", file.to_str().unwrap()];
    assert_eq!(kept.import(&provider, &in_file).await.0, Some(0));
    assert_eq!(bearer_of(&provider, as_mcp_remote(&provider, &in_file)).await, red);
}

#[tokio::test]
async fn a_login_of_mcp_remote_without_headers_or_resource_is_not_taken_for_one_with_them() {
    let provider = Provider::start(Manners::default()).await;
    let kept = Kept::new();
    kept.login(&provider, "").await;
    for args in [["--header", "X-Team: red"], ["--resource", "https://tenant.example/"]] {
        let (code, _, stderr) = kept.import(&provider, &args).await;
        assert_eq!(code, Some(1), "{stderr}");
        assert!(stderr.contains("has no login for") && stderr.contains("without"), "{stderr}");
    }
    let files = files_below(&provider.path("state"));
    assert!(files.iter().all(|file| file.extension().is_none_or(|e| e != "json")), "{files:?}");
    assert_eq!(kept.import(&provider, &[]).await.0, Some(0));
}
