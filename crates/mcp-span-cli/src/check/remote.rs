//! Checks a server over HTTP: connects as the bridge does, with a recorder on the traffic, and lets
//! the rules say what the recording means.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::USER_AGENT;

use super::address::Way;
use super::exchange::Exchange;
use super::finding::Finding;
use super::transport::Spoken;
use super::{
    Activity, CheckOptions, address, audit, authorization, contents, diagnose, session, tls,
    transport,
};
use mcp_span::Error;
use mcp_span::bridge::{Policy, Stages};
use mcp_span::client::{Client, Options, Server, Spec};
use mcp_span::error::ErrorKind;
use mcp_span::limits::{self, Timeouts};
use mcp_span::net::{Endpoint, Recorder};
use mcp_span::revision::Revision;
use mcp_span::revision::translate::SERVER_INFO;
use mcp_span::secret::{Scrubber, shown};
use mcp_span::transport::http::{HttpSettings, Transport};

/// All checks but that of the URL itself, in the order of a report.
const CHECKS: [&str; 15] = [
    "name",
    "proxy",
    "connection",
    "tls",
    "http",
    "transport",
    "server",
    "session",
    "session-unknown",
    "session-end",
    "stream",
    "authorization",
    "round-trip",
    "contents",
    "clock",
];

/// Those that are made with `--audit` alone.
const AUDITS: [&str; 4] = ["session-unknown", "session-end", "stream", "clock"];

/// All that can be said about the server.
pub(super) async fn check(
    mut settings: HttpSettings,
    stages: Stages,
    check_options: CheckOptions,
    activity: Activity,
) -> Vec<Finding> {
    settings.net.connect_timeout = settings.net.connect_timeout.min(check_options.limit);
    settings.may_log_in = check_options.login.is_some();
    let url = &settings.url;
    if let Err(error) = Endpoint::new(url) {
        return vec![Finding::of_error("url", &error)];
    }
    let url = address::url(url);
    let found = Remote { settings, stages, check_options, activity }.check().await;
    std::iter::once(url).chain(found.completed(check_options.audit)).collect()
}

/// What was found, and why the rest was not.
struct Found {
    findings: Vec<Finding>,
    gap: &'static str,
}

impl Found {
    /// In the order of a report, with the reason where there is no finding.
    fn completed(mut self, audit: bool) -> Vec<Finding> {
        let wanted = |check: &&str| audit || !AUDITS.contains(check);
        for check in CHECKS.into_iter().filter(wanted) {
            // A server need not say what its clock shows.
            if check != "clock" && !self.findings.iter().any(|finding| finding.check == check) {
                self.findings.push(Finding::skipped(check, self.gap));
            }
        }
        self.findings
            .sort_by_key(|finding| CHECKS.iter().position(|check| *check == finding.check));
        self.findings
    }
}

/// A server that can be connected to.
struct Remote {
    settings: HttpSettings,
    stages: Stages,
    check_options: CheckOptions,
    activity: Activity,
}

/// A client, or why there is none, and what has crossed.
struct Attempt {
    client: Result<Client, Error>,
    recorder: Recorder,
    limit: Duration,
    scrubber: Scrubber,
}

impl Attempt {
    fn exchanges(&self) -> Vec<Exchange> {
        let exchanges = self.recorder.exchanges().into_iter();
        exchanges.map(|exchange| Exchange::new(exchange, self.limit, &self.scrubber)).collect()
    }
}

impl Remote {
    async fn check(self) -> Found {
        self.activity.now("connecting");
        let attempt = self.connect(self.settings.clone()).await;
        let (mut way, is_open) = self.way(&attempt).await;
        let mut found = match &attempt.client {
            _ if !is_open => Found { findings: Vec::new(), gap: "no connection" },
            Ok(client) => self.connected(client, &attempt).await,
            Err(failure) => self.unconnected(&attempt, failure).await,
        };
        found.findings.append(&mut way);
        found
    }

    /// What is known of the connection, and whether there is one, if one was wanted.
    async fn way(&self, attempt: &Attempt) -> (Vec<Finding>, bool) {
        let connections = attempt.recorder.connections();
        let Some(connection) = connections.first() else { return (Vec::new(), true) };
        let url = &self.settings.url;
        let is_https = url.scheme() == "https";
        let is_open = connection.reached.is_some() && (connection.secured.is_some() || !is_https);
        let exchanges = attempt.exchanges();
        let fault = exchanges.first().and_then(|exchange| exchange.response.as_ref().err());
        let way = Way { url, connection, fault: fault.filter(|_| !is_open) };
        let dead = address::dead_addresses(connection).await;
        let is_checked = !self.settings.net.tls.insecure;
        let tls = tls::tls(&way, is_checked, SystemTime::now());
        (way.findings(dead).into_iter().chain([tls]).collect(), is_open)
    }

    async fn unconnected(&self, attempt: &Attempt, failure: &Error) -> Found {
        let wanted = self.settings.transport;
        let exchanges = attempt.exchanges();
        let is_refused = exchanges.iter().any(Exchange::is_refused);
        if wanted == Transport::Auto || is_refused || exchanges.is_empty() {
            return self.failed(&exchanges, failure).await;
        }
        // What was asked for does not work: what else does?
        let any = HttpSettings { transport: Transport::Auto, ..self.settings.clone() };
        let other = self.connect(any).await;
        match &other.client {
            Err(failure) => self.failed(&other.exchanges(), failure).await,
            Ok(client) => {
                client.close().await;
                let other = other.exchanges();
                let mut finding = transport::other_only(&other, client.protocol_version(), wanted);
                if let Some(exchange) = exchanges.first() {
                    finding = finding.exchange(exchange);
                }
                let mut findings = self.of_http(&exchanges);
                findings.push(finding);
                Found { findings, gap: "the server speaks another transport" }
            }
        }
    }

    /// Connects as the bridge would, but without patience.
    async fn connect(&self, mut http: HttpSettings) -> Attempt {
        let CheckOptions { limit, login, .. } = self.check_options;
        let recorder = Recorder::default();
        http.net.recorder = Some(recorder.clone());
        http.away_wait = Duration::ZERO;
        http.timeouts = Timeouts { quick: Some(limit), work: Some(limit) };
        let login_wait = login.unwrap_or_default();
        http.login_wait = login_wait;
        let policy = Policy {
            timeouts: http.timeouts,
            connect_wait: Duration::ZERO,
            away_wait: Duration::ZERO,
            login_wait,
            ..Policy::default()
        };
        let stages = Stages { protocol: self.stages.protocol, ..Stages::default() };
        let spec = Spec { server: Server::Http(Box::new(http)), policy, stages };
        let whole = limit.saturating_mul(limits::CHECK_HANDSHAKE) + login_wait;
        let client = contents::connect(spec, Options::default(), whole).await;
        Attempt { client, recorder, limit, scrubber: self.settings.scrubber.clone() }
    }

    /// What the first answer says beside its content.
    fn of_http(&self, exchanges: &[Exchange]) -> Vec<Finding> {
        let Some(first) = exchanges.iter().find_map(|exchange| exchange.response.as_ref().ok())
        else {
            return Vec::new();
        };
        let http = diagnose::http(first, self.settings.url.scheme() == "https");
        let headers = Some(&first.recorded.headers).filter(|_| self.check_options.audit);
        let clock = headers.and_then(|headers| audit::clock(headers, SystemTime::now()));
        std::iter::once(http).chain(clock).collect()
    }

    /// There is no session.
    async fn failed(&self, exchanges: &[Exchange], failure: &Error) -> Found {
        let mut findings = self.of_http(exchanges);
        let is_secret = matches!(failure.kind, ErrorKind::Credentials | ErrorKind::Login);
        let gap = match exchanges.last() {
            None if is_secret => {
                findings.push(authorization::unavailable(failure));
                "no credentials to send"
            }
            None => {
                findings.push(contents::of_failure("transport", failure));
                "no MCP server found"
            }
            Some(last) if last.is_refused() => {
                self.activity.now("looking for a way to log in");
                let refused = authorization::refused(&self.settings, last, failure);
                findings.push(refused.await.exchange(last));
                "the server requires credentials first"
            }
            Some(last) => {
                let handshake = exchanges.iter().rfind(|exchange| exchange.is("initialize"));
                findings.push(self.handshake(handshake.unwrap_or(last), failure).await);
                "no MCP server found"
            }
        };
        Found { findings, gap }
    }

    async fn handshake(&self, exchange: &Exchange, failure: &Error) -> Finding {
        match &exchange.response {
            // It is taken, and not answered: by whom, only the client knows.
            Ok(response) if response.is_stream() || response.status == 202 => {
                contents::of_failure("transport", failure)
                    .meaning("The server accepts the handshake, but does not answer it")
                    .exchange(exchange)
            }
            Ok(response) if diagnose::may_be_elsewhere(response) => {
                diagnose::handshake(exchange, &self.elsewhere().await)
            }
            _ => diagnose::handshake(exchange, &[]),
        }
    }

    /// The usual paths of this origin where something answers as MCP does. What is for the endpoint
    /// that was named does not go there.
    async fn elsewhere(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (path, transport) in [("/mcp", Transport::Http), ("/sse", Transport::Sse)] {
            let mut url = self.settings.url.clone();
            if url.path().trim_end_matches('/') == path {
                continue;
            }
            url.set_path(path);
            url.set_query(None);
            // It fails for URLs without a host alone.
            let _ = url.set_username("").and_then(|()| url.set_password(None));
            let place = shown(&url);
            let agent = self.settings.headers.get(USER_AGENT).cloned();
            let settings = HttpSettings {
                url,
                transport,
                headers: HeaderMap::from_iter(agent.map(|agent| (USER_AGENT, agent))),
                credentials: None,
                server_stream: false,
                ..self.settings.clone()
            };
            match self.connect(settings).await.client {
                Ok(client) => client.close().await,
                Err(failure) if failure.status == Some(401) => {}
                Err(_) => continue,
            }
            found.push(place);
        }
        found
    }

    async fn connected(&self, client: &Client, attempt: &Attempt) -> Found {
        let CheckOptions { limit, audit, .. } = self.check_options;
        self.activity.now("measuring round trips");
        let handshake = attempt.exchanges();
        let spoken = Spoken::of(&handshake);
        // A modern server has no pings: it is asked what it is.
        let is_modern = matches!(spoken, Spoken::Modern(_));
        let question = if is_modern { "server/discover" } else { "ping" };
        let mut findings = vec![contents::round_trips(client, question, limit).await];
        self.activity.now("listing what there is");
        findings.push(contents::count(client, &self.stages.hidden_tools, limit).await);
        let audit = audit && spoken == Spoken::Legacy;
        if audit {
            self.activity.now("auditing it");
            if self.settings.server_stream {
                audit::watch_stream(&attempt.recorder, limit).await;
            }
        }
        let exchanges = attempt.exchanges();
        client.close().await;
        findings.extend(self.of_http(&exchanges));
        let mut transport = transport::spoken(&exchanges, client.protocol_version());
        if audit && audit::speaks_modern(&exchanges, &self.settings, limit).await {
            let revision = Revision::LATEST_MODERN;
            transport.summary += &format!("; {revision} (modern era) as well");
        }
        findings.push(transport);
        findings.push(authorization::taken(&self.settings, &exchanges).await);
        let (of_server, gap) = self.of_server(client, &exchanges);
        findings.extend(of_server);
        if audit {
            findings.extend(self.audited(&exchanges, &attempt.exchanges()).await);
        }
        Found { findings, gap }
    }

    /// Who the server is, and whether its session holds; else why there is none.
    fn of_server(&self, client: &Client, exchanges: &[Exchange]) -> (Vec<Finding>, &'static str) {
        let said = client.server();
        let server = contents::server(said, &said["serverInfo"]);
        match Spoken::of(exchanges) {
            Spoken::Legacy => (vec![server, session::session(exchanges)], "not checked"),
            // Its own words: the client's are a translation.
            Spoken::Modern(about) => (
                vec![contents::server(about, &about["_meta"][SERVER_INFO])],
                "the modern era has no sessions",
            ),
            Spoken::Sse => {
                let revision = crate::report::plain(client.protocol_version());
                (vec![server.detail(format!("revision: {revision}"))], "the stream is the session")
            }
        }
    }

    /// `open` is what had crossed before the client left.
    async fn audited(&self, open: &[Exchange], closed: &[Exchange]) -> [Finding; 3] {
        let limit = self.check_options.limit;
        let unknown = audit::ask_in_unknown_session(open, &self.settings, limit).await;
        [
            audit::unknown_session(unknown.as_ref()),
            audit::session_end(closed),
            audit::stream(open, self.settings.server_stream),
        ]
    }
}
