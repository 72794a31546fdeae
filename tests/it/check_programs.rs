//! `mcp-span check -- COMMAND`: servers that are child processes.

#[cfg(unix)]
use crate::support::Bridge;
use crate::support::{check, run};

/// A server as a line of shell: answers by id, and says something on stderr.
const SERVER: &str = r#"
echo "ready" >&2
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  [ -n "$id" ] || continue
  case "$line" in
    *'"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"shell","version":"0"}}' ;;
    *'"tools/list"'*) result='{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}' ;;
    *) result='{}' ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

#[tokio::test]
async fn a_healthy_program() {
    check(&["-v", "--", "sh", "-c", SERVER], &[]).await.is(
        0,
        r#"
        sh …
        ✓ command     sh is /bin/sh
        ✓ start       initialized in N ms
        ✓ transport   stdio, revision 2025-11-25
        ✓ server      shell 0
        capabilities: tools
        ✓ round-trip  median N ms, slowest N ms (5 pings)
        ✓ contents    1 tool
        ✓ goodbye     exits when stdin closes (N ms)
        ✓ stderr      1 line
        ready
        no problems found
        "#,
    );
}

#[tokio::test]
async fn lines_are_as_wide_as_the_terminal() {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let mut all = Vec::new();
    for columns in ["60", "80", "120"] {
        let env = [("COLUMNS", columns)];
        let checked = check(&["--", "no-such-program-here"], &env).await;
        let width = columns.parse().unwrap();
        let longest = checked.text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(longest <= width && longest + 15 > width, "{columns}: {}", checked.text);
        all.push(words(&checked.text));
    }
    assert!(all.iter().all(|text| *text == all[0]), "{all:?}");
}

#[tokio::test]
async fn a_program_that_is_not_there() {
    check(&["--", "no-such-program-here", "--token", "x"], &[]).await.is(
        3,
        r#"
        no-such-program-here …
        ✗ command     'no-such-program-here' not found
        There is no such file, or no directory of PATH has a program of this name
        hint: Is it installed? Programs started by a desktop often have a shorter PATH than
        a terminal: use an absolute path
        - start       nothing to start
        - transport, server, round-trip, contents, goodbye: no handshake
        ✓ stderr      silent
        1 failed
        "#,
    );
}

#[tokio::test]
async fn a_program_that_crashes() {
    let crash = "echo 'no database at /home/ann/db' >&2; exit 7";
    check(&["--", "sh", "-c", crash], &[("HOME", "/home/ann")]).await.is(
        3,
        r#"
        sh …
        ✓ command     sh is /bin/sh
        ✗ start       Transport closed: 'sh' has ended: exit status: 7
        no database at ~/db
        The program exited before it answered the handshake
        hint: Read what it wrote to stderr, and try the command in a terminal
        - transport, server, round-trip, contents, goodbye: no handshake
        ✓ stderr      1 line
        1 failed
        "#,
    );
}

#[tokio::test]
async fn a_program_that_is_no_server_and_one_that_does_not_leave() {
    let found = check(&["--timeout", "0.5", "--", "sleep", "60"], &[]).await;
    assert_eq!(found.code, Some(3));
    let finding = found.finding("start");
    assert!(
        finding.contains("Request timeout") && finding.contains("speaks over stdio"),
        "{finding}"
    );
    let stays = format!("{SERVER}\nsleep 60");
    let found = check(&["--", "sh", "-c", &stays], &[]).await;
    assert_eq!(found.code, Some(0), "{found:?}");
    let finding = found.finding("goodbye");
    assert!(finding.starts_with("! goodbye") && finding.contains("SIGTERM"), "{finding}");
}

#[tokio::test]
async fn a_url_from_the_environment_is_not_meant_by_a_command() {
    // Only what is typed beside it is.
    let output = run(
        &["check", "--json", "--", "sh", "-c", SERVER],
        &[("MCP_SPAN_URL", "http://127.0.0.1:1/mcp")],
        "",
    )
    .await;
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[tokio::test]
async fn the_reason_for_an_end_is_shown_behind_any_amount_of_talk() {
    let crash = "i=0; while [ $i -lt 50 ]; do echo talk $i; i=$((i+1)); done >&2; echo 'the reason' >&2; exit 7";
    let found = check(&["--", "sh", "-c", crash], &[]).await;
    assert_eq!(found.code, Some(3), "{found:?}");
    assert!(found.finding("stderr").contains("51 lines"), "{found:?}");
    let finding = found.finding("start");
    assert!(finding.contains("talk 0"), "{finding}");
    assert!(finding.contains("the reason") && !finding.contains("talk 20"), "{finding}");
}

#[tokio::test]
async fn what_a_program_repeats_of_its_secrets_is_not_shown() {
    let echo = "echo \"$0 $1 $2 $MY_TOKEN\" >&2; exit 1";
    let found = check(
        &["--", "sh", "-c", echo, "--API-KEY", "hidden-argument", "DB_PASSWORD=hidden-password"],
        &[("MY_TOKEN", "hidden-variable")],
    )
    .await;
    let finding = found.finding("start");
    assert!(finding.contains("[secret]") && !finding.contains("hidden"), "{finding}");
}

/// Interrupted before the handshake, and while a list is waited for.
#[cfg(unix)]
#[tokio::test]
async fn an_interrupted_check_leaves_no_process_behind() {
    let listing =
        SERVER.replace(r#"*'"tools/list"'*)"#, r#"*'"tools/list"'*) started; continue;;*'"x"'*)"#);
    for (signal, script) in [("INT", "started"), ("TERM", &*listing), ("HUP", "started")] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let script = format!(
            "started() {{ echo $$ > '{}'; }}\n{script}\nwhile :; do sleep 0.05; done",
            file.display()
        );
        let mut check = Bridge::start(&["check", "--", "sh", "-c", &script]);
        let pid = loop {
            match std::fs::read_to_string(&file) {
                Ok(pid) if pid.ends_with('\n') => break pid,
                _ => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
            }
        };
        check.signal(signal);
        assert_eq!(check.exit().await.code(), Some(130), "{signal}");
        let alive = std::process::Command::new("kill").args(["-0", pid.trim()]).output().unwrap();
        assert!(!alive.status.success(), "{pid} is still there after {signal}");
    }
}
