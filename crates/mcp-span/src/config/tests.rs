//! Tests: whole files, as clients have them, and what can be wrong with them.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::transport::http::Transport;

fn lookup(name: &str) -> Option<String> {
    match name {
        "TOKEN" => Some("s3cr3tvalue".to_owned()),
        "HOST" => Some("example.com".to_owned()),
        _ => None,
    }
}

fn config(text: &str) -> Config {
    read("f.json", text, &lookup).unwrap_or_else(|fault| panic!("{fault}"))
}

/// The only server of a file with this under its name.
fn one(entry: &str) -> Result<ConfigEntry, ConfigError> {
    let mut config = config(&format!("{{\"mcpServers\": {{\"x\":\n{entry}\n}}}}"));
    config.entries.pop().unwrap()
}

fn good(entry: &str) -> ConfigEntry {
    one(entry).unwrap_or_else(|fault| panic!("{fault}"))
}

/// What is wrong with it, and where.
fn wrong(entry: &str) -> (String, usize, usize, Option<String>) {
    let fault = one(entry).err().unwrap_or_else(|| panic!("nothing is wrong with {entry}"));
    assert_eq!(fault.server.as_deref(), Some("x"));
    assert!(!fault.to_string().contains("s3cr3t"), "{fault}");
    (fault.message, fault.place.line, fault.place.column, fault.key)
}

fn child(entry: &ConfigEntry) -> (String, String, String) {
    let words = entry.options.command.as_ref().unwrap_or_else(|| panic!("{entry:?}"));
    let words: Vec<_> = words.iter().map(|word| word.to_str().unwrap()).collect();
    let env = entry.options.env.iter().flatten();
    let env: Vec<_> = env.map(|(n, v)| format!("{n}={}", v.reveal())).collect();
    (words[0].to_owned(), words[1..].join("|"), env.join("|"))
}

fn remote(entry: &ConfigEntry) -> (String, Transport) {
    let options = &entry.options;
    (options.url.clone().unwrap_or_else(|| panic!("{entry:?}")), options.transport())
}

/// What is set for an option.
fn texts(entry: &ConfigEntry, name: &str) -> String {
    entry.options.texts(crate::options::find(name).unwrap()).unwrap().join("|")
}

fn header(entry: &ConfigEntry) -> String {
    texts(entry, "header")
}

fn of(parts: (&str, &str, &str)) -> (String, String, String) {
    (parts.0.to_owned(), parts.1.to_owned(), parts.2.to_owned())
}

#[test]
fn files_of_several_clients_are_read_in_their_order() {
    let claude = r#"{"mcpServers": {"b": {"command": "npx", "args": ["-y", "x"]},
        "a": {"type": "http", "url": "https://h/mcp"}}, "globalShortcut": ""}"#;
    let code = r#"{"inputs": [{"id": "t"}], "servers": {"b": {"type": "stdio", "command": "c"},
        "a": {"type": "sse", "url": "http://h/sse"}}}"#;
    let settings = r#"{"mcp": {"servers": {"b": {"command": "c"}, "a": {"url": "http://h"}}}}"#;
    let zed = r#"{"theme": "One", "context_servers": {
        "b": {"source": "custom", "command": {"path": "c", "args": ["d"], "env": {"E": "1"}}},
        "a": {"url": "https://h/mcp", "headers": {}}}}"#;
    for text in [claude, code, settings, zed] {
        let config = config(text);
        let names: Vec<_> = config.servers().map(|entry| &*entry.name).collect();
        assert_eq!(names, ["b", "a"], "{text}");
        assert!(config.has_servers && config.errors().next().is_none());
    }
    assert_eq!(config(claude).others[0].key, "globalShortcut");
    let zed = config(zed);
    assert_eq!(child(zed.servers().next().unwrap()), of(("c", "d", "E=1")));
    assert!(!config("{}").has_servers);
}

#[test]
fn the_type_decides_and_is_found_out_where_it_is_missing() {
    // S1-06
    assert_eq!(child(&good(r#"{"command": "c"}"#)), of(("c", "", "")));
    assert_eq!(child(&good(r#"{"command": "c", "type": "stdio", "url": ""}"#)), of(("c", "", "")));
    for (keys, transport) in [
        (r#""url""#, Transport::Auto),
        (r#""serverUrl""#, Transport::Auto),
        (r#""httpUrl""#, Transport::Auto),
        (r#""type": "http", "url""#, Transport::Http),
        (r#""type": "streamable-http", "url""#, Transport::Http),
        (r#""type": "streamableHttp", "url""#, Transport::Http),
        (r#""type": "sse", "url""#, Transport::Sse),
        (r#""transport": "sse-only", "type": "http", "url""#, Transport::Sse),
        (r#""transport": "auto", "command": null, "url""#, Transport::Auto),
    ] {
        let entry = good(&format!("{{{keys}: \"https://h/mcp\"}}"));
        assert_eq!(remote(&entry), ("https://h/mcp".to_owned(), transport), "{keys}");
    }
}

#[test]
fn variables_are_replaced_in_all_texts() {
    let entry = good(
        r#"{"command": "${HOST}", "args": ["${env:TOKEN}", "${NO:-d}", 3], "cwd": "/${HOST}",
            "env": {"A": "${TOKEN}", "N": 1, "GONE": null}, "timeout": "${T:-7}"}"#,
    );
    assert_eq!(child(&entry), of(("example.com", "s3cr3tvalue|d|3", "A=s3cr3tvalue|N=1")));
    assert_eq!(entry.options.timeout, Some(Duration::from_secs(7)));
    assert!(entry.options.secrets.iter().any(|secret| secret.reveal() == "s3cr3tvalue"));
    let entry = good(r#"{"command": "x", "env": {"FOO": "${HOST}"}}"#);
    assert!(
        entry.options.secrets.iter().any(|secret| secret.reveal() == "example.com"),
        "of any name"
    );
    let entry = good(
        r#"{"url": "https://${HOST}/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"},
        "bearerFile": "/x/${HOST}"}"#,
    );
    assert_eq!(header(&entry), "authorization: Bearer s3cr3tvalue");
    assert_eq!(remote(&entry).0, "https://example.com/mcp");
    assert_eq!(texts(&entry, "bearer-file"), "/x/example.com");
    assert!(!format!("{entry:?}").contains("s3cr3t"), "{entry:?}");
}

#[test]
fn what_a_variable_stands_for_is_not_shown_wherever_it_is_used() {
    for text in [
        r#"{"url": "https://h/${TOKEN}/mcp"}"#,
        r#"{"url": "https://${TOKEN}.example.com/mcp"}"#,
        r#"{"command": "/opt/${TOKEN}/server", "args": ["${TOKEN}"]}"#,
    ] {
        let entry = good(text);
        assert!(!format!("{entry:?}").contains("s3cr3t"), "{entry:?}");
    }
}

#[test]
fn an_entrys_own_variables_are_known_to_its_other_texts() {
    // As with mcp-remote in Claude Desktop.
    let entry = good(
        r#"{"command": "npx", "args": ["--header", "Authorization:${AUTH}"],
        "env": {"AUTH": "Bearer ${TOKEN}"}}"#,
    );
    assert_eq!(child(&entry).1, "--header|Authorization:Bearer s3cr3tvalue");
    let entry = good(r#"{"url": "http://h/", "headers": ["X-A: ${A}"], "env": {"A": "1"}}"#);
    assert_eq!(header(&entry), "x-a: 1");
}

#[test]
fn settings_of_ours_stand_beside_the_url() {
    let entry = good(
        r#"{"url": "https://h/", "timeout": 30000, "connectTimeout": 3, "serial": true,
            "bearer_env": "T", "oauth-param": {"a": "1"}, "caCert": ["x", "y"], "profile": "work"}"#,
    );
    let of = |name: &str| texts(&entry, name);
    assert_eq!(entry.options.timeout, Some(Duration::from_secs(30)));
    assert_eq!((of("connect-timeout"), of("serial")), ("3".into(), "true".into()));
    assert_eq!((of("oauth-param"), of("ca-cert")), ("a=1".into(), "x|y".into()));
    assert_eq!((of("bearer-env"), of("profile")), ("T".into(), "work".into()));
}

#[test]
fn keys_of_other_programs_are_passed_over() {
    let entry = good(
        r#"{"command": "c", "alwaysAllow": ["a"], "autoApprove": [], "source": "custom",
            "inputs": 1, "headers": {}, "description": "d", "disabledTools": []}"#,
    );
    let ignored = [
        "alwaysAllow",
        "autoApprove",
        "source",
        "inputs",
        "description",
        "disabledTools",
        "headers",
    ];
    assert_eq!(entry.ignored, ignored);
}

#[test]
fn servers_can_be_switched_off() {
    for (keys, enabled) in [
        ("", true),
        (r#", "enabled": true, "disabled": false"#, true),
        (r#", "enabled": false"#, false),
        (r#", "disabled": true"#, false),
        (r#", "isActive": false"#, false),
    ] {
        assert_eq!(good(&format!("{{\"command\": \"c\"{keys}}}")).enabled, enabled, "{keys}");
    }
    assert!(one(r#"{"disabled": true, "command": "${NO}"}"#).unwrap_err().is_off);
    assert!(!one(r#"{"command": "${NO}"}"#).unwrap_err().is_off);
}

const CHILD: &str = "stdio server requires \"command\" field";

/// An entry, what is said of it, on which line and column, and of which key.
type Wrong = (&'static str, &'static str, usize, usize, Option<&'static str>);

const WRONG: &[Wrong] = &[
    (
        "{\"command\": \"c\",\n \"url\": \"http://h\"}",
        "both \"command\" and \"url\" are set",
        3,
        2,
        Some("url"),
    ),
    ("{}", CHILD, 1, 17, Some("command")),
    ("{\"type\": \"stdio\"}", CHILD, 1, 17, Some("command")),
    ("{\"type\": \"stdio\", \"url\": \"http://h\"}", CHILD, 1, 17, Some("command")),
    (
        "{\"type\": \"http\", \"command\": \"c\"}",
        "http server requires \"url\"",
        1,
        17,
        Some("url"),
    ),
    ("{\"type\": \"sse\"}", "sse server requires \"url\"", 1, 17, Some("url")),
    ("{\"type\": \"ws\", \"url\": \"ws://h\"}", "WebSocket", 2, 10, Some("type")),
    ("{\"type\": \"pigeon\", \"url\": \"http://h\"}", "stdio, http", 2, 10, Some("type")),
    ("[]", "must be an object", 2, 1, None),
    ("{\"comand\": \"c\"}", "did you mean \"command\"?", 2, 2, Some("comand")),
    (
        "{\"url\": \"http://h\",\n  \"connectTimout\": 1}",
        "\"connect-timeout\"",
        3,
        3,
        Some("connectTimout"),
    ),
    ("{\"command\": \"c\", \"args\": \"x\"}", "a list of texts", 2, 26, Some("args")),
    ("{\"command\": \"c\", \"args\": [\n{}]}", "a text", 3, 1, Some("args[0]")),
    ("{\"command\": [\"c\"]}", "\"args\"", 2, 13, Some("command")),
    ("{\"command\": {\"args\": []}}", "missing", 2, 13, Some("command.path")),
    ("{\"command\": \"c\", \"env\": [1]}", "object of texts", 2, 25, Some("env")),
    ("{\"command\": \"c\", \"env\": {\"A\": {}}}", "a text", 2, 31, Some("env.A")),
    ("{\"command\": \"c\", \"env\": {\"A=B\": \"\"}}", "name", 2, 33, Some("env.A=B")),
    ("{\"command\": \"c\", \"cwd\": 1, \"cwd\": 2}", "twice", 2, 35, Some("cwd")),
    ("{\"command\": \"${NO}\"}", "'NO' in ${NO} is not set", 2, 13, Some("command")),
    ("{\"url\": \"${input:u}\"}", "editor", 2, 9, Some("url")),
    ("{\"url\": \"nonsense\"}", "not a URL", 2, 9, Some("url")),
    ("{\"url\": \"ftp://h/\"}", "'ftp'", 2, 9, Some("url")),
    (
        "{\"url\": \"http://h\", \"httpUrl\": \"http://h\"}",
        "both \"url\" and \"httpUrl\"",
        2,
        21,
        Some("httpUrl"),
    ),
    ("{\"url\": \"http://h\", \"headers\": \"A: 1\"}", "object", 2, 32, Some("headers")),
    ("{\"url\": \"http://h\", \"headers\": {\"a b\": \"\"}}", "name", 2, 33, Some("headers.a b")),
    (
        "{\"url\": \"http://h\", \"headers\": {\"A\": \"${TOKEN}\\n\"}}",
        "line break",
        2,
        38,
        Some("headers.a"),
    ),
    (
        "{\"url\": \"http://h\", \"headers\": {\"TE\": \"\"}}",
        "HTTP's own",
        2,
        39,
        Some("headers.te"),
    ),
    ("{\"url\": \"http://h\", \"timeout\": \"soon\"}", "seconds", 2, 32, Some("timeout")),
    ("{\"url\": \"http://h\", \"serial\": 1}", "true or false", 2, 31, Some("serial")),
    ("{\"url\": \"http://h\", \"profile\": []}", "text or a number", 2, 32, Some("profile")),
    ("{\"url\": \"http://h\", \"caCert\": true}", "list of texts", 2, 31, Some("caCert")),
    ("{\"command\": \"c\", \"enabled\": \"no\"}", "true or false", 2, 29, Some("enabled")),
    ("{\"source\": \"extension\"}", "extension", 1, 17, Some("command")),
];

#[test]
fn what_is_wrong_is_said_with_place_and_key() {
    for (entry, message, line, column, key) in WRONG {
        let (said, at_line, at_column, at_key) = wrong(entry);
        assert!(said.contains(message), "{entry}: {said}");
        assert_eq!((at_line, at_column, at_key.as_deref()), (*line, *column, *key), "{entry}");
    }
}

#[test]
fn one_wrong_server_does_not_hurt_the_others() {
    let config = config(
        "{\"mcpServers\": {\n\"a\": {\"command\": \"c\"},\n\"b\": 7,\n\"a\": {\"command\": \"d\"},\n\
         \"\": {\"command\": \"e\"},\n\"c\": {\"url\": \"http://h\"}},\n\"servers\": {\n\"c\": {}}}",
    );
    let names: Vec<_> = config.servers().map(|entry| &*entry.name).collect();
    assert_eq!(names, ["a", "c"]);
    let faults: Vec<_> = config.errors().map(|f| (f.place.line, f.message.clone())).collect();
    assert_eq!(faults.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [3, 4, 5, 8]);
    assert!(faults[1].1.contains("'a' is in use already, on line 2"), "{faults:?}");
}

#[test]
fn a_file_that_is_none_is_refused_with_its_place() {
    let wrong = |text| read("f.json", text, &lookup).err().unwrap().to_string();
    assert!(wrong("{\n\"mcpServers\": {,}}").starts_with("f.json, line 2, column 16: this is not"));
    assert!(wrong("[]").contains("not a JSON object"));
    assert!(wrong("{\"mcpServers\": []}").contains("\"mcpServers\" must be an object"));
}

/// Values that may stand anywhere.
fn odd_value() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "null",
        "true",
        "0",
        "-1e9",
        "\"\"",
        "\"x\"",
        "\"http://h\"",
        "\"${TOKEN}\"",
        "\"${NO}\"",
        "\"stdio\"",
        "\"sse\"",
        "\"ä: ö\"",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(2, 8, 3, |inner| {
        let key = prop::sample::select(vec!["path", "args", "A", "", "a b"]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(|v| format!("[{}]", v.join(","))),
            (key, inner).prop_map(|(k, v)| format!("{{\"{k}\": {v}}}")),
        ]
    })
}

fn odd_entry() -> impl Strategy<Value = String> {
    let keys: Vec<&'static str> = keys::OWN
        .into_iter()
        .chain(crate::options::OPTIONS.iter().map(|option| option.name))
        .chain(["source", "comand"])
        .collect();
    let member = (prop::sample::select(keys), odd_value());
    let members = prop::collection::vec(member, 0..5);
    members.prop_map(|members| {
        let members: Vec<_> = members.iter().map(|(k, v)| format!("\"{k}\": {v}")).collect();
        format!("{{{}}}", members.join(", "))
    })
}

proptest! {
    #[test]
    fn whatever_stands_in_an_entry_it_is_read_or_refused_on_its_own_line(
        before in 0usize..5,
        entry in prop_oneof![odd_entry(), odd_value()],
    ) {
        let others: String =
            (0..before).map(|n| format!("\"s{n}\": {{\"command\": \"c\"}},\n")).collect();
        let config = config(&format!("{{\"servers\": {{\n{others}\"x\": {entry}}}}}"));
        prop_assert_eq!(config.entries.len(), before + 1);
        prop_assert!(config.entries[..before].iter().all(Result::is_ok));
        if let Err(fault) = &config.entries[before] {
            prop_assert_eq!(fault.place.line, before + 2);
            prop_assert_eq!(fault.server.as_deref(), Some("x"));
            prop_assert!(!fault.to_string().contains("s3cr3t"));
        }
    }
}
