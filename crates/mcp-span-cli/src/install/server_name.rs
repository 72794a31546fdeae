//! Names for servers: one that fits the URL, and which ones clients take. Pure.

use url::{Host, Url};

use super::super::report::Usage;

/// Labels that say nothing about whose server it is.
const COMMON: [&str; 7] = ["mcp", "www", "api", "sse", "app", "server", "remote"];

/// Second to last labels that belong to the registry: `example.co.uk`.
const REGISTRIES: [&str; 7] = ["ac", "co", "com", "edu", "gov", "net", "org"];

/// Domains below which each name is somebody else's.
const SHARED: [&str; 15] = [
    "azurecontainerapps.io",
    "azurewebsites.net",
    "cloudfront.net",
    "fly.dev",
    "github.io",
    "herokuapp.com",
    "hf.space",
    "netlify.app",
    "ngrok.app",
    "ngrok-free.app",
    "onrender.com",
    "pages.dev",
    "run.app",
    "vercel.app",
    "workers.dev",
];

/// A short name for the server at `url`: `notion` for `https://mcp.notion.com/mcp`.
pub(super) fn from_url(url: &Url) -> String {
    let port = url.port().map_or(String::new(), |port| format!("-{port}"));
    let name = match url.host() {
        Some(Host::Domain(host)) if host.contains('.') => of_domain(host),
        // Several servers may run on one machine.
        host => format!("{}{port}", host.map_or(String::new(), |host| host.to_string())),
    };
    plain(&name)
}

/// What stands before the name of a program proper.
const RUNNERS: [&str; 13] = [
    "bun", "bunx", "cmd", "deno", "docker", "node", "npx", "podman", "python", "python3", "run",
    "uv", "uvx",
];

/// A short name for a program: `server-git` for `uvx server-git@latest --repository x`.
pub(super) fn from_program(words: &[String]) -> String {
    let files = words.iter().map(|word| word.rsplit(['/', '\\']).next().unwrap_or_default());
    let mut files = files.filter(|file| !file.is_empty() && !file.starts_with('-'));
    let stem = |file: &str| file.split(['.', '@', ':']).next().unwrap_or_default().to_owned();
    let telling = files.find(|file| !RUNNERS.contains(&stem(file).as_str()));
    plain(&telling.or(words.first().map(String::as_str)).map_or_else(String::new, stem))
}

fn plain(name: &str) -> String {
    let plain = |c: char| if is_plain(c) { c } else { '-' };
    let name: String = name.chars().map(plain).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "server".to_owned() } else { name.to_owned() }
}

fn of_domain(host: &str) -> String {
    let host = host.trim_end_matches('.');
    let shared = SHARED.iter().find_map(|shared| host.strip_suffix(shared)?.strip_suffix('.'));
    let mut labels: Vec<&str> = shared.unwrap_or(host).split('.').collect();
    if shared.is_none() {
        labels.pop();
        if labels.len() > 1 && labels.last().is_some_and(|last| REGISTRIES.contains(last)) {
            labels.pop();
        }
    }
    let telling = labels.iter().rev().find(|label| !COMMON.contains(label));
    (*telling.or(labels.last()).unwrap_or(&host)).to_owned()
}

/// Refuses a name that some client would not take: they make names of tools of it.
pub(super) fn check(name: &str) -> Result<(), Usage> {
    if !name.is_empty() && name.chars().all(is_plain) {
        return Ok(());
    }
    let name = name.escape_debug();
    Err(Usage::new(format!("invalid name '{name}': use letters, digits, - and _")))
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_what_a_person_would_call_the_server() {
        for (url, name) in [
            ("https://mcp.notion.com/mcp", "notion"),
            ("https://mcp.linear.app/sse", "linear"),
            ("https://api.githubcopilot.com/mcp/", "githubcopilot"),
            ("https://example.co.uk/mcp", "example"),
            ("https://my-thing.someone.workers.dev/sse", "someone"),
            ("https://tool.fly.dev/mcp", "tool"),
            ("https://mcp.com/", "mcp"),
            ("http://localhost:37373/mcp", "localhost-37373"),
            ("http://localhost/mcp", "localhost"),
            ("http://127.0.0.1:8080/", "127-0-0-1-8080"),
            ("http://[::1]:80/", "1"),
            ("http://hub/", "hub"),
            ("https://bücher.example/", "xn--bcher-kva"),
        ] {
            assert_eq!(from_url(&Url::parse(url).unwrap()), name, "{url}");
            assert!(check(name).is_ok());
        }
    }

    #[test]
    fn programs_are_called_by_what_they_are_not_by_what_runs_them() {
        for (line, name) in [
            ("npx -y @modelcontextprotocol/server-everything@1.2 stdio", "server-everything"),
            ("uvx mcp-server-git --repository x", "mcp-server-git"),
            ("node /srv/weather/index.js", "index"),
            ("docker run -i --rm ghcr.io/me/tool:latest", "tool"),
            (r"C:\tools\files.exe", "files"),
            ("npx", "npx"),
        ] {
            let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(from_program(&words), name, "{line}");
        }
    }

    #[test]
    fn names_that_clients_refuse_are_refused_at_once() {
        for name in ["", "a b", "a/b", "a.b", "é", "a\n"] {
            assert!(check(name).is_err(), "{name:?}");
        }
    }
}
