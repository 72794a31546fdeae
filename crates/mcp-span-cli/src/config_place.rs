//! Which configuration file is read, and whether it may be.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::folders;
use super::report::Usage;
use mcp_span::private_file;

/// A file that was found.
#[cfg_attr(test, derive(Debug, PartialEq))]
pub(super) struct Found {
    pub(super) path: PathBuf,
    /// It is the one of ours, in which every key at the top is.
    pub(super) is_own: bool,
}

/// Which file to read: the one that was named, else the usual one if it is there.
pub(super) fn find(
    args: &[OsString],
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Option<Found>, Usage> {
    let own = args.iter().take_while(|arg| *arg != "--");
    let mut own = own.filter_map(|arg| arg.to_str());
    let mut named = None;
    while let Some(arg) = own.next() {
        match arg.split_once('=') {
            Some(("--config", path)) => named = Some(PathBuf::from(path)),
            None if arg == "--config" => named = own.next().map(PathBuf::from),
            None if arg == "--no-config" => return Ok(None),
            _ => {}
        }
    }
    let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
    let usual = usual_place(variable);
    if let Some(path) = named.or_else(|| variable("MCP_SPAN_CONFIG").map(PathBuf::from)) {
        let is_own = usual.as_ref() == Some(&path);
        return match path.is_file() {
            true => Ok(Some(Found { path, is_own })),
            false => Err(Usage::new(format!("there is no file {}", path.display()))),
        };
    }
    Ok(usual.filter(|path| path.is_file()).map(|path| Found { path, is_own: true }))
}

fn usual_place(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    folders::config(variable).map(|folder| folder.join("mcp-span/config.json"))
}

/// The text of the file, unless others could have written it: it may name a program for us to run.
pub(super) fn read_file(path: &Path) -> Result<String, Usage> {
    let wrong = |why: &dyn std::fmt::Display| {
        Usage::new(format!("{} cannot be read: {why}", path.display()))
    };
    let text = private_file::read_configuration(path).map_err(|error| wrong(&error))?;
    String::from_utf8(text).map_err(|_| wrong(&"it is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_looked_for_where_people_expect_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".config/mcp-span/config.json");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "{}").unwrap();
        let home = folder.path().as_os_str().to_owned();
        let variable = move |name: &str| (name == "HOME").then(|| home.clone());
        let args = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let found = |is_own| Some(Found { path: path.clone(), is_own });
        assert_eq!(find(&args(&["x"]), &variable).unwrap(), found(true));
        assert_eq!(find(&args(&["x", "--no-config"]), &variable).unwrap(), None);
        assert_eq!(find(&args(&["x"]), |_| None).unwrap(), None);
        let named = args(&["x", "--config", path.to_str().unwrap()]);
        assert_eq!(find(&named, |_| None).unwrap(), found(false));
        assert_eq!(find(&named, &variable).unwrap(), found(true), "it is ours all the same");
        assert!(find(&args(&["x", "--config=/no/such"]), |_| None).is_err());
    }

    #[test]
    fn a_home_that_depends_on_the_working_directory_is_none() {
        let variable = |name: &str| (name == "HOME").then(|| OsString::from("."));
        assert_eq!(usual_place(variable), None);
    }
}
