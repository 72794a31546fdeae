//! Which tools a manager shows and calls. Pure.

use super::tool_names::joined;
use crate::bridge::HiddenTools;

/// Patterns for the tools that may be seen and called: `*` stands for anything, and case is ignored.
///
/// A pattern means the tool's own name (`delete*`), or that with its server (`github__*`).
///
/// ```
/// use mcp_span::ToolFilter;
///
/// let filter = ToolFilter::default().allow(["github__*", "search"]).deny(["*delete*"]);
/// assert!(filter.allows("github", "list_issues") && filter.allows("docs", "search"));
/// assert!(!filter.allows("github", "delete_repo"), "what is denied is not allowed");
/// assert!(!filter.allows("docs", "write"), "what is not allowed is denied");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolFilter {
    /// Everything, if there are none.
    allow: HiddenTools,
    deny: HiddenTools,
}

impl ToolFilter {
    /// Allows no tools but those that one of the patterns matches.
    #[must_use]
    pub fn allow<T: AsRef<str>>(mut self, patterns: impl IntoIterator<Item = T>) -> Self {
        self.allow = HiddenTools::new(patterns);
        self
    }

    /// Denies the tools that one of the patterns matches, also if they are allowed.
    #[must_use]
    pub fn deny<T: AsRef<str>>(mut self, patterns: impl IntoIterator<Item = T>) -> Self {
        self.deny = HiddenTools::new(patterns);
        self
    }

    /// Whether this tool of this server may be seen and called.
    #[must_use]
    pub fn allows(&self, server: &str, tool: &str) -> bool {
        if self.allow.is_empty() && self.deny.is_empty() {
            return true;
        }
        let qualified: String = joined((server, tool)).collect();
        let matches = |patterns: &HiddenTools| {
            [tool, &qualified].iter().any(|name| patterns.pattern_hiding(name).is_some())
        };
        (self.allow.is_empty() || matches(&self.allow)) && !matches(&self.deny)
    }
}
