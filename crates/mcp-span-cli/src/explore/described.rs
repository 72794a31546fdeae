//! A tool or a prompt as a person reads it: what it is called, what it is for, what it takes.

use serde_json::value::RawValue;

use super::lists::text;
use super::trouble::CommandError;
use crate::nearest::nearest;
use crate::output::{Page, count, one_line};
use mcp_span::message::Members;

/// One of them, ready to be printed.
pub(super) struct Described {
    pub(super) text: String,
    /// Some argument has a star.
    has_required: bool,
}

impl Described {
    /// `name — Title`, where the title says more; then the description, and a row for each argument.
    pub(super) fn new(page: &Page, item: &Members<'_>, arguments: &[Vec<String>]) -> Self {
        let (name, title) = (one_line(&text(item, "name")), one_line(&text(item, "title")));
        let says_more = !title.is_empty() && title != name;
        let title = if says_more { format!(" — {title}") } else { String::new() };
        let mut shown = format!("{}{title}\n", page.name(&name));
        let description = text(item, "description");
        if !description.trim().is_empty() {
            shown += &page.wrapped(4, &description);
        }
        shown += &page.columns(4, arguments);
        let has_star = |row: &Vec<String>| row.first().is_some_and(|name| name.ends_with('*'));
        Self { text: shown, has_required: arguments.iter().any(has_star) }
    }
}

/// All of them, and how many there are.
pub(super) fn all(page: &Page, items: &[Described], one: &str, many: &str) -> String {
    if items.is_empty() {
        return String::new();
    }
    let blocks: Vec<&str> = items.iter().map(|item| &*item.text).collect();
    let has_required = items.iter().any(|item| item.has_required);
    let legend = if has_required { "; * must be given" } else { "" };
    let total = format!("{}{legend}", count(items.len(), one, many));
    format!("{}\n{}\n", blocks.join("\n"), page.faint(&total))
}

/// The names that a list has.
pub(super) fn names(items: &[Box<RawValue>]) -> Vec<String> {
    items.iter().filter_map(|item| name(item)).collect()
}

/// The one with this name, or which one could be meant.
pub(super) fn find<'a>(
    items: &'a [Box<RawValue>],
    name: &str,
    one: &str,
) -> Result<&'a RawValue, CommandError> {
    let found = items.iter().find(|item| self::name(item).is_some_and(|known| known == name));
    found.map(|item| &**item).ok_or_else(|| {
        let names = names(items);
        let hint = match nearest(name, names.iter().map(String::as_str)) {
            Some(nearest) => format!("Is it '{nearest}'?"),
            None if names.is_empty() => format!("It has no {one}s at all"),
            None => format!("It has: {}", names.join(", ")),
        };
        CommandError::usage(format!("the server has no {one} '{name}'")).hint(hint)
    })
}

fn name(item: &RawValue) -> Option<String> {
    Members::of(item.get())?.text("name")
}
