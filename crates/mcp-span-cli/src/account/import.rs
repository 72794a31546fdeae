//! `mcp-span login --import`: imports the login that mcp-remote has stored for a server.

use std::cmp::Reverse;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use serde_json::Value;
use url::Url;

use super::list;
use crate::compat::mcp_remote::{self, Remote};
use crate::settings::Settings;
use crate::{Failure, args, folders, report};
use mcp_span::auth::oauth::Foreign;
use mcp_span::error::{Error, ErrorKind};
use mcp_span::options::Header;
use mcp_span::private_file;
use mcp_span::secret::shown;

/// What was found, and where.
#[derive(Debug)]
pub(crate) struct Found {
    tokens: PathBuf,
    client: Option<PathBuf>,
    foreign: Foreign,
}

/// Looks in the folders of mcp-remote, the newest first, for what it keeps under exactly these
/// arguments: what it keeps apart is for different accounts.
pub(crate) fn find(typed: &args::Connect) -> Result<Found, Error> {
    if let Some(found) = find_named(&names(typed, &arguments(typed)))? {
        return Ok(found);
    }
    let url = typed.options.url.as_deref().and_then(|url| Url::parse(url).ok());
    let place = url.map_or_else(|| "this server".to_owned(), |url| shown(&url));
    let message = format!("mcp-remote has no login for {place}");
    Err(match find_named(&names(typed, &Remote::default()))? {
        Some(_) => Error::new(ErrorKind::Login, format!("{message} with these arguments")).hint(
            "It has a login without headers, resource and parameters: leave them out to import \
             that one",
        ),
        None => Error::new(ErrorKind::Login, message).hint(
            "Give the arguments as mcp-remote had them (URL, headers, resource), or log in without \
             --import",
        ),
    })
}

fn find_named(names: &[String]) -> Result<Option<Found>, Error> {
    let chosen = std::env::var_os("MCP_REMOTE_CONFIG_DIR").filter(|folder| !folder.is_empty());
    let usual = || Some(folders::home(|name| std::env::var_os(name))?.join(".mcp-auth"));
    let folder = chosen.map(PathBuf::from).or_else(usual);
    for folder in folder.iter().flat_map(|folder| versions(folder)) {
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

/// Stores it as a login of ours, and says what came from where.
pub(crate) async fn store(
    settings: Settings,
    found: Result<Found, Error>,
    is_json: bool,
) -> Result<ExitCode, Failure> {
    let oauth = super::oauth(&settings)?;
    let Found { tokens, client, foreign } = found.map_err(Failure::of_login)?;
    let stored = oauth.take_over(&foreign).await.map_err(|error| {
        let message = format!("{} cannot be used", tokens.display());
        let hint = error.hint.clone();
        let failed = Error::new(ErrorKind::Login, message).because(error);
        Failure::of_login(hint.into_iter().fold(failed, Error::hint))
    })?;
    if is_json {
        return list::print_json(&[stored.account], &[]);
    }
    let mut text = format!("logged in to {}\n", shown(&settings.http.url));
    for (what, detail) in [
        ("the tokens are from", Some(tokens.display().to_string())),
        ("the client is from", client.map(|client| client.display().to_string())),
        ("they are kept in", stored.account.place),
        ("they cannot be renewed:", stored.no_renewal.map(str::to_owned)),
    ] {
        if let Some(detail) = detail {
            text += &format!("  {what} {detail}\n");
        }
    }
    report::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The folders of all versions, the newest first.
fn versions(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut folders: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    folders.retain(|folder| version(folder).is_some());
    folders.sort_by_cached_key(|folder| Reverse(version(folder)));
    folders
}

/// What sorts versions: `v1`, of the format, is newer than `0.1.38` of older programs, and that than
/// `0.1.9`.
fn version(folder: &Path) -> Option<(bool, Vec<u64>)> {
    let version = folder.file_name()?.to_str()?.strip_prefix("mcp-remote-")?;
    let numbers = version.trim_start_matches('v').split(['.', '-']);
    let numbers = numbers.map(|number| number.parse().unwrap_or(0)).collect();
    Some((version.starts_with('v'), numbers))
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
        headers: lines.filter_map(mcp_remote::header).collect(),
        client_metadata_url: options.oauth_client_metadata_url.as_ref().map(ToString::to_string),
        token_endpoint: options.oauth_token_url.as_ref().map(ToString::to_string),
        ..Remote::default()
    }
}

/// The names that a login with these arguments may have: mcp-remote makes them of the URL as it was
/// typed as well.
fn names(typed: &args::Connect, remote: &Remote) -> Vec<String> {
    let Some(url) = typed.options.url.as_deref() else { return Vec::new() };
    let normal = Url::parse(url).map_or_else(|_| url.to_owned(), |url| url.to_string());
    let short = url.trim_end_matches('/').to_owned();
    let urls = [url.to_owned(), normal, format!("{short}/"), short].into_iter();
    urls.map(|url| Remote { url, ..remote.clone() }.name()).collect()
}

/// What is in the file, and when it was written; `None` if there is none.
fn read(file: &Path) -> Result<Option<(Value, SystemTime)>, Error> {
    let wrong = |why: String| {
        let message = format!("{} cannot be read", file.display());
        Error::new(ErrorKind::Login, message).because(why).not_delivered()
    };
    let text = match private_file::read_beside(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
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
