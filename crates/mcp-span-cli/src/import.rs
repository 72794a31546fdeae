//! `mcp-span login --import`: finds what mcp-remote has kept for a server, and takes it over.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use serde_json::Value;

use super::compat_remote::{self, Remote};
use super::settings::Settings;
use super::{Failure, account, args, report};
use mcp_span::auth::oauth::Foreign;
use mcp_span::error::{Error, Kind};
use mcp_span::options::Header;
use mcp_span::private_file;
use mcp_span::secret::shown;

/// What was found, and where.
#[derive(Debug)]
pub(super) struct Found {
    tokens: PathBuf,
    client: Option<PathBuf>,
    foreign: Foreign,
}

/// What came of looking for it.
pub(super) enum Finding {
    Found(Found),
    /// Nothing; `without` what keeps logins apart there would be something.
    Nothing {
        without: bool,
    },
}

/// Looks in the folders of mcp-remote, the newest first, for what it keeps under exactly these
/// arguments: what it keeps apart is for different accounts.
pub(super) fn find(typed: &args::Connect) -> Result<Finding, Error> {
    let exact = arguments(typed);
    if let Some(found) = find_named(&names(typed, &exact))? {
        return Ok(Finding::Found(found));
    }
    let plain = names(typed, &Remote::default());
    Ok(Finding::Nothing { without: find_named(&plain)?.is_some() })
}

fn find_named(names: &[String]) -> Result<Option<Found>, Error> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let home = || variable(if cfg!(windows) { "USERPROFILE" } else { "HOME" });
    let folder = variable("MCP_REMOTE_CONFIG_DIR").map(PathBuf::from);
    let Some(folder) = folder.or_else(|| Some(PathBuf::from(home()?).join(".mcp-auth"))) else {
        return Ok(None);
    };
    for folder in versions(&folder) {
        for name in names {
            let file = folder.join(format!("{name}_tokens.json"));
            if let Some((tokens, written)) = read(&file)? {
                let client_file = folder.join(format!("{name}_client_info.json"));
                let client = read(&client_file)?.map(|(client, _)| client);
                let found = client.is_some().then_some(client_file);
                let foreign = Foreign { tokens, written, client };
                return Ok(Some(Found { tokens: file, client: found, foreign }));
            }
        }
    }
    Ok(None)
}

/// Takes it over, and says what was taken from where.
pub(super) async fn take_over(
    settings: Settings,
    found: Result<Finding, Error>,
) -> Result<ExitCode, Failure> {
    let oauth = account::oauth(&settings)?;
    let place = shown(&settings.http.url);
    let found = match found {
        Ok(Finding::Found(found)) => found,
        Ok(Finding::Nothing { without }) => {
            let message = format!("mcp-remote has kept nothing for {place}");
            let (message, hint) = match without {
                true => (
                    format!("{message} with these arguments"),
                    "It has kept a login without headers, resource and parameters: leave them out to \
                     take that one over",
                ),
                false => (
                    message,
                    "Give the arguments as mcp-remote had them (URL, headers, resource), or log in \
                     without --import",
                ),
            };
            return Ok(report::failed(&Error::new(Kind::Login, message).hint(hint)));
        }
        Err(error) => return Ok(report::failed(&error)),
    };
    let taken = match oauth.take_over(&found.foreign).await {
        Ok(taken) => taken,
        Err(error) => {
            let message = format!("{} cannot be used", found.tokens.display());
            let hint = error.hint.clone();
            let failed = Error::new(Kind::Login, message).because(error);
            return Ok(report::failed(&hint.into_iter().fold(failed, Error::hint)));
        }
    };
    let mut text =
        format!("logged in to {place}\n  the tokens are from {}\n", found.tokens.display());
    if let Some(client) = &found.client {
        text += &format!("  the client is from {}\n", client.display());
    }
    if let Some(place) = &taken.account.place {
        text += &format!("  they are kept in {place} now\n");
    }
    if let Some(why) = taken.no_renewal {
        text += &format!("  they cannot be renewed: {why}\n");
    }
    report::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The folders of all versions: those with a number of the format, then those of older programs.
fn versions(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<((bool, Vec<u64>), PathBuf)> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let version = path.file_name()?.to_str()?.strip_prefix("mcp-remote-")?.to_owned();
            Some((age(&version), path))
        })
        .collect();
    found.sort_unstable_by(|(age, _), (other, _)| other.cmp(age));
    found.into_iter().map(|(_, path)| path).collect()
}

/// What sorts versions: `v1` is newer than `0.1.38`, and that than `0.1.9`.
fn age(version: &str) -> (bool, Vec<u64>) {
    let numbers = version.trim_start_matches('v').split(['.', '-']);
    (version.starts_with('v'), numbers.map(|number| number.parse().unwrap_or(0)).collect())
}

/// What mcp-remote keeps logins apart by, as far as it was given here.
fn arguments(typed: &args::Connect) -> Remote {
    let options = &typed.options;
    let pair = |text: &String| {
        text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
    };
    // A file that cannot be read ends the program a little later.
    let file = options.header_lines().unwrap_or_default();
    let headers = options.headers.iter().flatten().map(Header::line);
    let lines = file.iter().map(|(_, line)| &**line).chain(headers);
    Remote {
        resource: options.oauth_resource.clone().filter(|text| !text.is_empty()),
        params: options.oauth_authorize_param.iter().flatten().filter_map(pair).collect(),
        headers: lines.filter_map(compat_remote::header).collect(),
        client_metadata_url: options.oauth_client_metadata_url.as_ref().map(ToString::to_string),
        token_endpoint: options.oauth_token_url.as_ref().map(ToString::to_string),
        ..Remote::default()
    }
}

/// The names that a login with these arguments may have: mcp-remote makes them of the URL as it was
/// typed as well.
fn names(typed: &args::Connect, remote: &Remote) -> Vec<String> {
    let Some(url) = typed.options.url.as_deref() else { return Vec::new() };
    let normal = url::Url::parse(url).map_or_else(|_| url.to_owned(), |url| url.to_string());
    let short = url.trim_end_matches('/').to_owned();
    let mut names = Vec::new();
    for url in [url.to_owned(), normal, format!("{short}/"), short] {
        let name = Remote { url, ..remote.clone() }.name();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// What is in the file, and when it was written; `None` if there is none.
fn read(file: &Path) -> Result<Option<(Value, SystemTime)>, Error> {
    let wrong = |why: String| {
        let message = format!("{} cannot be read", file.display());
        Error::new(Kind::Login, message).because(why).not_delivered()
    };
    let text = match private_file::read_beside(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(error.to_string())),
    };
    let written = std::fs::metadata(file).and_then(|meta| meta.modified());
    // The message of the parser may quote what it met.
    let value: Value = serde_json::from_slice(&text).map_err(|error| {
        wrong(format!("it is not JSON (line {}, column {})", error.line(), error.column()))
    })?;
    if !value.is_object() {
        return Err(wrong("it is not a JSON object".to_owned()));
    }
    Ok(Some((value, written.unwrap_or(SystemTime::UNIX_EPOCH))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        for name in
            ["mcp-remote-0.1.9", "mcp-remote-v1", "mcp-remote-0.1.38", "other", "mcp-remote-v2"]
        {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let names: Vec<String> = versions(folder.path())
            .iter()
            .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
            .collect();
        let expected = ["mcp-remote-v2", "mcp-remote-v1", "mcp-remote-0.1.38", "mcp-remote-0.1.9"];
        assert_eq!(names, expected);
        assert!(versions(&folder.path().join("none")).is_empty());
    }
}
