//! Servers and providers that are after the codes, tokens and secrets of others. Each test says what
//! the attacker got: nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tokio_rustls::rustls::ServerConfig;

use crate::support::certificates::{self, Ca, Files, Leaf};
use crate::support::desk::{Desk, Form};
use crate::support::provider::{Edit, files_below, place};
use crate::support::{
    INITIALIZE, INITIALIZED, Manners, Provider, Reply, Request, Server, polite, request, run,
};

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

/// The attacker as a whole provider of its own, which takes whatever it is given.
fn whole(own: &str, _: &str) -> Value {
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
fn issuer(provider: &Provider) -> String {
    provider.desk.issuer()
}

/// With a secret, a refresh token and a client of the user's.
async fn run_with_secrets(provider: &Provider, args: &[&str]) -> (Option<i32>, String) {
    let env = provider.env();
    let mut env: Vec<(&str, &str)> = env.iter().map(|(n, v)| (*n, v.as_str())).collect();
    env.extend([("SECRET", "s3cret-of-client"), ("REFRESH", "hidden-refresh")]);
    let secret = ["--oauth-client-id", "mine", "--oauth-client-secret-env", "SECRET"];
    let args = [&["login", &provider.url], &secret[..], args].concat();
    let output = run(&args, &env, "").await;
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[tokio::test]
async fn secrets_go_to_the_issuer_that_the_user_names_and_to_no_other() {
    let bait = Bait { resource: Some(own_resource), metadata: whole };
    let known = Manners {
        known: Some(("mine", "s3cret-of-client")),
        proof: "client_secret_post",
        ..honest()
    };
    let ways: [&[&str]; 3] =
        [&[], &["--oauth-refresh-token-env", "REFRESH"], &["--oauth-grant", "client-credentials"]];
    for way in ways {
        let provider = scene(bait, known.clone()).await;
        let named = issuer(&provider);
        let pinned = [&["--oauth-issuer", &*named], way].concat();
        let (code, stderr) = run_with_secrets(&provider, &pinned).await;
        assert_eq!(code, Some(1), "{stderr}");
        assert!(stderr.contains("is not the one of --oauth-issuer"), "{stderr}");
        assert_eq!(loot(&provider), [""; 0]);
        assert!(provider.pages().is_empty() && provider.at("/token").is_empty());
        // A server that names nobody is not asked for what it says of itself.
        let silent = Bait { resource: None, metadata: whole };
        let provider = scene(silent, known.clone()).await;
        let named = issuer(&provider);
        let pinned = [&["--oauth-issuer", &*named], way].concat();
        let (code, stderr) = run_with_secrets(&provider, &pinned).await;
        assert_eq!(code, Some(0), "{stderr}");
        assert_eq!(loot(&provider), [""; 0]);
        assert!(!provider.server().requests().iter().any(|r| place(r) == METADATA));
        assert!(!provider.authority().requests().is_empty());
    }
}

#[tokio::test]
async fn tokens_of_another_issuer_than_the_named_one_are_neither_renewed_nor_revoked() {
    let provider = scene(Bait { resource: Some(own_resource), metadata: whole }, honest()).await;
    provider.browse("curl -sL -o /dev/null \"$1\"");
    // Kept from a time when nobody was named: of the attacker, with our secret in its store.
    let file = {
        let login = provider.run("login", &["--oauth-scope", "a"]).await;
        // The attacker sends the person on; the answer is taken, because it names nobody.
        assert!(login.status.success(), "{login:?}");
        provider.kept()
    };
    let mut kept: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    kept["token"]["refresh_token"] = "hidden-refresh".into();
    kept["token"]["expires_at"] = 1.into();
    std::fs::write(&file, kept.to_string()).unwrap();
    let before = provider.server().requests().len();
    let named = ["--oauth-issuer", &issuer(&provider), "--oauth-no-interactive"];
    let mut bridge = provider.bridge(&named);
    bridge.ask(INITIALIZE).await;
    bridge.finish().await;
    let logout = provider.run("logout", &named).await;
    assert!(logout.status.success(), "{logout:?}");
    let after = provider.server().requests().split_off(before);
    assert!(after.iter().all(|r| !r.text().contains("hidden-")), "{after:?}");
    assert!(after.iter().all(|r| place(r) != "/token" && place(r) != "/revoke"), "{after:?}");
}

/// An honest server with an honest provider, until it is switched to name the attacker.
async fn switched(manners: Manners, thief: &str) -> (Provider, Arc<AtomicBool>) {
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
async fn thief() -> Server {
    let bait = Bait { resource: None, metadata: whole };
    Server::start(move |r| attack(r, bait, "http://localhost:1")).await
}

#[tokio::test]
async fn a_secret_stays_with_the_issuer_that_it_was_first_used_with() {
    let manners = Manners {
        known: Some(("mine", "s3cret-of-client")),
        proof: "client_secret_post",
        ..Manners::default()
    };
    let thief = thief().await;
    for grant in ["code", "client-credentials"] {
        let (provider, switch) = switched(manners.clone(), &thief.url).await;
        let way = ["--oauth-grant", grant];
        let (code, stderr) = run_with_secrets(&provider, &way).await;
        assert_eq!(code, Some(0), "{stderr}");
        switch.store(true, Ordering::SeqCst);
        provider.desk.forget_tokens();
        let (code, stderr) = run_with_secrets(&provider, &way).await;
        assert_eq!(code, Some(1), "{stderr}");
        let named = thief.url.replace("/mcp", "");
        assert!(stderr.contains(&format!("--oauth-issuer {named}")), "{stderr}");
        assert!(stderr.contains(&issuer(&provider)), "{stderr}");
        let asked = thief.requests();
        assert!(asked.iter().all(|r| place(r).contains(".well-known")), "{asked:?}");
    }
    // Without a secret there is nothing to protect: the server may move.
    let (provider, switch) = switched(Manners::default(), &thief.url).await;
    assert!(provider.run("login", &[]).await.status.success());
    switch.store(true, Ordering::SeqCst);
    provider.desk.forget_tokens();
    provider.browse("true");
    provider.run("login", &["--oauth-login-timeout", "0.5"]).await;
    assert!(thief.requests().iter().any(|r| place(r) == "/register"), "a login was begun");
}

#[tokio::test]
async fn what_mcp_remote_kept_of_one_provider_does_not_go_to_another() {
    let thief = thief().await;
    let (provider, switch) = switched(Manners::default(), &thief.url).await;
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("mcp-remote-v1");
    std::fs::create_dir(&kept).unwrap();
    let name = crate::import::name(&provider);
    let write = |file: &str, text: &Value| {
        std::fs::write(kept.join(format!("{name}_{file}.json")), text.to_string()).unwrap();
    };
    let tokens = json!({"access_token": "hidden-access", "token_type": "Bearer",
        "refresh_token": "hidden-refresh", "expires_in": 0, "expires_at": 1000});
    let client = json!({"client_id": "c", "client_secret": "s3cret-of-client"});
    let with = |document: &Value, issuer: &str| {
        let mut document = document.clone();
        document["issuer"] = issuer.into();
        document
    };
    let honest = issuer(&provider);
    let claims = json!({"iss": honest}).to_string();
    let jwt = format!("e30.{}.hidden-x", URL_SAFE_NO_PAD.encode(claims));
    let mut telling = tokens.clone();
    telling["access_token"] = jwt.into();
    let import = async |args: &[&str]| {
        let env = provider.env();
        let mut env: Vec<(&str, &str)> = env.iter().map(|(n, v)| (*n, v.as_str())).collect();
        env.push(("MCP_REMOTE_CONFIG_DIR", folder.path().to_str().unwrap()));
        let args = [&["login", "--import", &provider.url][..], args].concat();
        let output = run(&args, &env, "").await;
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    switch.store(true, Ordering::SeqCst);
    for (tokens, client) in [
        (with(&tokens, &honest), client.clone()),
        (tokens.clone(), with(&client, &honest)),
        (telling.clone(), client.clone()),
        (with(&tokens, &thief.url.replace("/mcp", "")), with(&client, &honest)),
    ] {
        write("tokens", &tokens);
        write("client_info", &client);
        let (code, _, stderr) = import(&[]).await;
        assert_eq!(code, Some(1), "{stderr}");
        assert!(stderr.contains("were given out by") && stderr.contains("anew"), "{stderr}");
        assert!(stderr.contains(&honest), "{stderr}");
        assert_eq!(provider.run("status", &[]).await.status.code(), Some(1));
    }
    // Where nothing shows it, the token is good for the server that it was for, and no more.
    write("tokens", &tokens);
    write("client_info", &client);
    let (code, stdout, stderr) = import(&[]).await;
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("cannot be renewed") && stdout.contains("--oauth-issuer"), "{stdout}");
    let stored = std::fs::read_to_string(provider.kept()).unwrap();
    assert!(!stored.contains("hidden-refresh") && !stored.contains("s3cret"), "{stored}");
    let mut bridge = provider.bridge(&["--oauth-no-interactive"]);
    bridge.ask(INITIALIZE).await;
    bridge.finish().await;
    let asked = thief.requests();
    assert!(asked.iter().all(|r| place(r).contains(".well-known")), "{asked:?}");
    // The user may say whose it is, and a token may.
    switch.store(false, Ordering::SeqCst);
    for (tokens, args) in [(&tokens, &["--oauth-issuer", &*honest][..]), (&telling, &[])] {
        write("tokens", tokens);
        let (code, stdout, stderr) = import(args).await;
        assert_eq!(code, Some(0), "{stderr}");
        assert!(!stdout.contains("cannot be renewed"), "{stdout}");
    }
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
    let plain = std::mem::replace(&mut provider.url, String::new());
    provider.url = format!("{plain}?key=s3cret-key");
    provider.browse(
        "while [ -d \"$2\" ] && [ ! -e \"$2/go\" ]; do sleep 0.02; done
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

/// An https server that names an authorization server with a certificate of its own.
async fn over_tls(config: ServerConfig, provider: &Server) -> Server {
    let issuer = provider.url.replace("/mcp", "");
    Server::start_tls(config, move |r| {
        let own = format!("https://{}/mcp", r.header("host").unwrap_or("localhost"));
        let document = json!({"resource": own, "authorization_servers": [issuer]});
        match place(r) {
            RESOURCE => Reply::json(document.to_string()),
            path if path.contains(".well-known") => Reply::status(404, "", ""),
            _ => Reply::status(401, "", "").header("WWW-Authenticate", "Bearer"),
        }
    })
    .await
}

#[tokio::test]
async fn what_the_user_allows_or_shows_the_server_is_not_for_those_whom_it_names() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().to_str().unwrap();
    let log_in = async |server: &Server, args: &[&str]| {
        let args = [&["login", &server.url, "--state-dir", state], args].concat();
        let output = run(&args, &[("BROWSER", "false")], "").await;
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let document = |r: &Request| match place(r) {
        METADATA => {
            let own = format!("https://{}", r.header("host").unwrap());
            Reply::json(whole(&own, "").to_string())
        }
        _ => Reply::status(404, "", ""),
    };
    // --insecure
    let shown = || Leaf::self_signed(|_| ()).serve(certificates::Manners::default());
    let provider = Server::start_tls(shown(), document).await;
    let server = over_tls(shown(), &provider).await;
    let issuer = provider.url.replace("/mcp", "");
    for more in [&[][..], &["--oauth-issuer", &issuer]] {
        let stderr = log_in(&server, &[&["--insecure"], more].concat()).await;
        assert!(stderr.contains("own origin") && stderr.contains("--ca-cert"), "{stderr}");
        assert!(server.requests().iter().any(|r| place(r) == RESOURCE), "it is for the server");
        assert!(provider.requests().is_empty());
    }
    // --client-cert, for servers that insist on it
    let (servers, clients, files) = (Ca::new("servers"), Ca::new("clients"), Files::new());
    let asking = certificates::Manners { clients: Some(&clients), ..Default::default() };
    let provider = Server::start_tls(servers.server(|_| ()).serve(asking), document).await;
    let server = over_tls(servers.server(|_| ()).serve(asking), &provider).await;
    let mine = clients.client(rcgen::KeyPair::generate().unwrap());
    let both = files.with("me.pem", &format!("{}{}", mine.pem, mine.key.serialize_pem()));
    let ca = files.with("ca.pem", &servers.pem);
    let stderr = log_in(&server, &["--client-cert", &both, "--ca-cert", &ca]).await;
    assert!(stderr.contains("client certificate") && stderr.contains("own origin"), "{stderr}");
    assert!(!server.requests().is_empty() && provider.requests().is_empty());
}
