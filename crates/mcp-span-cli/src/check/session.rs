//! Whether a session holds: its confirmation, and the request behind it. Pure.

use super::exchange::{Exchange, Response};
use super::finding::Finding;
use mcp_span::wire::header;

/// What `exchanges` say of the session of a server of the legacy era.
pub(super) fn session(exchanges: &[Exchange]) -> Finding {
    let last_of = |rpc_method| exchanges.iter().rfind(|exchange| exchange.is(rpc_method));
    let has_id = exchanges.iter().filter(|exchange| exchange.is("initialize")).any(|exchange| {
        let response = exchange.response.as_ref();
        response.is_ok_and(|response| response.recorded.headers.contains_key(header::SESSION_ID))
    });
    let given = if has_id { "session id issued" } else { "no sessions kept" };
    let confirmed = match last_of("notifications/initialized") {
        Some(Exchange { response: Ok(response), .. }) if response.is_success() => response,
        Some(exchange) => {
            return broken(exchange, "the confirmation of the handshake is refused");
        }
        None => return Finding::skipped("session", "handshake not confirmed"),
    };
    let Some(ping) = exchanges.iter().find(|exchange| exchange.is("ping")) else {
        return Finding::skipped("session", "nothing was sent after the handshake");
    };
    match &ping.response {
        Ok(response) if response.is_success() && response.answer.is_some() => {
            answered(given, confirmed, ping, response).took(response.recorded.took)
        }
        _ => broken(ping, "the second request of a session fails"),
    }
}

fn answered(given: &str, confirmed: &Response, ping: &Exchange, response: &Response) -> Finding {
    let finding = Finding::ok("session", format!("{given}; a second request works"));
    match response.refusal() {
        Some(refusal) => {
            Finding::warning("session", format!("{given}; a ping is refused: {refusal}"))
                .meaning("Every MCP server has to answer pings; clients that ping take it for dead")
                .next_step("The server needs a handler for `ping`")
                .exchange(ping)
        }
        None if confirmed.status != 202 => finding.detail(format!(
            "notifications are acknowledged with HTTP {}; the specification says 202",
            confirmed.status
        )),
        None => finding,
    }
}

fn broken(exchange: &Exchange, what: &str) -> Finding {
    let summary = match &exchange.response {
        Ok(response) => {
            let why = response.refusal().map_or_else(String::new, |refusal| format!(", {refusal}"));
            format!("{what} (HTTP {}{why})", response.status)
        }
        Err(error) => format!("{what}: {}", error.message),
    };
    Finding::failed("session", summary)
        .meaning("The handshake works, but what follows does not: often several servers behind one address do not share sessions")
        .next_step("A load balancer has to route all requests of a session to the same server")
        .exchange(exchange)
}

#[cfg(test)]
mod tests {
    use super::super::exchange::made_up::{answered, unanswered};
    use super::super::finding::Status;
    use super::*;

    const PONG: &str = r#"{"jsonrpc":"2.0","id":2,"result":{}}"#;

    fn found(confirmed: u16, ping: Exchange) -> Finding {
        let initialize = answered("initialize", 200, &[(header::SESSION_ID, "s1")], "");
        let confirmed = answered("notifications/initialized", confirmed, &[], "");
        session(&[initialize, confirmed, ping])
    }

    #[test]
    fn a_session_holds_if_what_follows_the_handshake_is_answered() {
        let good = found(202, answered("ping", 200, &[], PONG));
        assert_eq!(good.summary, "session id issued; a second request works");
        assert!(good.details.is_empty(), "{good:?}");
        let other = found(200, answered("ping", 200, &[], PONG));
        assert!(other.details[0].contains("HTTP 200; the specification says 202"), "{other:?}");
        let refusal = r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"what?"}}"#;
        let refused = found(202, answered("ping", 200, &[], refusal));
        assert_eq!(refused.status, Status::Warning);
        assert!(refused.summary.ends_with("a ping is refused: MCP error -32601: what?"));
    }

    #[test]
    fn what_breaks_behind_the_handshake_is_told_with_its_exchange() {
        let unconfirmed = found(400, unanswered("ping"));
        assert!(unconfirmed.summary.ends_with("handshake is refused (HTTP 400)"));
        for (ping, said) in [
            (answered("ping", 503, &[], "x"), "the second request of a session fails (HTTP 503)"),
            (unanswered("ping"), "session fails: No answer within 1000 ms"),
        ] {
            let broken = found(202, ping);
            assert!(broken.summary.contains(said), "{broken:?}");
            assert!(broken.exchange.is_some() && broken.status == Status::Failed);
        }
    }
}
