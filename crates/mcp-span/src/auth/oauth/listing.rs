//! All logins that are kept in a folder, without anything of them that is secret.
//!
//! Files of other editions of this program may lie there: what is not known is passed over, what is
//! missing is not shown.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;
use url::Url;

use super::page_note::PageNote;
use super::store_lock::is_login_held_beside;
use super::token::time;
use super::{Account, Pending, kept, places};
use crate::limits;
use crate::private_file;
use crate::secret::shown;

/// A file of tokens of which nothing can be said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Which it is.
    pub file: PathBuf,
    /// What is wrong with it; nothing of what stands there.
    pub why: String,
}

/// All logins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// In the order of their servers.
    pub accounts: Vec<Account>,
    /// Those that wait for a person.
    pub pending: Vec<Pending>,
    /// Of which nothing can be said.
    pub unreadable: Vec<Unreadable>,
}

/// The logins below `folder`, and those that runs in other environments have noted below `usual`.
///
/// # Errors
///
/// When a folder is there and cannot be read.
pub fn listing(folder: &Path, usual: Option<&Path>) -> io::Result<Listing> {
    let mut files = BTreeSet::new();
    for folder in [Some(folder), usual].into_iter().flatten() {
        files.extend(places::all_below(folder)?);
    }
    let is_page = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "page");
    let (pages, tokens): (Vec<_>, Vec<_>) = files.into_iter().partition(is_page);
    let mut found = Listing::default();
    for file in tokens.into_iter().take(limits::LOGINS_LISTED) {
        let text = private_file::read(&file).map_err(|error| error.to_string());
        match text.and_then(|text| account(&text, &file)) {
            Ok(account) => found.accounts.extend(account),
            Err(why) => found.unreadable.push(Unreadable { file, why }),
        }
    }
    found.pending =
        pages.iter().take(limits::LOGINS_LISTED).filter_map(|page| pending(page)).collect();
    found.accounts.sort_by(|a, b| (&a.server, &a.profile).cmp(&(&b.server, &b.profile)));
    Ok(found)
}

/// The login of a note, if a process is still at it.
fn pending(page: &Path) -> Option<Pending> {
    let note: PageNote = serde_json::from_slice(&private_file::read(page).ok()?).ok()?;
    is_login_held_beside(page).then(|| note.pending(name(page)))
}

fn name(file: &Path) -> Option<&str> {
    file.file_stem().and_then(|name| name.to_str())
}

/// What the text of a file says; nothing if it holds no token.
fn account(text: &[u8], file: &Path) -> Result<Option<Account>, String> {
    let kept = kept::parse(text)?;
    Ok(Account::read(&kept, name(file), Some(file.display().to_string())))
}

impl Account {
    /// Reads it out of what is stored; `None` if there is no token.
    pub(super) fn read(kept: &Value, name: Option<&str>, place: Option<String>) -> Option<Self> {
        let text =
            |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let token = &kept["token"];
        text(&token["access_token"])?;
        Some(Self {
            server: text(&kept["server"]).map(address),
            profile: text(&kept["profile"]),
            resource: text(&kept["resource"]).map(address),
            issuer: text(&kept["issuer"]).map(issuer),
            client: text(&kept["token_client_id"]).or_else(|| text(&kept["client_id"])),
            scope: text(&token["scope"]),
            expires: token["expires_at"].as_u64().and_then(time),
            can_be_renewed: text(&token["refresh_token"]).is_some(),
            apart_by: kept["apart_by"].as_array().into_iter().flatten().filter_map(text).collect(),
            name: name.map(str::to_owned),
            place,
        })
    }
}

/// An address as it may be shown.
fn address(text: String) -> String {
    Url::parse(&text).map_or(text, |url| shown(&url))
}

/// The same for one that is a name as well: a slash at its end is there if it is part of that.
fn issuer(text: String) -> String {
    let has_slash = text.ends_with('/');
    let address = address(text);
    match address.strip_suffix('/') {
        Some(bare) if !has_slash => bare.to_owned(),
        _ => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<Account>, String> {
        account(text.as_bytes(), Path::new("/f.json"))
    }

    #[test]
    fn what_is_missing_or_unknown_is_no_obstacle() {
        let least = read(r#"{"token": {"access_token": "hidden", "new": []}, "later": {"a": 1}}"#);
        let least = least.unwrap().unwrap();
        assert_eq!((least.server, least.profile, least.expires), (None, None, None));
        let odd = read(
            r#"{"server": 7, "profile": ["a"], "resource": null,
                "token": {"access_token": "hidden", "expires_at": "soon", "scope": {}}}"#,
        );
        assert_eq!(odd.unwrap().unwrap().scope, None);
        let endless = r#"{"token": {"access_token": "a", "expires_at": 18446744073709551615}}"#;
        assert!(read(endless).unwrap().is_some());
    }

    #[test]
    fn a_file_without_a_token_is_no_login_and_a_damaged_one_is_not_quoted() {
        for text in ["{}", r#"{"client_id": "c"}"#, r#"{"token": null}"#, r#"{"token": "x"}"#] {
            assert_eq!(read(text), Ok(None), "{text}");
        }
        for text in ["[]", "7", "{\"token\": \"hidden"] {
            assert!(read(text).is_err_and(|why| !why.contains("hidden")), "{text}");
        }
    }

    #[test]
    fn addresses_are_shown_without_what_is_secret_in_them() {
        let account = read(
            r#"{"server": "https://u:hidden@h/mcp?token=hidden", "resource": "https://h/?key=hidden",
                "profile": "work", "token": {"access_token": "hidden", "refresh_token": "hidden"}}"#,
        );
        let account = account.unwrap().unwrap();
        assert!(
            account.can_be_renewed && !format!("{account:?}").contains("hidden"),
            "{account:?}"
        );
        assert_eq!(account.profile.as_deref(), Some("work"));
        assert_eq!(account.name.as_deref(), Some("f"));
        assert_eq!(issuer("https://as".into()), "https://as");
        assert_eq!(issuer("https://as/".into()), "https://as/");
    }
}
