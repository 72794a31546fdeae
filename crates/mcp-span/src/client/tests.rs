//! Tests of the client over a link in memory, with the test as the server.

use std::time::Duration;

use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::*;
use crate::error::{Delivery, ErrorKind, RpcError, Stage};
use crate::transport::{Incoming, memory};

/// The far end of a client's link.
struct Far(Link);

impl Far {
    /// What the client says next.
    async fn hear(&mut self) -> Value {
        let heard = timeout(Duration::from_secs(10), self.0.inbox.recv()).await;
        match heard.expect("the client says something") {
            Some(Incoming::Message(message)) => serde_json::from_slice(message.bytes()).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    async fn say(&self, json: Value) {
        let message = Message::parse(Bytes::from(json.to_string())).unwrap();
        self.0.outbox.send(message).await.unwrap();
    }

    /// Answers the next request with `result`, and gives it back.
    async fn answer(&mut self, result: Value) -> Value {
        let asked = self.hear().await;
        self.say(json!({"jsonrpc": "2.0", "id": asked["id"], "result": result})).await;
        asked
    }
}

/// A client that has shaken hands, and its server.
async fn opened(options: Options) -> (Client, Far) {
    let (near, far) = memory::pair();
    let mut far = Far(far);
    let opening =
        tokio::spawn(Client::over(near, Timeouts::default(), options, std::future::pending()));
    let initialize = far
        .answer(json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "x": 1}))
        .await;
    assert_eq!((&initialize["method"], &initialize["id"]), (&json!("initialize"), &json!(1)));
    // S1-02, S1-16: the notification comes second, and has no id.
    let second = far.hear().await;
    assert_eq!(second, json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    (opening.await.unwrap().unwrap(), far)
}

#[tokio::test]
async fn s1_02_hands_are_shaken_first_and_what_the_server_said_is_kept() {
    let (client, _far) = opened(Options::default()).await;
    assert_eq!(client.protocol_version(), "2025-06-18");
    assert!(client.has_capability("tools") && !client.has_capability("prompts"));
    assert_eq!(client.server()["x"], 1, "unknown members stay");
    assert!(client.is_connected());
}

#[tokio::test]
async fn a_refused_handshake_is_an_error_and_closes_the_link() {
    let (near, far) = memory::pair();
    let mut far = Far(far);
    let opening = tokio::spawn(Client::builder(near).connect());
    let asked = far.hear().await;
    let error = json!({"code": -32602, "message": "no", "data": {"kind": "theirs"}});
    far.say(json!({"jsonrpc": "2.0", "id": asked["id"], "error": error})).await;
    let failure = opening.await.unwrap().unwrap_err();
    // S1-37
    assert_eq!(failure.to_string(), "MCP error -32602: no");
    assert_eq!((failure.kind, failure.stage()), (ErrorKind::Rpc, Stage::Protocol));
    assert!(!failure.is_retryable());
    assert_eq!(far.0.inbox.recv().await, None);
}

#[tokio::test]
async fn s1_07_s1_09_s1_11_answers_find_their_requests_in_any_order() {
    let (client, mut far) = opened(Options::default()).await;
    let ask = |method: &'static str| {
        let client = client.clone();
        tokio::spawn(async move { client.request(method, ()).await })
    };
    let (one, other) = (ask("a"), ask("b"));
    let (first, second) = (far.hear().await, far.hear().await);
    assert_ne!(first["id"], second["id"]);
    far.say(json!({"jsonrpc": "2.0", "id": 999, "result": "nobody's"})).await;
    for asked in [&second, &first] {
        far.say(json!({"jsonrpc": "2.0", "id": asked["id"], "result": asked["method"]})).await;
    }
    assert_eq!(one.await.unwrap(), Ok(json!("a")));
    assert_eq!(other.await.unwrap(), Ok(json!("b")));
}

#[tokio::test]
async fn large_numbers_pass_as_they_are_written_both_ways() {
    let (client, mut far) = opened(Options::default()).await;
    let params: Box<RawValue> =
        serde_json::from_str(r#"{"n":123456789012345678901234567890,"a":1.0}"#).unwrap();
    let asking = tokio::spawn({
        let client = client.clone();
        async move { client.request("x", &params).on_progress(|_| {}).raw().await }
    });
    let Some(Incoming::Message(message)) = far.0.inbox.recv().await else { panic!() };
    let text = std::str::from_utf8(message.bytes()).unwrap();
    assert!(text.contains(r#""n":123456789012345678901234567890,"a":1.0"#), "{text}");
    assert!(text.contains(r#""progressToken":2"#), "{text}");
    let answer = r#"{"jsonrpc":"2.0","id":2,"result":{"n":123456789012345678901234567890}}"#;
    far.0.outbox.send(Message::parse(Bytes::from(answer)).unwrap()).await.unwrap();
    let result = asking.await.unwrap().unwrap();
    assert_eq!(result.get(), r#"{"n":123456789012345678901234567890}"#);
}

#[tokio::test]
async fn s1_23_s1_24_silence_ends_a_request_and_the_server_is_told() {
    assert_eq!(Timeouts::default().quick, Some(Duration::from_millis(30_000)));
    let (client, mut far) = opened(Options::default()).await;
    let asking = client.request("tools/list", ()).timeout(Duration::from_millis(50));
    let failure = asking.await.unwrap_err();
    assert_eq!(failure.message, "Request timeout after 50ms");
    assert_eq!((failure.kind, failure.stage()), (ErrorKind::Timeout, Stage::Receive));
    assert_eq!((failure.delivery, failure.is_retryable()), (Delivery::Unknown, false));
    let asked = far.hear().await;
    let told = far.hear().await;
    assert_eq!(told["method"], "notifications/cancelled");
    assert_eq!(told["params"]["requestId"], asked["id"]);
    assert!(lock(&client.shared.waiting).is_empty(), "nothing is left of it");
}

#[tokio::test]
async fn a_server_that_takes_nothing_holds_nobody_up() {
    // S1-29, superseded: writing waits for room, and the wait has an end.
    let (client, _far) = opened(Options::default()).await;
    let limit = Duration::from_millis(200);
    let asking: Vec<_> = (0..4 * limits::CHANNEL)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.request("x", ()).timeout(limit).await })
        })
        .collect();
    let mut deliveries = Vec::new();
    for asked in asking {
        let failure = asked.await.unwrap().unwrap_err();
        assert_eq!(failure.message, "Request timeout after 200ms");
        deliveries.push(failure.delivery);
    }
    assert_eq!(deliveries.last(), Some(&Delivery::NotDelivered), "it never left");
    assert_eq!(deliveries.first(), Some(&Delivery::Unknown));
}

#[tokio::test]
async fn a_dropped_request_is_cancelled_at_the_server() {
    let (client, mut far) = opened(Options::default()).await;
    let asking = tokio::spawn({
        let client = client.clone();
        async move { client.call("slow", ()).await }
    });
    let asked = far.hear().await;
    asking.abort();
    let told = far.hear().await;
    assert_eq!(told["method"], "notifications/cancelled");
    assert_eq!(told["params"]["requestId"], asked["id"]);
    // The answer comes all the same, and harms nobody.
    far.say(json!({"jsonrpc": "2.0", "id": asked["id"], "result": {}})).await;
    let pinging = tokio::spawn(async move { client.ping().await });
    far.answer(json!({})).await;
    assert_eq!(pinging.await.unwrap(), Ok(json!({})));
}

#[tokio::test]
async fn progress_is_told_and_counts_as_a_sign_of_life() {
    let (client, mut far) = opened(Options::default()).await;
    let asking = tokio::spawn(async move {
        let mut seen = Vec::new();
        let result = client
            .call("slow", json!({"a": 1}))
            .typed::<Value>()
            .timeout(Duration::from_millis(2000))
            .on_progress(|progress| seen.push((progress.progress, progress.message)))
            .await;
        (result, seen)
    });
    let asked = far.hear().await;
    assert_eq!(asked["params"]["_meta"]["progressToken"], asked["id"]);
    assert_eq!(asked["params"]["arguments"], json!({"a": 1}));
    for step in 1..=3 {
        tokio::time::sleep(Duration::from_millis(800)).await;
        let params = json!({"progressToken": asked["id"], "progress": step, "message": "on it"});
        far.say(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}))
            .await;
    }
    far.say(json!({"jsonrpc": "2.0", "id": asked["id"], "result": "done"})).await;
    let (result, seen) = asking.await.unwrap();
    assert_eq!(result, Ok(json!("done")));
    let expected = [1.0, 2.0, 3.0].map(|step| (step, Some("on it".to_owned())));
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn s1_14_s1_18_notifications_are_a_stream() {
    // S1-05, superseded: they are there for who asks for them, at any time.
    let (client, far) = opened(Options::default()).await;
    let mut notifications = client.notifications();
    for level in ["info", "error"] {
        let params = json!({"level": level});
        far.say(json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params}))
            .await;
    }
    for level in ["info", "error"] {
        let heard = notifications.next().await.unwrap();
        assert_eq!(
            (heard.method.as_str(), &heard.params["level"]),
            ("notifications/message", &json!(level))
        );
        assert_eq!(heard.missed, 0);
    }
    client.close().await;
    assert_eq!(notifications.next().await, None);
}

#[tokio::test]
async fn what_the_server_asks_is_answered_ping_by_itself() {
    let handler = |asked: ServerRequest| async move {
        match asked.method.as_str() {
            "roots/list" => Ok(json!({"roots": [asked.params]})),
            "never" => std::future::pending().await,
            "panic" => panic!("on purpose"),
            method => Err(RpcError::method_not_found(method)),
        }
    };
    let options = Options { handler: Some(Arc::new(handler)), ..Options::default() };
    let (_client, mut far) = opened(options).await;
    let ask = |id: &str, method: &str| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"p": 1}});
    far.say(ask("p", "ping")).await;
    assert_eq!(far.hear().await, json!({"jsonrpc": "2.0", "id": "p", "result": {}}));
    far.say(ask("r", "roots/list")).await;
    assert_eq!(far.hear().await["result"], json!({"roots": [{"p": 1}]}));
    far.say(ask("u", "unheard/of")).await;
    assert_eq!(far.hear().await["error"]["code"], -32601);
    far.say(ask("x", "panic")).await;
    assert_eq!(far.hear().await["error"]["code"], -32603, "a handler that fails is no silence");
    // One that the server takes back is dropped, and gets no answer.
    far.say(ask("n", "never")).await;
    let params = json!({"requestId": "n"});
    far.say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})).await;
    far.say(ask("q", "ping")).await;
    assert_eq!(far.hear().await["id"], "q");
}

#[tokio::test]
async fn without_a_handler_what_the_server_asks_is_refused() {
    let (_client, mut far) = opened(Options::default()).await;
    far.say(json!({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage"})).await;
    let answer = far.hear().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32601)));
}

#[tokio::test]
async fn lists_are_read_to_their_last_page_and_unknown_members_stay() {
    let (client, mut far) = opened(Options::default()).await;
    let listing = tokio::spawn({
        let client = client.clone();
        async move { client.tools().await }
    });
    let page = json!({"tools": [{"name": "a", "odd": {"n": 1}}, 7], "nextCursor": "2"});
    let asked = far.answer(page).await;
    assert!(asked.get("params").is_none(), "{asked}");
    let asked =
        far.answer(json!({"tools": [{"name": "b", "title": "B", "inputSchema": {}}]})).await;
    assert_eq!(asked["params"], json!({"cursor": "2"}));
    let tools = listing.await.unwrap().unwrap();
    let names: Vec<_> = tools.iter().map(|tool| (tool.name(), tool.title())).collect();
    assert_eq!(names, [("a", "a"), ("b", "B")]);
    assert_eq!(tools[0].0["odd"], json!({"n": 1}));
    assert_eq!((tools[0].schema(), tools[1].schema()), (&Value::Null, &json!({})));
}

#[tokio::test]
async fn a_list_that_goes_round_in_circles_has_an_end() {
    let (client, mut far) = opened(Options::default()).await;
    let listing = tokio::spawn(async move { client.prompts().await });
    for _ in 0..2 {
        far.answer(json!({"prompts": [{"name": "a"}], "nextCursor": "same"})).await;
    }
    let failure = listing.await.unwrap().unwrap_err();
    assert_eq!((failure.kind, failure.stage()), (ErrorKind::BadResponse, Stage::Decode));
}

#[tokio::test]
async fn s1_21_closing_fails_what_is_in_flight() {
    let (client, mut far) = opened(Options::default()).await;
    let asking = tokio::spawn({
        let client = client.clone();
        async move { client.request("x", ()).await }
    });
    far.hear().await;
    client.close().await;
    let failure = asking.await.unwrap().unwrap_err();
    assert_eq!(failure.message, "Transport closed");
    assert_eq!(failure.kind, ErrorKind::Closed);
    assert!(!client.is_connected());
    let late = client.request("y", ()).await.unwrap_err();
    assert_eq!(
        (late.message.as_str(), late.delivery),
        ("Transport closed", Delivery::NotDelivered)
    );
    assert_eq!(late.stage(), Stage::Send);
    assert!(client.notify("z", ()).await.is_err());
    assert_eq!(client.ended().await.message, "Transport closed");
}

#[tokio::test]
async fn s1_22_s1_28_a_link_that_ends_by_itself_fails_what_is_in_flight() {
    let (client, mut far) = opened(Options::default()).await;
    let asking = tokio::spawn({
        let client = client.clone();
        async move { client.request("x", ()).await }
    });
    far.hear().await;
    drop(far);
    assert_eq!(asking.await.unwrap().unwrap_err().message, "Transport closed");
    assert_eq!(client.ended().await.kind, ErrorKind::Closed);
}

#[tokio::test]
async fn the_last_handle_closes_the_link() {
    let (client, mut far) = opened(Options::default()).await;
    let other = client.clone();
    drop(client);
    other.notify("still/here", ()).await.unwrap();
    assert_eq!(far.hear().await["method"], "still/here");
    drop(other);
    assert_eq!(far.0.inbox.recv().await, None);
}

#[tokio::test]
async fn the_bridges_errors_say_what_they_are_and_those_of_servers_are_theirs() {
    let error = Error::new(ErrorKind::Connect, "away").hint("start it").not_delivered();
    let (client, mut far) = opened(Options::default()).await;
    let asking = tokio::spawn(async move {
        let ours = client.request("a", ()).await.unwrap_err();
        (ours, client.request("b", ()).await.unwrap_err())
    });
    let id = Id::from_json(&far.hear().await["id"].to_string()).unwrap();
    let ours = reply::error(Some(&id), &error);
    far.0.outbox.send(ours.clone()).await.unwrap();
    // A server can write the same.
    let mut theirs: Value = serde_json::from_slice(ours.bytes()).unwrap();
    theirs["id"] = far.hear().await["id"].clone();
    far.say(theirs).await;
    let (ours, theirs) = asking.await.unwrap();
    assert_eq!((ours.is_retryable(), ours.stage()), (true, Stage::Connect));
    assert_eq!(ours, error);
    assert_eq!((theirs.kind, theirs.hint.as_ref()), (ErrorKind::Rpc, None), "whatever it says");
    assert_eq!((theirs.delivery, theirs.is_retryable()), (Delivery::Unknown, false));
    assert_eq!(theirs.data(), ours.data());
    assert_eq!(theirs.to_string(), "MCP error -32000: away");
}

#[tokio::test]
async fn nothing_is_lost_before_connect_returns_and_errors_of_no_request_are_heard() {
    let (near, far) = memory::pair();
    let mut far = Far(far);
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let errors = told.clone();
    let connecting = Client::builder(near)
        .on_notification(move |notification| drop(told.send(notification.method)))
        .on_error(move |error| drop(errors.send(error.to_string())))
        .connect();
    let connecting = tokio::spawn(connecting);
    let initialize = far.hear().await;
    far.say(json!({"jsonrpc": "2.0", "method": "early"})).await;
    far.say(json!({"jsonrpc": "2.0", "id": initialize["id"], "result": {}})).await;
    far.say(json!({"jsonrpc": "2.0", "method": "late"})).await;
    let _client = connecting.await.unwrap().unwrap();
    let lost = json!({"code": -32600, "message": "what?"});
    far.say(json!({"jsonrpc": "2.0", "id": null, "error": lost})).await;
    drop(far);
    for expected in ["early", "late", "MCP error -32600: what?", "Transport closed"] {
        assert_eq!(heard.recv().await.as_deref(), Some(expected));
    }
}

#[tokio::test]
async fn capabilities_follow_from_the_handlers() {
    let (near, far) = memory::pair();
    let mut far = Far(far);
    let builder = Client::builder(near)
        .client_info("me", "1")
        .on_elicitation(|asked| async move { Ok(json!({"action": asked.params["action"]})) })
        .on_sampling(|_| async { Err(RpcError::new(-1, "no model")) })
        .roots(["file:///a"]);
    let connecting = tokio::spawn(builder.connect());
    let initialize = far.answer(json!({})).await;
    let announced = json!({"elicitation": {}, "sampling": {}, "roots": {}});
    assert_eq!(initialize["params"]["capabilities"], announced);
    assert_eq!(initialize["params"]["clientInfo"], json!({"name": "me", "version": "1"}));
    far.hear().await;
    let _client = connecting.await.unwrap().unwrap();
    let mut ask = async |method: &str, params: Value| {
        far.say(json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})).await;
        far.hear().await
    };
    let elicited = ask("elicitation/create", json!({"action": "decline"})).await;
    assert_eq!(elicited["result"], json!({"action": "decline"}));
    let sampled = ask("sampling/createMessage", json!({})).await;
    assert_eq!(sampled["error"], json!({"code": -1, "message": "no model"}));
    let roots = ask("roots/list", json!({})).await;
    assert_eq!(roots["result"], json!({"roots": [{"uri": "file:///a"}]}));
    let unknown = ask("other", json!({})).await;
    assert_eq!(unknown["error"]["code"], -32601);
}

#[tokio::test]
async fn a_wrong_url_or_header_is_the_error_of_connect() {
    let failed = async |builder: ClientBuilder| builder.connect().await.unwrap_err();
    let error = failed(Client::builder("nonsense").timeout(Duration::ZERO)).await;
    assert_eq!((error.kind, error.delivery), (ErrorKind::InvalidOptions, Delivery::NotDelivered));
    assert!(error.message.contains("'nonsense' is not a URL"), "{error}");
    let error = failed(Client::builder("http://localhost:1/").header("a b", "c")).await;
    assert_eq!(error.kind, ErrorKind::InvalidOptions, "{error}");
}

#[test]
fn kinds_have_stable_texts() {
    for kind in ["spawn", "tls", "bad-response", "login", "shutdown", "json-rpc"] {
        assert_eq!(serde_json::from_value::<ErrorKind>(json!(kind)).unwrap().to_string(), kind);
    }
}
