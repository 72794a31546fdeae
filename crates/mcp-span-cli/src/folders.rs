//! The user's folders, by the variables of the system. One that would depend on the working
//! directory, which is where others lead, is none.

use std::path::PathBuf;

/// The home directory.
pub(super) fn home<V: Into<PathBuf>>(variable: impl Fn(&str) -> Option<V>) -> Option<PathBuf> {
    let names: &[&str] = if cfg!(windows) { &["USERPROFILE", "HOME"] } else { &["HOME"] };
    names.iter().find_map(|name| absolute(&variable, name))
}

/// Where programs keep their configuration.
pub(super) fn config<V: Into<PathBuf>>(variable: impl Fn(&str) -> Option<V>) -> Option<PathBuf> {
    let folder = absolute(&variable, "XDG_CONFIG_HOME");
    folder
        .or_else(|| absolute(&variable, "APPDATA").filter(|_| cfg!(windows)))
        .or_else(|| home(variable).map(|home| home.join(".config")))
}

/// Where programs keep what is neither configuration nor cache.
pub(super) fn state<V: Into<PathBuf>>(variable: impl Fn(&str) -> Option<V>) -> Option<PathBuf> {
    let folder = absolute(&variable, "XDG_STATE_HOME");
    folder
        .or_else(|| absolute(&variable, "LOCALAPPDATA").filter(|_| cfg!(windows)))
        .or_else(|| home(variable).map(|home| home.join(".local/state")))
}

fn absolute<V: Into<PathBuf>>(
    variable: &impl Fn(&str) -> Option<V>,
    name: &str,
) -> Option<PathBuf> {
    variable(name).map(Into::into).filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_are_empty_or_relative_say_nothing() {
        let of = |name: &str| match name {
            "HOME" | "USERPROFILE" => Some("/home/me"),
            "XDG_STATE_HOME" => Some("state"),
            "XDG_CONFIG_HOME" => Some(""),
            _ => None,
        };
        assert_eq!(state(of), Some("/home/me/.local/state".into()));
        assert_eq!(config(of), Some("/home/me/.config".into()));
        assert_eq!(state(|name| Some("/s").filter(|_| name.starts_with("XDG"))), Some("/s".into()));
        assert_eq!(home(|_| Some(".")), None);
    }
}
