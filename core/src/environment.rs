//! The environment of every process that is started here: ours, without what is for us alone.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::process::Command;

/// What a process does not inherit as it is. By default it inherits everything.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment {
    withheld: BTreeSet<OsString>,
    changed: BTreeMap<OsString, OsString>,
}

/// Values may be secrets.
impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let changed: Vec<_> = self.changed.keys().collect();
        f.debug_struct("Environment")
            .field("withheld", &self.withheld)
            .field("changed", &changed)
            .finish()
    }
}

impl Environment {
    /// Takes a variable out.
    pub fn withhold(&mut self, name: impl Into<OsString>) {
        self.withheld.insert(name.into());
    }

    /// Gives a variable another value.
    pub fn change(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.changed.insert(name.into(), value.into());
    }

    /// The start of a process in this environment. What is set on the result comes on top.
    #[must_use]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.envs(&self.changed);
        self.withheld.iter().for_each(|name| {
            command.env_remove(name);
        });
        command
    }
}
