//! https: real TLS, with a certificate authority of the test's own in the platform's place.

use crate::support::{Authority, Bridge, Hub, Server, Store, polite, request};

#[tokio::test]
async fn a_server_whose_authority_is_in_the_platforms_store_is_trusted() {
    let authority = Authority::new("localhost");
    let server = Server::start_tls(authority.config(&["http/1.1"]), polite).await;
    let store = Store::with(&authority);
    let mut bridge = Bridge::start_with(&[&server.url], &store.env());
    bridge.handshake().await;
    assert!(bridge.ask(request(1, "a")).await["result"].is_object());
    let (rest, status, stderr) = bridge.finish().await;
    assert_eq!((rest.len(), status.code(), stderr.as_str()), (0, Some(0), ""));
    assert_eq!(server.all("DELETE").len(), 1);
}

#[tokio::test]
async fn any_other_server_is_not_and_sees_no_request() {
    let unknown = Authority::new("localhost");
    let elsewhere = Authority::new("elsewhere.example");
    let store = Store::with(&elsewhere);
    for authority in [&unknown, &elsewhere] {
        let server = Server::start_tls(authority.config(&["http/1.1"]), polite).await;
        let mut bridge = Bridge::start_with(&[&server.url], &store.env());
        let error = bridge.ask(request(1, "a")).await["error"].clone();
        assert_eq!(error["data"]["kind"], "tls", "{error}");
        assert_eq!(error["data"]["delivery"], "not-delivered");
        assert!(error["message"].as_str().unwrap().contains("localhost"), "{error}");
        assert!(error["data"]["reason"].as_str().unwrap().contains("certificate"), "{error}");
        assert!(server.requests().is_empty());
    }
}

#[tokio::test]
async fn the_older_transport_goes_over_https_as_well() {
    let authority = Authority::new("localhost");
    let store = Store::with(&authority);
    for protocol in ["http/1.1", "h2"] {
        let hub = Hub::start_tls(authority.config(&[protocol]), |_, _| None).await;
        let mut bridge = Bridge::start_with(&[&hub.url], &store.env());
        bridge.handshake().await;
        for id in 1..20 {
            assert!(bridge.ask(request(id, "a")).await["result"].is_object(), "{protocol}");
        }
        let (rest, status, stderr) = bridge.finish().await;
        assert_eq!((rest.len(), status.code(), stderr.as_str()), (0, Some(0), ""), "{protocol}");
        assert_eq!(hub.streams.count(), 1);
    }
}
