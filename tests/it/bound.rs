//! What belongs to one authorization server, or to the server itself, goes to nobody else: secrets,
//! tokens, certificates.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use tokio_rustls::rustls::ServerConfig;

use crate::attackers::{
    Bait, METADATA, RESOURCE, honest, issuer, loot, own_resource, scene, switched, thief, whole,
};
use crate::support::certificates::{self, Ca, Files, Leaf};
use crate::support::provider::place;
use crate::support::{INITIALIZE, Manners, Provider, Reply, Request, Server, run};

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
