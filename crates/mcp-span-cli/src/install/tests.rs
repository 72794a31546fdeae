//! Properties of all changes to texts: what is not the entry stays, byte for byte, and an entry that
//! was put in can be taken out again.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::edit::{Format, Shape};
use super::server::{ServerEntry, StdioServer};

const JSON: Format = Format::Json { key: "mcpServers", shape: Shape::Plain };
const TYPED: Format = Format::Json { key: "mcpServers", shape: Shape::Typed };

/// The name that is installed; none of the generated ones.
const NAME: &str = "new";

fn entry() -> StdioServer {
    let env = BTreeMap::from([("TOKEN".to_owned(), "a \"quoted\" \\ \u{7f} ü".to_owned())]);
    let args = ["https://example.com/mcp", "--header", "X: ${TOKEN}"].map(str::to_owned);
    StdioServer { command: "/opt/bin/mcp-span".into(), args: args.into(), env }
}

fn named<'a>(listed: &'a [ServerEntry], name: &str) -> Option<&'a ServerEntry> {
    listed.iter().find(|listed| listed.name == name)
}

/// White space and comments, as people and programs leave them between tokens.
fn gap() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => Just(""),
        2 => Just(" "),
        3 => Just("\n  "),
        2 => Just("\n    "),
        1 => Just("\r\n\t"),
        1 => Just("\n\n"),
        1 => Just(" // it's a \"note\", {a} /* b\n"),
        1 => Just("//\r\n"),
        1 => Just(" /* one */ "),
        1 => Just("/* two\n lines, \" // */"),
    ];
    vec(piece, 0..3).prop_map(|pieces| pieces.concat())
}

fn scalar() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("null"),
        Just("-1.5e3"),
        Just("true"),
        Just(r#""""#),
        Just(r#""a, \" } // no comment""#),
        Just(r#""C:\\x\\""#),
        Just(r#""ü ☃ \u00e9""#),
    ]
    .prop_map(str::to_owned)
}

/// An object of these members, with anything between them.
fn object(members: impl Strategy<Value = Vec<(String, String)>>) -> impl Strategy<Value = String> {
    (members, vec(gap(), 40), any::<bool>()).prop_map(|(members, gaps, trailing)| {
        let mut gaps = gaps.into_iter().cycle();
        let mut gap = move || gaps.next().unwrap();
        let mut text = format!("{{{}", gap());
        let last = members.len().saturating_sub(1);
        for (at, (name, value)) in members.iter().enumerate() {
            text += &format!("\"{name}\"{}:{}{value}{}", gap(), gap(), gap());
            if at < last || trailing {
                text += &format!(",{}", gap());
            }
        }
        text + "}"
    })
}

fn value() -> impl Strategy<Value = String> {
    let list = vec(scalar(), 0..3).prop_map(|values| format!("[{}]", values.join(" , ")));
    let inner = vec(("[a-c]", scalar()), 0..3);
    prop_oneof![scalar(), list, object(inner)]
}

fn distinct(members: Vec<(String, String)>) -> Vec<(String, String)> {
    let members: BTreeMap<_, _> = members.into_iter().collect();
    members.into_iter().collect()
}

/// A whole file, with or without servers, and how many it has; None where the object is missing.
fn json_file() -> impl Strategy<Value = (String, Option<usize>)> {
    let servers = vec(("s[0-9]", value()), 0..4).prop_map(distinct).boxed();
    let servers = servers.prop_flat_map(|members| {
        let count = members.len();
        object(Just(members)).prop_map(move |text| (text, count))
    });
    let others = vec(("o[0-9]", value()), 0..4).prop_map(distinct);
    let file = (others, proptest::option::of(servers), any::<prop::sample::Index>());
    let file = file.prop_flat_map(|(mut members, servers, at)| {
        let count = servers.as_ref().map(|(_, count)| *count);
        if let Some((text, _)) = servers {
            members.insert(at.index(members.len() + 1), ("mcpServers".to_owned(), text));
        }
        (object(Just(members)), Just(count))
    });
    (file, gap(), gap(), any::<bool>()).prop_map(|((text, count), before, after, mark)| {
        let mark = if mark { "\u{feff}" } else { "" };
        (format!("{mark}{before}{text}{after}"), count)
    })
}

fn toml_file() -> impl Strategy<Value = String> {
    let values = ["1", "\"x # y\"", "'''a\n[b]\n'''", "[ 1, # c\n 2 ]", "{ a = 1, b.c = \"}\" }"];
    let value = (0..values.len()).prop_map(move |at| values[at]);
    let lines = vec((0..12_usize, value, any::<bool>()), 0..12);
    (lines, any::<bool>(), any::<bool>()).prop_map(|(lines, crlf, ends)| {
        let mut text = String::new();
        for (number, (sort, value, comment)) in lines.into_iter().enumerate() {
            let line = match sort {
                0 => String::new(),
                1 => "# a comment".to_owned(),
                2 => format!("[other{number}]"),
                3 => format!("[mcp_servers.s{number}]"),
                4 => format!("[mcp_servers.s{number}.\"env\"]"),
                5 => format!("[[array{number}.of]]"),
                _ => format!("key{number} = {value}"),
            };
            let comment = if comment && sort > 1 { "  # said" } else { "" };
            text += &format!("{line}{comment}\n");
        }
        let text = if ends { &text } else { text.trim_end() };
        if crlf { text.replace('\n', "\r\n") } else { text.to_owned() }
    })
}

/// Whether `long` has all bytes of `short` in their order.
fn contains_all(long: &str, short: &str) -> bool {
    let mut rest = long.bytes();
    short.bytes().all(|byte| rest.any(|other| other == byte))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_put_into_json_can_be_taken_out_again((before, count) in json_file()) {
        let after = JSON.set(&before, NAME, &entry()).unwrap();
        prop_assert!(contains_all(&after, &before));
        let listed = JSON.list(&after).unwrap();
        prop_assert_eq!(named(&listed, NAME).unwrap().server.as_ref(), Some(&entry()));
        prop_assert_eq!(listed.len(), count.unwrap_or(0) + 1);
        let earlier = ["{}".to_owned(), before.clone()];
        prop_assert_eq!(&JSON.remove(&after, NAME, &earlier).unwrap(), &before);
        // Nothing else is needed where there are others to stand behind.
        let without = JSON.remove(&after, NAME, &[]).unwrap();
        if count.is_some_and(|count| count > 0) {
            prop_assert_eq!(without, before);
        } else {
            prop_assert!(JSON.list(&without).unwrap().is_empty());
        }
    }

    #[test]
    fn what_stands_between_others_in_json_goes_alone((before, _) in json_file()) {
        let one = JSON.set(&before, NAME, &entry()).unwrap();
        let two = JSON.set(&one, "newer", &entry()).unwrap();
        let only = JSON.remove(&two, NAME, &[]).unwrap();
        let listed = JSON.list(&only).unwrap();
        prop_assert!(named(&listed, NAME).is_none());
        prop_assert_eq!(named(&listed, "newer").unwrap().server.as_ref(), Some(&entry()));
        // In whatever order they go.
        let earlier = [before.clone()];
        prop_assert_eq!(JSON.remove(&JSON.remove(&two, "newer", &[]).unwrap(), NAME, &earlier), Ok(before));
    }

    #[test]
    fn what_was_there_before_us_can_be_removed_and_its_neighbours_stay((before, _) in json_file()) {
        let names = |text: &str| -> Vec<String> {
            JSON.list(text).unwrap().into_iter().map(|entry| entry.name).collect()
        };
        for entry in JSON.list(&before).unwrap() {
            let after = JSON.remove(&before, &entry.name, &[]).unwrap();
            prop_assert!(contains_all(&before, &after));
            let left: Vec<_> = names(&before).into_iter().filter(|n| *n != entry.name).collect();
            prop_assert_eq!(names(&after), left);
        }
    }

    #[test]
    fn an_entry_in_json_is_replaced_where_it_stands((before, _) in json_file()) {
        let after = JSON.set(&before, NAME, &entry()).unwrap();
        let other = StdioServer { args: vec!["other".into()], ..StdioServer::default() };
        let replaced = TYPED.set(&after, NAME, &other).unwrap();
        let listed = JSON.list(&replaced).unwrap();
        prop_assert_eq!(named(&listed, NAME).unwrap().server.as_ref(), Some(&other));
        prop_assert_eq!(
            JSON.remove(&replaced, NAME, &[]).unwrap(),
            JSON.remove(&after, NAME, &[]).unwrap()
        );
    }

    #[test]
    fn what_is_put_into_toml_can_be_taken_out_again(before in toml_file()) {
        let after = Format::Toml.set(&before, NAME, &entry()).unwrap();
        prop_assert!(after.starts_with(&before));
        let listed = Format::Toml.list(&after).unwrap();
        prop_assert_eq!(named(&listed, NAME).unwrap().server.as_ref(), Some(&entry()));
        let earlier = [before.clone()];
        prop_assert_eq!(&Format::Toml.remove(&after, NAME, &earlier).unwrap(), &before);
        if before.is_empty() || before.ends_with('\n') {
            prop_assert_eq!(&Format::Toml.remove(&after, NAME, &[]).unwrap(), &before);
        }
        let other = StdioServer { command: "x".into(), ..StdioServer::default() };
        let replaced = Format::Toml.set(&after, NAME, &other).unwrap();
        let list = Format::Toml.list(&replaced).unwrap();
        prop_assert_eq!(named(&list, NAME).unwrap().server.as_ref(), Some(&other));
        prop_assert_eq!(list.len(), listed.len());
    }

    #[test]
    fn no_garbage_is_too_much(text in "[\\[\\]{}\",:=.#/*'a\\\\ \r\n\u{feff}0-9-]{0,60}") {
        for format in [JSON, Format::Toml] {
            let _ = format.list(&text);
            let _ = format.set(&text, NAME, &entry());
            let _ = format.set(&text, "a", &entry());
            let _ = format.remove(&text, "a", std::slice::from_ref(&text));
        }
    }

    #[test]
    fn a_damaged_file_is_left_alone_or_still_makes_sense(
        (text, _) in json_file(),
        at in any::<prop::sample::Index>(),
    ) {
        let cut: Vec<char> = text.chars().collect();
        let at = at.index(cut.len());
        let cut: String = cut[..at].iter().chain(&cut[at + 1..]).collect();
        if let Ok(after) = JSON.set(&cut, NAME, &entry()) {
            prop_assert!(named(&JSON.list(&after).unwrap(), NAME).is_some());
        }
    }
}

fn inserted(before: &str) -> String {
    let args = vec!["https://example.com/mcp".to_owned()];
    let entry = StdioServer { command: "mcp-span".into(), args, env: BTreeMap::new() };
    JSON.set(before, NAME, &entry).unwrap()
}

#[test]
fn new_entries_look_like_their_neighbours() {
    let tabs = "{\r\n\t\"mcpServers\": {\r\n\t\t\"a\": {}, // first\r\n\t},\r\n}\r\n";
    let expected = "{\r\n\t\"mcpServers\": {\r\n\t\t\"a\": {}, // first\r\n\t\t\"new\": {\r\n\t\t\t\
        \"command\": \"mcp-span\",\r\n\t\t\t\"args\": [\"https://example.com/mcp\"]\r\n\t\t},\r\n\t\
        },\r\n}\r\n";
    assert_eq!(inserted(tabs), expected);
    assert_eq!(
        inserted("{\n    \"mcpServers\": {}\n}"),
        "{\n    \"mcpServers\": {\n        \"new\": {\n            \"command\": \"mcp-span\",\n            \
         \"args\": [\"https://example.com/mcp\"]\n        }\n    }\n}"
    );
    assert_eq!(
        inserted(r#"{"mcpServers":{"a":{"command":"x"}}}"#),
        r#"{"mcpServers":{"a":{"command":"x"},"new":{"command":"mcp-span","args":["https://example.com/mcp"]}}}"#
    );
    assert_eq!(
        inserted("{ \"x\": 1 } // end"),
        "{ \"x\": 1, \"mcpServers\": {\"new\": {\"command\": \"mcp-span\", \"args\": [\"https://example.com/mcp\"]}} } // end"
    );
    let fresh = "{\n  \"mcpServers\": {\n    \"new\": {\n      \"command\": \"mcp-span\",\n      \
                 \"args\": [\"https://example.com/mcp\"]\n    }\n  }\n}";
    assert_eq!(inserted(""), format!("{fresh}\n"));
    assert_eq!(inserted("{}\n"), format!("{fresh}\n"));
    assert_eq!(inserted("// mine\n"), format!("// mine\n{fresh}\n"));
}

#[test]
fn a_comment_does_not_swallow_what_follows_a_removed_server() {
    let before = "{\"mcpServers\": { // mine\n  \"a\": {}, \"b\": {}\n}}";
    let after = "{\"mcpServers\": { // mine\n   \"b\": {}\n}}";
    assert_eq!(JSON.remove(before, "a", &[]).unwrap(), after);
}

#[test]
fn what_cannot_be_read_is_named_with_its_place() {
    let fault = |text: &str| {
        let fault = JSON.list(text).unwrap_err();
        (fault.line, fault.column, fault.what)
    };
    for (text, line, column, part) in [
        ("{\n  \"a\": 1\n  \"b\": 2\n}", 2, 9, "invalid JSON"),
        ("{\n  \"mcpServers\": []\n}", 2, 17, "not an object"),
        ("[]", 1, 1, "not a JSON object"),
        ("{'a': 1}", 1, 2, "invalid JSON"),
        ("{} {}", 1, 4, "invalid JSON"),
        ("{\"mcpServers\": {},\n\"mcpServers\": {}}", 2, 1, "duplicate key"),
    ] {
        let found = fault(text);
        assert_eq!((found.0, found.1), (line, column), "{text}: {}", found.2);
        assert!(found.2.contains(part), "{text}: {}", found.2);
    }
    let fault = |text: &str| {
        let fault = Format::Toml.list(text).unwrap_err();
        (fault.line, fault.column, fault.what)
    };
    for (text, line, column, part) in [
        ("a = \n", 1, 5, "invalid TOML"),
        ("[a]\nb = 1\nb = 2\n", 3, 1, "duplicate key"),
        ("[a]\n[b]\n[a]\n", 3, 2, "duplicate key"),
        ("x = 1\nmcp_servers = { a = {} }\n", 2, 1, "cannot be added to"),
        ("[[mcp_servers]]\n", 1, 1, "cannot be added to"),
        ("a = 1__0\n", 1, 6, "invalid TOML"),
    ] {
        let found = fault(text);
        assert_eq!((found.0, found.1), (line, column), "{text}: {}", found.2);
        assert!(found.2.contains(part), "{text}: {}", found.2);
    }
}

#[test]
fn tables_are_found_in_every_form_that_toml_has() {
    let text = "mcp_servers.a.command = \"x\"\nmcp_servers.a.args = [\"1\"]\n\n\
                mcp_servers.b = { command = 'y', env = { K = \"v\" } }\n[mcp_servers.\"c d\"]\nurl = \"u\"\n\
                [mcp_servers.e]\ncommand = \"z\"\nstartup_timeout_sec = 9\n[mcp_servers.e.env]\n\
                K = \"v\"\n";
    let listed = Format::Toml.list(text).unwrap();
    let found: Vec<_> = listed.iter().map(|one| (one.name.as_str(), one.line)).collect();
    assert_eq!(found, [("a", 1), ("b", 4), ("c d", 5), ("e", 7)]);
    let commands = listed.iter().map(|one| one.server.as_ref().map(|entry| entry.command.as_str()));
    assert_eq!(commands.collect::<Vec<_>>(), [Some("x"), Some("y"), None, Some("z")]);
    assert_eq!(listed[1].server.as_ref().unwrap().env["K"], "v");
    assert_eq!(listed[3].server.as_ref().unwrap().env["K"], "v");
    for name in ["a", "b", "c d", "e"] {
        let left = Format::Toml.list(&Format::Toml.remove(text, name, &[]).unwrap()).unwrap();
        assert_eq!(left.len(), 3, "{name}");
        let replaced = Format::Toml.set(text, name, &entry()).unwrap();
        let list = Format::Toml.list(&replaced).unwrap();
        assert_eq!(named(&list, name).unwrap().server.as_ref(), Some(&entry()), "{replaced}");
        assert_eq!(list.len(), 4, "{replaced}");
    }
}
