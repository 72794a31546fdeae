//! `mcp-span check -- COMMAND`: servers that are child processes.

use crate::support::{check, run};

/// A server as a line of shell: answers by id, and says something on stderr.
const SERVER: &str = r#"
echo "ready" >&2
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  [ -n "$id" ] || continue
  case "$line" in
    *'"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"shell","version":"0"}}' ;;
    *'"tools/list"'*) result='{"tools":[{"name":"a"}]}' ;;
    *) result='{}' ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

#[tokio::test]
async fn a_healthy_program() {
    check(&["--", "sh", "-c", SERVER], &[]).await.is(
        0,
        r#"
        sh …
        ok       command          sh is /bin/sh
        ok       start            started and shaken hands with (N ms)
        ok       transport        stdio, revision 2025-11-25
        ok       server           shell 0
        capabilities: tools
        ok       round-trip       median N ms, slowest N ms (5 pings)
        ok       contents         1 tool
        ok       goodbye          it leaves when its stdin ends (N ms)
        ok       stderr           1 line
        ready
        all is well
        "#,
    );
}

#[tokio::test]
async fn a_program_that_is_not_there() {
    check(&["--", "no-such-program-here", "--token", "x"], &[]).await.is(
        3,
        r#"
        no-such-program-here …
        failed   command          'no-such-program-here' is not there
        No folder of PATH has a program of this name, or there is no such file
        next: Is it installed? Programs that a desktop starts often have a
        shorter PATH than a terminal: an absolute path always works
        skipped  start            there is nothing to start
        skipped                   there was no handshake (transport, server, round-trip, contents,
        goodbye)
        ok       stderr           silent
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
        ok       command          sh is /bin/sh
        failed   start            Transport closed: 'sh' has ended: exit status: 7
        The program has ended before it answered the handshake
        next: See below what it wrote to its stderr, and try the command in a
        terminal
        skipped                   there was no handshake (transport, server, round-trip, contents,
        goodbye)
        ok       stderr           1 line
        no database at ~/db
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
    assert!(finding.starts_with("warning  goodbye") && finding.contains("SIGTERM"), "{finding}");
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
