//! Browsers, and the listener that they come back to: in the foreground, missing, several at once.

use serde_json::Value;

use crate::support::{Bridge, INITIALIZE, Manners, Provider, Request, bind_again, soon};

/// The port of this machine that a page leads back to.
fn port_of(page: &str) -> u16 {
    let page = url::Url::parse(page).unwrap();
    let (_, back) = page.query_pairs().find(|(name, _)| name == "redirect_uri").unwrap();
    let back = url::Url::parse(&back).unwrap();
    assert_eq!((back.host_str(), back.path()), (Some("127.0.0.1"), "/callback"));
    back.port().unwrap()
}

#[tokio::test]
async fn a_browser_may_stay_in_the_foreground_while_the_callback_comes() {
    let provider = Provider::start(Manners::default()).await;
    provider.browse(
        "curl -sL -o /dev/null \"$1\"
         while [ -e \"$0\" ] && [ ! -e \"$2/go\" ]; do sleep 0.02; done
         touch \"$2/over\"",
    );
    let bridge = provider.ready(&[]).await;
    assert!(!provider.path("over").exists(), "it is still open");
    let (_, status, _) = bridge.finish().await;
    assert!(status.success() && !provider.path("over").exists());
    std::fs::write(provider.path("go"), "").unwrap();
}

/// The page that the bridge names on stderr.
async fn named_on_stderr(bridge: &Bridge) -> String {
    let named = async {
        loop {
            let said = bridge.stderr();
            let line = said.lines().find_map(|line| {
                let (_, page) = line.strip_prefix("mcp-span: log in to ")?.split_once(": open ")?;
                Some(page)
            });
            match line.filter(|_| said.ends_with('\n')) {
                Some(page) => return page.to_owned(),
                None => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
            }
        }
    };
    soon("the page on stderr", named).await
}

#[tokio::test]
async fn where_no_browser_can_be_started_the_page_is_on_stderr_and_works() {
    for browser in ["/no/such/browser", "false", "'unfinished"] {
        let provider = Provider::start(Manners::default()).await;
        let mut bridge = provider.bridge_with(&[], &[("BROWSER", browser)]);
        bridge.send(INITIALIZE).await;
        let page = named_on_stderr(&bridge).await;
        let mut person = tokio::process::Command::new("curl");
        let status = person.args(["-sL", "-o", "/dev/null", &page]).status().await;
        assert!(status.unwrap().success(), "{browser}");
        let answer = bridge.receive().await;
        assert!(answer["result"].is_object(), "{browser}: {answer}");
    }
}

#[tokio::test]
async fn logins_at_once_have_ports_of_their_own() {
    // peers b: a busy port
    let provider = Provider::start(Manners::default()).await;
    provider.browse(
        "while [ -e \"$0\" ] && [ ! -e \"$2/go\" ]; do sleep 0.02; done
         exec curl -sL -o /dev/null \"$1\"",
    );
    let profiles = ["a", "b", "c"].map(|name| provider.bridge(&["--profile", name]));
    let mut bridges = profiles;
    for bridge in &mut bridges {
        bridge.send(INITIALIZE).await;
    }
    provider.browsed(3).await;
    let mut ports: Vec<u16> = provider.pages().iter().map(|page| port_of(page)).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 3, "{ports:?}");
    std::fs::write(provider.path("go"), "").unwrap();
    for bridge in &mut bridges {
        let answer = bridge.receive().await;
        assert!(answer["result"].is_object(), "{answer}");
    }
}

#[tokio::test]
async fn a_client_comes_back_to_the_port_it_was_registered_with_or_is_registered_anew() {
    let provider = Provider::start(Manners { gives_refresh: false, ..Manners::default() }).await;
    provider.ready(&[]).await;
    provider.desk.expire();
    provider.ready(&[]).await;
    let ports: Vec<u16> = provider.pages().iter().map(|page| port_of(page)).collect();
    assert_eq!((ports.len(), ports[0]), (2, ports[1]));
    assert_eq!(provider.at("/register").len(), 1);

    let _taken = bind_again(([127, 0, 0, 1], ports[0]).into()).await;
    provider.desk.expire();
    provider.ready(&[]).await;
    assert_ne!(port_of(&provider.pages()[2]), ports[0]);
    let registered: Vec<Value> = provider.at("/register").iter().map(Request::json).collect();
    assert_eq!(registered.len(), 2, "{registered:?}");
}
