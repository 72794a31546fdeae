//! How many steps a look at a schema may take: branches that refer to each other double at each turn.

use std::cell::Cell;

use mcp_span::limits;

/// What is left of them; all branches share it.
#[derive(Debug)]
pub(crate) struct Steps(Cell<usize>);

impl Steps {
    pub(crate) fn new() -> Self {
        Self(Cell::new(limits::SCHEMA_STEPS))
    }

    /// Takes so many; `false` once there are none, and from then on anything goes.
    pub(crate) fn take(&self, count: usize) -> bool {
        let left = self.0.get().checked_sub(count);
        self.0.set(left.unwrap_or(0));
        left.is_some()
    }
}
