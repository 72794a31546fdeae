//! What went wrong in other bridges must not go wrong here. The lessons, by their numbers, and the
//! tests that show that each was learnt:
//!
//! 1. Addresses of others reached a shell (CVE-2025-6514):
//!    `login_faults::cve_2025_6514_addresses_that_no_browser_should_see_are_refused`,
//!    `login_faults::cve_2025_6514_the_browser_gets_the_address_as_one_argument_and_no_shell_sees_it`,
//!    and in
//!    `cli/oauth.rs` `a_browser_is_a_program_with_arguments_and_no_shell`.
//! 2. An empty secret switched the check off (GHSA-wvr4-3wq4-gpc5): here.
//! 3. A listener on this machine believed any `Host` (GHSA-89vp-x53w-74fx):
//!    `login_faults::lesson_3_strangers_at_the_listener_are_turned_away_and_the_login_goes_on`, in
//!    `oauth/loopback.rs` `only_the_browser_that_we_sent_is_listened_to`, and in `demo/http.rs`
//!    `only_this_machine_is_answered`.
//! 4. Answers crossed over between clients (GHSA-345p-7cg4-v4c7): here.
//! 5. A pattern took for ever (GHSA-8r9q-7v3j-jr4g): nothing here matches by backtracking; in
//!    `oauth/challenge.rs` `nothing_makes_it_stumble`, and here for long input.
//! 6. Metadata led into private networks, another resource's name was believed, headers followed
//!    redirects, sessions leaked (rmcp 2.0, 2.1):
//!    `login_faults::rmcp_935_a_public_server_cannot_make_us_ask_our_own_network`, in
//!    `oauth/address.rs`
//!    `a_public_server_cannot_send_us_into_our_own_network`, in `oauth/web.rs`
//!    `a_name_that_leads_into_a_private_network_is_refused_where_it_is_resolved`, in
//!    `net/connect.rs` `a_name_leads_to_allowed_addresses_only`,
//!    `login_faults::rmcp_937_metadata_that_does_not_fit_together_is_refused`,
//!    `login_faults::rmcp_936_discovery_does_not_follow_to_another_origin`,
//!    `redirects::another_origin_is_refused_and_never_sees_a_header`,
//!    `tokens::rmcp_936_a_token_never_goes_to_another_origin`,
//!    `going::rmcp_934_at_the_end_of_stdin_the_session_is_deleted_and_the_exit_code_is_0`.
//! 7. Consent was not bound to the browser: we are no authorization server.
//! 8. Arguments went into headers as they were (CVE-2026-29791): in `http/session.rs`
//!    `lesson_8_modern_requests_name_their_method_and_target_and_no_session`, and in `wire/header.rs`.
//! 9. A header chose where a request went (GHSA-g53w-w6mj-hrpp): in `legacy_sse/address.rs`
//!    `lesson_9_no_other_origin_gets_a_message`, for the one address that a server may choose.
//! 10. A configuration that lay about decided what was run: here, and
//!     `configuration::a_file_that_others_can_write_is_not_believed`.
//! 11. and 12. are for servers.
//! 13. Tokens lay open (1mcp#517): `accounts::one_mcp_517_what_is_kept_is_for_the_owner_alone`, and in
//!     `oauth/store.rs` `what_is_kept_is_kept_apart_and_for_the_owner_alone`.
//! 14. Logs held tokens, and stdout what was no message:
//!     `login_faults::lesson_14_secrets_are_neither_logged_nor_traced`, `seeing`, `stdio`; by type in
//!     `net/cookies.rs` `a_jar_is_shown_without_what_is_in_it` and `oauth/mod.rs`
//!     `what_holds_tokens_shows_none`.
//! 15. Secrets stood on the command line, and in debug logs:
//!     `credentials::lesson_15_a_variable_holds_the_token` and its neighbours have other sources,
//!     `trace` and `seeing` check files that are written.

use crate::support::process::command;
use crate::support::{Bridge, INITIALIZE, Reply, Server, polite, request, result, run};

#[tokio::test]
async fn lesson_2_an_empty_secret_is_refused_and_not_left_out() {
    let server = Server::start(polite).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    for args in [
        ["--bearer-env", "EMPTY"],
        ["--bearer-env", "UNSET"],
        ["--bearer-env", "SCHEME"],
        ["--bearer-file", path],
        ["--oauth-client-secret-env", "EMPTY"],
    ] {
        let env = [("EMPTY", ""), ("SCHEME", "Bearer ")];
        let args = [&[&*server.url][..], &args].concat();
        let output = run(&args, &env, &format!("{INITIALIZE}\n")).await;
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
    }
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn lesson_4_answers_do_not_cross_over_between_clients() {
    let server = Server::start(|r| match &*r.what() {
        "initialize" => {
            let name = r.json()["params"]["name"].as_str().unwrap_or_default().to_owned();
            let answer = r#"{"protocolVersion":"2025-06-18","capabilities":{}}"#;
            Reply::json(result(r.id(), answer)).header("Mcp-Session-Id", &name)
        }
        "tools/call" => {
            let session = r.header("mcp-session-id").unwrap_or_default().to_owned();
            Reply::json(result(r.id(), &format!(r#"{{"for":"{session}"}}"#))).pause(1)
        }
        _ => polite(r),
    })
    .await;
    let mut both = [Bridge::start(&[&server.url]), Bridge::start(&[&server.url])];
    for (n, bridge) in both.iter_mut().enumerate() {
        let name = format!(r#"{{"protocolVersion":"2025-06-18","name":"client-{n}"}}"#);
        let line = request("\"init\"", "initialize");
        bridge.ask(line.replace(r#""method""#, &format!(r#""params":{name},"method""#))).await;
    }
    // The same ids on both sides.
    let lines: String = (0..50).map(|id| request(id, "tools/call") + "\n").collect();
    for bridge in &mut both {
        bridge.send_bytes(lines.as_bytes()).await;
    }
    for (n, bridge) in both.iter_mut().enumerate() {
        for answer in bridge.answers(50).await.0 {
            let session = answer["result"]["for"].as_str().unwrap();
            assert!(session.ends_with(&format!("client-{n}")), "{answer}");
        }
    }
}

#[tokio::test]
async fn lesson_5_a_challenge_that_is_made_to_be_slow_is_read_to_its_end() {
    let challenge = format!("Bearer {}", "a=\"\\\"\\,=".repeat(1500));
    let server =
        Server::start(move |_| Reply::status(401, "", "").header("WWW-Authenticate", &challenge))
            .await;
    let folder = tempfile::tempdir().unwrap();
    let env = [("MCP_SPAN_STATE_DIR", folder.path().to_str().unwrap()), ("BROWSER", "false")];
    let answer = Bridge::start_with(&[&server.url], &env).ask(INITIALIZE).await;
    assert_eq!(answer["error"]["data"]["status"], 401, "{answer}");
}

#[tokio::test]
async fn lesson_10_no_configuration_is_taken_from_where_the_program_is_started() {
    let server = Server::start(polite).await;
    let folder = tempfile::tempdir().unwrap();
    let text = r#"{"headers": {"X-From": "here"}}"#;
    for place in ["mcp-span", ".config/mcp-span", ".mcp-span"] {
        std::fs::create_dir_all(folder.path().join(place)).unwrap();
        std::fs::write(folder.path().join(place).join("config.json"), text).unwrap();
    }
    for place in ["config.json", "mcp-span.json", ".mcp-span.json", ".mcp.json"] {
        std::fs::write(folder.path().join(place), text).unwrap();
    }
    // A relative folder is none (XDG says so, too).
    for env in [None, Some(("XDG_CONFIG_HOME", ".config"))] {
        let mut command = command(&[&server.url]);
        command.current_dir(folder.path()).envs(env);
        Bridge::spawn(command).ask(request(1, "a")).await;
    }
    assert_eq!(server.all("a").len(), 2);
    assert!(server.requests().iter().all(|r| r.header("x-from").is_none()));
}
