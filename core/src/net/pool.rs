//! The connections of a client: by host, and given up when the machine has slept.
//!
//! The pool of hyper-util does the same for any number of hosts, protocols and waiting requests, and
//! a call pays for that: a fifth of all its instructions. There is one host here as a rule.

use std::sync::{Arc, Mutex};

use http::{Response, StatusCode, Uri};
use tracing::debug;

use super::Call;
use super::body::Inbound;
use super::connect::{ConnectFault, Connector};
use super::connection::Connection;
use super::fault::RequestFailure;
use super::host::Host;
use super::proxy_fault::{ProxyFault, Refused};
use super::request::over_http2;
use super::sleeps::Sleeps;
use crate::lock::lock;

/// Connections to any number of hosts.
#[derive(Debug)]
pub(super) struct Pool {
    connector: Arc<Connector>,
    pub(super) sleeps: Sleeps,
    hosts: Mutex<Hosts>,
}

#[derive(Debug, Default)]
struct Hosts {
    list: Vec<Arc<Host>>,
    /// How many times the machine had slept before their connections were made.
    after_sleeps: u64,
}

impl Pool {
    pub(super) fn new(connector: Connector) -> Self {
        let connector = Arc::new(connector);
        Self { connector, sleeps: Sleeps::default(), hosts: Mutex::default() }
    }

    /// Sends `call` and gives back the head of the answer.
    pub(super) async fn send(&self, call: &Call) -> Result<Response<Inbound>, RequestFailure> {
        let host = self.host(call.endpoint.uri());
        loop {
            let mut connection = match host.connection(call.lane).await? {
                Connection::Http1(connection) => connection,
                Connection::Http2(mut connection) => {
                    // Boxed, so that HTTP/1.1 does not pay for its size.
                    let sending = Box::pin(connection.sender.send_request(over_http2(call)));
                    let response = sending.await.map_err(RequestFailure::Http2)?;
                    call.progress.note_peer(connection.peer);
                    return Ok(response.map(|body| Inbound { body, _lease: None }));
                }
            };
            let sending = connection.sender.try_send_request(host.request(call));
            match sending.await {
                Ok(response) => {
                    call.progress.note_peer(connection.peer);
                    let lease = host.have_back(connection);
                    if response.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED
                        && let Some(proxy) = &host.forwarder
                    {
                        let refused = ProxyFault::Login(Refused::of(&response));
                        return Err(ConnectFault::Proxy(Arc::clone(proxy), refused).into());
                    }
                    return Ok(response.map(|body| Inbound { body, _lease: lease }));
                }
                // It was closed while it was idle, and none of the request was written.
                Err(error) if error.message().is_some() && connection.was_used => {
                    debug!("a connection has ended while it was idle");
                }
                Err(error) => return Err(RequestFailure::Http1(error.into_error())),
            }
        }
    }

    /// The host of `uri`, without connections that are older than the machine's last sleep: what
    /// slept along is dead, or soon will be, and a request that is written to it is lost in a way that
    /// nobody can tell from having been carried out.
    pub(super) fn host(&self, uri: &Uri) -> Arc<Host> {
        let sleeps = self.sleeps.count();
        let mut hosts = lock(&self.hosts);
        if std::mem::replace(&mut hosts.after_sleeps, sleeps) != sleeps {
            debug!("the machine has slept: all connections are given up");
            for host in &mut hosts.list {
                *host = Arc::new(host.without_connections());
            }
        }
        if let Some(host) = hosts.list.iter().find(|host| host.is_of(uri)) {
            return Arc::clone(host);
        }
        // Redirects may lead to ever new ones.
        hosts.list.retain(|host| Arc::strong_count(host) > 1 || host.is_known());
        let host = Arc::new(Host::new(uri, Arc::clone(&self.connector)));
        hosts.list.push(Arc::clone(&host));
        host
    }
}

#[cfg(test)]
mod tests {
    use super::super::Options;
    use super::*;

    #[tokio::test]
    async fn hosts_that_nobody_needs_are_forgotten() {
        let pool = Pool::new(Connector::new(&Options::default()));
        for n in 0..100 {
            pool.host(&format!("http://host-{n}/").parse().unwrap());
        }
        let kept = pool.host(&"http://host-7:80/x".parse().unwrap());
        assert!(kept.is_of(&"http://host-7:80/".parse().unwrap()));
        assert!(!kept.is_of(&"https://host-7:80/".parse().unwrap()));
        assert!(pool.hosts.lock().unwrap().list.len() <= 2);
    }
}
