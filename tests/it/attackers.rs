//! Servers and providers that are after the codes, tokens and secrets of others. Each test says what
//! the attacker got: nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::support::desk::{Desk, Form};
use crate::support::provider::{Edit, files_below, place};
use crate::support::{
    INITIALIZE, INITIALIZED, Manners, Provider, Reply, Request, Server, polite, request,
};

pub(crate) const RESOURCE: &str = "/.well-known/oauth-protected-resource/mcp";
pub(crate) const METADATA: &str = "/.well-known/oauth-authorization-server";

/// A document of the attacker's; the arguments are the origins of the attacker and of the provider.
pub(crate) type Document = fn(&str, &str) -> Value;

/// What the attacker says of itself.
#[derive(Clone, Copy)]
pub(crate) struct Bait {
    pub(crate) resource: Option<Document>,
    pub(crate) metadata: Document,
}

/// The server at 127.0.0.1 is the attacker's; the provider at `localhost`, where a person has an
/// account and logs in, is honest.
pub(crate) async fn scene(bait: Bait, honest: Manners) -> Provider {
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
pub(crate) fn honest() -> Manners {
    Manners { known: Some(("famous", "")), says_issuer: false, ..Manners::default() }
}

/// All that is worth something in what the attacker was sent.
pub(crate) fn loot(provider: &Provider) -> Vec<String> {
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

pub(crate) fn own_resource(own: &str, _: &str) -> Value {
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
        let stderr = fails_early(&provider, &[], "end up with a stranger").await;
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

/// The attacker as a whole provider of its own, which takes whatever it is given.
pub(crate) fn whole(own: &str, _: &str) -> Value {
    let at = |path: &str| format!("{own}{path}");
    json!({
        "issuer": own,
        "authorization_endpoint": at("/authorize"),
        "token_endpoint": at("/token"),
        "registration_endpoint": at("/register"),
        "revocation_endpoint": at("/revoke"),
        "code_challenge_methods_supported": ["S256"],
    })
}

/// The issuer at `localhost`, as `--oauth-issuer` wants it.
pub(crate) fn issuer(provider: &Provider) -> String {
    provider.desk.issuer()
}

/// An honest server with an honest provider, until it is switched to name the attacker.
pub(crate) async fn switched(manners: Manners, thief: &str) -> (Provider, Arc<AtomicBool>) {
    let is_switched = Arc::new(AtomicBool::new(false));
    let (switch, thief) = (Arc::clone(&is_switched), thief.replace("/mcp", ""));
    let instead = move |r: &Request| {
        let is_named = place(r) == RESOURCE && switch.load(Ordering::SeqCst);
        let own = format!("http://{}/mcp", r.header("host")?);
        let document = json!({"resource": own, "authorization_servers": [thief]});
        is_named.then(|| Reply::json(document.to_string()))
    };
    let provider = Provider::start(Manners { instead: Arc::new(instead), ..manners }).await;
    (provider, is_switched)
}

/// A provider of the attacker's that takes whatever it is given.
pub(crate) async fn thief() -> Server {
    let bait = Bait { resource: None, metadata: whole };
    Server::start(move |r| attack(r, bait, "http://localhost:1")).await
}

#[tokio::test]
async fn a_secret_in_the_query_of_the_url_is_nowhere_to_be_seen() {
    let manners = Manners {
        elsewhere: true,
        edit_resource: |d, _| {
            d.as_object_mut().unwrap().remove("resource");
        },
        ..Manners::default()
    };
    let mut provider = Provider::start(manners).await;
    let plain = std::mem::take(&mut provider.url);
    provider.url = format!("{plain}?key=s3cret-key");
    provider.browse(
        "while [ -e \"$0\" ] && [ ! -e \"$2/go\" ]; do sleep 0.02; done
         exec curl -sL -o /dev/null \"$1\"",
    );
    let mut bridge = provider.bridge(&["--oauth-wait", "0.2", "--no-server-stream"]);
    let welcome = bridge.ask(INITIALIZE).await.to_string();
    bridge.send(INITIALIZED).await;
    let pending = bridge.ask(request(1, "tools/call")).await.to_string();
    assert!(welcome.contains("/authorize?") && pending.contains("/authorize?"), "{welcome}");
    std::fs::write(provider.path("go"), "").unwrap();
    provider.server().saw("notifications/initialized").await;
    assert!(bridge.ask(request(2, "tools/call")).await["result"].is_object());
    let (_, _, stderr) = bridge.finish().await;
    for text in [&welcome, &pending, &stderr, &provider.pages().join("\n")] {
        assert!(!text.contains("s3cret"), "{text}");
    }
    let asked = provider.authority().requests();
    let texts = asked.iter().map(|r| format!("{r:?} {}", r.text()));
    assert!(texts.into_iter().all(|text| !text.contains("s3cret")), "{asked:?}");
    assert_eq!(provider.logins()[0].get("resource"), plain);
    assert_eq!(provider.forms()[0].get("resource"), plain);
    for file in files_below(&provider.path("state")) {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(!text.contains("s3cret"), "{}: {text}", file.display());
    }
}

#[tokio::test]
async fn who_names_somebody_elses_page_cannot_say_what_its_tokens_are_good_for() {
    let metadata: Document = |own, honest| {
        json!({
            "issuer": own,
            "authorization_endpoint": format!(
                "{honest}/authorize?audience=https%3A%2F%2Fbank&Claims=x&Client_ID=famous&p=kept"
            ),
            "token_endpoint": format!("{honest}/token"),
            "registration_endpoint": format!("{honest}/register"),
            "code_challenge_methods_supported": ["S256"],
        })
    };
    let resource: Document =
        |own, _| json!({"resource": format!("{own}/mcp"), "authorization_servers": [own]});
    let bait = Bait { resource: Some(resource), metadata };
    let provider = scene(bait, Manners { says_issuer: false, ..Manners::default() }).await;
    let login = provider.run("login", &[]).await;
    let stderr = String::from_utf8(login.stderr).unwrap();
    assert!(stderr.contains("(its page is at localhost:"), "the person is told: {stderr}");
    let page = provider.pages().remove(0).to_lowercase();
    assert!(page.contains("p=kept"), "{page}");
    for name in ["audience", "claims", "famous"] {
        assert!(!page.contains(name), "{name}: {page}");
    }
}

#[tokio::test]
async fn a_login_page_cannot_speak_for_us_in_its_own_address() {
    let edit_metadata: Edit = |d, origin| {
        let own = "client_id=famous&redirect_uri=https%3A%2F%2Fevil.example%2F&state=fixed\
                   &response_type=token&code_challenge=x&code_challenge_method=plain&scope=all\
                   &resource=https%3A%2F%2Fother.example&request_uri=urn%3Ax&request=eyJ&p=kept";
        d["authorization_endpoint"] = format!("{origin}/authorize?{own}").into();
    };
    let provider = Provider::start(Manners { edit_metadata, ..Manners::default() }).await;
    assert!(provider.run("login", &[]).await.status.success());
    let page = url::Url::parse(&provider.pages()[0]).unwrap();
    let mut names: Vec<String> = page.query_pairs().map(|(name, _)| name.into_owned()).collect();
    names.sort_unstable();
    let expected = [
        "client_id",
        "code_challenge",
        "code_challenge_method",
        "p",
        "redirect_uri",
        "resource",
        "response_type",
        "scope",
        "state",
    ];
    assert_eq!(names, expected);
    assert!(!page.as_str().contains("evil") && !page.as_str().contains("famous"), "{page}");
}

#[tokio::test]
async fn a_code_is_entered_at_a_page_of_the_issuer_that_the_person_knows() {
    let edit_device: Edit = |d, _| d["verification_uri"] = "https://honest.example/device".into();
    let whole: Edit =
        |d, _| d["verification_uri_complete"] = "https://honest.example/device?c=1".into();
    for edit_device in [edit_device, whole] {
        let provider = Provider::start(Manners { edit_device, ..Manners::default() }).await;
        let device = ["--oauth-grant", "device-code", "--oauth-login-timeout", "1"];
        let login = provider.run("login", &device).await;
        let stderr = String::from_utf8(login.stderr).unwrap();
        assert_eq!(login.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("entered at honest.example"), "{stderr}");
        assert!(!stderr.contains("WDJB") && provider.at("/token").is_empty(), "{stderr}");
        // The user names the issuer, and so knows its pages.
        let issuer = issuer(&provider);
        assert!(stderr.contains(&format!("--oauth-issuer {issuer}")), "{stderr}");
        let pinned = [&device[..], &["--oauth-issuer", &issuer]].concat();
        let login = provider.run("login", &pinned).await;
        let stderr = String::from_utf8(login.stderr).unwrap();
        assert!(stderr.contains("open https://honest.example/device"), "{stderr}");
    }
}

#[tokio::test]
async fn a_person_is_told_which_server_wants_a_login_and_who_gives_it() {
    let provider = scene(
        Bait {
            resource: None,
            metadata: |own, honest| {
                let mut document = borrowed_page(own, honest);
                document["issuer"] = honest.into();
                document
            },
        },
        honest(),
    )
    .await;
    let login = provider.run("login", &[]).await;
    let stderr = String::from_utf8(login.stderr).unwrap();
    let server = provider.url.trim_start_matches("http://").trim_end_matches("/mcp");
    let issuer = issuer(&provider);
    let line = format!("mcp-span: log in to {server} at {}: open ", &issuer["http://".len()..]);
    assert!(stderr.starts_with(&line), "{stderr}");
}
