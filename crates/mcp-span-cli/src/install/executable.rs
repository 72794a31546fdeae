//! How a client starts this program: by its name, or by its path.

use std::env;
use std::path::{Path, PathBuf};

use mcp_span::NAME;

use super::super::report::Usage;

/// The command for an entry. The name is enough where the client searches the same folders as the
/// user's shell, as those in terminals do, or where the file is for several people; programs with
/// windows are often started with hardly any PATH.
pub(super) fn command(by_name: bool) -> Result<String, Usage> {
    let here = env::current_exe()
        .map_err(|error| Usage::new(format!("cannot find the path of this program: {error}")))?;
    let folders = env::var_os("PATH").unwrap_or_default();
    let found = first_in(env::split_paths(&folders)).filter(|found| is_same(found, &here));
    match found {
        Some(_) if by_name => Ok(NAME.to_owned()),
        // A link in such a folder survives the next version; the file that it leads to may not.
        found => {
            let path = found.unwrap_or(here).into_os_string().into_string();
            path.map_err(|path| Usage::new(format!("{} is not valid UTF-8", path.display())))
        }
    }
}

/// What a shell would start.
fn first_in(mut folders: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    let file = format!("{NAME}{}", env::consts::EXE_SUFFIX);
    folders.find_map(|folder| {
        let path = folder.join(&file);
        (folder.is_absolute() && path.is_file()).then_some(path)
    })
}

fn is_same(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}
