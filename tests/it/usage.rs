//! Bad input on the command line: a clear sentence on stderr, nothing on stdout, exit code 2.

use crate::support::run;

/// What is written to stderr, in one line.
async fn refused(args: &[&str], env: &[(&str, &str)]) -> String {
    let output = run(args, env, "").await;
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
    assert!(output.stdout.is_empty(), "{args:?}");
    stderr
}

#[tokio::test]
async fn urls_that_cannot_be_used() {
    // S2-32
    let help = refused(&[], &[]).await;
    assert!(help.contains("Usage: mcp-span [OPTIONS] <URL | NAME>"), "{help}");
    assert!(help.contains("Explore:") && help.lines().count() <= 45, "{help}");
    assert!(refused(&["-v"], &[]).await.contains("the URL of an MCP server is missing"));
    assert!(refused(&["connect"], &[]).await.contains("the URL of an MCP server is missing"));
    assert!(refused(&["nonsense"], &[]).await.contains("'nonsense' is not a URL"));
    assert!(refused(&["localhost:3000/mcp"], &[]).await.contains("is not a URL"));
    assert!(refused(&["ftp://example.com/"], &[]).await.contains("only http and https"));
    assert!(refused(&[], &[("MCP_SPAN_URL", "gopher://x")]).await.contains("gopher"));
    let stderr = refused(&["me:s3cret@example.com/mcp?token=s3cret"], &[]).await;
    assert!(stderr.contains("is not a URL") && !stderr.contains("s3cret"), "{stderr}");
    let stderr = refused(&["http://example.com/mcp"], &[]).await;
    assert!(stderr.contains("--allow-http") && stderr.contains("example.com"), "{stderr}");
}

#[tokio::test]
async fn slips_that_are_easy_to_make() {
    let url = "http://localhost:1/mcp";
    for (line, meant) in [
        (&["tols", url][..], "error: unknown command 'tols'\nhint: did you mean 'tools'?\n"),
        (&["tols"], "did you mean the command 'tools'?"),
        (&[url, "tools"], "write 'mcp-span tools <URL>'"),
        (&["s3cret", url], "one argument too many"),
        (&["localhost:3000/mcp"], "did you mean http://localhost:3000/mcp?"),
        (&["tools", "example.com/mcp"], "did you mean https://example.com/mcp?"),
    ] {
        let stderr = refused(line, &[]).await;
        assert!(stderr.contains(meant) && !stderr.contains("s3cret"), "{line:?}: {stderr}");
    }
}

#[tokio::test]
async fn headers_that_cannot_be_sent() {
    let url = "http://localhost:1/mcp";
    let header = |line| async move { refused(&[url, "--header", line], &[]).await };
    assert!(header("no colon here").await.contains("no colon"));
    assert!(header("bad name: x").await.contains("is not a header name"));
    assert!(header("X-A: a\rb").await.contains("line break"));
    assert!(header("X-A: a\nX-B: b").await.contains("line break"));
    assert!(header("Content-Length: 5").await.contains("HTTP's own"));
    assert!(header("X-A: ${NOT_DEFINED}").await.contains("'NOT_DEFINED'"));
    let stderr = refused(&[url, "--header", "X-Key: ${KEY}"], &[("KEY", "top\nsecret")]).await;
    assert!(stderr.contains("line break") && !stderr.contains("secret"), "{stderr}");
    let stderr = refused(&[url, "--header-file", "/does/not/exist"], &[]).await;
    assert!(stderr.contains("/does/not/exist") && stderr.contains("cannot be read"), "{stderr}");
}

#[tokio::test]
async fn numbers_that_are_none() {
    let url = "http://localhost:1/mcp";
    for (flag, value) in [
        ("--timeout", "soon"),
        ("--timeout", "-1"),
        ("--timeout", "1e19"),
        ("--connect-timeout", "0"),
        ("--max-message-size", "big"),
        ("--max-parallel", "0"),
        ("--log-level", "loud"),
        ("--log-format", "xml"),
    ] {
        let stderr = refused(&[url, flag, value], &[]).await;
        assert!(stderr.contains(flag) && stderr.contains(value), "{stderr}");
    }
    let stderr = refused(&[url], &[("MCP_SPAN_TIMEOUT", "soon")]).await;
    assert!(stderr.contains("soon"), "{stderr}");
}

#[tokio::test]
async fn addresses_for_a_login_that_cannot_be_used() {
    let url = "http://localhost:1/mcp";
    for (flag, value, part) in [
        ("--oauth-success-url", "https://example.com/?a=b", "it must have no user, no query"),
        ("--oauth-success-url", "nonsense", "it is not a URL: write it like https://"),
        ("--oauth-token-url", "nonsense", "it is not a URL: write it like https://"),
        ("--oauth-authorization-url", "nonsense", "it is not a URL: write it like https://"),
        ("--oauth-client-metadata-url", "nonsense", "it is not a URL: write it like https://"),
        ("--oauth-issuer", "nonsense", "it is not a URL: write it like https://"),
        ("--oauth-issuer", "https://example.com/?a=b", "an issuer must have no user, no query"),
    ] {
        let stderr = refused(&[url, flag, value], &[]).await;
        assert!(stderr.contains(flag) && stderr.contains(part), "{stderr}");
    }
}

#[tokio::test]
async fn an_id_token_that_nobody_will_get_is_worth_a_warning_that_names_both_flags() {
    let server = crate::support::Server::start(crate::support::polite).await;
    let wanted = "--oauth-use-id-token has no effect with ";
    let line = crate::support::request(1, "a");
    for (flags, both) in [
        (&["--no-oauth"][..], "--no-oauth"),
        (&["--bearer-env", "PATH"], "--bearer-env"),
        (&["--oauth-grant", "client-credentials"], "--oauth-grant client-credentials"),
    ] {
        let args = [&[&*server.url, "--oauth-use-id-token"], flags].concat();
        let stderr = String::from_utf8(run(&args, &[], &line).await.stderr).unwrap();
        assert_eq!(stderr.matches(&format!("{wanted}{both}: ")).count(), 1, "{flags:?}: {stderr}");
    }
    let output = run(&[&server.url, "--oauth-use-id-token"], &[], &line).await;
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[tokio::test]
async fn being_verbose_twice_is_being_verbose() {
    let server = crate::support::Server::start(crate::support::polite).await;
    let line = crate::support::request(1, "a");
    for flags in [&["-v"][..], &["-vv"], &["-v", "-v", "--debug"]] {
        let output = run(&[&[&*server.url], flags].concat(), &[], &line).await;
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        assert!(stderr.contains("DEBUG") && !stderr.contains("TRACE"), "{stderr}");
    }
}

#[tokio::test]
async fn a_pattern_for_tools_that_was_forgotten_takes_no_other_flag_with_it() {
    let url = "http://localhost:1/mcp";
    let required = "a value is required for '--ignore-tool <PATTERN>'";
    for args in [
        &[url, "--ignore-tool"][..],
        &[url, "--ignore-tool", "--oauth-issuer=https://pinned.example"],
        &["config", url, "--ignore-tool", "--oauth-issuer=https://pinned.example"],
        &["config", "mcp-remote", url, "--ignore-tool"],
        &["mcp-remote", url, "--ignore-tool"],
    ] {
        let stderr = refused(args, &[]).await;
        assert!(stderr.contains(required), "{args:?}: {stderr}");
    }
    for empty in ["", " ", "\n"] {
        let stderr = refused(&["config", url, "--ignore-tool", empty], &[]).await;
        assert!(stderr.contains("--ignore-tool"), "{stderr}");
    }
    let output = run(&["config", url, "--ignore-tool=-x"], &[], "").await;
    let table = String::from_utf8(output.stdout).unwrap();
    let row = |line: &str| line.split_whitespace().eq(["ignore-tool", "-x", "(flag)"]);
    assert!(table.lines().any(row), "{table}");
}

#[tokio::test]
async fn a_flag_of_other_commands_is_answered_with_their_names() {
    let stderr = refused(&["logout", "https://h/", "--max-parallel", "3"], &[]).await;
    assert!(stderr.contains("error: --max-parallel does not apply to 'logout'"), "{stderr}");
    assert!(stderr.contains("hint: it is for connect, demo, check, config, install"), "{stderr}");
    let stderr = refused(&["https://h/", "--paste"], &[]).await;
    assert!(stderr.contains("error: --paste does not apply to mcp-span URL"), "{stderr}");
    assert!(stderr.contains("hint: it is for login\n"), "{stderr}");
}

#[tokio::test]
async fn unknown_flags_are_answered_with_the_nearest_known_one() {
    let stderr = refused(&["http://localhost:1/mcp", "--heeder", "a: b"], &[]).await;
    assert!(stderr.contains("--heeder") && stderr.contains("'--header'"), "{stderr}");
    let stderr = refused(&["demo", "--protocol-version", "a\nb"], &[]).await;
    assert!(stderr.contains("--protocol-version"), "{stderr}");
    let stderr = refused(&["demo", "--timeot", "5"], &[]).await;
    assert!(stderr.contains("'--timeout'"), "{stderr}");
}

#[tokio::test]
async fn colours_and_silence_are_for_every_command() {
    let (url, no_colour) = ("http://127.0.0.1:1/mcp", [("NO_COLOR", "1")]);
    let lines: [&[&str]; 5] = [
        &["tols", url],
        &["tools", url],
        &["tools", url, "--heeder"],
        &["ftp://x/"],
        &["demo", "x"],
    ];
    for line in lines {
        let plain = String::from_utf8(run(line, &[], "").await.stderr).unwrap();
        assert!(plain.starts_with("error: "), "{line:?}: {plain}");
        for args in [[&["--color", "always"], line].concat(), [line, &["--color=always"]].concat()]
        {
            let coloured = String::from_utf8(run(&args, &no_colour, "").await.stderr).unwrap();
            assert!(coloured.starts_with("\u{1b}[1m\u{1b}[31merror:\u{1b}[0m "), "{coloured:?}");
        }
        let hints: String =
            plain.split_inclusive('\n').filter(|line| !line.starts_with("hint: ")).collect();
        for args in [[&["-q"], line].concat(), [line, &["--quiet"]].concat()] {
            let quiet = String::from_utf8(run(&args, &[], "").await.stderr).unwrap();
            assert_eq!(quiet, hints, "{args:?}");
        }
        let quiet = run(line, &[("MCP_SPAN_QUIET", "1"), ("MCP_SPAN_COLOR", "always")], "").await;
        let quiet = String::from_utf8(quiet.stderr).unwrap();
        assert!(quiet.starts_with('\u{1b}') && !quiet.contains("hint"), "{quiet:?}");
    }
    // They are about this run, not about those to come.
    let line = ["-q", "install", "cursor", url, "--print", "--color", "never"];
    let entry = String::from_utf8(run(&line, &[("HOME", "/nowhere")], "").await.stdout).unwrap();
    assert!(entry.contains(url) && !entry.contains("color") && !entry.contains("-q"), "{entry}");
    let stderr = refused(&["tools", url, "--color", "sometimes"], &[]).await;
    assert!(stderr.contains("'sometimes'") && stderr.contains("always"), "{stderr}");
}

#[tokio::test]
async fn a_log_file_that_cannot_be_written() {
    let stderr =
        refused(&["http://localhost:1/mcp", "--log-file", "/does/not/exist/log"], &[]).await;
    assert!(
        stderr.contains("/does/not/exist/log") && stderr.contains("cannot be written"),
        "{stderr}"
    );
}

#[tokio::test]
async fn help_and_version_are_no_errors() {
    for args in [&["--help"][..], &["--version"], &["demo", "--help"], &["connect", "-h"]] {
        let output = run(args, &[], "").await;
        assert_eq!(output.status.code(), Some(0));
        assert!(output.stderr.is_empty() && !output.stdout.is_empty());
    }
    let output = run(&["--help"], &[("MCP_SPAN_URL", "http://secret99")], "").await;
    assert!(!String::from_utf8(output.stdout).unwrap().contains("secret99"));
}

#[tokio::test]
async fn connect_and_the_environment_name_the_server_as_well() {
    let server = crate::support::Server::start(crate::support::polite).await;
    let line = crate::support::request(1, "a");
    for (args, env) in [
        (vec!["connect", &server.url], vec![]),
        (vec![], vec![("MCP_SPAN_URL", &*server.url)]),
        (vec!["connect"], vec![("MCP_SPAN_URL", &*server.url)]),
    ] {
        let output = run(&args, &env, &line).await;
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*stderr), (Some(0), ""), "{args:?}");
        assert!(!output.stdout.is_empty());
    }
}

#[tokio::test]
async fn headers_come_from_the_environment_one_a_line_and_a_flag_beats_them() {
    let server = crate::support::Server::start(crate::support::polite).await;
    let line = crate::support::request(1, "a");
    let env = [("MCP_SPAN_HEADER", "X-A: 1\nX-B: 2\n"), ("LOG_LEVEL", "verbose")];
    run(&[&server.url], &env, &line).await;
    run(&[&server.url, "-H", "X-A: 9"], &env, &line).await;
    run(&[&server.url], &[("MCP_SPAN_HEADER", "")], &line).await;
    let requests = server.requests();
    let headers = |n: usize| (requests[n].header("x-a"), requests[n].header("x-b"));
    assert_eq!(headers(0), (Some("1"), Some("2")));
    assert_eq!(headers(1), (Some("9"), None));
    assert_eq!(headers(2), (None, None));
}

#[tokio::test]
async fn a_value_without_its_flag_is_not_repeated() {
    let stderr = refused(&["http://localhost:1/mcp", "Authorization: Bearer s3cret"], &[]).await;
    assert!(stderr.contains("--header") && !stderr.contains("s3cret"), "{stderr}");
    let stderr = refused(&["http://[bad/0123456789abcdefs3cret"], &[]).await;
    assert!(!stderr.contains("s3cret"), "{stderr}");
}

#[tokio::test]
async fn empty_variables_count_as_not_set() {
    let server = crate::support::Server::start(crate::support::polite).await;
    let names = [
        "TIMEOUT",
        "LOG_LEVEL",
        "LOG_FILE",
        "HEADER_FILE",
        "PROTOCOL_VERSION",
        "SERIAL",
        "KEEP_ALIVE",
    ];
    let names: Vec<String> = names.iter().map(|name| format!("MCP_SPAN_{name}")).collect();
    let env: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    let output = run(&[&server.url], &env, &crate::support::request(1, "a")).await;
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*stderr), (Some(0), ""));
    assert_eq!(server.saw("a").await.header("mcp-protocol-version"), None);
    refused(&[], &[("MCP_SPAN_URL", "")]).await;
}

#[tokio::test]
async fn help_and_what_needs_no_server_work_whatever_files_and_variables_say() {
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("config.json");
    std::fs::write(&broken, "{ \"timout\": ").unwrap();
    let trace = folder.path().join("trace.jsonl");
    std::fs::write(&trace, "").unwrap();
    let (broken, trace) = (broken.to_str().unwrap(), trace.to_str().unwrap());
    let lines: &[&[&str]] = &[
        &["--help"],
        &["-h"],
        &["--version"],
        &["help"],
        &["help", "tools"],
        &["tools", "--help"],
        &["https://example.com/mcp", "--help"],
        &["completions", "bash"],
        &["man"],
        &["trace", trace],
        &["uninstall", "cursor", "nobody"],
    ];
    for (name, value) in [
        ("MCP_SPAN_CONFIG", broken),
        ("MCP_SPAN_CONFIG", "/no/such/config.json"),
        ("UPSTREAM_URL", "https://example.com/"),
        ("UPSTREAM_URL", "nonsense"),
        ("MCP_PROXY_CONFIG", "/no/such.json"),
        ("MCP_SPAN_TIMEOUT", "soon"),
    ] {
        for line in lines {
            let usual = run(line, &[], "").await;
            let output = run(line, &[(name, value)], "").await;
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status, usual.status, "{name}={value} {line:?}: {stderr}");
            assert_eq!(stderr, String::from_utf8(usual.stderr).unwrap(), "{name} {line:?}");
        }
        let output = run(&["--help"], &[(name, value)], "").await;
        assert_eq!(output.status.code(), Some(0));
        assert!(String::from_utf8(output.stdout).unwrap().contains("Usage:"));
    }
}
