//! Checks a server over HTTP, from its name to what it lists.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http::header::AUTHORIZATION;
use serde_json::Value;

use super::door::{Door, Heard};
use super::finding::Finding;
use super::spinner::Activity;
use super::transport::{self, Opening, Spoken};
use super::{CheckOptions, address, authorization, contents, session, suspicion, tls};
use mcp_span::auth::{Credentials, Granted, Login};
use mcp_span::bridge::{Policy, Stages};
use mcp_span::client::{Options, Server, Spec};
use mcp_span::error::Error;
use mcp_span::limits::{self, Timeouts};
use mcp_span::net::{self, Endpoint};
use mcp_span::revision::translate::SERVER_INFO;
use mcp_span::transport::http::HttpSettings;

/// What cannot be looked at without a connection, in the order of a report.
const BEHIND: [&str; 11] = [
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

/// Checks that are about an MCP server, and not about who we are to it.
const OF_SERVER: [&str; 5] = ["server", "session", "session-unknown", "session-end", "stream"];

/// All that can be said about the server.
pub(super) async fn check(
    mut settings: HttpSettings,
    stages: Stages,
    check_options: CheckOptions,
    activity: Activity,
) -> Vec<Finding> {
    settings.net.connect_timeout = settings.net.connect_timeout.min(check_options.limit);
    let url = &settings.url;
    let mut findings = vec![address::url(url)];
    let endpoint = match Endpoint::new(url) {
        Ok(endpoint) => endpoint,
        Err(error) => {
            findings[0] = Finding::of_error("url", &error);
            return findings;
        }
    };
    activity.now("connecting");
    let look = net::look(&settings.net, &endpoint).await;
    findings.extend(address::way(url, &look));
    let is_checked = !settings.net.tls.insecure;
    let is_https = url.scheme() == "https";
    findings.push(tls::tls(&look, is_https, is_checked, SystemTime::now()));
    if look.fault().is_some() {
        findings.extend(skipped(&BEHIND, "there is no connection"));
        return findings;
    }
    let visit = Visit { settings, stages, check_options, activity };
    let behind = visit.go().await;
    // In the order of a report, whatever the order in which it was found out.
    let mut behind: Vec<Finding> = behind;
    behind.sort_by_key(|finding| BEHIND.iter().position(|name| *name == finding.check));
    findings.extend(behind);
    findings
}

fn skipped<'a>(checks: &'a [&'static str], why: &'a str) -> impl Iterator<Item = Finding> + 'a {
    checks.iter().map(move |check| Finding::skipped(check, why))
}

/// A visit to a server that can be connected to.
struct Visit {
    settings: HttpSettings,
    stages: Stages,
    check_options: CheckOptions,
    activity: Activity,
}

impl Visit {
    async fn go(self) -> Vec<Finding> {
        let credentials = self.settings.credentials.clone();
        let mut door = match Door::new(&self.settings, self.check_options.limit) {
            Ok(door) => door,
            Err(error) => return vec![Finding::of_error("transport", &error)],
        };
        self.activity.now("asking for credentials");
        let granted = match &credentials {
            None => None,
            Some(credentials) => match credentials.get(Login::Never).await {
                Ok(granted) => Some(granted),
                Err(error) => {
                    let why = "there are no credentials to send";
                    let mut findings = vec![authorization::unavailable(&error)];
                    let others = BEHIND.iter().filter(|name| **name != "authorization");
                    findings.extend(others.map(|check| Finding::skipped(check, why)));
                    return findings;
                }
            },
        };
        if let Some(granted) = &granted {
            door.grant(granted.clone());
        }
        self.activity.now("shaking hands");
        let wanted = self.settings.transport;
        let mut opening = transport::open(&door, wanted).await;
        let mut failure = None;
        if let (Spoken::Refused(heard), Some(credentials), Some(granted)) =
            (&opening.spoken, &credentials, &granted)
        {
            match self.others(credentials, granted, heard).await {
                Ok(Some(newer)) => {
                    door.grant(newer);
                    opening = transport::open(&door, wanted).await;
                }
                Ok(None) => {}
                Err(error) => failure = Some(error),
            }
        }
        self.opened(&door, opening, failure).await
    }

    /// Other credentials, if they can be had without bothering anybody who does not want that.
    async fn others(
        &self,
        credentials: &Arc<Credentials>,
        granted: &Granted,
        heard: &Heard,
    ) -> Result<Option<Granted>, Error> {
        if let (Some(oauth), Some(peer)) = (credentials.oauth(), heard.peer) {
            oauth.met(peer);
        }
        let login = if self.check_options.login { Login::Allowed } else { Login::Never };
        self.activity.now("asking for other credentials");
        credentials.after_refusal(granted, heard.status, &heard.headers, false, login).await
    }

    async fn opened(&self, door: &Door, opening: Opening, failure: Option<Error>) -> Vec<Finding> {
        let mut findings = Vec::new();
        let is_secure = self.settings.url.scheme() == "https";
        let is_usable = match &opening.finding {
            Some(finding) => finding.status < super::finding::Status::Failed,
            None => false,
        };
        if let Some(first) = &opening.first {
            findings.push(suspicion::http(first, is_secure));
            findings.extend(suspicion::clock(&first.headers, SystemTime::now()));
        }
        findings.extend(opening.finding);
        match opening.spoken {
            Spoken::Refused(heard) => {
                findings.extend(self.turned_away(&heard, failure, is_secure).await);
            }
            Spoken::Nothing => {
                findings.extend(skipped(&OF_SERVER, "no MCP server was found"));
                let rest = ["authorization", "round-trip", "contents"];
                findings.extend(skipped(&rest, "no MCP server was found"));
            }
            spoken if !is_usable => {
                if let Spoken::Streamable(session) = &spoken {
                    session::leave(door, session).await;
                }
                let why = "the server does not speak what was asked for";
                findings.extend(skipped(&OF_SERVER, why));
                findings.extend(skipped(&["round-trip", "contents"], why));
            }
            spoken => {
                let has_header = door.headers().contains_key(AUTHORIZATION);
                findings.push(authorization::taken(&self.settings, has_header).await);
                findings.extend(self.of_server(door, spoken).await);
            }
        }
        findings
    }

    /// The server does not let us in.
    async fn turned_away(
        &self,
        heard: &Heard,
        failure: Option<Error>,
        is_secure: bool,
    ) -> Vec<Finding> {
        self.activity.now("looking for a way to log in");
        let why = "the server refuses us before it says anything";
        let mut findings = vec![suspicion::http(heard, is_secure)];
        findings.extend(suspicion::clock(&heard.headers, SystemTime::now()));
        findings.extend(skipped(&["transport"], why));
        findings.extend(skipped(&OF_SERVER, why));
        let login = failure.as_ref().filter(|_| self.check_options.login);
        let mut refused = authorization::refused(&self.settings, heard, login).await;
        if let (None, Some(failure)) = (login, &failure) {
            refused = refused.detail(format!("renewal: {}", failure.message));
        }
        findings.push(refused);
        findings.extend(skipped(&["round-trip", "contents"], why));
        findings
    }

    async fn of_server(&self, door: &Door, spoken: Spoken) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut said = None;
        match spoken {
            Spoken::Streamable(session) => {
                self.activity.now("looking at sessions");
                let wants_stream = self.settings.server_stream;
                findings.extend(session::look(door, &session, wants_stream).await);
                findings.push(contents::server(&session.server, &session.server["serverInfo"]));
                said = Some(session.server);
            }
            Spoken::Modern(about) => {
                let sessions = ["session", "session-unknown", "session-end"];
                findings.extend(skipped(&sessions, "the modern era has no sessions"));
                let stream = "the modern era has subscriptions in its place";
                findings.extend(skipped(&["stream"], stream));
                findings.push(contents::server(&about, &about["_meta"][SERVER_INFO]));
                findings.push(questions(door).await);
                said = Some(about);
            }
            _ => {
                let sessions = ["session", "session-unknown", "session-end"];
                findings.extend(skipped(&sessions, "the stream is the session"));
                findings.push(Finding::ok("stream", "open: this transport has one for everything"));
            }
        }
        findings.extend(self.by_client(door, said).await);
        // What was measured in another way stands already.
        let mut seen = Vec::new();
        findings.retain(|finding| {
            let is_new = !seen.contains(&finding.check);
            seen.push(finding.check);
            is_new
        });
        findings
    }

    /// The same server through the client that all other commands use.
    async fn by_client(&self, door: &Door, said: Option<Value>) -> Vec<Finding> {
        self.activity.now("listing what there is");
        let limit = self.check_options.limit;
        let client = match contents::connect(self.spec(door), Options::default(), limit).await {
            Ok(client) => client,
            Err(failure) => {
                let mut findings = vec![contents::of_failure("contents", &failure)];
                let why = "the client did not get through";
                findings.extend(skipped(&["server", "round-trip"], why));
                return findings;
            }
        };
        let mut findings = Vec::new();
        if said.is_none() {
            let server = client.server();
            findings.push(
                contents::server(server, &server["serverInfo"]).detail(format!(
                    "revision: {}",
                    crate::report::plain(client.protocol_version())
                )),
            );
        }
        findings.push(contents::count(&client, limit).await);
        self.activity.now("measuring round trips");
        findings.push(contents::pings(&client, limit).await);
        client.close().await;
        findings
    }

    /// As the bridge would connect, but without patience, and with the credentials of the moment.
    fn spec(&self, door: &Door) -> Spec {
        let mut http = self.settings.clone();
        http.headers = door.headers();
        http.credentials = None;
        http.server_stream = false;
        http.away_wait = Duration::ZERO;
        http.timeouts = Timeouts {
            quick: Some(self.check_options.limit),
            work: Some(self.check_options.limit),
        };
        let policy = Policy {
            timeouts: http.timeouts,
            connect_wait: Duration::ZERO,
            away_wait: Duration::ZERO,
            ..Policy::default()
        };
        let stages = Stages { protocol: self.stages.protocol, ..Stages::default() };
        Spec { server: Server::Http(Box::new(http)), policy, stages }
    }
}

/// A modern server has no pings: it is asked what it is.
async fn questions(door: &Door) -> Finding {
    let mut times = Vec::new();
    for _ in 0..limits::ROUND_TRIPS {
        let begun = Instant::now();
        if let Err(unheard) = door.ask(transport::discover()).await {
            return Finding::of_error("round-trip", &unheard.error).exchange(&unheard.exchange);
        }
        times.push(begun.elapsed());
    }
    session::round_trips(times, "questions")
}
