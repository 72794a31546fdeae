//! `status` and `logout`: which logins there are, by what they are told apart, and which are pending.

use std::process::Output;

use serde_json::Value;

use crate::support::{Bridge, INITIALIZE, Manners, Provider, Reply, run};

const TENANT: &str = "https://tenant.example/";

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Runs the program without naming the server.
async fn without_url(provider: &Provider, args: &[&str]) -> Output {
    let env = provider.env();
    let env: Vec<(&str, &str)> = env.iter().map(|(n, v)| (*n, v.as_str())).collect();
    run(args, &env, "").await
}

#[tokio::test]
async fn status_and_logout_of_a_server_say_how_many_other_logins_it_has() {
    let provider = Provider::start(Manners::default()).await;
    assert!(provider.run("login", &["--profile", "work"]).await.status.success());
    assert!(provider.run("login", &["--oauth-resource", TENANT]).await.status.success());
    for (command, code) in [("status", 1), ("logout", 0)] {
        let output = provider.run(command, &[]).await;
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let said = text(&output.stdout);
        assert!(said.contains("2 other logins") && said.contains("mcp-span status"), "{said}");
    }
    let work = text(&provider.run("status", &["--profile", "work"]).await.stdout);
    assert!(work.contains("one other login"), "{work}");
    provider.run("logout", &["--profile", "work"]).await;
    let last = text(&provider.run("status", &["--oauth-resource", TENANT]).await.stdout);
    assert!(!last.contains("other login"), "{last}");
}

#[tokio::test]
async fn status_of_a_server_names_server_and_resource_and_the_issuer_as_the_list_does() {
    let provider = Provider::start(Manners::default()).await;
    assert!(provider.run("login", &["--oauth-resource", TENANT]).await.status.success());
    let one = text(&provider.run("status", &["--oauth-resource", TENANT]).await.stdout);
    let all = text(&without_url(&provider, &["status"]).await.stdout);
    for part in [
        format!("server     {}\n", provider.url),
        format!("resource   {TENANT}\n"),
        format!("issuer     {}\n", provider.desk.issuer()),
    ] {
        assert!(one.contains(&part), "{part} in {one}");
        assert!(all.contains(&part), "{part} in {all}");
    }
}

#[tokio::test]
async fn status_without_a_server_can_be_about_one_profile_and_refuses_what_it_cannot_do() {
    let provider = Provider::start(Manners::default()).await;
    assert!(provider.run("login", &["--profile", "work"]).await.status.success());
    assert!(provider.run("login", &[]).await.status.success());
    let work = text(&without_url(&provider, &["status", "--profile", "work"]).await.stdout);
    assert_eq!(work.matches("server ").count(), 1, "{work}");
    assert!(work.contains("profile    work\n"), "{work}");
    let none = without_url(&provider, &["status", "--profile", "home"]).await;
    assert_eq!(none.status.code(), Some(1), "{none:?}");
    for args in [
        &["status", "--", "ls"][..],
        &["status", "--oauth-resource", TENANT],
        &["status", "--header", "X-Team: red"],
    ] {
        let refused = without_url(&provider, args).await;
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(refused.stdout.is_empty() && !refused.stderr.is_empty(), "{refused:?}");
    }
}

#[tokio::test]
async fn logins_in_the_list_are_told_apart_and_each_can_be_logged_out_of() {
    let provider = Provider::start(Manners::default()).await;
    for args in [
        &[][..],
        &["--oauth-scope", "read write"],
        &["--oauth-authorize-param", "tenant=hidden-one"],
        &["--profile-by-headers", "--header", "X-Team: hidden-red"],
    ] {
        assert!(provider.run("login", args).await.status.success(), "{args:?}");
    }
    let listed = text(&without_url(&provider, &["status"]).await.stdout);
    for part in [
        "apart by   scope 'read write'\n",
        "apart by   parameter tenant\n",
        "apart by   header x-team\n",
    ] {
        assert!(listed.contains(part), "{part} in {listed}");
    }
    assert!(!listed.contains("hidden-"), "{listed}");
    let commands: Vec<Vec<&str>> = listed
        .lines()
        .filter_map(|line| line.strip_prefix("log out    mcp-span "))
        .map(|words| words.split(' ').collect())
        .collect();
    assert_eq!(commands.len(), 4, "{listed}");
    for (n, words) in commands.iter().enumerate() {
        let output = without_url(&provider, words).await;
        assert!(output.status.success(), "{output:?}");
        let said = text(&output.stdout);
        assert!(said.starts_with("logged out of") && output.stderr.is_empty(), "{output:?}");
        assert_eq!(provider.at("/revoke").len(), n + 1);
    }
    assert_eq!(without_url(&provider, &["status"]).await.status.code(), Some(1));
    let gone = without_url(&provider, &commands[0]).await;
    assert_eq!(gone.status.code(), Some(2), "{gone:?}");
    assert!(text(&gone.stderr).contains("mcp-span status"), "{gone:?}");
    let elsewhere = without_url(&provider, &["logout", "--file", "../../etc/passwd"]).await;
    assert_eq!(elsewhere.status.code(), Some(2), "{elsewhere:?}");
}

/// A login that waits for a person who does not come, without the bridge that began it.
async fn pending(provider: &Provider, args: &[&str]) {
    provider.browse("while [ -e \"$0\" ]; do sleep 0.05; done");
    let mut bridge: Bridge = provider.bridge(args);
    bridge.send(INITIALIZE).await;
    provider.browsed(1).await;
    bridge.signal("KILL");
    bridge.exit().await;
}

#[tokio::test]
async fn a_pending_login_is_shown_with_its_page_until_a_logout_calls_it_off() {
    let provider = Provider::start(Manners::default()).await;
    pending(&provider, &["--profile", "work"]).await;
    let page = provider.pages().remove(0);
    let work = ["--profile", "work"];
    for output in [
        provider.run("status", &work).await,
        without_url(&provider, &["status"]).await,
        without_url(&provider, &["status", "--profile", "work"]).await,
    ] {
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = text(&output.stdout);
        assert!(said.contains("pending") && said.contains(&page), "{said}");
        assert!(said.contains(&provider.url), "{said}");
    }
    for output in [
        without_url(&provider, &["status", "--json"]).await,
        provider.run("status", &["--profile", "work", "--json"]).await,
    ] {
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        let login = &json["pending"][0];
        assert_eq!(login["server"], *provider.url);
        assert_eq!(login["profile"], "work");
        assert!(login["open"].as_str().unwrap().contains(&page), "{json}");
    }
    let other = text(&provider.run("status", &[]).await.stdout);
    assert!(!other.contains("pending"), "{other}");
    let called_off = provider.run("logout", &work).await;
    assert!(called_off.status.success(), "{called_off:?}");
    assert!(text(&called_off.stdout).contains("cancelled a pending login"), "{called_off:?}");
    let after = text(&provider.run("status", &work).await.stdout);
    assert!(!after.contains("pending"), "{after}");
    let again = text(&provider.run("logout", &work).await.stdout);
    assert!(!again.contains("cancelled"), "{again}");
}

#[tokio::test]
async fn a_program_reads_what_login_and_logout_have_done() {
    let json = |output: &Output| -> Value {
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    };
    let provider = Provider::start(Manners::default()).await;
    let login = json(&provider.run("login", &["--json"]).await);
    let status = json(&provider.run("status", &["--json"]).await);
    assert_eq!(login["logins"][0]["server"], *provider.url, "{login}");
    assert_eq!(login, status);
    provider.run("login", &["--profile", "work"]).await;
    let logout = json(&provider.run("logout", &["--json"]).await);
    let expected = serde_json::json!({
        "server": *provider.url, "logged_out": true, "revocation_error": null,
        "pending_cancelled": false, "other_logins": 1,
    });
    assert_eq!(logout, expected);
    let again = json(&provider.run("logout", &["--json"]).await);
    assert_eq!((&again["logged_out"], &again["other_logins"]), (&false.into(), &1.into()));
}

#[tokio::test]
async fn a_program_reads_why_a_login_failed_or_a_token_was_not_revoked() {
    let provider = Provider::start(Manners { challenge: None, ..Manners::default() }).await;
    let login = provider.run("login", &["--json", "--state-dir", "/dev/null/none"]).await;
    assert_eq!((login.status.code(), &*text(&login.stdout)), (Some(1), ""), "{login:?}");
    let error: Value = serde_json::from_slice(&login.stderr).unwrap();
    assert_eq!(error["error"]["kind"], "login", "{error}");
    assert!(error["error"]["hint"].as_str().unwrap().contains("--state-dir"), "{error}");

    let cut = Manners::default().instead("/revoke", Reply::status(500, "text/plain", "later"));
    let provider = Provider::start(cut).await;
    assert!(provider.run("login", &[]).await.status.success());
    let logout = provider.run("logout", &["--json"]).await;
    let json: Value = serde_json::from_slice(&logout.stdout).unwrap();
    assert!(json["revocation_error"].as_str().unwrap().contains("HTTP 500"), "{json}");
    assert_eq!((&json["logged_out"], &*text(&logout.stderr)), (&true.into(), ""));
}
