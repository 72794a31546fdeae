//! The library's manager of many servers, with scripted servers and real child processes.

use std::time::{Duration, Instant};

use mcp_span::client::{Spec, Tool};
use mcp_span::manager::{
    CachedLists, ListKind, ManagedServer, Manager, ManagerOptions, ServerChange, ServerEvent,
    ServerEvents, ServerState,
};
use mcp_span::{Client, Delivery, ErrorKind};
use serde_json::{Value, json};

use crate::support::children::{Nursery, gone, is_there};
use crate::support::{Gate, PATIENCE, Reply, Request, Server, polite, result, soon};

/// A server that lives until it is told to `crash`; `mark` says how many it has had. Leaves word of
/// each start and of each call.
pub(crate) const SERVER: &str = r#"
mark=1; echo start >> starts; note pid $$; hello
while read -r line; do
    case $line in *'"id":'*) ;; *) continue ;; esac
    id=${line#*'"id":'}; id=${id%%[,\}]*}
    case $line in
        *'"tools/list"'*) answer "$id" '{"tools":[{"name":"tool-'$mark'"}]}' ;;
        *'"name":"crash"'*) echo call >> calls; exit 3 ;;
        *'"name":"change"'*)
            mark=$((mark + 1))
            printf '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'
            answer "$id" '{}' ;;
        *) answer "$id" '{"structuredContent":"'$$'"}' ;;
    esac
done
note left politely
"#;

pub(crate) fn server(spec: Spec) -> ManagedServer {
    ManagedServer::new(Client::builder(spec)).expect("a server")
}

pub(crate) fn child(nursery: &Nursery, script: &str) -> ManagedServer {
    server(Spec::child(nursery.settings(script)))
}

pub(crate) fn url(url: &str) -> ManagedServer {
    let mut spec = Spec::url(url.parse().expect("a URL"));
    spec.policy.away_wait = Duration::from_millis(300);
    server(spec)
}

/// The usual pauses, twenty times faster.
pub(crate) fn hasty() -> ManagerOptions {
    let mut options = ManagerOptions::default();
    options.retry.pauses = [25, 50, 100, 200].map(Duration::from_millis).into();
    options
}

fn lines(nursery: &Nursery, file: &str) -> usize {
    std::fs::read_to_string(nursery.path().join(file)).unwrap_or_default().lines().count()
}

pub(crate) fn tool(name: &str) -> Tool {
    let Value::Object(members) = json!({ "name": name }) else { unreachable!() };
    Tool(members)
}

/// The lists of a server that had this tool.
pub(crate) fn cached(name: &str) -> CachedLists {
    let mut cached = CachedLists::default();
    cached.tools = [tool(name)].into();
    cached
}

/// The tools of the only server, and whether they are current.
fn tools(manager: &Manager) -> (Vec<String>, bool) {
    let tools = manager.tools();
    let names = tools.iter().map(|tool| tool.tool.name().to_owned()).collect();
    (names, tools.iter().all(|tool| tool.is_current))
}

/// The next event of a manager that is open, for a reader that is quick.
pub(crate) async fn next(events: &mut ServerEvents) -> ServerEvent {
    events.next().await.expect("the manager is there").expect("nothing is missed")
}

/// Waits until `server` is in a state of this name.
pub(crate) async fn until(events: &mut ServerEvents, server: &str, state: &str) -> ServerState {
    let waiting = async {
        loop {
            let event = next(events).await;
            match event.change {
                ServerChange::State(now) if *event.server == *server && now.as_str() == state => {
                    return now;
                }
                _ => {}
            }
        }
    };
    soon(&format!("{server}: {state}"), waiting).await
}

/// Waits until the tools were listed anew.
pub(crate) async fn listed(events: &mut ServerEvents) {
    let waiting = async {
        while !matches!(next(events).await.change, ServerChange::List(ListKind::Tools)) {}
    };
    soon("a list of tools", waiting).await;
}

/// A polite server with one tool.
pub(crate) fn with_tool(request: &Request) -> Reply {
    match &*request.what() {
        "initialize" => {
            let answer = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#;
            Reply::json(result(request.id(), answer)).header("Mcp-Session-Id", "s1")
        }
        "tools/list" => Reply::json(result(request.id(), r#"{"tools":[{"name":"new"}]}"#)),
        _ => polite(request),
    }
}

#[tokio::test]
async fn s1_46_last_known_tools_are_there_at_once_and_marked_until_the_server_has_spoken() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = Server::start(move |request| match &*request.what() {
        "initialize" => with_tool(request).held(&held),
        _ => with_tool(request),
    })
    .await;
    let manager =
        Manager::start([("s", url(&server.url).cached(cached("old")))], ManagerOptions::default());
    let mut events = manager.events();
    assert_eq!(tools(&manager), (vec!["old".to_owned()], false));
    assert_eq!(manager.state("s"), Some(ServerState::Connecting { attempt: 1, why: None }));
    server.saw("initialize").await;
    assert!(!manager.settled(Duration::from_millis(10)).await, "it holds, and that is seen");
    gate.open();
    until(&mut events, "s", "ready").await;
    listed(&mut events).await;
    assert_eq!(tools(&manager), (vec!["new".to_owned()], true));
    assert_eq!(manager.cached_lists()["s"], cached("new"), "for the next run");
    soon("goodbye", manager.close()).await;
    assert_eq!(tools(&manager), (vec!["new".to_owned()], false));
    assert_eq!(manager.state("s"), Some(ServerState::Closed));
    server.saw("DELETE").await;
}

#[tokio::test]
async fn a_slow_server_holds_up_nobody_and_a_broken_one_says_why() {
    let hanging = Server::start(|_| Reply::nothing().hang()).await;
    let demo = mcp_span::demo::Demo::start().await.unwrap();
    let nursery = Nursery::new();
    let missing = mcp_span::transport::child::ChildSettings::new("no-such-program-here");
    let servers = [
        ("hanging", url(&hanging.url)),
        ("demo", url(demo.url().as_str())),
        ("child", child(&nursery, SERVER)),
        ("missing", server(Spec::child(missing))),
    ];
    let manager = Manager::start(servers, ManagerOptions::default());
    let sum = soon("a sum", manager.call_on("demo", "add", json!({"a": 1, "b": 2}))).await.unwrap();
    assert_eq!(sum.text(), "3");
    soon("a call", manager.call_on("child", "x", Value::Null)).await.unwrap();
    let failure = soon("an end", manager.call_on("missing", "x", Value::Null)).await.unwrap_err();
    assert_eq!((failure.kind, failure.delivery), (ErrorKind::Spawn, Delivery::NotDelivered));
    let states = manager.states();
    assert_eq!(states["hanging"].as_str(), "connecting");
    assert_eq!((&states["demo"], &states["child"]), (&ServerState::Ready, &ServerState::Ready));
    let why = states["missing"].why().unwrap();
    assert!(
        matches!(states["missing"], ServerState::Failed(_)),
        "what cannot heal is not tried again"
    );
    assert!(why.hint.as_ref().unwrap().contains("PATH"), "{why}");
    let unknown = manager.call_on("nobody", "x", Value::Null).await.unwrap_err();
    assert_eq!(unknown.hint.unwrap(), "Known servers: child, demo, hanging, missing");
    soon("goodbye", manager.close()).await;
    assert!(!is_there(&nursery.note("pid").await));
}

#[tokio::test]
async fn s1_45_a_crashed_program_is_restarted_and_its_call_is_not_repeated() {
    let nursery = Nursery::new();
    let manager = Manager::start([("c", child(&nursery, SERVER))], hasty());
    let mut events = manager.events();
    let first = soon("a call", manager.call_on("c", "x", Value::Null)).await.unwrap();
    let failure = soon("an end", manager.call_on("c", "crash", Value::Null)).await.unwrap_err();
    assert_eq!((failure.kind, failure.delivery), (ErrorKind::Closed, Delivery::Unknown));
    // Who asks at once waits for the restart.
    let second = soon("a call", manager.call_on("c", "x", Value::Null)).await.unwrap();
    let pid = |result: mcp_span::CallResult| result.structured::<String>().unwrap();
    assert_ne!(pid(first), pid(second));
    assert_eq!((lines(&nursery, "starts"), lines(&nursery, "calls")), (2, 1));
    until(&mut events, "c", "ready").await;
    let connecting = until(&mut events, "c", "connecting").await;
    assert!(connecting.why().unwrap().message.contains("exit status: 3"), "{connecting:?}");
    until(&mut events, "c", "ready").await;
    soon("goodbye", manager.close()).await;
}

#[tokio::test]
async fn a_call_over_a_connection_that_is_gone_is_made_over_the_next() {
    let nursery = Nursery::new();
    let manager = Manager::start([("c", child(&nursery, SERVER))], hasty());
    for _ in 0..3 {
        let client = soon("a connection", manager.client("c")).await.unwrap();
        // It ends under the manager's hands: whoever is told so first, the call arrives.
        client.close().await;
        soon("a call", manager.call_on("c", "x", Value::Null)).await.unwrap();
    }
    assert_eq!(lines(&nursery, "starts"), 4);
    soon("goodbye", manager.close()).await;
    assert_eq!(nursery.note("left").await, "politely");
}

#[tokio::test]
async fn a_program_that_does_not_stay_up_is_left_alone() {
    let nursery = Nursery::new();
    let script = "echo start >> starts; hello; echo 'no paper' >&2; exit 4";
    let manager = Manager::start([("c", child(&nursery, script))], hasty());
    let mut events = manager.events();
    let suspended = until(&mut events, "c", "suspended").await;
    assert!(suspended.why().unwrap().message.contains("exit status: 4"), "{suspended:?}");
    assert_eq!(lines(&nursery, "starts"), 6, "once, and five times more in half a minute");
    let failure = soon("an end", manager.call_on("c", "x", Value::Null)).await.unwrap_err();
    assert!(failure.message.contains("suspended"), "{failure}");
    assert_eq!(lines(&nursery, "starts"), 6);
    soon("a try", manager.reconnect("c")).await.ok();
    assert!(lines(&nursery, "starts") > 6, "who says so has it tried again");
    soon("goodbye", manager.close()).await;
}

#[tokio::test]
async fn a_program_that_ends_before_it_is_up_is_started_five_times() {
    let nursery = Nursery::new();
    let manager = Manager::start([("c", child(&nursery, "echo start >> starts; exit 5"))], hasty());
    let mut events = manager.events();
    let waiting = manager.client("c");
    let failure = soon("an end", waiting).await.unwrap_err();
    assert!(failure.message.contains("exit status: 5"), "{failure}");
    assert_eq!(failure.delivery, Delivery::NotDelivered);
    until(&mut events, "c", "failed").await;
    assert_eq!(lines(&nursery, "starts"), 5);
    soon("goodbye", manager.close()).await;
}

#[tokio::test]
async fn many_callers_share_one_try() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = Server::start(move |request| match &*request.what() {
        "initialize" => with_tool(request).held(&held),
        _ => with_tool(request),
    })
    .await;
    let manager = Manager::start([("s", url(&server.url))], ManagerOptions::default());
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let manager = manager.clone();
        calls.spawn(async move { manager.call_on("s", "x", Value::Null).await });
    }
    server.saw("initialize").await;
    gate.open();
    for result in soon("all answers", calls.join_all()).await {
        result.unwrap();
    }
    assert_eq!(server.all("initialize").len(), 1);
    assert_eq!(server.all("tools/call").len(), 50);
    soon("goodbye", manager.close()).await;
}

#[tokio::test]
async fn a_remote_server_that_goes_away_is_degraded_and_comes_back_by_itself() {
    let server = Server::start(with_tool).await;
    let address = server.url["http://".len()..].trim_end_matches("/mcp").parse().unwrap();
    let manager = Manager::start([("s", url(&server.url))], hasty());
    let mut events = manager.events();
    soon("a call", manager.call_on("s", "x", Value::Null)).await.unwrap();
    listed(&mut events).await;
    server.stop().await;
    let failure = soon("an end", manager.call_on("s", "x", Value::Null)).await.unwrap_err();
    assert_eq!(failure.delivery, Delivery::NotDelivered);
    let degraded = until(&mut events, "s", "degraded").await;
    assert_eq!(degraded.why().unwrap().kind, failure.kind);
    assert_eq!(tools(&manager), (vec!["new".to_owned()], false), "known, but in doubt");
    let server = Server::start_at(address, with_tool).await;
    // Nobody calls: it is looked for.
    until(&mut events, "s", "ready").await;
    listed(&mut events).await;
    assert_eq!(tools(&manager), (vec!["new".to_owned()], true));
    assert!(server.all("initialize").is_empty(), "the link below has healed itself");
    soon("goodbye", manager.close()).await;
}

#[tokio::test]
async fn a_remote_server_that_is_not_there_yet_is_tried_with_growing_pauses() {
    let server = Server::start(with_tool).await;
    let (text, address) = (server.url.clone(), server.url["http://".len()..].to_owned());
    let address = address.trim_end_matches("/mcp").parse().unwrap();
    server.stop().await;
    let manager = Manager::start([("s", url(&text))], hasty());
    let mut events = manager.events();
    let waiting = async {
        loop {
            let ServerState::Connecting { attempt, why } =
                until(&mut events, "s", "connecting").await
            else {
                unreachable!()
            };
            if attempt > 1 {
                return why;
            }
        }
    };
    let why = soon("a second try", waiting).await;
    assert_eq!(why.unwrap().kind, ErrorKind::Connect, "the reason is known at once");
    let _server = Server::start_at(address, with_tool).await;
    // Also if the quick tries are over by now: who calls has it tried.
    let calling = async {
        while let Err(failure) = manager.call_on("s", "x", Value::Null).await {
            assert_eq!(failure.delivery, Delivery::NotDelivered);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    soon("a call", calling).await;
    soon("goodbye", manager.close()).await;
}

#[tokio::test]
async fn a_remote_server_that_had_been_there_is_tried_quietly_until_it_is_back() {
    let server = Server::start(with_tool).await;
    let address = server.url["http://".len()..].trim_end_matches("/mcp").parse().unwrap();
    let mut options = hasty();
    options.retry.slow_pause = Duration::from_millis(50);
    options.retry.max_reconnects = 1000;
    let manager = Manager::start([("s", url(&server.url))], options);
    let mut events = manager.events();
    soon("a call", manager.call_on("s", "x", Value::Null)).await.unwrap();
    server.stop().await;
    let failure = soon("an end", manager.reconnect("s")).await.unwrap_err();
    assert_eq!((failure.kind, failure.is_retryable()), (ErrorKind::Connect, true));
    until(&mut events, "s", "failed").await;
    let server = Server::start_at(address, with_tool).await;
    until(&mut events, "s", "ready").await;
    assert_eq!(server.all("initialize").len(), 1);
    soon("goodbye", manager.close()).await;
}

#[tokio::test]
async fn a_server_that_does_not_list_its_tools_is_ready_with_those_last_known() {
    let server = Server::start(|request| match &*request.what() {
        "tools/list" => {
            let error = r#"{"code":-32603,"message":"not today"}"#;
            let id = request.id();
            Reply::json(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#))
        }
        _ => with_tool(request),
    })
    .await;
    let manager =
        Manager::start([("s", url(&server.url).cached(cached("old")))], ManagerOptions::default());
    assert!(manager.settled(PATIENCE).await, "there is nothing more to wait for");
    assert_eq!(tools(&manager), (vec!["old".to_owned()], false));
    soon("a call", manager.call_on("s", "x", Value::Null)).await.unwrap();
    assert_eq!(manager.state("s"), Some(ServerState::Ready));
    soon("goodbye", manager.close()).await;
}

#[tokio::test]
async fn tools_that_have_changed_are_listed_anew() {
    let nursery = Nursery::new();
    let manager = Manager::start([("c", child(&nursery, SERVER))], ManagerOptions::default());
    let mut events = manager.events();
    assert!(manager.settled(PATIENCE).await);
    assert_eq!(tools(&manager), (vec!["tool-1".to_owned()], true));
    listed(&mut events).await;
    soon("a call", manager.call_on("c", "change", Value::Null)).await.unwrap();
    listed(&mut events).await;
    assert_eq!(tools(&manager), (vec!["tool-2".to_owned()], true));
    soon("goodbye", manager.close()).await;
}

#[tokio::test]
async fn servers_come_and_go_while_others_work() {
    let nursery = Nursery::new();
    let manager = Manager::start([("a", child(&nursery, SERVER))], ManagerOptions::default());
    let other = Nursery::new();
    assert!(manager.add("b", child(&other, SERVER)));
    assert!(!manager.add("b", child(&other, SERVER)), "a name is taken once");
    soon("a call", manager.call_on("b", "x", Value::Null)).await.unwrap();
    let pid = other.note("pid").await;
    assert!(soon("goodbye", manager.remove("b")).await);
    assert!(!is_there(&pid) && manager.state("b").is_none());
    assert!(!manager.remove("b").await);
    soon("a call", manager.call_on("a", "x", Value::Null)).await.unwrap();
    let mut events = manager.events();
    soon("goodbye", manager.close()).await;
    until(&mut events, "a", "closed").await;
    assert!(events.next().await.is_none(), "and that was all");
    assert!(!manager.add("c", child(&other, SERVER)), "what is closed stays closed");
    let failure = soon("an end", manager.call_on("a", "x", Value::Null)).await.unwrap_err();
    assert_eq!((failure.kind, failure.delivery), (ErrorKind::Closed, Delivery::NotDelivered));
}

#[tokio::test]
async fn closing_ends_programs_that_do_not_want_to_side_by_side() {
    let nurseries: Vec<_> = (0..4).map(|_| Nursery::new()).collect();
    let stubborn = "trap '' TERM; note pid $$; while :; do sleep 0.05; done";
    let polite = format!("trap '' TERM; {SERVER}; while :; do sleep 0.05; done");
    let scripts = [stubborn, stubborn, &polite, &polite];
    let servers = nurseries
        .iter()
        .zip(scripts)
        .enumerate()
        .map(|(number, (nursery, script))| (number.to_string(), child(nursery, script)));
    let manager = Manager::start(servers, ManagerOptions::default());
    let mut pids = Vec::new();
    for nursery in &nurseries {
        pids.push(nursery.note("pid").await);
    }
    for name in ["2", "3"] {
        soon("a call", manager.call_on(name, "x", Value::Null)).await.unwrap();
    }
    let waiting = tokio::spawn({
        let manager = manager.clone();
        async move { manager.client("0").await }
    });
    tokio::task::yield_now().await;
    let start = Instant::now();
    soon("goodbye", manager.close()).await;
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    assert!(!pids.iter().any(|pid| is_there(pid)), "no zombie is left when close has ended");
    let failure = soon("an answer", waiting).await.unwrap().unwrap_err();
    assert_eq!(failure.delivery, Delivery::NotDelivered);
}

#[tokio::test]
async fn dropping_is_closing() {
    let nursery = Nursery::new();
    let manager = Manager::start([("c", child(&nursery, SERVER))], ManagerOptions::default());
    soon("a call", manager.call_on("c", "x", Value::Null)).await.unwrap();
    let pid = nursery.note("pid").await;
    drop(manager);
    gone(&pid).await;
    assert_eq!(nursery.note("left").await, "politely");
}
