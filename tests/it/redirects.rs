//! Redirects: to the same origin with the same method, and with an end.

use crate::support::{Bridge, Reply, Server, polite, request};

fn to(status: u16, location: &str) -> Reply {
    Reply::status(status, "", "").header("Location", location)
}

#[tokio::test]
async fn same_origin_redirects_that_keep_the_method_are_followed() {
    for status in [307, 308] {
        let server = Server::start(move |r| match &*r.path {
            "/mcp" => to(status, "/mcp/"),
            "/mcp/" => to(status, "/deep/mcp?x=1"),
            _ => polite(r),
        })
        .await;
        let mut bridge = Bridge::start(&[&server.url, "--header", "Authorization: Bearer abc123"]);
        assert_eq!(bridge.ask(request(1, "a")).await["id"], 1);
        let last = server.requests().pop().unwrap();
        assert_eq!((last.path.as_str(), last.http_method.as_str()), ("/deep/mcp?x=1", "POST"));
        assert_eq!(last.text(), request(1, "a"));
        assert_eq!(last.header("authorization"), Some("Bearer abc123"));
    }
}

#[tokio::test]
async fn another_origin_is_refused_and_never_sees_a_header() {
    let thief = Server::start(polite).await;
    let location = thief.url.clone();
    let server = Server::start(move |_| to(307, &location)).await;
    let mut bridge = Bridge::start(&[&server.url, "--header", "Authorization: Bearer abc123"]);
    let error = bridge.ask(request(1, "a")).await["error"].clone();
    assert_eq!(error["data"]["kind"], "redirect", "{error}");
    assert!(error["message"].as_str().unwrap().contains("another origin"), "{error}");
    assert_eq!(error["data"]["delivery"], "not-delivered");
    assert!(thief.requests().is_empty());
}

#[tokio::test]
async fn a_redirect_that_would_drop_the_message_is_refused() {
    for status in [301, 302, 303] {
        let server = Server::start(move |_| to(status, "/other")).await;
        let mut bridge = Bridge::start(&[&server.url]);
        let error = bridge.ask(request(1, "a")).await["error"].clone();
        assert_eq!(error["data"]["kind"], "redirect", "{error}");
        assert_eq!(error["data"]["status"], status);
        // 303 means: carried out, look elsewhere for the result.
        let delivery = if status == 303 { "unknown" } else { "not-delivered" };
        assert_eq!(error["data"]["delivery"], delivery);
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_loop_of_redirects_has_an_end() {
    let server = Server::start(|_| to(307, "/mcp")).await;
    let mut bridge = Bridge::start(&[&server.url]);
    let error = bridge.ask(request(1, "a")).await["error"].clone();
    assert_eq!(error["data"]["kind"], "redirect", "{error}");
    assert_eq!(server.requests().len(), 6);
}
