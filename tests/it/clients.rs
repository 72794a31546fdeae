//! Who we are to a provider: registered on the spot or by hand, with a secret, a key or a document;
//! and what we ask for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use serde_json::{Value, json};

use crate::support::desk::{Form, back, refusal};
use crate::support::provider::{files_below, place};
use crate::support::{INITIALIZE, Manners, Provider, Reply, Request, polite, request};

const SECRET: [(&str, &str); 1] = [("S", "hidden: %s")];
const BY_HAND: [&str; 4] = ["--oauth-client-id", "by-hand", "--oauth-client-secret-env", "S"];

#[tokio::test]
async fn clients_prove_themselves_as_the_provider_wants_it() {
    // protocol d 6
    for proof in ["none", "client_secret_basic", "client_secret_post"] {
        let provider = Provider::start(Manners { proof, ..Manners::default() }).await;
        let mut bridge = provider.ready(&["--no-server-stream"]).await;
        assert_eq!(provider.at("/register")[0].json()["token_endpoint_auth_method"], proof);
        provider.desk.expire();
        assert!(bridge.ask(request(1, "a")).await["result"].is_object());
        assert_eq!(provider.grants("refresh_token"), 1, "{proof}");
        drop(bridge);
        // And in the next process, which has the secret from the store.
        provider.desk.expire();
        provider.ready(&[]).await;
        assert_eq!(provider.grants("refresh_token"), 2, "{proof}");
        assert_eq!(provider.at("/register").len(), 1, "{proof}");
    }
}

#[tokio::test]
async fn a_client_that_was_registered_by_hand_is_used_as_it_is() {
    let manners = Manners {
        proof: "client_secret_post",
        known: Some(("by-hand", "hidden: %s")),
        ..Manners::default()
    };
    let provider = Provider::start(manners).await;
    let mut bridge = provider.bridge_with(&BY_HAND, &SECRET);
    bridge.handshake().await;
    assert!(provider.at("/register").is_empty(), "{:?}", provider.at("/register"));
    assert_eq!(provider.logins()[0].get("client_id"), "by-hand");
    let port: u16 = {
        let redirect = url::Url::parse(provider.logins()[0].get("redirect_uri")).unwrap();
        redirect.port().unwrap()
    };
    assert_ne!(port, 0);
}

#[tokio::test]
async fn a_client_by_hand_is_not_kept_in_place_of_the_one_that_was_registered() {
    let manners = Manners {
        proof: "client_secret_post",
        known: Some(("by-hand", "hidden: %s")),
        ..Manners::default()
    };
    let provider = Provider::start(manners).await;
    provider.ready(&[]).await;
    let registered = provider.logins()[0].get("client_id").to_owned();
    provider.desk.forget_tokens();
    let mut bridge =
        provider.bridge_with(&[&BY_HAND[..], &["--no-server-stream"]].concat(), &SECRET);
    bridge.handshake().await;
    let files = files_below(&provider.path("state"));
    let kept: String = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    assert!(kept.contains(&registered) && !kept.contains("hidden: %s"), "{kept}");
    // It renews what it was given, with the secret from where it was configured.
    provider.desk.expire();
    assert!(bridge.ask(request(1, "a")).await["result"].is_object());
    assert_eq!(provider.forms().last().unwrap().get("client_id"), "by-hand");
    drop(bridge);
    provider.desk.forget_tokens();
    provider.ready(&[]).await;
    assert_eq!(provider.logins().last().unwrap().get("client_id"), registered);
    assert_eq!(provider.at("/register").len(), 1);
}

#[tokio::test]
async fn a_document_that_describes_us_is_used_where_that_is_understood() {
    let url = "https://mcp-span.example/client.json";
    let edit_metadata: fn(&mut Value, &str) =
        |d, _| d["client_id_metadata_document_supported"] = true.into();
    let manners = Manners { known: Some((url, "")), edit_metadata, ..Manners::default() };
    let provider = Provider::start(manners).await;
    provider.ready(&["--oauth-client-metadata-url", url]).await;
    assert!(provider.at("/register").is_empty());
    assert_eq!(provider.logins()[0].get("client_id"), url);
    let without = Provider::start(Manners::default()).await;
    without.ready(&["--oauth-client-metadata-url", url]).await;
    assert_eq!(without.at("/register").len(), 1);
}

#[tokio::test]
async fn clients_that_are_named_have_tokens_of_their_own() {
    let instead = |r: &Request| {
        let answer = |id: &str| json!({"access_token": format!("hidden-{id}")}).to_string();
        match (place(r), r.header("authorization")) {
            ("/authorize", _) => {
                let iss = format!("http://{}", r.header("host").unwrap());
                Some(back(&Form::of_query(r), &[("code", "c"), ("iss", &iss)]))
            }
            ("/token", _) => Some(Reply::json(answer(Form::of(r).get("client_id")))),
            ("/mcp", Some("Bearer hidden-a" | "Bearer hidden-b")) => Some(polite(r)),
            _ => None,
        }
    };
    let provider =
        Provider::start(Manners { instead: Arc::new(instead), ..Manners::default() }).await;
    for id in ["a", "b", "a", "b"] {
        provider.ready(&["--oauth-client-id", id]).await;
        assert_eq!(provider.carried().last().unwrap().1, format!("hidden-{id}"));
    }
    assert_eq!(provider.pages().len(), 2);
}

#[tokio::test]
async fn a_client_of_its_own_right_needs_no_person() {
    // protocol d: client credentials
    let manners = Manners {
        proof: "client_secret_post",
        known: Some(("by-hand", "hidden: %s")),
        ..Manners::default()
    };
    let provider = Provider::start(manners).await;
    let args =
        [&BY_HAND[..], &["--oauth-grant", "client-credentials", "--no-server-stream"]].concat();
    let mut bridge = provider.bridge_with(&args, &SECRET);
    bridge.handshake().await;
    let form = provider.forms().remove(0);
    assert_eq!(form.get("grant_type"), "client_credentials");
    assert_eq!((form.get("scope"), form.get("resource")), ("read", &*provider.url));
    provider.desk.expire();
    assert!(bridge.ask(request(1, "a")).await["result"].is_object());
    assert_eq!(provider.grants("client_credentials"), 2);
    let (_, _, stderr) = bridge.finish().await;
    assert_eq!(stderr, "");
    assert!(provider.pages().is_empty());
}

#[tokio::test]
async fn a_client_of_its_own_right_has_another_token_before_the_old_one_ends() {
    let manners = Manners {
        proof: "client_secret_post",
        known: Some(("by-hand", "hidden: %s")),
        lifetimes: (json!(2), json!(2)),
        ..Manners::default()
    };
    let provider = Provider::start(manners).await;
    let args =
        [&BY_HAND[..], &["--oauth-grant", "client-credentials", "--no-server-stream"]].concat();
    let mut bridge = provider.bridge_with(&args, &SECRET);
    bridge.handshake().await;
    // More often than a person would be asked in a minute.
    for id in 0..4 {
        tokio::time::sleep(std::time::Duration::from_millis(1200)).await;
        assert!(bridge.ask(request(id, "tools/call")).await["result"].is_object());
    }
    let mut used = provider.carried();
    used.retain(|(what, _)| what == "tools/call");
    assert_eq!(used.len(), 4, "nothing was refused: {used:?}");
    used.dedup();
    assert_eq!(used.len(), 4, "a new one for each: {used:?}");
    // Each of them may be withdrawn before its time.
    for id in 4..8 {
        provider.desk.expire();
        assert!(bridge.ask(request(id, "tools/call")).await["result"].is_object());
    }
    let asked = provider.at("/.well-known/oauth-protected-resource/mcp").len();
    assert_eq!(asked, 1, "who gives tokens out is known by now");
}

#[tokio::test]
async fn a_client_of_its_own_right_gets_more_scope_without_a_person() {
    let manners = Manners {
        proof: "client_secret_post",
        known: Some(("by-hand", "hidden: %s")),
        needs: &[("tools/call", "write")],
        ..Manners::default()
    };
    let provider = Provider::start(manners).await;
    let args =
        [&BY_HAND[..], &["--oauth-grant", "client-credentials", "--no-server-stream"]].concat();
    let mut bridge = provider.bridge_with(&args, &SECRET);
    bridge.handshake().await;
    let answer = bridge.ask(request(1, "tools/call")).await;
    assert!(answer["result"].is_object(), "{answer}");
    let forms = provider.forms();
    let scopes: Vec<&str> = forms.iter().map(|form| form.get("scope")).collect();
    assert_eq!(scopes, ["read", "read write"]);
    assert!(provider.pages().is_empty());
}

#[tokio::test]
async fn a_key_signs_in_place_of_a_secret() {
    // RFC 7523
    let key = rcgen::KeyPair::generate().unwrap();
    let manners =
        Manners { proof: "private_key_jwt", known: Some(("by-hand", "")), ..Manners::default() };
    let provider = Provider::start(manners).await;
    let file = provider.path("key.pem");
    std::fs::write(&file, key.serialize_pem()).unwrap();
    let args = [
        "--oauth-grant",
        "client-credentials",
        "--oauth-client-id",
        "by-hand",
        "--oauth-private-key",
        file.to_str().unwrap(),
    ];
    provider.ready(&args).await;
    let form = provider.forms().remove(0);
    assert!(!form.has("client_secret"));
    assert!(form.get("client_assertion_type").ends_with("jwt-bearer"));
    let (signed, signature) = form.get("client_assertion").rsplit_once('.').unwrap();
    let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key.public_key_raw());
    public.verify(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap()).unwrap();
    let claims = URL_SAFE_NO_PAD.decode(signed.split_once('.').unwrap().1).unwrap();
    let claims: Value = serde_json::from_slice(&claims).unwrap();
    assert_eq!(claims["iss"], "by-hand");
    assert_eq!(claims["sub"], "by-hand");
    assert_eq!(claims["aud"], provider.desk.issuer());
    assert!(claims["jti"].is_string() && claims["exp"].is_u64(), "{claims}");
}

#[tokio::test]
async fn the_users_scopes_and_silence_about_the_resource_win() {
    let provider = Provider::start(Manners::default()).await;
    provider.ready(&["--oauth-scope", "mine yours", "--oauth-no-resource"]).await;
    let asked = &provider.logins()[0];
    assert_eq!(asked.get("scope"), "mine yours");
    assert!(!asked.has("resource"));
    assert!(!provider.forms()[0].has("resource"));
}

#[tokio::test]
async fn scopes_come_from_the_challenge_then_from_the_resource_and_access_lasts_if_it_can() {
    // protocol d: scopes
    let edit_resource: fn(&mut Value, &str) = |d, _| d["scopes_supported"] = json!(["r1", "r2"]);
    let edit_metadata: fn(&mut Value, &str) =
        |d, _| d["scopes_supported"] = json!(["r1", "offline_access"]);
    let good = Manners { edit_resource, ..Manners::default() };
    for (manners, scope) in [
        (good.clone(), "read"),
        (Manners { challenge: Some("realm=x"), ..good.clone() }, "r1 r2"),
        (Manners { edit_metadata, ..good.clone() }, "read offline_access"),
        (Manners { challenge: Some(""), edit_resource: |_, _| (), ..good }, ""),
    ] {
        let provider = Provider::start(manners).await;
        provider.ready(&[]).await;
        assert_eq!(provider.logins()[0].get("scope"), scope);
        assert_eq!(provider.logins()[0].has("scope"), !scope.is_empty());
    }
}

#[tokio::test]
async fn a_provider_that_names_the_resource_parameter_as_wrong_is_asked_without_it() {
    // peers b 20-31: Entra ID
    let wrong = refusal(400, "invalid_request", "AADSTS9010010: The resource parameter is wrong");
    let manners =
        Manners { challenge: Some(""), known: Some(("by-hand", "")), ..Manners::default() }
            .where_it_is(|r| r.path == "/token" && r.text().contains("resource="), wrong);
    let provider = Provider::start(manners).await;
    let args = ["--oauth-grant", "client-credentials", "--oauth-client-id", "by-hand"];
    provider.ready(&args).await;
    let told: Vec<bool> = provider.forms().iter().map(|form| form.has("resource")).collect();
    assert_eq!(told, [true, false]);
}

#[tokio::test]
async fn a_port_that_was_asked_for_is_the_one_that_is_used() {
    for _ in 0..10 {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let provider = Provider::start(Manners::default()).await;
        let mut bridge = provider.bridge(&["--oauth-callback-port", &port.to_string()]);
        let answer = bridge.ask(INITIALIZE).await;
        if answer["result"].is_object() {
            let redirect = format!("http://127.0.0.1:{port}/callback");
            return assert_eq!(provider.logins()[0].get("redirect_uri"), redirect);
        }
        // Another program has taken it in the meantime: then it says so, and another port is free.
        assert!(answer["error"]["message"].as_str().unwrap().contains(&port.to_string()));
    }
    panic!("no port stayed free");
}

#[tokio::test]
async fn what_is_configured_comes_before_a_document_and_a_document_before_a_registration() {
    let url = "https://mcp-span.example/client.json";
    let edit_metadata: fn(&mut Value, &str) =
        |d, _| d["client_id_metadata_document_supported"] = true.into();
    let document = ["--oauth-client-metadata-url", url];
    let both = [&["--oauth-client-id", "by-hand"], &document[..]].concat();
    for (args, id) in [(&both[..], "by-hand"), (&document[..], url)] {
        let manners = Manners { known: Some((id, "")), edit_metadata, ..Manners::default() };
        let provider = Provider::start(manners).await;
        provider.ready(args).await;
        assert_eq!(provider.logins()[0].get("client_id"), id);
        assert!(provider.at("/register").is_empty());
    }
}

#[tokio::test]
async fn a_key_signs_for_codes_and_for_renewals_too() {
    let key = rcgen::KeyPair::generate().unwrap();
    let manners =
        Manners { proof: "private_key_jwt", known: Some(("by-hand", "")), ..Manners::default() };
    let provider = Provider::start(manners).await;
    let file = provider.path("key.pem");
    std::fs::write(&file, key.serialize_pem()).unwrap();
    let file = file.to_str().unwrap();
    let args = ["--oauth-client-id", "by-hand", "--oauth-private-key", file, "--no-server-stream"];
    let mut bridge = provider.ready(&args).await;
    provider.desk.expire();
    assert!(bridge.ask(request(1, "a")).await["result"].is_object());
    let forms = provider.forms();
    let sorts: Vec<&str> = forms.iter().map(|form| form.get("grant_type")).collect();
    assert_eq!(sorts, ["authorization_code", "refresh_token"]);
    let assertions: Vec<&str> = forms.iter().map(|form| form.get("client_assertion")).collect();
    assert_ne!(assertions[0], assertions[1], "each is used once");
    assert!(provider.at("/register").is_empty());
}

#[tokio::test]
async fn another_authorization_server_gets_a_client_of_its_own_and_nothing_of_the_old_one() {
    // protocol d 5
    let named: fn(&mut Value, &str) = |answer, _| {
        answer["access_token"] = "hidden-access-b".into();
    };
    let second = Provider::start(Manners { edit_token: named, ..Manners::default() }).await;
    let (moved, issuer) = (Arc::new(AtomicBool::new(false)), second.desk.issuer());
    let has_moved = Arc::clone(&moved);
    let instead = move |r: &Request| {
        let is_moved = has_moved.load(Ordering::SeqCst);
        match place(r) {
            "/.well-known/oauth-protected-resource/mcp" if is_moved => {
                let resource = format!("http://{}/mcp", r.header("host")?);
                let document = json!({"resource": resource, "authorization_servers": [issuer]});
                Some(Reply::json(document.to_string()))
            }
            "/mcp" if r.header("authorization") == Some("Bearer hidden-access-b") => {
                Some(polite(r))
            }
            _ => None,
        }
    };
    let first = Provider::start(Manners { instead: Arc::new(instead), ..Manners::default() }).await;
    let mut bridge = first.ready(&["--no-server-stream"]).await;
    moved.store(true, Ordering::SeqCst);
    first.desk.forget_tokens();
    assert!(bridge.ask(request(1, "a")).await["result"].is_object());
    assert_eq!((first.at("/register").len(), second.at("/register").len()), (1, 1));
    let asked = second.server().requests();
    assert!(asked.iter().all(|r| r.header("authorization").is_none()), "{asked:?}");
    assert!(asked.iter().all(|r| !r.text().contains("hidden-refresh-2")), "{asked:?}");
    assert_eq!(second.forms().len(), 1);
    assert_eq!(second.forms()[0].get("resource"), first.url);
    let kept: Value = serde_json::from_slice(&std::fs::read(first.kept()).unwrap()).unwrap();
    assert_eq!(kept["issuer"], second.desk.issuer(), "{kept}");
    assert_eq!(kept["token_endpoint"], format!("{}/token", second.desk.issuer()), "{kept}");
}

#[tokio::test]
async fn a_token_of_one_client_is_not_used_for_another() {
    let manners = Manners { known: Some(("by-hand", "")), ..Manners::default() };
    let provider = Provider::start(manners).await;
    provider.ready(&[]).await;
    provider.ready(&["--oauth-client-id", "by-hand"]).await;
    assert_eq!(provider.pages().len(), 2);
    assert_eq!(provider.logins()[1].get("client_id"), "by-hand");
    provider.ready(&["--oauth-client-id", "by-hand"]).await;
    assert_eq!(provider.pages().len(), 2, "that is its own");
}

#[tokio::test]
async fn a_provider_that_wants_a_secret_as_it_is_gets_it_so() {
    let known = Some(("by hand", "a b+c"));
    let proof = "client_secret_basic";
    let provider = Provider::start(Manners { known, proof, ..Manners::default() }).await;
    let args = ["--oauth-client-id", "by hand", "--oauth-client-secret-env", "CLIENT_SECRET"];
    let mut bridge = provider.bridge_with(&args, &[("CLIENT_SECRET", "a b+c")]);
    bridge.handshake().await;
    let sent: Vec<String> = provider
        .at("/token")
        .iter()
        .map(|request| request.header("authorization").unwrap().to_owned())
        .collect();
    let expected = ["by+hand:a+b%2Bc", "by hand:a b+c"];
    assert_eq!(sent, expected.map(|pair| format!("Basic {}", STANDARD.encode(pair))));
}

#[tokio::test]
async fn a_client_is_registered_for_the_scopes_that_it_asks_for() {
    let needs = &[("tools/call", "write")];
    let provider = Provider::start(Manners { needs, ..Manners::default() }).await;
    let mut bridge = provider.ready(&["--no-server-stream"]).await;
    let answer = bridge.ask(request(1, "tools/call")).await;
    assert!(answer["result"].is_object(), "{answer}");
    let scopes: Vec<Value> =
        provider.at("/register").iter().map(|request| request.json()["scope"].clone()).collect();
    assert_eq!(scopes, ["read", "read write"], "it asks for more, and is another client then");
    assert_eq!(provider.logins().len(), 2);
    drop(bridge);
    provider.desk.forget_tokens();
    provider.ready(&["--no-server-stream"]).await;
    assert_eq!(provider.at("/register").len(), 2, "for less, it is the same");
}

#[tokio::test]
async fn a_provider_that_registers_no_scopes_is_asked_without_them() {
    let has_scope = |r: &Request| place(r) == "/register" && r.json().get("scope").is_some();
    let body = r#"{"error":"invalid_client_metadata"}"#;
    let refused = Reply::status(400, "application/json", body);
    let provider = Provider::start(Manners::default().where_it_is(has_scope, refused)).await;
    provider.ready(&[]).await;
    assert_eq!(provider.at("/register").len(), 2);
    assert_eq!(provider.logins()[0].get("scope"), "read");
}
