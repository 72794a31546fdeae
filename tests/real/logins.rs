//! Logins with a real identity provider, from the first refusal of a real server to the logout.

use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::identity::{Browser, Place};
use crate::raw_client::RawClient;

/// Longer than any test takes.
const LONG: u32 = 3600;

fn who(client: &mut RawClient) -> String {
    client.call_tool("whoami", json!({}))
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_person_logs_in_with_a_browser_once_for_this_process_and_the_next() {
    let mut place = Place::start(Browser::of_this_machine(), "http", LONG);
    let mut client = place.connect();
    assert_eq!(who(&mut client), "ada: mcp:tools");
    assert!(place.last_page().contains("You are logged in"), "{}", place.last_page());
    // Registered on the spot; code and token are for this server (RFC 8707).
    let url = place.url.clone();
    place.expect_said("registered native", 1);
    place.expect_said(&format!("authorized {url}"), 1);
    place.expect_said(&format!("token by authorization_code for {url}"), 1);
    let said = client.leave_with_words();
    assert!(said.starts_with("mcp-span: log in to "), "{said}");
    assert!(said.contains(&format!(": open {}/auth?", place.issuer)), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    // The session was closed, which takes a token, too.
    place.expect_of_server("closed true");

    let mut next = place.connect();
    assert_eq!(who(&mut next), "ada: mcp:tools");
    next.leave();
    place.expect_said("authorized", 1);
    place.expect_said("token by", 1);

    let status = place.run("status");
    let shown = stdout(&status);
    assert!(status.status.success(), "{status:?}");
    for part in [&*place.issuer, &*place.stored("/client_id"), "mcp:tools", "renewed automatically"]
    {
        assert!(shown.contains(part), "no {part} in {shown}");
    }
    for token in ["/token/access_token", "/token/refresh_token"] {
        assert!(!shown.contains(&place.stored(token)), "{token} is shown");
    }
}

#[test]
fn short_tokens_are_renewed_with_a_new_refresh_token_each_time() {
    let mut place = Place::with_tokens_for(2);
    let mut client = place.connect();
    let mut seen = vec![place.stored("/token/refresh_token")];
    let deadline = Instant::now() + Duration::from_secs(30);
    while seen.len() < 4 {
        assert!(Instant::now() < deadline, "only {} refresh tokens in 30 s", seen.len());
        assert_eq!(who(&mut client), "ada: mcp:tools");
        let now = place.stored("/token/refresh_token");
        if !seen.contains(&now) {
            seen.push(now);
        }
        // Until a token is old, there is nothing to wait for but that.
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(place.said("token by refresh_token") >= 3);
    // This provider takes a second use of a refresh token for a theft, and ends everything.
    place.expect_said("grant revoked", 0);
    place.expect_said("no token", 0);
    place.expect_said("authorized", 1);
    client.leave_with_words();
}

#[test]
fn a_token_that_is_refused_is_renewed_once_for_all_requests_of_two_processes() {
    let mut place = Place::with_tokens_for(LONG);
    let mut clients = [place.connect(), place.connect()];
    for round in 1..=3 {
        let old = place.stored("/token/access_token");
        place.end_access_tokens();
        assert_eq!(place.answer_to(&old), "401");
        let calls = clients.each_mut().map(|client| {
            let call = || client.send("tools/call", json!({ "name": "whoami", "arguments": {} }));
            std::iter::repeat_with(call).take(5).collect::<Vec<_>>()
        });
        for (client, calls) in clients.iter_mut().zip(calls) {
            for call in calls {
                client.result(call);
            }
        }
        place.expect_said("token by refresh_token", round);
    }
    place.expect_said("no token", 0);
    place.expect_said("authorized", 1);
}

#[test]
fn a_revoked_grant_means_another_login_of_the_same_client() {
    let mut place = Place::with_tokens_for(LONG);
    let mut client = place.connect();
    place.revoke("/token/refresh_token");
    place.expect_said("grant revoked", 1);
    assert_eq!(who(&mut client), "ada: mcp:tools");
    place.expect_said("no token by refresh_token invalid_grant", 1);
    place.expect_said("authorized", 2);
    place.expect_said("registered", 1);
    let said = client.leave_with_words();
    assert_eq!(said.lines().filter(|line| line.contains(": open ")).count(), 2, "{said}");
}

#[test]
fn a_logout_is_known_to_the_provider() {
    let mut place = Place::with_tokens_for(LONG);
    let login = place.run("login");
    assert!(stdout(&login).starts_with("logged in to"), "{login:?}");
    let (access, refresh) =
        (place.stored("/token/access_token"), place.stored("/token/refresh_token"));
    assert_eq!(place.answer_to(&refresh), "401");
    assert_ne!(place.answer_to(&access), "401", "it was good until now");
    let logout = place.run("logout");
    assert!(stdout(&logout).starts_with("logged out of"), "{logout:?}");
    place.expect_said("grant revoked", 1);
    assert_eq!(place.answer_to(&access), "401");
    assert_eq!(place.run("status").status.code(), Some(1));
}

#[test]
fn clients_of_their_own_right_have_a_secret_or_a_key() {
    let mut place = Place::with_tokens_for(LONG);
    let key = place.path("robot.pem");
    let secret = ["--oauth-client-id", "robot", "--oauth-client-secret-env", "ROBOT"];
    let mut by_secret = place.bridge_command();
    by_secret.args(secret).env("ROBOT", "of: the robot");
    let mut by_key = place.bridge_command();
    by_key.args(["--oauth-client-id", "robot-with-key", "--profile", "key"]);
    by_key.arg("--oauth-private-key").arg(key);
    for (command, name) in [(&mut by_secret, "robot"), (&mut by_key, "robot-with-key")] {
        command.args(["--oauth-grant", "client-credentials"]);
        let mut client = place.connect_by(command);
        assert_eq!(who(&mut client), format!("{name}: mcp:tools"));
        client.leave();
    }
    let url = place.url.clone();
    place.expect_said(&format!("token by client_credentials for {url}"), 2);
    place.expect_said("authorized", 0);
    place.expect_said("registered", 0);
}

#[test]
fn a_server_of_the_older_transport_is_logged_in_to_and_its_tokens_are_renewed() {
    let mut place = Place::start(Browser::Curl, "sse", LONG);
    let mut client = place.connect();
    assert_eq!(who(&mut client), "ada: mcp:tools");
    let url = place.url.clone();
    place.expect_said(&format!("token by authorization_code for {url}"), 1);
    place.end_access_tokens();
    assert_eq!(who(&mut client), "ada: mcp:tools");
    place.expect_said("token by refresh_token", 1);
    place.expect_said("authorized", 1);
    client.leave_with_words();
}

#[test]
fn a_code_is_entered_on_another_device_and_its_token_is_renewed_like_any_other() {
    let mut place = Place::with_tokens_for(LONG);
    let login = place.log_in_by_device();
    assert!(login.starts_with("logged in to"), "{login}");
    let url = place.url.clone();
    place.expect_said("registered native", 1);
    place.expect_said(&format!("authorized {url}"), 1);
    place.expect_said("token by urn:ietf:params:oauth:grant-type:device_code", 1);
    let mut client =
        place.connect_by(place.bridge_command().args(["--oauth-grant", "device-code"]));
    assert_eq!(who(&mut client), "ada: mcp:tools");
    place.end_access_tokens();
    assert_eq!(who(&mut client), "ada: mcp:tools");
    place.expect_said("token by refresh_token", 1);
    place.expect_said("authorized", 1);
    client.leave();
}
