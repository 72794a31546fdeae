//! Several logins at one server: which of them are kept apart, and which are the same.

use serde_json::Value;

use crate::support::provider::files_below;
use crate::support::{Bridge, Manners, Provider, request, run};

const FIRST: &str = "https://tenant1.example/";
const SECOND: &str = "https://tenant2.example/";

/// The program under the name of mcp-remote, with a person at hand.
pub(crate) fn as_mcp_remote(provider: &Provider, args: &[&str]) -> Bridge {
    let words = ["-y", "mcp-remote", &*provider.url];
    let args: Vec<&str> = words.into_iter().chain(args.iter().copied()).collect();
    let env = provider.env();
    let env: Vec<(&str, &str)> = env.iter().map(|(n, v)| (*n, v.as_str())).collect();
    Bridge::start_with(&args, &env)
}

/// The token with which the server is asked, after a handshake.
pub(crate) async fn bearer_of(provider: &Provider, mut bridge: Bridge) -> String {
    bridge.handshake().await;
    bridge.ask(request(1, "tools/list")).await;
    let (_, status, stderr) = bridge.finish().await;
    assert_eq!(status.code(), Some(0), "{stderr}");
    let carried = provider.carried();
    carried.iter().rev().find(|(what, _)| what == "tools/list").unwrap().1.clone()
}

pub(crate) async fn bearer(provider: &Provider, args: &[&str]) -> String {
    bearer_of(provider, provider.bridge(args)).await
}

#[tokio::test]
async fn two_tenants_have_logins_and_bearers_of_their_own() {
    let provider = Provider::start(Manners::default()).await;
    let first = bearer_of(&provider, as_mcp_remote(&provider, &["--resource", FIRST])).await;
    let second = bearer_of(&provider, as_mcp_remote(&provider, &["--resource", SECOND])).await;
    assert_ne!(first, second);
    let asked: Vec<String> =
        provider.logins().iter().map(|login| login.get("resource").to_owned()).collect();
    assert_eq!(asked, [FIRST, SECOND]);
    let again = bearer_of(&provider, as_mcp_remote(&provider, &["--resource", FIRST])).await;
    let ours = bearer(&provider, &["--oauth-resource", FIRST]).await;
    assert_eq!((&again, &ours), (&first, &first), "the same arguments share a login");
    assert_eq!(provider.logins().len(), 2);
    let plain = bearer(&provider, &[]).await;
    assert!(plain != first && plain != second);
}

#[tokio::test]
async fn logins_are_kept_apart_by_what_is_asked_of_the_provider() {
    let provider = Provider::start(Manners::default()).await;
    let mut seen = vec![bearer(&provider, &[]).await];
    for args in [
        &["--oauth-authorize-param", "audience=https://one.example"][..],
        &["--oauth-authorize-param", "audience=https://two.example"],
        &["--oauth-param", "tenant=one"],
        &["--oauth-scope", "read write"],
        &["--profile", "work", "--oauth-scope", "read write"],
    ] {
        let token = bearer(&provider, args).await;
        assert!(!seen.contains(&token), "{args:?}");
        assert_eq!(bearer(&provider, args).await, token, "{args:?}");
        seen.push(token);
    }
    let swapped = bearer(&provider, &["--oauth-scope", "write  read"]).await;
    assert_eq!(swapped, seen[4], "the order of scopes means nothing");
    let params = ["--oauth-authorize-param", "a=1", "--oauth-authorize-param", "b=2"];
    let turned = ["--oauth-authorize-param", "b=2", "--oauth-authorize-param", "a=1"];
    assert_eq!(bearer(&provider, &params).await, bearer(&provider, &turned).await);
    assert_eq!(provider.logins().len(), 7);
}

#[tokio::test]
async fn headers_keep_logins_apart_under_the_name_of_mcp_remote_alone() {
    let provider = Provider::start(Manners::default()).await;
    let ours = bearer(&provider, &["-H", "X-Tenant: one"]).await;
    assert_eq!(bearer(&provider, &["-H", "X-Tenant: two"]).await, ours);
    assert_eq!(bearer_of(&provider, as_mcp_remote(&provider, &[])).await, ours);
    let one = bearer_of(&provider, as_mcp_remote(&provider, &["--header", "X-Tenant:one"])).await;
    let two = bearer_of(&provider, as_mcp_remote(&provider, &["--header", "X-Tenant:two"])).await;
    assert!(one != two && one != ours && two != ours);
    let file = provider.path("headers.txt");
    std::fs::write(&file, "# mine\nX-Tenant: one\n").unwrap();
    let in_file = ["--header-file", file.to_str().unwrap()];
    assert_eq!(bearer_of(&provider, as_mcp_remote(&provider, &in_file)).await, one);
    assert_eq!(bearer(&provider, &["-H", "X-Tenant: one"]).await, one, "there is one for these");
    assert_eq!(bearer(&provider, &["-H", "X-Tenant: three"]).await, ours);
    assert_eq!(provider.logins().len(), 3);
}

#[tokio::test]
async fn status_and_logout_are_about_the_login_that_the_same_arguments_use() {
    let provider = Provider::start(Manners::default()).await;
    bearer(&provider, &["--oauth-resource", FIRST]).await;
    bearer(&provider, &["--oauth-resource", SECOND]).await;
    let of = async |command: &str, resource: &str| {
        let output = provider.run(command, &["--oauth-resource", resource]).await;
        String::from_utf8(output.stdout).unwrap()
    };
    let place = |text: &str| text.lines().find(|l| l.starts_with("kept in")).unwrap().to_owned();
    assert_ne!(place(&of("status", FIRST).await), place(&of("status", SECOND).await));
    let output = provider.run("status", &[]).await;
    assert_eq!(output.status.code(), Some(1), "nobody is logged in without a tenant");
    assert!(of("logout", FIRST).await.starts_with("logged out"));
    assert!(of("status", FIRST).await.starts_with("not logged in"));
    assert!(of("status", SECOND).await.contains("kept in"));
    let env = provider.env();
    let env: Vec<(&str, &str)> = env.iter().map(|(n, v)| (*n, v.as_str())).collect();
    let words = ["status", "mcp-remote", &provider.url, "--resource", SECOND];
    assert!(run(&words, &env, "").await.status.success(), "under the other name as well");
}

#[tokio::test]
async fn a_login_ahead_of_time_with_the_arguments_of_the_client_is_the_one_that_the_client_uses() {
    let provider = Provider::start(Manners::default()).await;
    let env = provider.env();
    let env: Vec<(&str, &str)> = env.iter().map(|(n, v)| (*n, v.as_str())).collect();
    let client = ["-y", "mcp-remote", &*provider.url, "--header", "X-Tenant: one"];
    for command in [&["login"][..], &["status"], &["status", "--json"]] {
        let output = run(&[command, &client].concat(), &env, "").await;
        assert!(output.status.success(), "{command:?}: {output:?}");
    }
    let one = bearer_of(&provider, as_mcp_remote(&provider, &client[3..])).await;
    assert_eq!(provider.logins().len(), 1);
    assert_ne!(bearer(&provider, &[]).await, one);
}

/// Makes of the one login that is kept one of an earlier version, which was asked for `resource`.
fn as_of_old(provider: &Provider, resource: &str) {
    let file = provider.kept();
    let mut kept: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    for new in ["client_place", "is_apart"] {
        kept.as_object_mut().unwrap().remove(new).expect("it is new");
    }
    kept["resource"] = resource.into();
    std::fs::write(&file, kept.to_string()).unwrap();
}

#[tokio::test]
async fn a_login_of_an_earlier_version_is_found_by_the_tenant_that_it_is_for() {
    let provider = Provider::start(Manners::default()).await;
    let old = bearer(&provider, &[]).await;
    as_of_old(&provider, FIRST);
    let second = bearer(&provider, &["--oauth-resource", SECOND]).await;
    assert_ne!(second, old, "it is that of another tenant");
    assert_eq!(bearer(&provider, &["--oauth-resource", FIRST]).await, old);
    assert_eq!(bearer(&provider, &["--oauth-resource", FIRST]).await, old, "and stays there");
    assert_eq!(bearer(&provider, &["--oauth-resource", SECOND]).await, second);
    assert_eq!(provider.logins().len(), 2);
    provider.desk.expire();
    let renewed = bearer(&provider, &["--oauth-resource", FIRST]).await;
    assert_ne!(renewed, old);
    assert_eq!(provider.desk.replayed(), 0, "its refresh token is in one place");
}

#[tokio::test]
async fn a_login_of_an_earlier_version_for_one_tenant_is_not_used_without_a_tenant() {
    let provider = Provider::start(Manners::default()).await;
    let old = bearer(&provider, &[]).await;
    as_of_old(&provider, FIRST);
    assert_ne!(bearer(&provider, &[]).await, old);
}

#[tokio::test]
async fn a_login_of_an_earlier_version_goes_to_the_first_that_asks_for_it() {
    let provider = Provider::start(Manners::default()).await;
    let old = bearer(&provider, &[]).await;
    as_of_old(&provider, &provider.url);
    let google = ["--oauth-authorize-param", "access_type=offline"];
    assert_eq!(bearer(&provider, &google).await, old);
    assert_eq!(bearer(&provider, &google).await, old);
    let hinted = bearer(&provider, &["--oauth-authorize-param", "login_hint=me"]).await;
    assert_ne!(hinted, old, "one login is never that of two");
    assert_eq!(provider.logins().len(), 2);
    let files = files_below(&provider.path("state"));
    let is_json = |file: &&std::path::PathBuf| file.extension().is_some_and(|e| e == "json");
    assert_eq!(files.iter().filter(is_json).count(), 2);
}

#[tokio::test]
async fn a_login_of_an_earlier_version_without_any_of_this_stays_where_it_is() {
    let provider = Provider::start(Manners::default()).await;
    let old = bearer(&provider, &[]).await;
    as_of_old(&provider, &provider.url);
    let file = provider.kept();
    assert_eq!(bearer(&provider, &[]).await, old);
    assert_eq!(bearer_of(&provider, as_mcp_remote(&provider, &[])).await, old);
    assert_eq!(provider.kept(), file);
    assert_eq!(provider.logins().len(), 1);
}
