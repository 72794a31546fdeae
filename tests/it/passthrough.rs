//! Bytes out are bytes in, both ways.

use crate::support::{Bridge, Gate, Reply, Server, polite, request, result};

/// Things that a bridge which parses and writes again would change.
const ODD: &str = concat!(
    r#"{"zeta":1,"alpha":2,"n":123456789012345678901234567890,"f":1.0,"e":1e2,"m":-0,"#,
    r#""u":"\u00e9\/\ud83e\udd80","raw":"é/🦀","sep":""#,
    "\u{2028}\u{2029}",
    r#"","deep":[[[[{"x":[]}]]]],"dup":{"a":1,"a":2},"blank" : [ 1 , 2 ]}"#
);

#[tokio::test]
async fn requests_and_answers_keep_every_byte() {
    // S0-03, S0-07, S0-14, C15
    let server = Server::start(|r| Reply::json(result(r.id(), ODD))).await;
    let mut bridge = Bridge::start(&[&server.url]);
    let line =
        format!(r#"{{"params":{ODD},"novel":true,"method":"x/unknown","id":1,"jsonrpc":"2.0"}}"#);
    bridge.send(&line).await;
    assert_eq!(bridge.line().await, result(1, ODD));
    assert_eq!(server.saw("x/unknown").await.text(), line);
}

#[tokio::test]
async fn events_keep_every_byte_and_their_order() {
    // S0-11, S0-16, S1-10, S1-14, S2-12, S4-10
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => Reply::sse()
            .event(format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{ODD}}}"#
            ))
            .event(r#"{"method":"notifications/message","jsonrpc":"2.0"}"#)
            .event(format!(r#"{{"result":{ODD}, "jsonrpc":"2.0","id":{}}}"#, r.id()))
            .end(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    bridge.send(request(1, "tools/call")).await;
    let progress =
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{ODD}}}"#);
    assert_eq!(bridge.line().await, progress);
    assert_eq!(bridge.line().await, r#"{"method":"notifications/message","jsonrpc":"2.0"}"#);
    assert_eq!(bridge.line().await, format!(r#"{{"result":{ODD}, "jsonrpc":"2.0","id":1}}"#));
}

#[tokio::test]
async fn what_spans_lines_becomes_one_line() {
    // C15: pretty-printed bodies and multi-line data.
    let pretty =
        "{\n  \"jsonrpc\": \"2.0\",\r\n  \"id\": 1,\n  \"result\": { \"t\": \"a\\nb\" }\n}\n";
    let server = Server::start(move |r| match &*r.what() {
        "json" => Reply::json(pretty),
        _ => Reply::sse()
            .chunk("data: {\"jsonrpc\":\"2.0\",\ndata:\"id\":2,\ndata: \"result\":{}}\n\n")
            .end(),
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    bridge.send(request(1, "json")).await;
    let expected = pretty.trim().replace(['\r', '\n'], " ");
    assert_eq!(bridge.line().await, expected);
    bridge.send(request(2, "events")).await;
    assert_eq!(bridge.line().await, r#"{"jsonrpc":"2.0", "id":2, "result":{}}"#);
}

#[tokio::test]
async fn every_odd_but_legal_event_stream_is_read() {
    // S0-10, S4-17, C17, C18; section 7, 2.
    let text = "ä日🦀";
    let bodies: Vec<Vec<u8>> = vec![
        format!("data:{}\n\n", result(1, &format!("\"{text}\""))).into_bytes(),
        format!("data: {}\r\n\r\n", result(1, &format!("\"{text}\""))).into_bytes(),
        format!("data: {}\r\r", result(1, &format!("\"{text}\""))).into_bytes(),
        format!(
            "\u{feff}: hello\n\nevent: x\nid: 7\ndata: {}\n\n",
            result(1, &format!("\"{text}\""))
        )
        .into_bytes(),
        format!(
            "event: message\ndata: \n\nretry: 5\n\ndata: {}\n\n",
            result(1, &format!("\"{text}\""))
        )
        .into_bytes(),
    ];
    for body in bodies {
        for split in [1, 7, 10_000] {
            let pieces: Vec<Vec<u8>> = body.chunks(split).map(<[u8]>::to_vec).collect();
            let server =
                Server::start(move |_| pieces.iter().fold(Reply::sse(), Reply::chunk).end()).await;
            let mut bridge = Bridge::start(&[&server.url]);
            let answer = bridge.ask(request(1, "a")).await;
            assert_eq!(answer["result"], text, "{body:?} in pieces of {split}");
        }
    }
}

#[tokio::test]
async fn arrays_from_the_server_become_one_line_for_each_element() {
    // C25
    let server = Server::start(|r| {
        let array =
            format!(r#"[{{"jsonrpc":"2.0","method":"notifications/x"}},{}]"#, result(r.id(), "{}"));
        if r.what() == "json" { Reply::json(array) } else { Reply::sse().event(array).end() }
    })
    .await;
    let mut bridge = Bridge::start(&[&server.url]);
    for (id, method) in [(1, "json"), (2, "events")] {
        bridge.send(request(id, method)).await;
        assert_eq!(bridge.line().await, r#"{"jsonrpc":"2.0","method":"notifications/x"}"#);
        assert_eq!(bridge.line().await, result(id, "{}"));
    }
}

#[tokio::test]
async fn requests_of_the_server_reach_the_client_and_its_answers_go_back() {
    // b.2: sampling, elicitation, roots and ping on a POST's stream; id 0 is an id.
    let gate = Gate::new();
    let held = gate.clone();
    let server = Server::start(move |r| match &*r.what() {
        "tools/call" => Reply::sse()
            .event(r#"{"jsonrpc":"2.0","id":0,"method":"sampling/createMessage","params":{}}"#)
            .event(r#"{"jsonrpc":"2.0","id":"e","method":"elicitation/create","params":{}}"#)
            .event(r#"{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}"#)
            .wait(&held)
            .event(result(r.id(), "{}"))
            .end(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    bridge.send(request(1, "tools/call")).await;
    for (id, method) in [("0", "sampling/createMessage"), ("\"e\"", "elicitation/create")] {
        let asked = bridge.receive().await;
        assert_eq!((asked["id"].to_string().as_str(), &asked["method"]), (id, &method.into()));
    }
    assert_eq!(bridge.receive().await["method"], "ping");
    let odd = format!(r#"{{"result":{ODD},"id":0, "jsonrpc":"2.0"}}"#);
    bridge.send(&odd).await;
    bridge.send(r#"{"jsonrpc":"2.0","id":"e","error":{"code":-1,"message":"no"}}"#).await;
    // A client that reads numbers as doubles gives back a rounded id.
    bridge.send(result("9007199254740992", "{}")).await;
    server.saw_count("POST", 3).await;
    gate.open();
    assert_eq!(bridge.receive().await["id"], 1);
    let mut answers: Vec<String> = server.all("POST").iter().map(|r| r.text().to_owned()).collect();
    answers.sort();
    let mut expected = vec![
        odd,
        r#"{"jsonrpc":"2.0","id":"e","error":{"code":-1,"message":"no"}}"#.to_owned(),
        result("9007199254740993", "{}"),
    ];
    expected.sort();
    assert_eq!(answers, expected);
}

#[tokio::test]
async fn an_answer_that_nobody_waits_for_is_dropped_in_either_direction() {
    // S1-11
    let server = Server::start(|r| match &*r.what() {
        "tools/call" => Reply::sse()
            .event(result(999, "{}"))
            .event(result(r.id(), "{}"))
            .event(result(r.id(), "\"again\""))
            .end(),
        _ => polite(r),
    })
    .await;
    let mut bridge = Bridge::ready(&[&server.url]).await;
    bridge.send(result(77, "{}")).await;
    assert_eq!(bridge.ask(request(1, "tools/call")).await["id"], 1);
    assert_eq!(bridge.ask(request(2, "a")).await["id"], 2);
    assert!(server.all("POST").is_empty(), "the server asked nothing");
    let (rest, _, stderr) = bridge.finish().await;
    assert_eq!((rest.len(), stderr.as_str()), (0, ""));
}

#[tokio::test]
async fn errors_of_the_server_pass_as_they_are() {
    // S2-18, S1-37
    let error =
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no","data":{"x":1e5}}}"#;
    let server = Server::start(move |_| Reply::json(error)).await;
    let mut bridge = Bridge::start(&[&server.url]);
    bridge.send(request(1, "a")).await;
    assert_eq!(bridge.line().await, error);
}
