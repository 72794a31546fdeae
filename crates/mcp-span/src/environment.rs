//! The environment of every process that is started here: ours, without what is for us alone.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::process::Command;

/// What a process does not inherit as it is. By default it inherits everything.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// Other values; `None` for what is taken out.
    changed: BTreeMap<OsString, Option<OsString>>,
}

/// Values may be secrets.
impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.changed.keys()).finish()
    }
}

impl Environment {
    /// Takes a variable out, whatever value it was given.
    pub fn withhold(&mut self, name: impl Into<OsString>) {
        self.changed.insert(name.into(), None);
    }

    /// Gives a variable another value, unless it was taken out.
    pub fn change(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.changed.entry(name.into()).or_insert_with(|| Some(value.into()));
    }

    /// The start of a process in this environment. What is set on the result comes on top.
    #[must_use]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        for (name, value) in &self.changed {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }
}
