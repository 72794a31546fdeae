//! Servers and providers that are after the codes, tokens and secrets of others. Each test says what
//! the attacker got: nothing.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::support::desk::{Desk, Form};
use crate::support::provider::place;
use crate::support::{Manners, Provider, Reply, Request, Server, polite};

const RESOURCE: &str = "/.well-known/oauth-protected-resource/mcp";
const METADATA: &str = "/.well-known/oauth-authorization-server";

/// A document of the attacker's; the arguments are the origins of the attacker and of the provider.
type Document = fn(&str, &str) -> Value;

/// What the attacker says of itself.
#[derive(Clone, Copy)]
struct Bait {
    resource: Option<Document>,
    metadata: Document,
}

/// The server at 127.0.0.1 is the attacker's; the provider at `localhost`, where a person has an
/// account and logs in, is honest.
async fn scene(bait: Bait, honest: Manners) -> Provider {
    let desk = Arc::new(Desk::new(honest));
    let at = Arc::clone(&desk);
    let nothing = || Reply::status(404, "", "");
    let provider = Server::start(move |r| at.answer(r).unwrap_or_else(nothing)).await;
    let honest = provider.url.replace("127.0.0.1", "localhost").replace("/mcp", "");
    desk.is_at(&honest);
    let attacker = Server::start(move |r| attack(r, bait, &honest)).await;
    Provider::with(attacker.url.clone(), desk, vec![attacker, provider])
}

fn attack(r: &Request, bait: Bait, honest: &str) -> Reply {
    let own = format!("http://{}", r.header("host").unwrap());
    let document = |document: Document| Reply::json(document(&own, honest).to_string());
    match (place(r), bait.resource) {
        (RESOURCE, Some(resource)) => document(resource),
        (METADATA, _) => document(bait.metadata),
        (path, _) if path.contains(".well-known") => Reply::status(404, "", ""),
        // A program that people know and trust at the honest provider.
        ("/register", _) => Reply::status(201, "application/json", r#"{"client_id":"famous"}"#),
        ("/token" | "/revoke", _) => Reply::json(r#"{"access_token":"x","token_type":"Bearer"}"#),
        // Sends the person on to the honest page, in the name of that program.
        ("/authorize", _) => {
            let query = r.path.split_once('?').map_or("", |(_, query)| query);
            let client = Form::of_query(r).get("client_id").to_owned();
            let query = query.replace(&client, "famous");
            let to = format!("{honest}/authorize?{query}");
            Reply::status(302, "", "").header("Location", &to)
        }
        _ if r.header("authorization").is_some() => polite(r),
        _ => Reply::status(401, "", "").header("WWW-Authenticate", "Bearer"),
    }
}

/// A provider where the famous program is registered.
fn honest() -> Manners {
    Manners { known: Some(("famous", "")), says_issuer: false, ..Manners::default() }
}

/// All that is worth something in what the attacker was sent.
fn loot(provider: &Provider) -> Vec<String> {
    let prey = ["hidden-", "code=", "code_verifier", "s3cret", "refresh_token="];
    let all = provider.server().requests();
    let texts = all.iter().map(|r| format!("{r:?} {}", r.text()));
    texts.filter(|text| prey.iter().any(|prey| text.contains(prey))).collect()
}

/// A login that fails for this reason, before or after a person was asked, and gives nothing away.
async fn fails(provider: &Provider, args: &[&str], why: &str) -> String {
    let login = provider.run("login", args).await;
    let stderr = String::from_utf8(login.stderr).unwrap();
    assert_eq!(login.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains(why), "{why}: {stderr}");
    assert_eq!(loot(provider), [""; 0]);
    let tokens = provider.server().requests().into_iter().filter(|r| place(r) == "/token").count();
    assert_eq!(tokens, 0, "the attacker was asked for a token");
    stderr
}

/// The same before anybody was asked to log in.
async fn fails_early(provider: &Provider, args: &[&str], why: &str) -> String {
    let stderr = fails(provider, args, why).await;
    assert!(provider.pages().is_empty(), "a page was opened");
    let registered = provider.server().requests().iter().any(|r| place(r) == "/register");
    assert!(!registered, "the attacker gave us a name");
    stderr
}

/// The attacker as it would describe itself in order to get a code of `honest`.
fn borrowed_page(own: &str, honest: &str) -> Value {
    json!({
        "issuer": own,
        "authorization_endpoint": format!("{honest}/authorize"),
        "token_endpoint": format!("{own}/token"),
        "registration_endpoint": format!("{own}/register"),
        "code_challenge_methods_supported": ["S256"],
    })
}

fn own_resource(own: &str, _: &str) -> Value {
    json!({"resource": format!("{own}/mcp"), "authorization_servers": [own]})
}

#[tokio::test]
async fn the_name_of_an_honest_provider_brings_nothing_but_its_own_endpoints() {
    // 2025-03-26: no metadata of the resource
    let metadata: Document = |own, honest| {
        let mut document = borrowed_page(own, honest);
        document["issuer"] = honest.into();
        document
    };
    let bait = Bait { resource: None, metadata };
    for says_issuer in [true, false] {
        let provider = scene(bait, Manners { says_issuer, ..honest() }).await;
        let login = provider.run("login", &[]).await;
        assert!(login.status.success(), "{login:?}");
        assert_eq!(loot(&provider), [""; 0]);
        let asked: Vec<String> =
            provider.server().requests().iter().map(|r| place(r).to_owned()).collect();
        assert!(asked.iter().all(|path| path != "/token" && path != "/register"), "{asked:?}");
        let logins = provider.logins();
        assert_ne!(logins[0].get("client_id"), "famous");
        assert_eq!(logins[0].get("resource"), provider.url, "good for that server alone");
    }
    // The honest one registers nobody, and the attacker's word does not count.
    let edit_metadata = |d: &mut Value, _: &str| d["registration_endpoint"] = Value::Null;
    let provider = scene(bait, Manners { edit_metadata, ..honest() }).await;
    fails_early(&provider, &[], "knows no client of ours").await;
}

#[tokio::test]
async fn a_name_that_nobody_confirms_is_good_for_the_servers_own_origin_alone() {
    let named: Document = |own, honest| {
        let mut document = borrowed_page(own, honest);
        document["issuer"] = honest.into();
        document
    };
    let unnamed: Document = |own, honest| {
        let mut document = borrowed_page(own, honest);
        document["issuer"] = Value::Null;
        document
    };
    for metadata in [named, unnamed] {
        let bait = Bait { resource: None, metadata };
        let silent = Manners { described_at: "/nowhere", ..honest() };
        let provider = scene(bait, silent).await;
        let stderr = fails_early(&provider, &[], "does not confirm that").await;
        assert!(stderr.contains("--oauth-issuer") && stderr.contains("localhost"), "{stderr}");
    }
    // Nor is an honest provider believed that calls itself otherwise.
    let edit_metadata = |d: &mut Value, _: &str| d["issuer"] = "https://other.example".into();
    let provider =
        scene(Bait { resource: None, metadata: named }, Manners { edit_metadata, ..honest() });
    fails_early(&provider.await, &[], "does not confirm that").await;
}

#[tokio::test]
async fn a_page_of_an_honest_provider_beside_a_token_endpoint_of_the_attackers_is_not_opened() {
    let bait = Bait { resource: Some(own_resource), metadata: borrowed_page };
    for resource in [bait.resource, None] {
        let provider = scene(Bait { resource, ..bait }, honest()).await;
        let stderr = fails_early(&provider, &[], "belong together").await;
        assert!(stderr.contains("localhost") && stderr.contains("127.0.0.1"), "{stderr}");
        let known = ["--oauth-client-id", "famous"];
        fails_early(&provider, &known, "belong together").await;
    }
}

#[tokio::test]
async fn who_promises_to_be_named_in_the_answer_has_to_be() {
    // RFC 9207
    let metadata: Document = |own, honest| {
        let mut document = borrowed_page(own, honest);
        document["authorization_response_iss_parameter_supported"] = true.into();
        document
    };
    for says_issuer in [true, false] {
        let bait = Bait { resource: Some(own_resource), metadata };
        let provider = scene(bait, Manners { says_issuer, ..honest() }).await;
        let args = ["--oauth-client-id", "famous"];
        fails(&provider, &args, "does not come from the authorization server").await;
        assert_eq!(provider.logins().len(), 1, "the person was there");
    }
}

#[tokio::test]
async fn a_page_of_the_attackers_that_leads_on_to_an_honest_one_is_found_out_by_the_answer() {
    let metadata: Document = |own, honest| {
        let mut document = borrowed_page(own, honest);
        document["authorization_endpoint"] = format!("{own}/authorize").into();
        document
    };
    let bait = Bait { resource: Some(own_resource), metadata };
    let provider = scene(bait, Manners { says_issuer: true, ..honest() }).await;
    let login = provider.run("login", &[]).await;
    let stderr = String::from_utf8(login.stderr).unwrap();
    assert!(stderr.contains("does not come from the authorization server"), "{stderr}");
    assert!(provider.authority().asked().iter().any(|what| what.contains("GET")));
    assert_eq!(loot(&provider), [""; 0]);
}

#[tokio::test]
async fn a_registration_of_the_attackers_cannot_make_us_pass_for_a_famous_program() {
    // The token itself would then go to the attacker, with all that the program may do.
    let metadata: Document = |own, honest| {
        let mut document = borrowed_page(own, honest);
        document["token_endpoint"] = format!("{honest}/token").into();
        document["device_authorization_endpoint"] = format!("{honest}/device_authorization").into();
        document
    };
    for resource in [Some(own_resource as Document), None] {
        let provider = scene(Bait { resource, metadata }, honest()).await;
        let stderr = fails_early(&provider, &[], "knows no client of ours").await;
        assert!(stderr.contains("pass for somebody else"), "{stderr}");
        let device = ["--oauth-grant", "device-code"];
        fails_early(&provider, &device, "knows no client of ours").await;
    }
}

#[tokio::test]
async fn a_device_code_of_an_honest_provider_does_not_go_to_the_attacker() {
    let metadata: Document = |own, honest| {
        let mut document = borrowed_page(own, honest);
        document["device_authorization_endpoint"] = format!("{honest}/device_authorization").into();
        document
    };
    let provider = scene(Bait { resource: Some(own_resource), metadata }, honest()).await;
    let args = ["--oauth-grant", "device-code", "--oauth-client-id", "famous"];
    fails_early(&provider, &args, "belong together").await;
}

#[tokio::test]
async fn a_refresh_token_is_not_revoked_at_somebody_elses_place() {
    let metadata: Document = |own, honest| {
        let mut document = borrowed_page(own, honest);
        document["token_endpoint"] = format!("{honest}/token").into();
        document["registration_endpoint"] = format!("{honest}/register").into();
        document["revocation_endpoint"] = format!("{own}/revoke").into();
        document
    };
    let provider = scene(Bait { resource: Some(own_resource), metadata }, honest()).await;
    assert!(provider.run("login", &[]).await.status.success());
    assert!(provider.run("logout", &[]).await.status.success());
    assert!(provider.at("/revoke").is_empty());
    assert_eq!(loot(&provider), [""; 0]);
}
