//! Lists, help and errors as files of expected text, at several widths, with and without colour.

use crate::support::shop::shop;
use crate::support::snapshot::{self, page};
use crate::support::{Reply, Request, Server, result, run};

/// Every command, and the program itself.
const COMMANDS: [&str; 20] = [
    "",
    "call",
    "check",
    "completions",
    "config",
    "connect",
    "demo",
    "install",
    "login",
    "logout",
    "man",
    "prompt",
    "prompts",
    "raw",
    "read",
    "resources",
    "status",
    "tools",
    "trace",
    "uninstall",
];

/// What is printed for `args` on such a page.
async fn printed(args: &[&str], width: &str, has_colour: bool) -> String {
    let output = run(args, &page(width, has_colour), "").await;
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn help_of_every_command() {
    for command in COMMANDS {
        let words: Vec<&str> =
            Some(command).filter(|command| !command.is_empty()).into_iter().collect();
        let name = if command.is_empty() { "mcp-span" } else { command };
        for (flag, kind) in [("-h", "short"), ("--help", "long")] {
            let text = printed(&[&words[..], &[flag]].concat(), "80", false).await;
            snapshot::assert(&format!("help-{kind}-{name}"), &text);
        }
    }
    for (width, has_colour) in [("40", false), ("120", false), ("80", true)] {
        let colour = if has_colour { "-colour" } else { "" };
        for (command, name) in [(&["-h"][..], "mcp-span"), (&["tools", "-h"], "tools")] {
            let text = printed(command, width, has_colour).await;
            snapshot::assert(&format!("help-short-{name}-{width}{colour}"), &text);
        }
    }
}

#[tokio::test]
async fn errors() {
    let server = Server::start(shop).await;
    let url = &*server.url;
    let lines: [(&str, &[&str]); 14] = [
        ("no-such-command", &["tols", url]),
        ("no-such-flag", &["tools", url, "--heeder", "x"]),
        ("no-such-flag-at-all", &["tools", url, "--xyzzy"]),
        ("no-such-value", &["tools", url, "--transport", "carrier-pigeon"]),
        ("no-value", &["call", "--timeout"]),
        ("command-behind-url", &[url, "tools"]),
        ("one-word-too-many", &["tools", url, "order", "fail"]),
        ("no-url", &["connect"]),
        ("no-tool", &["call", url]),
        ("no-such-tool", &["call", url, "ordr"]),
        ("wrong-arguments", &["call", url, "order", "count=x", "sise=s"]),
        ("tool-failed", &["call", url, "fail"]),
        ("refused", &["raw", url, "refuse"]),
        ("json", &["tools", url, "ordr", "--json"]),
    ];
    for (name, line) in lines {
        let output = run(line, &page("80", false), "").await;
        snapshot::assert(&format!("error-{name}"), &snapshot::whole(&output));
    }
    for (name, line) in
        [("no-such-tool", ["call", url, "ordr"]), ("no-such-flag", ["call", url, "--tran"])]
    {
        let output = run(&line, &page("80", true), "").await;
        snapshot::assert(&format!("error-{name}-colour"), &snapshot::whole(&output));
    }
}

/// Names that are wide, long or missing.
const ODD_NAMES: &str = r#"{"tools":[
    {"name":"天気","title":"天気予報を調べて、わかりやすい言葉で説明する道具です","description":"都市の名前を渡すと、今日と明日の天気を教えます。","inputSchema":{
        "type":"object","required":["都市"],"properties":{
            "都市":{"type":"string","description":"都市の名前。例えば東京、大阪、札幌など"},
            "days":{"anyOf":[{"enum":["one","two"]},{"type":"null"}],"description":"日数"}}}},
    {"name":"a_tool_with_a_name_that_is_much_longer_than_any_column_of_a_table_should_be","title":"And a title that says it all once more, in as many words as it takes",
        "inputSchema":{"type":"object","properties":{
            "an_argument_with_a_name_longer_than_its_column":{"type":"array","items":{"type":"integer"},"description":"About it"}}}},
    {"description":"It has no name.","inputSchema":{"type":"object"}}]}"#;

#[tokio::test]
async fn lists_with_odd_names() {
    let odd = |r: &Request| match &*r.what() {
        "tools/list" => Reply::json(result(r.id(), &ODD_NAMES.replace('\n', ""))),
        _ => shop(r),
    };
    let server = Server::start(odd).await;
    for width in ["40", "80", "120"] {
        let text = printed(&["tools", &server.url], width, false).await;
        snapshot::assert(&format!("tools-odd-names-{width}"), &text);
    }
}

#[tokio::test]
async fn lists_of_a_server() {
    let server = Server::start(shop).await;
    for command in ["tools", "resources", "prompts"] {
        for width in ["40", "80", "120"] {
            for (has_colour, colour) in [(false, ""), (true, "-colour")] {
                let text = printed(&[command, &server.url], width, has_colour).await;
                snapshot::assert(&format!("{command}-{width}{colour}"), &text);
            }
        }
    }
}

#[tokio::test]
async fn settings_and_their_places() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.json");
    let text = r#"{
        "timeout": 12,
        "mcpServers": {
            "docs": {"url": "https://example.com/mcp", "headers": {"X-Team": "web"}},
            "files": {"command": "files-server"},
            "later": {"command": "later", "disabled": true}
        }
    }"#;
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    let args = ["config", "docs", "--config", path, "--proxy", "http://me:s3cret@proxy:8080"];
    for width in ["40", "80", "120"] {
        for (has_colour, colour) in [(false, ""), (true, "-colour")] {
            let [columns, choice] = page(width, has_colour);
            let env = [columns, choice, ("MCP_SPAN_SERIAL", "1")];
            let output = run(&args, &env, "").await;
            let text = String::from_utf8(output.stdout).unwrap();
            snapshot::assert(&format!("config-{width}{colour}"), &text.replace(path, "FILE"));
        }
    }
    for (name, more) in [("config-all", "--all"), ("config-json", "--json")] {
        let output = run(&[&args[..], &[more]].concat(), &page("80", false), "").await;
        let text = String::from_utf8(output.stdout).unwrap().replace(path, "FILE");
        snapshot::assert(name, &text);
    }
}
