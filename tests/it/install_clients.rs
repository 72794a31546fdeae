//! `mcp-span install` and `uninstall` on configurations as the clients, and the people who use them,
//! write them: outside of the entry every byte stays.

use std::path::Path;

use crate::install::{Home, URL, read};

/// One file of one client.
struct Case {
    client: &'static str,
    before: &'static str,
    /// The same with the entry, whose command is `@@`.
    after: &'static str,
}

/// Installs, compares, takes out again, compares.
async fn there_and_back(Case { client, before, after }: Case) {
    for (before, after) in [
        (before.to_owned(), after.to_owned()),
        (before.replace('\n', "\r\n"), after.replace('\n', "\r\n")),
        (format!("\u{feff}{before}"), format!("\u{feff}{after}")),
    ] {
        let home = Home::new();
        let file = home.file(client, &before).await;
        // Else there is a word on others who can read the key.
        #[cfg(unix)]
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap();
        let args = ["install", client, URL, "--header", "X-Api-Key: ${KEY}", "--env", "KEY=k"];
        let done = home.run(&args).await;
        assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{client}");
        let command = Path::new(env!("CARGO_BIN_EXE_mcp-span")).canonicalize().unwrap();
        let command = command.to_str().unwrap().replace('\\', "\\\\");
        assert_eq!(read(&file), after.replace("@@", &command), "{client}");
        let backup = format!("{}.mcp-span.bak", file.display());
        assert_eq!(read(Path::new(&backup)), before, "{client}");
        let done = home.run(&["uninstall", client, "--name", "notion"]).await;
        assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{client}");
        assert_eq!(read(&file), before, "{client}");
    }
}

#[tokio::test]
async fn claude_code() {
    // Written by the program itself, with much else in it, and servers of single projects.
    let before = r#"{
  "numStartups": 34,
  "tipsHistory": {"new-user-warmup": 3},
  "mcpServers": {
    "playwright": {
      "type": "stdio",
      "command": "npx",
      "args": [
        "@playwright/mcp@latest"
      ],
      "env": {}
    }
  },
  "projects": {
    "/home/me/src/thing": {
      "allowedTools": [],
      "mcpServers": {
        "notion": {"command": "of one project"}
      }
    }
  },
  "oauthAccount": {"accountUuid": "0b1c"}
}"#;
    let after = r#"{
  "numStartups": 34,
  "tipsHistory": {"new-user-warmup": 3},
  "mcpServers": {
    "playwright": {
      "type": "stdio",
      "command": "npx",
      "args": [
        "@playwright/mcp@latest"
      ],
      "env": {}
    },
    "notion": {
      "type": "stdio",
      "command": "@@",
      "args": ["https://mcp.notion.com/mcp"],
      "env": {
        "KEY": "k",
        "MCP_SPAN_HEADER": "X-Api-Key: k"
      }
    }
  },
  "projects": {
    "/home/me/src/thing": {
      "allowedTools": [],
      "mcpServers": {
        "notion": {"command": "of one project"}
      }
    }
  },
  "oauthAccount": {"accountUuid": "0b1c"}
}"#;
    there_and_back(Case { client: "claude-code", before, after }).await;
}

#[tokio::test]
async fn claude_desktop() {
    // Without any server, and with the last member in another place than the first.
    there_and_back(Case {
        client: "claude-desktop",
        before: r#"{
    "globalShortcut": "Ctrl+Space",
    "preferences": { "menuBarEnabled": false } }
"#,
        after: r#"{
    "globalShortcut": "Ctrl+Space",
    "preferences": { "menuBarEnabled": false },
    "mcpServers": {
        "notion": {
            "command": "@@",
            "args": ["https://mcp.notion.com/mcp", "--header", "X-Api-Key: ${KEY}"],
            "env": {
                "KEY": "k"
            }
        }
    } }
"#,
    })
    .await;
}

#[tokio::test]
async fn cursor() {
    // As Cursor begins one.
    there_and_back(Case {
        client: "cursor",
        before: "{\n  \"mcpServers\": {}\n}\n",
        after: r#"{
  "mcpServers": {
    "notion": {
      "command": "@@",
      "args": ["https://mcp.notion.com/mcp", "--header", "X-Api-Key: ${KEY}"],
      "env": {
        "KEY": "k"
      }
    }
  }
}
"#,
    })
    .await;
}

#[tokio::test]
async fn vscode() {
    // Tabs, inputs, comments at the ends of lines and in lines of their own.
    there_and_back(Case {
        client: "vscode",
        before: r#"{
	// what is asked once
	"inputs": [
		{ "id": "tok", "type": "promptString", "password": true }, // kept by VS Code
	],
	"servers": {
		"hub": { /* ours */
			"url": "http://localhost:37373/mcp"
		} // the local one
		// "old": { "command": "nothing" },
	}
}
"#,
        after: r#"{
	// what is asked once
	"inputs": [
		{ "id": "tok", "type": "promptString", "password": true }, // kept by VS Code
	],
	"servers": {
		"hub": { /* ours */
			"url": "http://localhost:37373/mcp"
		}, // the local one
		"notion": {
			"type": "stdio",
			"command": "@@",
			"args": ["https://mcp.notion.com/mcp", "--header", "X-Api-Key: ${KEY}"],
			"env": {
				"KEY": "k"
			}
		}
		// "old": { "command": "nothing" },
	}
}
"#,
    })
    .await;
}

#[tokio::test]
async fn zed() {
    // A head of comments, trailing commas, and the servers in the middle of all other settings.
    there_and_back(Case {
        client: "zed",
        before: r#"// Zed settings
//
// To see all of them, run `zed: open default settings`.
{
  "vim_mode": true,
  "context_servers": {
    "files": {
      "source": "custom",
      "command": "npx",
      "args": ["-y", "files"],
    },
  },
  "theme": {
    "mode": "system", "dark": "One Dark",
  },
}
"#,
        after: r#"// Zed settings
//
// To see all of them, run `zed: open default settings`.
{
  "vim_mode": true,
  "context_servers": {
    "files": {
      "source": "custom",
      "command": "npx",
      "args": ["-y", "files"],
    },
    "notion": {
      "command": "@@",
      "args": ["https://mcp.notion.com/mcp", "--header", "X-Api-Key: ${KEY}"],
      "env": {
        "KEY": "k"
      }
    },
  },
  "theme": {
    "mode": "system", "dark": "One Dark",
  },
}
"#,
    })
    .await;
}

#[tokio::test]
async fn windsurf() {
    // All in one line, without a space.
    there_and_back(Case {
        client: "windsurf",
        before: r#"{"mcpServers":{"a":{"serverUrl":"https://a.example/mcp"}}}"#,
        after: concat!(
            r#"{"mcpServers":{"a":{"serverUrl":"https://a.example/mcp"},"#,
            r#""notion":{"command":"@@","args":["https://mcp.notion.com/mcp","#,
            r#""--header","X-Api-Key: ${KEY}"],"env":{"KEY":"k"}}}}"#
        ),
    })
    .await;
}

#[tokio::test]
async fn codex() {
    there_and_back(Case {
        client: "codex",
        before: r#"# mine
model = "gpt-5"   # the large one

[mcp_servers.docs]
command = "npx"
args = [
    "-y", # yes
    "docs",
]

[mcp_servers.docs.env]
"A B" = 'c'

[projects."/home/me/src"]
trust_level = "trusted"
"#,
        after: r#"# mine
model = "gpt-5"   # the large one

[mcp_servers.docs]
command = "npx"
args = [
    "-y", # yes
    "docs",
]

[mcp_servers.docs.env]
"A B" = 'c'

[projects."/home/me/src"]
trust_level = "trusted"

[mcp_servers.notion]
command = "@@"
args = ["https://mcp.notion.com/mcp", "--header", "X-Api-Key: ${KEY}"]
env = { KEY = "k" }
"#,
    })
    .await;
    // A file whose last line does not end.
    there_and_back(Case {
        client: "codex",
        before: "# mine\nmodel = \"gpt-5\"",
        after: r#"# mine
model = "gpt-5"

[mcp_servers.notion]
command = "@@"
args = ["https://mcp.notion.com/mcp", "--header", "X-Api-Key: ${KEY}"]
env = { KEY = "k" }
"#,
    })
    .await;
}

#[tokio::test]
async fn the_others() {
    let before = "{\n   \"mcpServers\": {\n   },\n   \"x\": [1,\n2]\n}";
    for client in ["kiro", "roo", "lm-studio"] {
        there_and_back(Case {
            client,
            before,
            after: r#"{
   "mcpServers": {
      "notion": {
         "command": "@@",
         "args": ["https://mcp.notion.com/mcp", "--header", "X-Api-Key: ${KEY}"],
         "env": {
            "KEY": "k"
         }
      }
   },
   "x": [1,
2]
}"#,
        })
        .await;
    }
    // It would replace the variable itself, by what the shell has.
    there_and_back(Case {
        client: "gemini-cli",
        before,
        after: r#"{
   "mcpServers": {
      "notion": {
         "command": "@@",
         "args": ["https://mcp.notion.com/mcp"],
         "env": {
            "KEY": "k",
            "MCP_SPAN_HEADER": "X-Api-Key: k"
         }
      }
   },
   "x": [1,
2]
}"#,
    })
    .await;
    there_and_back(Case {
        client: "copilot-cli",
        before: "{}\n",
        after: r#"{
  "mcpServers": {
    "notion": {
      "type": "local",
      "command": "@@",
      "args": ["https://mcp.notion.com/mcp", "--header", "X-Api-Key: ${KEY}"],
      "env": {
        "KEY": "k"
      },
      "tools": ["*"]
    }
  }
}
"#,
    })
    .await;
}
