//! Logins of people with a real browser at a real identity provider: slow, unwilling, or with a client
//! that does not wait. What they see is photographed into `target/real/pages`.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use crate::identity::{Browser, Place};
use crate::raw_client::RawClient;

const LONG: u32 = 3600;
/// For an answer that a login may hold up.
const PATIENCE: Duration = Duration::from_secs(20);

fn place() -> Place {
    Place::start(Browser::of_this_machine(), "http", LONG)
}

/// Where pictures of a page go.
fn pictures(name: &str) -> String {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/real/pages"));
    std::fs::create_dir_all(&folder).expect("target can be written");
    folder.join(name).display().to_string()
}

/// A bridge that does not wait for people, with a login pending behind it.
fn impatient(place: &Place) -> RawClient {
    let mut client = RawClient::start_by(&mut place.waiting_for(1));
    let id = client.send_initialize("2025-11-25");
    let welcome = client.result(id);
    assert_eq!(welcome["serverInfo"]["name"], "mcp-span", "{welcome}");
    client.confirm();
    client
}

/// What the client can call, by name.
fn tools(client: &mut RawClient) -> Vec<String> {
    let list = client.request("tools/list", json!({}));
    let tools = list["tools"].as_array().expect("a list").clone();
    tools.iter().filter_map(|tool| tool["name"].as_str().map(str::to_owned)).collect()
}

#[test]
fn a_person_who_takes_longer_than_the_client_waits_is_still_logged_in() {
    let mut place = place();
    place.tell("slow", "");
    place.tell("pictures", &pictures("done"));
    let mut client = impatient(&place);
    assert_eq!(tools(&mut client), ["mcp_span_login"]);
    place.tell("go", "");
    client.notification("notifications/tools/list_changed", PATIENCE);
    assert_eq!(tools(&mut client), ["whoami"], "the login is gone from the list");
    let page = place.last_page();
    for part in ["You are logged in", &*place.url, &*place.issuer, "mcp:tools"] {
        assert!(page.contains(part), "no {part} in {page}");
    }
    let address = place.left_behind("last-address");
    assert!(!address.contains("code") && !address.contains("state"), "{address}");
    place.expect_said("token by authorization_code", 1);
}

#[test]
fn a_login_goes_on_without_the_client_that_began_it() {
    let mut place = place();
    place.tell("slow", "");
    let mut killed = impatient(&place);
    killed.kill();
    place.tell("go", "");
    assert!(place.last_page().contains("You are logged in"));
    let mut next = place.connect();
    assert_eq!(next.call_tool("whoami", json!({})), "ada: mcp:tools");
    place.expect_said("authorized", 1);
    next.leave();
}

#[test]
fn a_client_that_is_restarted_during_the_login_waits_for_it() {
    let mut place = place();
    place.tell("slow", "");
    impatient(&place).leave_with_words();
    let mut again = impatient(&place);
    let mut other = impatient(&place);
    place.tell("go", "");
    for client in [&mut again, &mut other] {
        client.notification("notifications/tools/list_changed", PATIENCE);
        assert_eq!(client.call_tool("whoami", json!({})), "ada: mcp:tools");
    }
    place.expect_said("authorized", 1);
    place.expect_said("token by authorization_code", 1);
}

#[test]
fn a_person_who_refuses_reads_so_and_is_not_asked_again_at_once() {
    let mut place = place();
    place.tell("unwilling", "");
    place.tell("pictures", &pictures("refused"));
    let mut client = RawClient::start_by(&mut place.bridge_command());
    let id = client.send_initialize("2025-11-25");
    let answer = client.answer(id, PATIENCE);
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("Ada does not agree"), "{answer}");
    let page = place.last_page();
    assert!(
        page.contains("The login was refused") && page.contains("Ada does not agree"),
        "{page}"
    );
    let mut next = RawClient::start_by(&mut place.bridge_command());
    let id = next.send_initialize("2025-11-25");
    let answer = next.answer(id, PATIENCE);
    assert!(answer["error"]["message"].as_str().unwrap_or_default().contains("Ada"), "{answer}");
    place.expect_said("authorized", 0);
}

#[test]
fn a_provider_that_gives_no_token_is_named_on_the_page() {
    let mut place = place();
    place.tell("pictures", &pictures("failed"));
    place.break_tokens();
    let mut client = RawClient::start_by(&mut place.bridge_command());
    let id = client.send_initialize("2025-11-25");
    let answer = client.answer(id, PATIENCE);
    assert_eq!(answer["error"]["data"]["kind"], "login", "{answer}");
    let page = place.last_page();
    assert!(page.contains("The login could not be finished"), "{page}");
    assert!(page.contains("the database is gone") && page.contains(&*place.issuer), "{page}");
    place.expect_said("authorized", 1);
}

#[test]
fn other_addresses_of_the_login_have_pages_too() {
    let place = place();
    place.tell("slow", "");
    let _client = impatient(&place);
    let note = place.pending_login();
    let again = note["again"].as_str().expect("an address").to_owned();
    let origin = again.split("/again/").next().expect("an origin").to_owned();
    for (name, path, part) in [
        ("expired", "/callback?code=x&state=of-yesterday", "This login is no longer valid"),
        ("wrong-address", "/nothing", "There is nothing at this address"),
    ] {
        let page = place.visit(&format!("{origin}{path}"), &pictures(name));
        assert!(page.contains(part), "{page}");
    }
    // The browser of the login has opened its link already: whoever comes second ends the login.
    let link = place.left_behind("start");
    let page = place.visit(&link, &pictures("used-link"));
    assert!(page.contains("This link was already used"), "{page}");
}
