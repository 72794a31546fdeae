//! What subscribers of a manager learn: notifications across reconnects, lists, and what they missed.

use mcp_span::Notification;
use mcp_span::manager::{Lagged, ListKind, Manager, ManagerOptions, ServerChange, ServerEvents};
use serde_json::{Value, json};

use crate::manager::{child, hasty, listed, next, until, url, with_tool};
use crate::support::children::Nursery;
use crate::support::{Feed, PATIENCE, Reply, Server, result, soon};

/// Sends notifications before it answers a call: `n` of them, or one and then no answer at all.
const TALKATIVE: &str = r#"
say() { printf '{"jsonrpc":"2.0","method":"notifications/message","params":{"data":%s}}\n' "$1"; }
hello
while read -r line; do
    case $line in *'"id":'*) ;; *) continue ;; esac
    id=${line#*'"id":'}; id=${id%%[,\}]*}
    case $line in
        *'"n":'*)
            n=${line#*'"n":'}; n=${n%%[,\}]*}
            while [ "$n" -gt 0 ]; do say "$n"; n=$((n - 1)); done ;;
        *'"name":"crash"'*) say '"crash"'; exit 3 ;;
    esac
    answer "$id" '{"tools":[]}'
done
"#;

/// The next notification of any server.
async fn notified(events: &mut ServerEvents) -> (String, Notification) {
    let waiting = async {
        loop {
            let event = next(events).await;
            if let ServerChange::Notification(notification) = event.change {
                return (event.server.to_string(), notification);
            }
        }
    };
    soon("a notification", waiting).await
}

fn message(data: &Value) -> String {
    json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": data}})
        .to_string()
}

#[tokio::test]
async fn notifications_of_all_servers_go_on_after_a_server_was_started_again() {
    let nursery = Nursery::new();
    let feed = Feed::new();
    let stream = feed.clone();
    let server = Server::start(move |request| match &*request.what() {
        "GET" => Reply::sse().feed(&stream),
        _ => with_tool(request),
    })
    .await;
    let servers = [("near", child(&nursery, TALKATIVE)), ("far", url(&server.url))];
    let manager = Manager::start(servers, hasty());
    let mut events = manager.events();
    for number in 1..=3 {
        until(&mut events, "near", "ready").await;
        soon("a call", manager.call_on("near", "say", json!({"n": 1}))).await.unwrap();
        let (server, notification) = notified(&mut events).await;
        assert_eq!((&*server, &notification.params["data"]), ("near", &json!(1)));
        // The last word of a program counts as well.
        soon("an end", manager.call_on("near", "crash", Value::Null)).await.unwrap_err();
        let (server, notification) = notified(&mut events).await;
        assert_eq!((&*server, &notification.params["data"]), ("near", &json!("crash")));
        feed.event(message(&json!({ "round": number })));
        let (server, notification) = notified(&mut events).await;
        assert_eq!((&*server, &*notification.method), ("far", "notifications/message"));
        assert_eq!(notification.params["data"]["round"], number);
    }
    soon("goodbye", manager.close()).await;
    let ending = async { while events.next().await.is_some() {} };
    soon("the end of the events", ending).await;
}

#[tokio::test]
async fn what_a_server_says_during_the_handshake_is_heard() {
    let nursery = Nursery::new();
    let script = r#"
say() { printf '{"jsonrpc":"2.0","method":"notifications/message","params":{"data":%s}}\n' "$1"; }
read -r line
answer 1 '{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"sh","version":"0"}}'
say 1
say 2
read -r line
say 3
cat > /dev/null
"#;
    let manager = Manager::start([("s", child(&nursery, script))], ManagerOptions::default());
    let mut events = manager.events();
    for number in 1..=3 {
        assert_eq!(notified(&mut events).await.1.params["data"], number);
    }
    soon("goodbye", manager.close()).await;
}

#[tokio::test]
async fn a_slow_subscriber_learns_how_many_events_it_has_missed_and_a_quick_one_has_them_all() {
    const MANY: u64 = 3000;
    let nursery = Nursery::new();
    let manager = Manager::start([("s", child(&nursery, TALKATIVE))], ManagerOptions::default());
    let (mut slow, mut quick) = (manager.events(), manager.events());
    let reading = tokio::spawn(async move {
        let mut count = 0;
        loop {
            let (_, notification) = notified(&mut quick).await;
            count += 1 + notification.missed;
            if notification.params["data"] == "crash" {
                return count;
            }
        }
    });
    soon("a call", manager.call_on("s", "say", json!({ "n": MANY }))).await.unwrap();
    soon("an end", manager.call_on("s", "crash", Value::Null)).await.unwrap_err();
    assert_eq!(soon("all of them", reading).await.unwrap(), MANY + 1);
    let Some(Err(Lagged(lagged))) = slow.next().await else { panic!("nothing was missed") };
    let mut count = lagged;
    let reading = async {
        loop {
            let event = next(&mut slow).await;
            count += 1;
            if let ServerChange::Notification(notification) = event.change {
                count += notification.missed;
                if notification.params["data"] == "crash" {
                    return;
                }
            }
        }
    };
    soon("the rest", reading).await;
    assert!(count > MANY, "each event is read or counted: {count}");
    soon("goodbye", manager.close()).await;
}

#[tokio::test]
async fn resource_templates_are_listed_anew_when_resources_have_changed() {
    let feed = Feed::new();
    let stream = feed.clone();
    let server = Server::start(move |request| match &*request.what() {
        "GET" => Reply::sse().feed(&stream),
        "initialize" => {
            let answer = r#"{"protocolVersion":"2025-06-18","capabilities":{"resources":{}},"serverInfo":{"name":"s","version":"1"}}"#;
            Reply::json(result(request.id(), answer)).header("Mcp-Session-Id", "s1")
        }
        "resources/list" => Reply::json(result(request.id(), r#"{"resources":[{"uri":"a:b"}]}"#)),
        "resources/templates/list" => Reply::json(result(
            request.id(),
            r#"{"resourceTemplates":[{"name":"t","uriTemplate":"a:{x}"}]}"#,
        )),
        _ => with_tool(request),
    })
    .await;
    let manager = Manager::start([("s", url(&server.url))], ManagerOptions::default());
    assert!(manager.settled(PATIENCE).await);
    let mut events = manager.events();
    let templates = manager.resource_templates().remove(0);
    assert_eq!((&*templates.server, templates.is_current), ("s", true));
    assert_eq!(templates.items[0].pattern(), "a:{x}");
    assert_eq!(manager.resources()[0].items[0].uri(), "a:b");
    assert_eq!(manager.cached_lists()["s"].resource_templates, templates.items);
    assert!(
        manager.tools().is_empty() && manager.prompts()[0].is_current,
        "nothing is current, too"
    );
    server.saw("GET").await;
    feed.event(r#"{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}"#);
    let (_, notification) = notified(&mut events).await;
    assert_eq!(notification.method, "notifications/resources/list_changed");
    let relisting = async {
        let mut kinds = Vec::new();
        while kinds.len() < 2 {
            if let ServerChange::List(kind) = next(&mut events).await.change {
                kinds.push(kind);
            }
        }
        assert!(kinds.contains(&ListKind::Resources), "{kinds:?}");
        assert!(kinds.contains(&ListKind::ResourceTemplates), "{kinds:?}");
    };
    soon("both lists", relisting).await;
    assert_eq!(server.all("resources/templates/list").len(), 2);
    soon("goodbye", manager.close()).await;
}

#[tokio::test]
async fn a_subscriber_that_comes_late_hears_what_happens_from_then_on() {
    let server = Server::start(with_tool).await;
    let manager = Manager::start([("s", url(&server.url))], ManagerOptions::default());
    assert!(manager.settled(PATIENCE).await);
    let mut events = manager.events();
    soon("a connection", manager.reconnect("s")).await.unwrap();
    let event = next(&mut events).await;
    assert!(matches!(event.change, ServerChange::State(_)), "{event:?}");
    until(&mut events, "s", "ready").await;
    listed(&mut events).await;
    soon("goodbye", manager.close()).await;
}

#[tokio::test]
async fn subscriptions_go_on_after_a_server_was_started_again() {
    let nursery = Nursery::new();
    let script = r#"
hello
while read -r line; do
    case $line in *'"id":'*) ;; *) continue ;; esac
    id=${line#*'"id":'}; id=${id%%[,\}]*}
    case $line in
        *'"resources/subscribe"'*)
            printf '{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b"}}\n' ;;
        *'"name":"crash"'*) exit 3 ;;
    esac
    answer "$id" '{"tools":[]}'
done
"#;
    let manager = Manager::start([("s", child(&nursery, script))], hasty());
    let mut events = manager.events();
    soon("a subscription", manager.subscribe("s", "a:b")).await.unwrap();
    for _ in 0..2 {
        let (_, notification) = notified(&mut events).await;
        assert_eq!(notification.params["uri"], "a:b");
        soon("an end", manager.call_on("s", "crash", Value::Null)).await.unwrap_err();
    }
    let (_, notification) = notified(&mut events).await;
    assert_eq!(notification.params["uri"], "a:b");
    soon("an answer", manager.unsubscribe("s", "a:b")).await.unwrap();
    soon("an end", manager.call_on("s", "crash", Value::Null)).await.unwrap_err();
    until(&mut events, "s", "connecting").await;
    until(&mut events, "s", "ready").await;
    soon("a call", manager.call_on("s", "x", Value::Null)).await.unwrap();
    soon("goodbye", manager.close()).await;
    while let Some(event) = events.next().await {
        assert!(!matches!(event.unwrap().change, ServerChange::Notification(_)), "nobody wants it");
    }
}
