//! Finds the mcp-hub that runs on this machine, by the list of workspaces that all hubs keep.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::folders;
use super::report::Usage;

/// How long a hub on this machine may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// A hub, as the list has it.
#[derive(Debug, Deserialize, PartialEq, Eq)]
struct Hub {
    port: u16,
    #[serde(default)]
    cwd: PathBuf,
    #[serde(default)]
    config_files: Vec<PathBuf>,
}

/// The URL of the hub that runs nearest to the current directory.
pub(super) fn find() -> Result<String, Usage> {
    let here = std::env::current_dir().unwrap_or_default();
    let lists = lists(|name| std::env::var_os(name));
    let mut hubs: Vec<Hub> = Vec::new();
    for hub in lists.iter().filter_map(|path| std::fs::read(path).ok()).flat_map(|t| parse(&t)) {
        // A hub that was killed leaves its entry behind.
        if !hubs.iter().any(|known| known.port == hub.port) && is_listening(hub.port) {
            hubs.push(hub);
        }
    }
    choose(&nearest(&hubs, &here), &lists)
}

/// Where hubs write their list, in the order of their own preference.
fn lists(variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let old = folders::home(&variable).map(|home| home.join(".mcp-hub/workspaces.json"));
    let usual = folders::state(&variable).map(|state| state.join("mcp-hub/workspaces.json"));
    old.into_iter().chain(usual).collect()
}

/// The hubs in a list; other entries are ignored.
fn parse(text: &[u8]) -> Vec<Hub> {
    let entries: BTreeMap<String, serde_json::Value> =
        serde_json::from_slice(text).unwrap_or_default();
    entries.into_values().filter_map(|entry| serde_json::from_value(entry).ok()).collect()
}

fn is_listening(port: u16) -> bool {
    let places =
        [SocketAddr::from((Ipv4Addr::LOCALHOST, port)), (Ipv6Addr::LOCALHOST, port).into()];
    places.iter().any(|place| TcpStream::connect_timeout(place, CONNECT_TIMEOUT).is_ok())
}

/// The hubs whose working directory or configuration is fewest steps from `here`.
fn nearest<'a>(hubs: &'a [Hub], here: &Path) -> Vec<&'a Hub> {
    let best = hubs.iter().map(|hub| hub.distance(here)).min();
    hubs.iter().filter(|hub| Some(hub.distance(here)) == best).collect()
}

/// The URL of the one hub that is meant.
fn choose(hubs: &[&Hub], lists: &[PathBuf]) -> Result<String, Usage> {
    match hubs {
        [hub] => Ok(hub.url()),
        [] => {
            let lists: Vec<String> = lists.iter().map(|list| list.display().to_string()).collect();
            Err(Usage::new(format!(
                "no mcp-hub runs on this machine (looked in {}): start one, or give its URL: \
                 --mcp-hub http://localhost:37373/mcp",
                lists.join(" and ")
            )))
        }
        several => {
            let hubs = several.iter();
            let hubs =
                hubs.map(|hub| format!("\n  {}, started in {}", hub.url(), hub.cwd.display()));
            Err(Usage::new(format!(
                "several mcp-hubs run equally near to this directory; say which with --mcp-hub \
                 URL:{}",
                hubs.collect::<String>()
            )))
        }
    }
}

impl Hub {
    fn url(&self) -> String {
        format!("http://localhost:{}/mcp", self.port)
    }

    fn distance(&self, here: &Path) -> usize {
        let configured = self.config_files.iter().map(|file| self.cwd.join(file));
        let folders = configured.filter_map(|file| file.parent().map(Path::to_owned));
        let places = folders.chain([self.cwd.clone()]);
        places.map(|place| steps(here, &place)).min().unwrap_or(usize::MAX)
    }
}

/// How many folders to go up and down from one to the other.
fn steps(from: &Path, to: &Path) -> usize {
    let (from, to) = (normalized(from), normalized(to));
    let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    from.len() + to.len() - 2 * shared
}

/// The path's folders, with `.` and `..` resolved.
fn normalized(path: &Path) -> Vec<Component<'_>> {
    let mut folders = Vec::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(folders.pop()),
            Component::CurDir => {}
            folder => folders.push(folder),
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hub(port: u16, cwd: &str, config: &[&str]) -> Hub {
        Hub { port, cwd: cwd.into(), config_files: config.iter().map(PathBuf::from).collect() }
    }

    #[test]
    fn the_list_of_a_real_hub_is_read() {
        let text =
            br#"{"37373":{"cwd":"/home/user/hub","config_files":["servers.json"],"pid":30178,
            "port":37373,"startTime":"2026-11-15T07:45:12.211Z","state":"active",
            "activeConnections":0,"shutdownStartedAt":null,"shutdownDelay":null},
            "1":{"port":"nonsense"},"2":null}"#;
        assert_eq!(parse(text), [hub(37373, "/home/user/hub", &["servers.json"])]);
        for nothing in [&b""[..], b"{}", b"[]", b"{\"1\":"] {
            assert!(parse(nothing).is_empty());
        }
    }

    #[test]
    fn lists_are_looked_for_where_hubs_write_them() {
        let with = |state: Option<&str>| {
            let state = state.map(OsString::from);
            lists(move |name| match name {
                "HOME" => Some("/home/me".into()),
                "XDG_STATE_HOME" => state.clone(),
                _ => None,
            })
        };
        let old = PathBuf::from("/home/me/.mcp-hub/workspaces.json");
        let usual = PathBuf::from("/home/me/.local/state/mcp-hub/workspaces.json");
        assert_eq!(with(None), [old.clone(), usual.clone()]);
        assert_eq!(with(Some("relative")), [old.clone(), usual]);
        assert_eq!(with(Some("/s")), [old, PathBuf::from("/s/mcp-hub/workspaces.json")]);
    }

    #[test]
    fn the_nearest_hub_is_taken() {
        let hubs = [hub(1, "/home/me/a", &[]), hub(2, "/home/me/b", &["../c/x/hub.json"])];
        let at = |here: &str| -> Vec<u16> {
            nearest(&hubs, Path::new(here)).iter().map(|hub| hub.port).collect()
        };
        assert_eq!(at("/home/me/a"), [1]);
        assert_eq!(at("/home/me/a/deep/er"), [1]);
        assert_eq!(at("/home/me/b/x"), [2]);
        assert_eq!(at("/home/me/c/x"), [2], "by its configuration");
        assert_eq!(at("/home/me"), [1, 2]);
        assert_eq!(nearest(&hubs[..1], Path::new("/else/where")), [&hubs[0]]);
        assert!(nearest(&[], Path::new("/")).is_empty());
    }

    #[test]
    fn problems_say_what_to_do() {
        let text = choose(&[], &["/s/w.json".into()]).unwrap_err().0;
        assert!(text.contains("/s/w.json") && text.contains("--mcp-hub http"), "{text}");
        let hubs = [hub(1, "/a", &[]), hub(2, "/b", &[])];
        assert_eq!(choose(&[&hubs[0]], &[]).unwrap(), "http://localhost:1/mcp");
        let text = choose(&[&hubs[0], &hubs[1]], &[]).unwrap_err().0;
        assert!(text.contains(":1/mcp, started in /a\n") && text.contains(":2/mcp"), "{text}");
    }
}
