//! The redirect address of a login: that of mcp-remote under its name, and ours under ours.

use std::net::TcpListener;

use crate::support::{Bridge, Manners, Provider};

/// The program under the name of mcp-remote, with a person at hand.
fn as_mcp_remote(provider: &Provider, args: &[&str]) -> Bridge {
    let words = ["mcp-remote", &*provider.url];
    let args: Vec<&str> = words.into_iter().chain(args.iter().copied()).collect();
    let env = provider.env();
    let env: Vec<(&str, &str)> = env.iter().map(|(n, v)| (*n, v.as_str())).collect();
    Bridge::start_with(&args, &env)
}

/// The redirect address of the last login: in the registration, on the page, in the exchange.
fn addresses(provider: &Provider) -> [String; 3] {
    let registered = provider.at("/register").pop().map(|request| request.json());
    let registered = registered.map(|body| body["redirect_uris"][0].as_str().unwrap().to_owned());
    let page = provider.logins().pop().unwrap().get("redirect_uri").to_owned();
    let exchange = provider.forms().pop().unwrap().get("redirect_uri").to_owned();
    [registered.unwrap_or_else(|| page.clone()), page, exchange]
}

/// The port that mcp-remote derives.
fn derived(text: &str) -> u16 {
    let digest = md5_of(text);
    3335 + (u32::from_str_radix(&digest[..4], 16).unwrap() % 45816) as u16
}

/// A provider at which all ports that are derived lie below those that systems give out: other tests
/// have some of those.
async fn provider(manners: Manners, derived_from: impl Fn(&str) -> Vec<String>) -> Provider {
    loop {
        let provider = Provider::start(manners.clone()).await;
        let ports = derived_from(&provider.url).into_iter().map(|text| derived(&text));
        if ports.into_iter().all(|port| port < 32_000) {
            return provider;
        }
    }
}

async fn plain_provider(manners: Manners) -> Provider {
    provider(manners, |url| vec![url.to_owned()]).await
}

/// Arguments, and what mcp-remote derives a port from with them.
fn separations(url: &str) -> [(&'static [&'static str], String); 4] {
    [
        (&["--resource", "https://t.example/"], format!("{url}|https://t.example/")),
        (
            &["--authorize-param", "b=2", "--authorize-param", "a=1"],
            format!(r#"{url}|{{"a":"1","b":"2"}}"#),
        ),
        (
            &["--header", "X-B:${MCP_SPAN_STATE_DIR}", "--header", "X-A: 1"],
            format!(r#"{url}|{{"X-A":"1","X-B":"${{MCP_SPAN_STATE_DIR}}"}}"#),
        ),
        (&["--resource", "https://t.example/", "--disable-resource-parameter"], url.to_owned()),
    ]
}

fn md5_of(text: &str) -> String {
    let mut child = std::process::Command::new("md5sum")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

fn all(address: &str) -> [String; 3] {
    [address.to_owned(), address.to_owned(), address.to_owned()]
}

#[tokio::test]
async fn under_the_name_of_mcp_remote_the_address_is_that_of_mcp_remote() {
    let provider = plain_provider(Manners::default()).await;
    as_mcp_remote(&provider, &[]).handshake().await;
    let port = derived(&provider.url);
    assert_eq!(addresses(&provider), all(&format!("http://localhost:{port}/oauth/callback")));
}

#[tokio::test]
async fn the_port_is_derived_from_all_that_mcp_remote_derives_it_from() {
    let derived_from = |url: &str| separations(url).map(|(_, text)| text).to_vec();
    let provider = provider(Manners::default(), derived_from).await;
    for (args, text) in separations(&provider.url) {
        as_mcp_remote(&provider, args).handshake().await;
        let expected = format!("http://localhost:{}/oauth/callback", derived(&text));
        assert_eq!(addresses(&provider), all(&expected), "{args:?}");
        provider.desk.forget_tokens();
    }
}

#[tokio::test]
async fn a_port_a_host_and_a_path_that_were_typed_are_in_the_address() {
    let provider = plain_provider(Manners::default()).await;
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    as_mcp_remote(&provider, &[&port]).handshake().await;
    assert_eq!(addresses(&provider), all(&format!("http://localhost:{port}/oauth/callback")));
    provider.desk.forget_tokens();
    let args = ["--host", "127.0.0.1", "--callback-path", "/custom/callback"];
    as_mcp_remote(&provider, &args).handshake().await;
    let port = derived(&provider.url);
    assert_eq!(addresses(&provider), all(&format!("http://127.0.0.1:{port}/custom/callback")));
}

#[tokio::test]
async fn a_derived_port_that_is_taken_is_passed_over() {
    let provider = plain_provider(Manners::default()).await;
    let port = derived(&provider.url);
    let taken = TcpListener::bind(("127.0.0.1", port));
    as_mcp_remote(&provider, &[]).handshake().await;
    let registered = &addresses(&provider)[0];
    let tried: Vec<String> =
        (1..8).map(|more| format!("http://localhost:{}/oauth/callback", port + more)).collect();
    assert!(tried.contains(registered), "{registered}");
    drop(taken);
}

#[tokio::test]
async fn a_client_of_its_own_comes_back_to_the_derived_port_or_not_at_all() {
    let known = Some(("by-hand", ""));
    let provider = plain_provider(Manners { known, ..Manners::default() }).await;
    let client = ["--static-oauth-client-info", r#"{"client_id":"by-hand"}"#];
    let port = derived(&provider.url);
    let taken = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let mut bridge = as_mcp_remote(&provider, &client);
    bridge.send(crate::support::INITIALIZE).await;
    let answer = bridge.receive().await;
    let text = answer["error"]["message"].as_str().unwrap();
    assert!(text.contains(&format!("Port {port} ")), "{answer}");
    assert!(provider.logins().is_empty());
    drop((bridge, taken));
    as_mcp_remote(&provider, &client).handshake().await;
    assert_eq!(addresses(&provider), all(&format!("http://localhost:{port}/oauth/callback")));
    assert!(provider.at("/register").is_empty());
}

#[tokio::test]
async fn a_browser_comes_back_to_localhost_by_either_family_of_addresses() {
    for family in ["-4", "-6"] {
        let provider = Provider::start(Manners::default()).await;
        // The provider listens on one family alone: the way back is gone by itself.
        provider.browse(&format!(
            "back=$(curl -s -o /dev/null -w '%{{redirect_url}}' \"$1\")\n\
             exec curl {family} -sL -o /dev/null \"$back\""
        ));
        let has_family = family == "-4" || TcpListener::bind("[::1]:0").is_ok();
        if has_family {
            as_mcp_remote(&provider, &["--oauth-wait", "60"]).handshake().await;
            assert_eq!(provider.forms().len(), 1, "{family}");
        }
    }
}

#[tokio::test]
async fn under_our_own_name_the_address_is_ours_whatever_client_was_registered() {
    let provider = Provider::start(Manners::default()).await;
    as_mcp_remote(&provider, &[]).handshake().await;
    provider.desk.forget_tokens();
    provider.ready(&[]).await;
    let [registered, page, exchange] = addresses(&provider);
    assert!(page.starts_with("http://127.0.0.1:") && page.ends_with("/callback"), "{page}");
    assert_eq!((&registered, &exchange), (&page, &page));
    assert_eq!(provider.at("/register").len(), 2, "its address is another");
}
