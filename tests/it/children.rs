//! Servers that are child processes, as the library starts, hears and ends them.

use std::time::{Duration, Instant};

use mcp_span::error::{Delivery, ErrorKind, Stage};
use mcp_span::secret::Secret;
use serde_json::{Value, json};

use crate::support::children::{Nursery, gone, is_there};
use crate::support::soon;

#[tokio::test]
async fn s1_19_nothing_is_started_before_somebody_connects() {
    let nursery = Nursery::new();
    let spec =
        mcp_span::client::Spec::child(nursery.settings("note started yes; hello; read -r l"));
    let connecting = mcp_span::Client::builder(spec);
    assert!(!nursery.path().join("started").exists());
    let client = connecting.connect().await.unwrap();
    assert_eq!(nursery.note("started").await, "yes");
    client.close().await;
}

#[tokio::test]
async fn s1_20_a_program_gets_its_arguments_variables_and_folder() {
    let nursery = Nursery::new();
    let mut settings = nursery.settings(r#"hello; read -r line; answer 2 "\"$0 $GREETING $PWD\"""#);
    settings.args.push("argument".into());
    settings.env.push(("GREETING".into(), Secret::new("hello")));
    let spec = mcp_span::client::Spec::child(settings);
    let client = mcp_span::Client::builder(spec).connect().await.unwrap();
    assert_eq!(client.server()["serverInfo"]["name"], "sh");
    let said = client.request("x", Value::Null).await.unwrap();
    let folder = nursery.path().canonicalize().unwrap();
    assert_eq!(said, json!(format!("argument hello {}", folder.display())));
    client.close().await;
}

#[tokio::test]
async fn s1_08_s1_10_requests_are_lines_and_notifications_come_through() {
    let nursery = Nursery::new();
    let client = nursery
        .client(
            r#"hello; read -r line; note asked "$line"
            printf '{"jsonrpc":"2.0","method":"notifications/message","params":{"data":1}}\n'
            answer 2 '{"n":1}'; read -r line"#,
        )
        .await;
    let mut notifications = client.notifications();
    assert_eq!(client.request("some/thing", json!({"a": "b\nc"})).await, Ok(json!({"n": 1})));
    let line = nursery.note("asked").await;
    let asked: Value = serde_json::from_str(&line).unwrap();
    let expected =
        json!({"jsonrpc": "2.0", "id": 2, "method": "some/thing", "params": {"a": "b\nc"}});
    assert_eq!(asked, expected);
    let heard = soon("a notification", notifications.next()).await.unwrap();
    assert_eq!(
        (heard.method.as_str(), heard.params),
        ("notifications/message", json!({"data": 1}))
    );
    client.close().await;
}

#[tokio::test]
async fn s1_26_malformed_lines_are_skipped() {
    let nursery = Nursery::new();
    let client = nursery
        .client(
            r#"echo "Server starting..."; hello; read -r line
            echo '{"jsonrpc":"2.0","id":2'; echo; printf '\377\n'; echo '[1,2]'; answer 2 '"well"'
            read -r line"#,
        )
        .await;
    assert_eq!(client.request("x", Value::Null).await, Ok(json!("well")));
    client.close().await;
}

#[tokio::test]
async fn s1_28_a_program_that_ends_fails_what_is_in_flight_and_says_why() {
    let nursery = Nursery::new();
    let client = nursery
        .client("hello; read -r line; echo 'out of paper' >&2; echo 'giving up' >&2; exit 7")
        .await;
    let failure = client.call("print", Value::Null).await.unwrap_err();
    assert!(failure.message.starts_with("Transport closed"), "{failure}");
    assert!(failure.message.contains("exit status: 7"), "{failure}");
    assert_eq!((failure.kind, failure.stage()), (ErrorKind::Closed, Stage::Receive));
    assert_eq!((failure.delivery, failure.is_retryable()), (Delivery::Unknown, false));
    let reason = failure.reason.unwrap();
    assert!(reason.contains("out of paper giving up"), "{reason}");
    let ended = soon("the end", client.ended()).await;
    assert!(ended.message.contains("exit status: 7"), "{ended}");
    let late = client.call("print", Value::Null).await.unwrap_err();
    assert_eq!((late.kind, late.delivery), (ErrorKind::Closed, Delivery::NotDelivered));
}

#[tokio::test]
async fn a_program_that_ends_before_it_has_answered_says_why_as_well() {
    let nursery = Nursery::new();
    let failure = nursery.try_client("echo 'no such module' >&2; exit 1").await.unwrap_err();
    assert!(failure.message.contains("exit status: 1"), "{failure}");
    assert!(failure.reason.unwrap().contains("no such module"));
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named_with_what_to_do() {
    let settings = mcp_span::transport::child::ChildSettings::new("no-such-program-here");
    let spec = mcp_span::client::Spec::child(settings);
    let failure = mcp_span::Client::builder(spec).connect().await.unwrap_err();
    assert!(failure.message.contains("'no-such-program-here' cannot be started"), "{failure}");
    assert_eq!((failure.kind, failure.stage()), (ErrorKind::Spawn, Stage::Connect));
    assert!(failure.hint.unwrap().contains("PATH"));
}

#[tokio::test]
async fn a_program_that_closes_its_stdout_has_left() {
    let nursery = Nursery::new();
    let client = nursery.client("hello; note pid $$; read -r line; exec >&-; sleep 1000").await;
    let pid = nursery.note("pid").await;
    let failure = soon("an end", async { client.request("x", Value::Null).await }).await;
    assert!(failure.unwrap_err().message.starts_with("Transport closed"));
    gone(&pid).await;
}

#[tokio::test]
async fn s1_21_closing_ends_the_program_by_its_stdin() {
    let nursery = Nursery::new();
    let client = nursery
        .client("note pid $$; hello; while read -r line; do :; done; note left politely")
        .await;
    let pid = nursery.note("pid").await;
    let asking = tokio::spawn({
        let client = client.clone();
        async move { client.request("x", Value::Null).await }
    });
    // It is on its way.
    tokio::task::yield_now().await;
    client.close().await;
    assert!(!is_there(&pid), "no zombie is left when close has ended");
    assert_eq!(nursery.note("left").await, "politely");
    assert_eq!(asking.await.unwrap().unwrap_err().message, "Transport closed");
}

#[tokio::test]
async fn a_program_that_does_not_leave_gets_sigterm_after_a_second() {
    let nursery = Nursery::new();
    let client = nursery
        .client(
            "trap 'note term yes; exit 0' TERM; note pid $$; hello; while :; do sleep 0.05; done",
        )
        .await;
    let pid = nursery.note("pid").await;
    let since = Instant::now();
    client.close().await;
    assert!(!is_there(&pid));
    assert!(since.elapsed() >= Duration::from_secs(1), "it had its time: {:?}", since.elapsed());
    assert_eq!(nursery.note("term").await, "yes");
}

#[tokio::test]
async fn a_program_that_ignores_sigterm_is_killed_after_two_seconds_with_all_it_has_started() {
    let nursery = Nursery::new();
    let client = nursery
        .client(
            "trap '' TERM; sleep 1000 & note grandchild $!; note pid $$; hello
            while :; do sleep 0.05; done",
        )
        .await;
    let (pid, grandchild) = (nursery.note("pid").await, nursery.note("grandchild").await);
    let since = Instant::now();
    client.close().await;
    assert!(since.elapsed() >= Duration::from_secs(2), "it had its time: {:?}", since.elapsed());
    assert!(!is_there(&pid));
    gone(&grandchild).await;
}

#[tokio::test]
async fn what_a_program_leaves_behind_goes_with_it() {
    // The grandchild holds stdout and stderr open; the end is seen all the same.
    let nursery = Nursery::new();
    let client =
        nursery.client("hello; sleep 1000 & note grandchild $!; read -r line; exit 3").await;
    let grandchild = nursery.note("grandchild").await;
    let failure = soon("an end", async { client.request("x", Value::Null).await }).await;
    assert!(failure.unwrap_err().message.contains("exit status: 3"));
    gone(&grandchild).await;
}

#[tokio::test]
async fn a_flood_on_stderr_holds_nothing_up() {
    let nursery = Nursery::new();
    let client = nursery
        .client(
            "hello; read -r line; yes 'all work and no play' | head -c 20000000 >&2
            head -c 3000000 /dev/zero | tr '\\0' x >&2; answer 2 '\"done\"'; read -r line",
        )
        .await;
    let result = soon("an answer", async { client.request("x", Value::Null).await }).await;
    assert_eq!(result, Ok(json!("done")));
    client.close().await;
}

#[tokio::test]
async fn a_client_that_is_dropped_takes_the_program_with_it() {
    let nursery = Nursery::new();
    let client = nursery.client("note pid $$; hello; while read -r line; do :; done").await;
    let pid = nursery.note("pid").await;
    drop(client);
    gone(&pid).await;
}

#[test]
fn a_runtime_that_ends_leaves_no_orphan() {
    let nursery = Nursery::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let script =
        "trap '' TERM HUP; sleep 1000 & note grandchild $!; hello; while :; do sleep 1; done";
    let grandchild = runtime.block_on(async {
        let client = nursery.client(script).await;
        let grandchild = nursery.note("grandchild").await;
        std::mem::forget(client);
        grandchild
    });
    drop(runtime);
    let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    other.block_on(gone(&grandchild));
}

#[tokio::test]
async fn a_request_that_is_given_up_is_cancelled_at_the_program() {
    // S1-25, superseded: the server learns of it.
    let nursery = Nursery::new();
    let client = nursery
        .client(
            "hello; read -r line; note asked yes; read -r line; note told \"$line\"; read -r line",
        )
        .await;
    let asking = tokio::spawn({
        let client = client.clone();
        async move { client.call("slow", Value::Null).await }
    });
    nursery.note("asked").await;
    asking.abort();
    let told: Value = serde_json::from_str(&nursery.note("told").await).unwrap();
    assert_eq!(told["method"], "notifications/cancelled");
    assert_eq!(told["params"]["requestId"], 2);
    client.close().await;
}

#[tokio::test]
async fn a_modern_program_is_spoken_to_as_well() {
    // It refuses `initialize` as 2026-07-28 has it; the bridge inside asks on.
    let nursery = Nursery::new();
    let script = r#"
        while read -r line; do
            id=$(printf '%s' "$line" | sed -n 's/.*"id":\("[^"]*"\|[0-9]*\).*/\1/p')
            case "$line" in
                *'"method":"initialize"'*)
                    printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"Unsupported","data":{"supported":["2026-07-28"],"requested":"2025-11-25"}}}\n' "$id";;
                *'"method":"server/discover"'*)
                    answer "$id" '{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"new","version":"1"}},"ttlMs":0,"cacheScope":"public"}';;
                *'"method":"tools/list"'*)
                    answer "$id" '{"resultType":"complete","tools":[{"name":"t","inputSchema":{"type":"object"}}],"ttlMs":0,"cacheScope":"public"}';;
            esac
        done"#;
    let client = nursery.client(script).await;
    assert_eq!(client.server()["serverInfo"]["name"], "new");
    let tools = soon("the tools", client.tools()).await.unwrap();
    assert_eq!(tools[0].name(), "t");
    client.close().await;
}

#[tokio::test]
async fn a_program_that_never_answers_the_handshake_does_not_outlive_it() {
    let nursery = Nursery::new();
    let mut spec = mcp_span::client::Spec::child(
        nursery.settings("note pid $$; while :; do sleep 0.05; done"),
    );
    let quick = Some(Duration::from_millis(300));
    let timeouts = mcp_span::limits::Timeouts { quick, work: quick };
    spec.set_timeouts(timeouts);
    let failure = mcp_span::Client::builder(spec).connect().await.unwrap_err();
    assert_eq!(failure.kind, ErrorKind::Timeout);
    assert!(!is_there(&nursery.note("pid").await), "it is gone when the failure is told");
}

#[tokio::test]
async fn a_program_whose_handshake_nobody_waits_for_any_more_is_ended() {
    let nursery = Nursery::new();
    let spec = mcp_span::client::Spec::child(
        nursery.settings("note pid $$; while :; do sleep 0.05; done"),
    );
    let connecting = tokio::spawn(mcp_span::Client::builder(spec).connect());
    let pid = nursery.note("pid").await;
    connecting.abort();
    gone(&pid).await;
}

#[tokio::test]
async fn a_requests_own_timeout_is_longer_than_the_links_over_pipes() {
    let nursery = Nursery::new();
    let script = r#"hello; n=2; while read -r line; do case "$line" in
        *cancelled*) ;;
        *) sleep 0.7; answer $n '{}'; n=$((n+1));;
    esac; done"#;
    let mut spec = mcp_span::client::Spec::child(nursery.settings(script));
    spec.set_timeouts(mcp_span::limits::Timeouts::all(Duration::from_millis(200)));
    let client = soon("a connection", mcp_span::Client::builder(spec).connect()).await.unwrap();
    let failure = soon("an end", async { client.call("x", ()).await }).await.unwrap_err();
    assert_eq!((failure.kind, failure.delivery), (ErrorKind::Timeout, Delivery::Unknown));
    let patient = async { client.call("x", ()).timeout(Duration::from_secs(60)).await };
    soon("an answer", patient).await.unwrap();
    client.close().await;
}
