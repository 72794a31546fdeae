//! Accounts: what is kept of them, and the commands `login`, `status` and `logout`.

use std::process::Stdio;

use crate::support::provider::{files_below, place};
use crate::support::{Manners, Provider, Reply, Request, polite, request, run, soon};

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn a_person_logs_in_looks_and_logs_out() {
    let provider = Provider::start(Manners::default()).await;
    let before = provider.run("status", &[]).await;
    assert_eq!(before.status.code(), Some(1));
    assert!(text(&before.stdout).starts_with("not logged in"), "{before:?}");

    let login = provider.run("login", &[]).await;
    assert!(login.status.success(), "{login:?}");
    assert!(text(&login.stdout).starts_with("logged in to http://127.0.0.1"), "{login:?}");
    assert_eq!(provider.pages().len(), 1);

    let status = provider.run("status", &[]).await;
    assert!(status.status.success(), "{status:?}");
    let shown = text(&status.stdout);
    for part in
        [&provider.desk.issuer(), "client-1", "read", "in 59 minutes (renewed automatically)"]
    {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    assert!(!shown.contains("hidden-") && status.stderr.is_empty(), "{status:?}");

    provider.ready(&[]).await;
    assert_eq!(provider.pages().len(), 1, "the bridge has it from there");

    let logout = provider.run("logout", &[]).await;
    assert!(logout.status.success(), "{logout:?}");
    assert!(text(&logout.stdout).starts_with("logged out of"), "{logout:?}");
    let revoked = provider.at("/revoke");
    assert_eq!(revoked.len(), 1);
    assert!(revoked[0].text().contains("token=hidden-refresh-2"), "{revoked:?}");
    assert_eq!(provider.run("status", &[]).await.status.code(), Some(1));
    let again = provider.run("logout", &[]).await;
    assert!(again.status.success(), "{again:?}");
    assert!(text(&again.stdout).starts_with("not logged in"), "{again:?}");
}

#[tokio::test]
async fn commands_that_cannot_do_anything_say_why() {
    let provider = Provider::start(Manners { challenge: None, ..Manners::default() }).await;
    let none = provider.run("login", &["--no-oauth"]).await;
    assert_eq!(none.status.code(), Some(2), "{none:?}");
    let other = provider.run("status", &["--bearer-command", "echo x"]).await;
    assert_eq!(other.status.code(), Some(2), "{other:?}");

    let open = crate::support::Server::start(polite).await;
    let folder = tempfile::tempdir().unwrap();
    let env = [("MCP_SPAN_STATE_DIR", folder.path().to_str().unwrap()), ("BROWSER", "false")];
    let needless = run(&["login", &open.url], &env, "").await;
    assert_eq!(needless.status.code(), Some(1), "{needless:?}");
    assert!(text(&needless.stderr).contains("asks for no login"), "{needless:?}");

    let manners =
        Manners { challenge: None, resource_at: "/no", described_at: "/no", ..Manners::default() };
    let provider = Provider::start(manners).await;
    let without = provider.run("login", &[]).await;
    assert_eq!(without.status.code(), Some(1), "{without:?}");
    assert!(text(&without.stderr).contains("knows of no login"), "{without:?}");
    assert!(text(&without.stderr).contains("--bearer-file"), "{without:?}");
}

#[tokio::test]
async fn a_logout_forgets_even_where_nothing_can_be_revoked() {
    for edit_metadata in [
        (|d, _| d["revocation_endpoint"] = serde_json::Value::Null)
            as fn(&mut serde_json::Value, &str),
        |d, _| d["revocation_endpoint"] = "http://elsewhere.example/revoke".into(),
        |d, origin| d["revocation_endpoint"] = format!("{origin}/nothing-here").into(),
    ] {
        let provider = Provider::start(Manners { edit_metadata, ..Manners::default() }).await;
        assert!(provider.run("login", &[]).await.status.success());
        let logout = provider.run("logout", &[]).await;
        assert!(logout.status.success(), "{logout:?}");
        assert_eq!(provider.run("status", &[]).await.status.code(), Some(1));
    }
}

#[tokio::test]
async fn a_logout_says_that_nothing_was_revoked() {
    let failing = Reply::status(500, "text/plain", "later").pause(0);
    for (manners, why) in [
        (Manners::default().instead("/revoke", failing), "HTTP 500"),
        (Manners::default().instead("/revoke", Reply::nothing().cut()), "broke"),
    ] {
        let provider = Provider::start(manners).await;
        assert!(provider.run("login", &[]).await.status.success());
        let logout = provider.run("logout", &[]).await;
        assert!(logout.status.success(), "{logout:?}");
        assert!(text(&logout.stdout).starts_with("logged out of"), "{logout:?}");
        let stderr = text(&logout.stderr);
        assert!(stderr.contains("not revoked") && stderr.contains(why), "{stderr}");
        assert_eq!(provider.run("status", &[]).await.status.code(), Some(1));
    }
    let provider = Provider::start(Manners::default()).await;
    assert!(provider.run("login", &[]).await.status.success());
    assert!(provider.run("logout", &[]).await.stderr.is_empty());
}

#[tokio::test]
async fn profiles_keep_accounts_apart() {
    let provider = Provider::start(Manners::default()).await;
    provider.ready(&["--profile", "work"]).await;
    provider.ready(&[]).await;
    assert_eq!(provider.pages().len(), 2);
    let work = ["--profile", "work"];
    let mut bridge = provider.ready(&[&work[..], &["--no-server-stream"]].concat()).await;
    bridge.ask(request(1, "a")).await;
    assert_eq!(provider.pages().len(), 2);
    assert_eq!(provider.carried().last().unwrap().1, "hidden-access-2", "the first");
    assert!(provider.run("logout", &work).await.status.success());
    assert!(provider.run("status", &[]).await.status.success());
}

#[cfg(unix)]
#[tokio::test]
async fn one_mcp_517_what_is_kept_is_for_the_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let provider = Provider::start(Manners::default()).await;
    provider.ready(&[]).await;
    let kept = provider.kept();
    assert_eq!(mode(&kept), 0o600);
    assert_eq!(mode(kept.parent().unwrap()), 0o700);
    assert_eq!(mode(&provider.path("state")), 0o700);
    let all = files_below(&provider.path("state"));
    assert!(all.iter().all(|file| mode(file) == 0o600), "{all:?}");
    assert!(all.len() <= 3, "the tokens, their lock and that of logins: {all:?}");
}

#[tokio::test]
async fn a_bridge_that_runs_does_not_undo_a_logout() {
    // Without revocation the refresh token is as good as before.
    let edit_metadata = |document: &mut serde_json::Value, _: &str| {
        document["revocation_endpoint"] = serde_json::Value::Null;
    };
    let provider = Provider::start(Manners { edit_metadata, ..Manners::default() }).await;
    let mut bridge = provider.ready(&["--no-server-stream"]).await;
    provider.server().saw("notifications/initialized").await;
    let kept = provider.kept();
    assert!(provider.run("logout", &[]).await.status.success());
    provider.desk.expire();
    let answer = bridge.ask(request(1, "ping")).await;
    assert_eq!(answer["error"]["data"]["status"], 401, "{answer}");
    assert_eq!(provider.grants("refresh_token"), 0);
    assert!(!kept.exists(), "nothing is written back");
    // What somebody waits for is worth another login.
    assert!(bridge.ask(request(2, "tools/call")).await["result"].is_object());
    assert_eq!(provider.pages().len(), 2);
}

#[tokio::test]
async fn a_damaged_store_is_a_warning_and_a_login() {
    let provider = Provider::start(Manners::default()).await;
    provider.ready(&[]).await;
    let kept = provider.kept();
    std::fs::write(&kept, "{\"token\": \"hidden-to").unwrap();
    let status = provider.run("status", &[]).await;
    assert_eq!(status.status.code(), Some(1), "{status:?}");
    assert!(text(&status.stderr).contains("damaged"), "{status:?}");
    let bridge = provider.ready(&[]).await;
    let (_, _, stderr) = bridge.finish().await;
    assert!(stderr.contains("damaged"), "{stderr}");
    assert!(!stderr.contains("hidden-"), "{stderr}");
    assert_eq!(provider.pages().len(), 2);
    provider.ready(&[]).await;
    assert_eq!(provider.pages().len(), 2, "it is whole again");
}

#[tokio::test]
async fn json_of_another_type_in_the_store_is_a_warning_as_well() {
    let provider = Provider::start(Manners::default()).await;
    provider.ready(&[]).await;
    let kept = provider.kept();
    for damaged in ["[]", "7", "\"x\"", "null", r#"{"token": []}"#, r#"{"token": ["hidden-a"]}"#] {
        std::fs::write(&kept, damaged).unwrap();
        let status = provider.run("status", &[]).await;
        assert_eq!(status.status.code(), Some(1), "{status:?}");
        let stderr = text(&status.stderr);
        assert!(stderr.contains("damaged") && !stderr.contains("hidden-"), "{damaged}: {stderr}");
    }
}

#[tokio::test]
async fn without_a_place_to_keep_tokens_the_login_is_good_for_one_process() {
    let provider = Provider::start(Manners::default()).await;
    std::fs::write(provider.path("state"), "a file where a folder should be").unwrap();
    for logins in 1..=2 {
        let mut bridge = provider.ready(&["--no-server-stream"]).await;
        bridge.ask(request(1, "a")).await;
        let (_, _, stderr) = bridge.finish().await;
        assert!(stderr.contains("cannot be kept"), "{stderr}");
        assert_eq!(provider.pages().len(), logins);
    }
}

#[cfg(not(feature = "keychain"))]
#[tokio::test]
async fn a_keychain_that_was_not_built_in_is_named_with_the_way_to_it() {
    let provider = Provider::start(Manners::default()).await;
    for command in ["login", "connect"] {
        let output = provider.run(command, &["--token-store", "keychain"]).await;
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(text(&output.stderr).contains("--features keychain"), "{output:?}");
        assert!(text(&output.stderr).contains("--token-store file"), "{output:?}");
    }
    assert!(provider.server().requests().is_empty());
}

#[cfg(all(feature = "keychain", target_os = "linux"))]
#[tokio::test]
async fn a_keychain_that_does_not_work_is_an_error_before_anybody_is_asked() {
    let provider = Provider::start(Manners::default()).await;
    let env = [("DBUS_SESSION_BUS_ADDRESS", "unix:path=/no/such/socket")];
    let mut bridge = provider.bridge_with(&["--token-store", "keychain"], &env);
    let error = bridge.ask(crate::support::INITIALIZE).await["error"].to_string();
    assert!(error.contains("keychain of this system cannot be used"), "{error}");
    assert!(error.contains("--token-store file"), "{error}");
    assert!(provider.pages().is_empty() && provider.at("/register").is_empty());
    let is_lock = |file: &std::path::PathBuf| {
        file.extension().is_some_and(|extension| extension == "lock" || extension == "login")
    };
    assert!(files_below(&provider.path("state")).iter().all(is_lock));
}

#[tokio::test]
async fn a_server_of_the_older_transport_can_be_logged_in_to() {
    // It takes no messages where its stream is.
    let is_post = |r: &Request| &*r.http_method == "POST" && place(r) == "/mcp";
    let manners = Manners::default().where_it_is(is_post, Reply::status(405, "", ""));
    let provider = Provider::start(manners).await;
    let login = provider.run("login", &[]).await;
    assert!(login.status.success(), "{login:?}");
    assert_eq!(provider.pages().len(), 1);
}

#[tokio::test]
async fn nobody_is_sent_to_a_login_whose_tokens_cannot_be_kept() {
    let provider = Provider::start(Manners::default()).await;
    let in_the_way = provider.path("file");
    std::fs::write(&in_the_way, "").unwrap();
    let login = provider.run("login", &["--state-dir", in_the_way.to_str().unwrap()]).await;
    assert_eq!(login.status.code(), Some(1), "{login:?}");
    assert!(text(&login.stderr).contains("cannot be kept"), "{login:?}");
    assert!(text(&login.stderr).contains("--state-dir"), "{login:?}");
    assert!(login.stdout.is_empty() && provider.pages().is_empty(), "{login:?}");
}

#[tokio::test]
async fn a_login_says_that_it_waits_for_another_and_is_content_with_what_that_brings() {
    use tokio::io::AsyncBufReadExt;
    let provider = Provider::start(Manners::default()).await;
    provider.browse(
        "while [ -e \"$0\" ] && [ ! -e \"$2/go\" ]; do sleep 0.02; done
         exec curl -sL -o /dev/null \"$1\"",
    );
    let mut bridge = provider.bridge(&[]);
    bridge.send(crate::support::INITIALIZE).await;
    provider.browsed(1).await;
    let mut command = crate::support::process::command(&["login", &provider.url]);
    command.envs(provider.env()).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut login = command.stderr(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut said = String::new();
    let mut stderr = tokio::io::BufReader::new(login.stderr.take().unwrap());
    soon("a word", async { stderr.read_line(&mut said).await.unwrap() }).await;
    assert!(said.contains("another process is logging in"), "{said}");
    soon("its page", async { stderr.read_line(&mut said).await.unwrap() }).await;
    assert!(said.contains(&provider.pages()[0]), "{said}");
    std::fs::write(provider.path("go"), "").unwrap();
    let output = soon("its end", login.wait_with_output()).await.unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(text(&output.stdout).starts_with("logged in to"), "{output:?}");
    assert_eq!(provider.at("/token").len(), 1);
}

#[tokio::test]
async fn hints_name_what_helps_against_a_refusal() {
    let script = |r: &Request| match &*r.what() {
        "tools/call" => Reply::status(401, "text/plain", "not you"),
        "tools/list" => Reply::status(403, "text/plain", "not this"),
        _ => polite(r),
    };
    let manners = Manners { gives_refresh: false, ..Manners::default() };
    let provider = Provider::guarding(manners, script).await;
    let mut bridge = provider.ready(&[]).await;
    for (method, part) in [("tools/call", "mcp-span login http"), ("tools/list", "mcp-span logout")]
    {
        let error = bridge.ask(request(1, method)).await["error"].clone();
        let hint = error["data"]["hint"].as_str().unwrap();
        assert!(hint.contains(part) && !hint.contains("--header"), "{error}");
    }
    let no_client = Reply::status(400, "application/json", r#"{"error":"invalid_request"}"#);
    let provider = Provider::start(Manners::default().instead("/register", no_client)).await;
    let error = provider.bridge(&[]).ask(crate::support::INITIALIZE).await["error"].clone();
    let hint = error["data"]["hint"].as_str().unwrap();
    assert!(hint.contains("mcp-span login http") && !hint.contains("--header"), "{error}");
}

#[tokio::test]
async fn status_without_a_server_lists_all_logins_and_nothing_of_their_tokens() {
    let provider = Provider::start(Manners::default()).await;
    assert!(provider.run("login", &[]).await.status.success());
    assert!(provider.run("login", &["--profile", "work"]).await.status.success());
    let state = provider.path("state");
    let tokens = state.join("tokens");
    // Of another edition, of none, and of nobody.
    std::fs::write(
        tokens.join("later.json"),
        r#"{"server":"https://later.example/mcp","resource":"https://later.example/api",
            "unheard-of":[1],"token":{"access_token":"hidden-later","scope":"a\u001b[31m b"}}"#,
    )
    .unwrap();
    std::fs::write(tokens.join("damaged.json"), r#"{"token":"hidden-half"#).unwrap();
    std::fs::write(tokens.join("empty.json"), "{}").unwrap();

    let env = [("MCP_SPAN_STATE_DIR", state.to_str().unwrap())];
    let listed = run(&["status"], &env, "").await;
    assert!(listed.status.success(), "{listed:?}");
    let shown = text(&listed.stdout);
    assert_eq!(shown.matches("\n\n").count(), 2, "three of them: {shown}");
    for part in [
        &*format!("server     {}\n", provider.url),
        "profile    work\n",
        "in 59 minutes (renewed automatically)",
        "server     https://later.example/mcp\nresource   https://later.example/api\n",
        "expires    unknown (not renewable)",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    let stderr = text(&listed.stderr);
    assert!(stderr.contains("damaged.json cannot be read"), "{stderr}");
    for told in [&shown, &stderr] {
        assert!(!told.contains("hidden-") && !told.contains('\u{1b}'), "{told}");
    }

    let listed = run(&["status", "--json"], &env, "").await;
    assert!(!text(&listed.stdout).contains("hidden-"), "{listed:?}");
    let json: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let logins = json["logins"].as_array().unwrap();
    assert_eq!(logins.len(), 3, "{json}");
    let work = logins.iter().find(|login| login["profile"] == "work").unwrap();
    assert_eq!(work["server"], *provider.url);
    assert_eq!(work["scopes"][0], "read");
    assert!(work["expires_at"].is_u64() && work["renewable"] == true, "{work}");

    let one = provider.run("status", &["--json"]).await;
    let json: serde_json::Value = serde_json::from_slice(&one.stdout).unwrap();
    assert_eq!(json["logins"].as_array().unwrap().len(), 1, "{json}");
}

#[tokio::test]
async fn status_says_so_where_nobody_is_logged_in_anywhere() {
    let folder = tempfile::tempdir().unwrap();
    let env = [("MCP_SPAN_STATE_DIR", folder.path().to_str().unwrap())];
    let listed = run(&["status"], &env, "").await;
    assert_eq!(listed.status.code(), Some(1));
    assert!(text(&listed.stdout).starts_with("no logins ("), "{listed:?}");
    let listed = run(&["status", "--json"], &env, "").await;
    assert_eq!(
        (listed.status.code(), &*text(&listed.stdout)),
        (Some(1), "{\"logins\":[],\"pending\":[]}\n")
    );
}
