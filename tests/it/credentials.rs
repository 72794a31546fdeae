//! Tokens from variables, files and commands: used, renewed when the server refuses them, and never
//! shown.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Bridge, Gate, Hub, Reply, Request, Server, polite, request, result, run};

/// A token that the server takes, until the test changes it.
#[derive(Clone)]
struct Taken(Arc<Mutex<String>>);

impl Taken {
    fn new(token: &str) -> Self {
        Self(Arc::new(Mutex::new(token.to_owned())))
    }

    fn set(&self, token: &str) {
        *self.0.lock().unwrap() = token.to_owned();
    }

    fn allows(&self, request: &Request) -> bool {
        let expected = format!("Bearer {}", self.0.lock().unwrap());
        request.header("authorization") == Some(&expected)
    }
}

/// Refuses what has not the right token, and echoes what it got.
fn guarded(taken: &Taken) -> impl Fn(&Request) -> Reply + Send + Sync + 'static {
    let taken = taken.clone();
    move |r| match taken.allows(r) {
        true => polite(r),
        false => {
            let got = r.header("authorization").unwrap_or("nothing");
            Reply::status(401, "text/plain", format!("not good: {got}"))
                .header("WWW-Authenticate", "Bearer realm=\"x\"")
        }
    }
}

/// A command that prints the content of `token` and counts its runs in `runs`.
struct Printer {
    folder: tempfile::TempDir,
}

impl Printer {
    fn new(token: &str) -> Self {
        let printer = Self { folder: tempfile::tempdir().unwrap() };
        printer.set(token);
        printer
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn set(&self, token: &str) {
        replace(&self.path("token"), token);
    }

    fn command(&self) -> String {
        let script = self.path("print");
        let text = format!(
            "echo run >> '{}'\ncat '{}'\n",
            self.path("runs").display(),
            self.path("token").display()
        );
        std::fs::write(&script, text).unwrap();
        format!("sh '{}'", script.display())
    }

    fn runs(&self) -> usize {
        std::fs::read_to_string(self.path("runs")).map_or(0, |text| text.lines().count())
    }
}

/// As those do it who replace tokens: never half a file.
fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(&new, path).unwrap();
}

#[tokio::test]
async fn lesson_15_a_variable_holds_the_token() {
    let server = Server::start(guarded(&Taken::new("from-the-variable"))).await;
    let args = [&*server.url, "--bearer-env", "MY_TOKEN"];
    let mut bridge = Bridge::start_with(&args, &[("MY_TOKEN", "from-the-variable")]);
    bridge.handshake().await;
    assert!(bridge.ask(request(1, "a")).await["result"].is_object());
    let (_, _, stderr) = bridge.finish().await;
    assert_eq!(stderr, "");
    assert_eq!(server.all("DELETE").len(), 1, "with the token as well");
}

#[tokio::test]
async fn a_file_that_was_replaced_is_read_again_and_nobody_notices() {
    // peers b 29: tokens of Kubernetes
    let taken = Taken::new("token-one");
    let server = Server::start(guarded(&taken)).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    replace(&file, "token-one\n");
    let args = [&*server.url, "--bearer-file", file.to_str().unwrap(), "--no-server-stream"];
    let mut bridge = Bridge::ready(&args).await;
    for (n, token) in ["token-two", "token-three"].into_iter().enumerate() {
        replace(&file, token);
        taken.set(token);
        let lines: String = (0..20).map(|id| request(id, &format!("m{n}")) + "\n").collect();
        bridge.send_bytes(lines.as_bytes()).await;
        for _ in 0..20 {
            let answer = bridge.receive().await;
            assert!(answer["result"].is_object(), "{answer}");
        }
    }
    let (_, _, stderr) = bridge.finish().await;
    assert_eq!(stderr, "");
}

#[tokio::test]
async fn twenty_requests_at_expiry_cause_one_run_of_the_command() {
    let taken = Taken::new("first-token");
    let server = Server::start(guarded(&taken)).await;
    let printer = Printer::new("first-token");
    let args = [&*server.url, "--bearer-command", &printer.command(), "--no-server-stream"];
    let mut bridge = Bridge::ready(&args).await;
    assert_eq!(printer.runs(), 1, "kept for all of the handshake");
    printer.set("second-token");
    taken.set("second-token");
    let lines: String = (0..20).map(|id| request(id, "tools/call") + "\n").collect();
    bridge.send_bytes(lines.as_bytes()).await;
    for _ in 0..20 {
        let answer = bridge.receive().await;
        assert!(answer["result"].is_object(), "{answer}");
    }
    assert_eq!(printer.runs(), 2);
    let carried_out = server.all("tools/call").into_iter().filter(|r| taken.allows(r)).count();
    assert_eq!(carried_out, 20);
}

#[tokio::test]
async fn the_output_of_a_command_is_used_for_its_time_to_live() {
    let taken = Taken::new("first-token");
    let server = Server::start(guarded(&taken)).await;
    let printer = Printer::new("first-token");
    let args = [
        &*server.url,
        "--bearer-command",
        &printer.command(),
        "--credential-ttl",
        "0.05",
        "--no-server-stream",
    ];
    let mut bridge = Bridge::ready(&args).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    bridge.ask(request(1, "a")).await;
    assert!(printer.runs() >= 2, "old before it was refused");
    assert!(server.all("a").iter().all(|r| taken.allows(r)));
}

#[tokio::test]
async fn a_refusal_that_no_new_token_mends_is_shown_with_its_hint_and_without_the_token() {
    // C5, S4-13
    let server = Server::start(guarded(&Taken::new("something-else"))).await;
    let printer = Printer::new("s3cret-token");
    let args = [&*server.url, "--bearer-command", &printer.command(), "-v"];
    let mut bridge = Bridge::start(&args);
    let error = bridge.ask(request(1, "a")).await["error"].clone();
    assert_eq!((&error["code"], &error["data"]["status"]), (&(-32001).into(), &401.into()));
    assert!(error["message"].as_str().unwrap().contains("WWW-Authenticate"), "{error}");
    assert!(error["data"]["hint"].as_str().unwrap().contains("--bearer-command"), "{error}");
    assert!(!error.to_string().contains("s3cret"), "{error}");
    bridge.ask(request(2, "a")).await;
    assert_eq!(printer.runs(), 2, "run again once, and then left alone for a while");
    assert_eq!(server.all("a").len(), 2, "the same token is not tried twice");
    let (_, _, stderr) = bridge.finish().await;
    assert!(!stderr.contains("s3cret"), "{stderr}");
}

#[tokio::test]
async fn a_403_is_reason_enough_to_ask_again() {
    let taken = Taken::new("good-token");
    let guard = taken.clone();
    let server = Server::start(move |r| match guard.allows(r) {
        true => polite(r),
        false => Reply::status(403, "", ""),
    })
    .await;
    let printer = Printer::new("good-token");
    let command = printer.command();
    let mut bridge = Bridge::start(&[&server.url, "--bearer-command", &command]);
    assert!(bridge.ask(request(1, "a")).await["result"].is_object());
    printer.set("better-token");
    taken.set("better-token");
    assert!(bridge.ask(request(2, "a")).await["result"].is_object());
    assert_eq!((printer.runs(), server.all("a").len()), (2, 3), "refused once, then carried out");
}

#[tokio::test]
async fn a_file_that_was_replaced_is_read_before_the_old_token_is_refused() {
    let server = Server::start(polite).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    replace(&file, "token-one");
    let args = [&*server.url, "--bearer-file", file.to_str().unwrap(), "--no-server-stream"];
    let mut bridge = Bridge::ready(&args).await;
    replace(&file, "token-two");
    // It is looked at once a second.
    tokio::time::sleep(Duration::from_millis(1200)).await;
    bridge.ask(request(1, "a")).await;
    assert_eq!(server.all("initialize")[0].header("authorization"), Some("Bearer token-one"));
    assert_eq!(server.all("a")[0].header("authorization"), Some("Bearer token-two"));
    assert_eq!(server.all("a").len(), 1);
}

#[tokio::test]
async fn a_token_that_changes_under_requests_in_flight_harms_none_of_them() {
    let (taken, gate) = (Taken::new("first-token"), Gate::new());
    let (guard, held) = (guarded(&taken), gate.clone());
    let server = Server::start(move |r| match (&*r.what(), r.header("authorization")) {
        ("slow", Some("Bearer first-token")) => {
            Reply::sse().wait(&held).event(result(r.id(), "{}")).end()
        }
        _ => guard(r),
    })
    .await;
    let printer = Printer::new("first-token");
    let args = [&*server.url, "--bearer-command", &printer.command(), "--no-server-stream"];
    let mut bridge = Bridge::ready(&args).await;
    for id in 0..10 {
        bridge.send(request(id, "slow")).await;
    }
    server.saw_count("slow", 10).await;
    printer.set("second-token");
    taken.set("second-token");
    assert!(bridge.ask(request(10, "a")).await["result"].is_object(), "with the new one");
    gate.open();
    let (answers, _) = bridge.answers(10).await;
    assert!(answers.iter().all(|answer| answer["result"].is_object()), "{answers:?}");
    assert_eq!((server.all("slow").len(), printer.runs()), (10, 2), "none was sent again");
}

#[tokio::test]
async fn a_command_may_print_headers() {
    let server = Server::start(polite).await;
    for (printed, names) in [
        ("X-Tenant: one\nAuthorization: Basic abcdefg\n", ["x-tenant", "authorization"]),
        (r#"{"X-Tenant":"one","Authorization":"Basic abcdefg"}"#, ["x-tenant", "authorization"]),
    ] {
        let printer = Printer::new(printed);
        let args = [&*server.url, "--header-command", &printer.command()];
        let mut bridge = Bridge::start(&args);
        bridge.ask(request(1, "a")).await;
        let asked = server.all("a").pop().unwrap();
        assert_eq!(names.map(|name| asked.header(name)), [Some("one"), Some("Basic abcdefg")]);
    }
}

#[tokio::test]
async fn a_command_that_fails_is_quoted_and_nothing_is_sent() {
    let server = Server::start(polite).await;
    let failing = "sh -c 'echo the ticket has expired >&2; exit 7'";
    let mut bridge = Bridge::start(&[&server.url, "--bearer-command", failing]);
    let error = bridge.ask(request(1, "a")).await["error"].clone();
    assert_eq!(error["data"]["kind"], "credentials", "{error}");
    assert_eq!(error["data"]["delivery"], "not-delivered");
    assert!(error["data"]["reason"].as_str().unwrap().contains("the ticket has expired"));
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn a_shell_is_used_only_if_asked_for() {
    let server = Server::start(polite).await;
    let asked = |n: usize| server.all("a")[n].header("authorization").unwrap().to_owned();
    for (n, (flags, token)) in
        [(&[][..], "Bearer $((1+1))"), (&["--credential-shell"][..], "Bearer 2")].iter().enumerate()
    {
        let args = [&[&*server.url, "--bearer-command", "echo $((1+1))"], *flags].concat();
        let mut bridge = Bridge::start(&args);
        bridge.ask(request(1, "a")).await;
        assert_eq!(asked(n), *token);
    }
}

#[tokio::test]
async fn the_servers_own_stream_gets_a_new_token_first() {
    // C8: 401 on the stream
    let taken = Taken::new("first-token");
    let server = {
        let taken = taken.clone();
        Server::start(move |r| match (r.http_method.as_str(), taken.allows(r)) {
            (_, false) => Reply::status(401, "", ""),
            ("GET", true) => {
                let note = r#"{"jsonrpc":"2.0","method":"notifications/x"}"#;
                taken.set("second-token");
                Reply::sse().event(note).end()
            }
            _ => polite(r),
        })
        .await
    };
    let printer = Printer::new("first-token");
    let command = printer.command();
    let mut bridge = Bridge::start(&[&server.url, "--bearer-command", &command]);
    bridge.handshake().await;
    assert_eq!(bridge.receive().await["method"], "notifications/x");
    printer.set("second-token");
    assert_eq!(bridge.receive().await["method"], "notifications/x", "after one refusal");
    let tokens: Vec<Option<String>> = server
        .all("GET")
        .iter()
        .map(|r| r.header("authorization").map(str::to_owned))
        .take(3)
        .collect();
    assert_eq!(tokens[0].as_deref(), Some("Bearer first-token"));
    assert_eq!(tokens[1].as_deref(), Some("Bearer first-token"));
    assert_eq!(tokens[2].as_deref(), Some("Bearer second-token"));
    let (_, _, stderr) = bridge.finish().await;
    assert_eq!(stderr, "");
}

#[tokio::test]
async fn a_server_of_the_older_transport_gets_new_tokens_on_get_and_post_alike() {
    let taken = Taken::new("first-token");
    let guard = taken.clone();
    let hub = Hub::start(move |r, _| (!guard.allows(r)).then(|| Reply::status(401, "", ""))).await;
    let printer = Printer::new("first-token");
    let command = printer.command();
    let mut bridge = hub.ready(&["--bearer-command", &command]).await;
    printer.set("second-token");
    taken.set("second-token");
    assert!(bridge.ask(request(1, "a")).await["result"].is_object(), "a POST");
    printer.set("third-token");
    taken.set("third-token");
    hub.streams.newest().end();
    assert!(bridge.receive().await["method"].as_str().unwrap().ends_with("list_changed"));
    assert!(bridge.ask(request(2, "a")).await["result"].is_object(), "a GET, and all after it");
    let (_, _, stderr) = bridge.finish().await;
    assert_eq!(stderr, "");
    assert_eq!(printer.runs(), 3);
}

#[tokio::test]
async fn what_cannot_work_is_said_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty");
    std::fs::write(&empty, "\n").unwrap();
    let empty = empty.to_str().unwrap();
    let url = "http://127.0.0.1:1/mcp";
    for (args, part) in [
        (&["--bearer-file", empty][..], "is empty"),
        (&["--bearer-file", "/no/such/file"], "cannot be read"),
        (&["--bearer-env", "NO_SUCH_VARIABLE"], "is not set"),
        (&["--bearer-command", "no-such-program-here x"], "no program 'no-such-program-here'"),
        (&["--bearer-command", "echo 'x"], "a quote is not closed"),
        (&["--bearer-command", " "], "no command"),
        (&["--bearer-env", "PATH", "-H", "Authorization: x"], "leave one of them out"),
        (&["--bearer-env", "PATH", "--bearer-file", empty], "exclude each other"),
    ] {
        let output = run(&[&[url], args].concat(), &[], "").await;
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(part), "{args:?}: {stderr}");
        assert!(output.stdout.is_empty());
    }
}
