//! An identity provider, the MCP server that it guards, and the browser of a person who logs in.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;

use serde_json::{Value, json};

use super::desk::{Desk, Form};
use super::{Bridge, Reply, Request, Server, polite, run, soon};

/// Changes a document before it goes out; the second is the origin of the MCP server.
pub(crate) type Edit = fn(&mut Value, &str);
/// Replies in place of the provider, where it does.
pub(crate) type Instead = Arc<dyn Fn(&Request) -> Option<Reply> + Send + Sync>;

/// How the provider and the server behave; the default is as good as it gets.
#[derive(Clone)]
pub(crate) struct Manners {
    /// The provider has a port of its own.
    pub(crate) elsewhere: bool,
    /// The path of the issuer.
    pub(crate) tenant: &'static str,
    /// The only place of its metadata, as a path; the one of RFC 8414 by default.
    pub(crate) described_at: &'static str,
    /// The only place of the resource's metadata.
    pub(crate) resource_at: &'static str,
    /// What a 401 says behind `Bearer`; `{}` is the origin of the MCP server.
    pub(crate) challenge: Option<&'static str>,
    pub(crate) edit_resource: Edit,
    pub(crate) edit_metadata: Edit,
    pub(crate) edit_token: Edit,
    /// The access token that a bearer stands for.
    pub(crate) access_of: fn(&str) -> String,
    /// The codes for a login on another device.
    pub(crate) edit_device: Edit,
    /// Says in the answer to a login who gives it (RFC 9207), and promises to.
    pub(crate) says_issuer: bool,
    /// How clients prove who they are.
    pub(crate) proof: &'static str,
    /// A client that was registered by hand, and its secret.
    pub(crate) known: Option<(&'static str, &'static str)>,
    /// `expires_in` of the first token, and of all others.
    pub(crate) lifetimes: (Value, Value),
    pub(crate) gives_refresh: bool,
    /// Each use of a refresh token brings another.
    pub(crate) rotates: bool,
    /// JSON-RPC methods that want a scope of their own.
    pub(crate) needs: &'static [(&'static str, &'static str)],
    pub(crate) instead: Instead,
}

impl Default for Manners {
    fn default() -> Self {
        Self {
            elsewhere: false,
            tenant: "",
            described_at: "/.well-known/oauth-authorization-server",
            resource_at: "/.well-known/oauth-protected-resource/mcp",
            challenge: Some(
                r#"resource_metadata="{}/.well-known/oauth-protected-resource/mcp", scope="read""#,
            ),
            edit_resource: |_, _| (),
            edit_metadata: |_, _| (),
            edit_token: |_, _| (),
            access_of: str::to_owned,
            edit_device: |_, _| (),
            says_issuer: true,
            proof: "none",
            known: None,
            lifetimes: (json!(3600), json!(3600)),
            gives_refresh: true,
            rotates: true,
            needs: &[],
            instead: Arc::new(|_| None),
        }
    }
}

impl Manners {
    /// Replies with this to all requests for `path`.
    pub(crate) fn instead(self, path: &'static str, reply: Reply) -> Self {
        self.where_it_is(move |r| place(r) == path, reply)
    }

    /// Replies with this to all requests that are such.
    pub(crate) fn where_it_is(
        self,
        is_such: impl Fn(&Request) -> bool + Send + Sync + 'static,
        reply: Reply,
    ) -> Self {
        let instead = move |r: &Request| is_such(r).then(|| reply.clone());
        Self { instead: Arc::new(instead), ..self }
    }
}

/// All of it, and a folder for what the bridge keeps.
pub(crate) struct Provider {
    /// The URL of the MCP server.
    pub(crate) url: String,
    pub(crate) desk: Arc<Desk>,
    servers: Vec<Server>,
    folder: tempfile::TempDir,
}

/// Notes the page, and logs in without a question.
const BROWSER: &str = "exec curl -sL -o /dev/null \"$1\"";

impl Provider {
    pub(crate) async fn start(manners: Manners) -> Self {
        Self::guarding(manners, polite).await
    }

    /// In front of a server with a script of its own.
    pub(crate) async fn guarding(
        manners: Manners,
        script: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let desk = Arc::new(Desk::new(manners.clone()));
        let mut servers = Vec::new();
        if manners.elsewhere {
            let at = Arc::clone(&desk);
            let nothing = || Reply::status(404, "", "");
            let server = Server::start(move |r| at.answer(r).unwrap_or_else(nothing)).await;
            desk.is_at(&server.url);
            servers.push(server);
        }
        let at = Arc::clone(&desk);
        let server = Server::start(move |r| at.answer(r).unwrap_or_else(|| script(r))).await;
        desk.guards(&server.url);
        let url = server.url.clone();
        servers.insert(0, server);
        Self::with(url, desk, servers)
    }

    /// For a server that asks `desk` itself.
    pub(crate) fn with(url: String, desk: Arc<Desk>, servers: Vec<Server>) -> Self {
        let curl = std::process::Command::new("curl").arg("--version").output();
        assert!(
            curl.is_ok_and(|output| output.status.success()),
            "curl plays the browser here and was not found: install it (Debian: apt install curl)"
        );
        let provider = Self { url, desk, servers, folder: tempfile::tempdir().unwrap() };
        provider.browse(BROWSER);
        provider
    }

    /// The MCP server.
    pub(crate) fn server(&self) -> &Server {
        &self.servers[0]
    }

    /// Whoever gives out tokens.
    pub(crate) fn authority(&self) -> &Server {
        self.servers.last().unwrap()
    }

    /// What the browser does with the provider's page in `$1`, as lines of a shell; `$2` is a folder,
    /// `$count` how many arguments there were. The link that it was started with leads to the page,
    /// and is noted in the file `opened`.
    pub(crate) fn browse(&self, lines: &str) {
        let text = format!(
            "count=$#\nprintf '%s\\n' \"$1\" >> '{0}/opened'\n\
             page=$(curl -s -o /dev/null -w '%{{redirect_url}}' \"$1\")\n\
             printf '%s\\n' \"$page\" >> '{0}/pages'\nset -- \"$page\" '{0}'\n{lines}\n",
            self.folder.path().display()
        );
        std::fs::write(self.path("browser"), text).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The links with which the browser was started.
    pub(crate) fn opened(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("opened")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The pages that were opened in the browser.
    pub(crate) fn pages(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("pages")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// What the environment of the program holds.
    pub(crate) fn env(&self) -> [(&'static str, String); 2] {
        let browser = format!("sh '{}'", self.path("browser").display());
        [("BROWSER", browser), ("MCP_SPAN_STATE_DIR", self.path("state").display().to_string())]
    }

    /// A bridge to the MCP server, with a person at hand.
    pub(crate) fn bridge(&self, args: &[&str]) -> Bridge {
        self.bridge_with(args, &[])
    }

    pub(crate) fn bridge_with(&self, args: &[&str], more: &[(&str, &str)]) -> Bridge {
        let args: Vec<&str> = [&*self.url].into_iter().chain(args.iter().copied()).collect();
        let env = self.env();
        let mut env: Vec<(&str, &str)> = env.iter().map(|(n, v)| (*n, v.as_str())).collect();
        env.extend(more);
        Bridge::start_with(&args, &env)
    }

    /// The same after its handshake.
    pub(crate) async fn ready(&self, args: &[&str]) -> Bridge {
        let mut bridge = self.bridge(args);
        bridge.handshake().await;
        bridge
    }

    /// Runs a command such as `login` to its end.
    pub(crate) async fn run(&self, command: &str, args: &[&str]) -> Output {
        let words = [command, &*self.url];
        let args: Vec<&str> = words.into_iter().chain(args.iter().copied()).collect();
        let env = self.env();
        let mut env: Vec<(&str, &str)> = env.iter().map(|(n, v)| (*n, v.as_str())).collect();
        env.push(("COLUMNS", "100"));
        run(&args, &env, "").await
    }

    /// A person opens the page for codes, enters the first one, and says this.
    pub(crate) async fn enter_code(&self, answer: &str) {
        let page = format!("{}/device?user_code=WDJB-1&answer={answer}", self.desk.issuer());
        let curl = tokio::process::Command::new("curl").args(["-sf", &page]).output().await;
        assert!(curl.unwrap().status.success());
    }

    /// All requests for `path`, by whomever they were received.
    pub(crate) fn at(&self, path: &str) -> Vec<Request> {
        let all = self.servers.iter().flat_map(Server::requests);
        all.filter(|r| place(r) == path).collect()
    }

    /// The forms that the token endpoint got.
    pub(crate) fn forms(&self) -> Vec<Form> {
        self.at("/token").iter().map(Form::of).collect()
    }

    /// How many of them were of this sort.
    pub(crate) fn grants(&self, grant_type: &str) -> usize {
        self.forms().iter().filter(|form| form.get("grant_type") == grant_type).count()
    }

    /// The questions with which logins began.
    pub(crate) fn logins(&self) -> Vec<Form> {
        self.at("/authorize").iter().map(Form::of_query).collect()
    }

    /// The tokens with which the MCP server was asked, by method; `-` where there was none.
    pub(crate) fn carried(&self) -> Vec<(String, String)> {
        let token = |r: &Request| r.header("authorization").unwrap_or("-").to_owned();
        let all = self.server().requests();
        let mcp = all.iter().filter(|r| place(r) == "/mcp");
        mcp.map(|r| (r.what(), token(r).trim_start_matches("Bearer ").to_owned())).collect()
    }

    /// The one file of tokens that is kept.
    pub(crate) fn kept(&self) -> PathBuf {
        let mut files = files_below(&self.path("state"));
        files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
        assert_eq!(files.len(), 1, "{files:?}");
        files.remove(0)
    }

    /// Makes the token that is kept one of an hour that has these seconds left.
    pub(crate) fn leave(&self, seconds: u64) {
        let file = self.kept();
        let mut kept: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
        kept["token"]["expires_at"] = (now + seconds).into();
        kept["token"]["expires_in"] = 3600.into();
        std::fs::write(&file, kept.to_string()).unwrap();
    }

    /// Waits until the browser has been started so many times.
    pub(crate) async fn browsed(&self, times: usize) {
        let waiting = async {
            while self.pages().len() < times {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        soon("a browser", waiting).await;
    }
}

pub(crate) fn files_below(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

/// The path of a request, without its query.
pub(crate) fn place(request: &Request) -> &str {
    request.path.split('?').next().unwrap()
}
