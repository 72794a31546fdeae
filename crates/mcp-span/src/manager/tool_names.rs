//! Names for tools that are unique among all servers and that model providers accept. Pure.

use std::collections::HashMap;

use crate::limits;
use crate::private_file::hashed_name;

/// Between the name of a server and that of its tool.
const SEPARATOR: &str = "__";

/// The length of a suffix that tells names apart: `_` and eight digits.
const SUFFIX: usize = 9;

/// Names for tools, each given as the names of its server and its own: `server__tool`. Where that is
/// too long, or stands for several of them, all of those get a suffix. A name depends on nothing but
/// the tools: neither their order nor earlier calls matter.
pub(super) fn qualify(tools: &[(&str, &str)]) -> Vec<String> {
    let plain: Vec<String> = tools.iter().map(|tool| joined(*tool).collect()).collect();
    let mut uses: HashMap<&str, usize> = HashMap::new();
    for name in &plain {
        *uses.entry(name).or_default() += 1;
    }
    let is_good = |name: &str| name.len() <= limits::TOOL_NAME && uses.get(name) == Some(&1);
    let names = plain.iter().zip(tools);
    names
        .map(|(name, tool)| if is_good(name) { name.clone() } else { with_suffix(*tool) })
        .collect()
}

/// Whether `name` stands for the tool, with or without a suffix: which of both it has may change
/// when servers come and go, and a model remembers.
pub(super) fn stands_for(name: &str, tool: (&str, &str)) -> bool {
    if joined(tool).eq(name.chars()) {
        return true;
    }
    let without_suffix = name.len().checked_sub(SUFFIX).and_then(|end| name.get(..end));
    without_suffix.is_some_and(|start| joined(tool).take(ROOM).eq(start.chars()))
        && with_suffix(tool) == name
}

/// What follows the name of `server` in `name`.
pub(super) fn without_server<'a>(name: &'a str, server: &str) -> Option<&'a str> {
    let start: String = joined((server, "")).collect();
    name.strip_prefix(&*start)
}

/// The two names, with `_` for each character that a model provider refuses.
pub(super) fn joined<'a>((server, tool): (&'a str, &'a str)) -> impl Iterator<Item = char> + 'a {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let all = server.chars().chain(SEPARATOR.chars()).chain(tool.chars());
    all.map(move |c| if is_valid(c) { c } else { '_' })
}

/// What a suffix leaves of a name.
const ROOM: usize = limits::TOOL_NAME - SUFFIX;

fn with_suffix(tool: (&str, &str)) -> String {
    // No server can choose the bytes before the separator.
    let hash = hashed_name(&format!("{}\0{}", tool.0, tool.1));
    joined(tool).take(ROOM).chain(['_']).chain(hash.chars().take(SUFFIX - 1)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_is_that_of_the_server_and_that_of_the_tool() {
        let names = qualify(&[("files", "read"), ("my server", "x.y/z"), ("é", "ü")]);
        assert_eq!(names, ["files__read", "my_server__x_y_z", "____"]);
    }

    #[test]
    fn names_that_clash_or_are_too_long_get_a_suffix_that_stays() {
        let long = "x".repeat(99);
        let tools =
            [("a", "b.c"), ("a", "b_c"), ("a", "d"), ("s", &*long), ("a__b", "c"), ("a", "b__c")];
        let names = qualify(&tools);
        assert!(names[0].starts_with("a__b_c_") && names[0].len() == "a__b_c".len() + SUFFIX);
        assert_eq!(names[2], "a__d");
        assert_eq!(names[3].len(), limits::TOOL_NAME);
        assert!(names[4].starts_with("a__b__c_") && names[5].starts_with("a__b__c_"));
        assert_eq!(qualify(&[("s", &*long)])[0], names[3], "whoever else is there");
        assert_eq!(names[0], "a__b_c_ad8a94ab", "it is the same in each version");
    }

    #[test]
    fn a_name_is_known_with_and_without_its_suffix() {
        for name in ["a__b_c", &*with_suffix(("a", "b.c"))] {
            assert!(stands_for(name, ("a", "b.c")), "{name}");
            assert!(!stands_for(name, ("a", "b.d")), "{name}");
        }
        assert!(!stands_for("a__b_c_00000000", ("a", "b.c")));
        assert!(!stands_for("é", ("a", "b.c")));
        assert_eq!(without_server("my_server__x", "my server"), Some("x"));
        assert_eq!(without_server("my_server__x", "my"), None);
    }

    proptest! {
        #[test]
        fn any_tools_have_names_that_are_valid_and_unique_and_lead_back(
            tools in prop::collection::hash_set(("[ab_.é]{1,40}", "[ab_.é]{0,60}"), 0..20),
        ) {
            let tools: Vec<(&str, &str)> = tools.iter().map(|(s, t)| (&**s, &**t)).collect();
            let names = qualify(&tools);
            prop_assert_eq!(names.iter().collect::<HashSet<_>>().len(), tools.len());
            for (name, tool) in names.iter().zip(&tools) {
                prop_assert!(name.len() <= limits::TOOL_NAME);
                prop_assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'));
                let meant = tools.iter().filter(|tool| stands_for(name, **tool)).count();
                prop_assert!(stands_for(name, *tool) && meant == 1, "{}", name);
            }
        }
    }
}
