//! A managed server that wants a login: a state of its own, with the page to open.

use std::sync::Arc;
use std::time::Duration;

use mcp_span::{
    Client, Delivery, ErrorKind, ManagedServer, Manager, ServerEvents, ServerOptions, ServerState,
};

use crate::manager::{hasty, listed, until, with_tool};
use crate::support::{Manners, PATIENCE, Provider, soon};

/// A server that logs in with a person's help; nobody opens a browser for them.
fn guarded(provider: &Provider, login_timeout: Duration) -> ManagedServer {
    let mut options = ServerOptions::from_url(&provider.url);
    options.oauth_wait = Some(Duration::from_millis(200));
    options.oauth_login_timeout = Some(login_timeout);
    ManagedServer::new(Client::builder(options)).expect("a server")
}

/// Waits until a person is needed; gives the page.
async fn page(events: &mut ServerEvents) -> Arc<str> {
    match until(events, "s", "needs-login").await {
        ServerState::NeedsLogin { url, .. } => url,
        state => panic!("{state:?}"),
    }
}

/// A person opens the page, and logs in without a question.
async fn open(url: &str) {
    let curl = tokio::process::Command::new("curl").args(["-sL", "-o", "/dev/null", url]).status();
    assert!(soon("a login", curl).await.expect("curl").success());
}

#[tokio::test]
async fn a_server_that_wants_a_login_names_the_page_and_connects_by_itself_afterwards() {
    let provider = Provider::guarding(Manners::default(), with_tool).await;
    let manager = Manager::start([("s", guarded(&provider, PATIENCE))], hasty());
    let mut events = manager.events();
    let url = page(&mut events).await;
    assert!(url.starts_with("http") && url.contains("/authorize?"), "{url}");
    assert!(manager.settled(PATIENCE).await, "nothing comes before a person has logged in");
    assert!(manager.tools().is_empty(), "nobody stands in for the server");
    let error = soon("an end", manager.call("s__new", ())).await.unwrap_err();
    assert_eq!((error.kind, error.delivery), (ErrorKind::Login, Delivery::NotDelivered));
    assert_eq!(error.login_url.unwrap().as_str(), &*url);
    open(&url).await;
    until(&mut events, "s", "ready").await;
    listed(&mut events).await;
    assert_eq!(manager.tools()[0].name, "s__new");
    soon("a call", manager.call("s__new", ())).await.unwrap();
    // The token is no good any more: the same again, over the connection that stands.
    provider.desk.forget_tokens();
    let error = soon("an end", manager.call("s__new", ())).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Login, "{error}");
    let url = page(&mut events).await;
    assert_eq!(error.login_url.unwrap().as_str(), &*url);
    assert!(!manager.tools()[0].is_current);
    open(&url).await;
    until(&mut events, "s", "ready").await;
    listed(&mut events).await;
    soon("a call", manager.call("s__new", ())).await.unwrap();
    soon("goodbye", manager.close()).await;
}

#[tokio::test]
async fn a_login_that_nobody_comes_for_is_a_failure_until_somebody_asks_again() {
    let provider = Provider::guarding(Manners::default(), with_tool).await;
    let server = guarded(&provider, Duration::from_millis(300));
    let manager = Manager::start([("s", server)], hasty());
    let mut events = manager.events();
    page(&mut events).await;
    let failed = until(&mut events, "s", "failed").await;
    assert_eq!(failed.why().unwrap().kind, ErrorKind::Login, "{failed:?}");
    assert_eq!(provider.at("/token").len(), 0);
    soon("goodbye", manager.close()).await;
}

#[tokio::test]
async fn a_manager_that_is_closed_during_a_login_does_not_wait_for_it() {
    let provider = Provider::guarding(Manners::default(), with_tool).await;
    let manager = Manager::start([("s", guarded(&provider, PATIENCE))], hasty());
    let mut events = manager.events();
    page(&mut events).await;
    tokio::time::timeout(PATIENCE / 2, manager.close()).await.expect("an end");
    assert_eq!(manager.state("s"), Some(ServerState::Closed));
}
