//! The subcommands, and which of them is about a connection.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use super::args::{self, Connect};
use super::check::Check;
use super::completions::Completions;
use super::explore::args::{Call, Raw, Read, Target};
use super::install::{Install, Uninstall};

/// Joins any MCP client to any MCP server.
// Neither this nor what it holds can be shown: headers and URLs are secrets.
#[derive(Parser)]
#[command(
    name = "mcp-span",
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  \
        mcp-span https://example.com/mcp\n  \
        mcp-span NAME\n  \
        mcp-span -- npx -y @modelcontextprotocol/server-everything\n  \
        mcp-span https://example.com/mcp --header 'Authorization: Bearer ${TOKEN}'\n  \
        mcp-span tools https://example.com/mcp\n  \
        mcp-span call https://example.com/mcp search query=rust limit=5\n  \
        mcp-span tools -- npx -y @modelcontextprotocol/server-everything\n  \
        mcp-span demo\n\n\
        Exit codes: 0 normal end, 1 unexpected failure, 2 wrong usage or configuration.\n\
        Commands that visit a server (tools, call, read…) have more: see their own --help."
)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    #[command(flatten)]
    pub(super) connect: Connect,
}

impl Cli {
    /// The settings for a connection, of whatever command it is.
    pub(super) fn connect_mut(&mut self) -> &mut Connect {
        match &mut self.command {
            Some(Command::Connect(connect)) => connect,
            Some(Command::Config(config)) => &mut config.connect,
            Some(Command::Demo(demo)) => &mut demo.connect.0,
            Some(Command::Logout(logout)) => &mut logout.connect.0,
            Some(Command::Status(status)) => &mut status.connect.0,
            Some(Command::Login(login)) => &mut login.connect.0,
            Some(Command::Install(install)) => &mut install.connect,
            Some(Command::Check(check)) => &mut check.connect,
            Some(other) => {
                other.target_mut().map_or(&mut self.connect, |target| &mut target.connect)
            }
            None => &mut self.connect,
        }
    }

    /// Which server is explored, if that is what the command is for.
    pub(super) fn target_mut(&mut self) -> Option<&mut Target> {
        self.command.as_mut()?.target_mut()
    }
}

impl Command {
    fn target_mut(&mut self) -> Option<&mut Target> {
        match self {
            Self::Tools(target)
            | Self::Resources(target)
            | Self::Prompts(target)
            | Self::Prompt(target) => Some(target),
            Self::Call(call) => Some(&mut call.target),
            Self::Read(read) => Some(&mut read.target),
            Self::Raw(raw) => Some(&mut raw.target),
            _ => None,
        }
    }
}

#[derive(Subcommand)]
pub(super) enum Command {
    /// Connect a stdio client to a server (as `mcp-span URL` does)
    Connect(Box<Connect>),
    /// Connect to a small built-in server, to try a client on
    Demo(Box<Demo>),
    /// Find out what works with a server, and what to do about the rest
    Check(Box<Check>),
    /// Show the settings that differ from the defaults
    Config(Box<Config>),
    /// Log in to a server, and keep the tokens
    Login(Box<Login>),
    /// Forget the tokens of a server, and revoke them where possible
    Logout(Box<Logout>),
    /// Show who is logged in where, and until when
    Status(Box<Status>),
    /// Show a trace file in a form for people
    Trace(Trace),
    /// Add a server to the configuration of a client
    Install(Box<Install>),
    /// Remove a server from the configuration of a client
    Uninstall(Uninstall),
    /// Generate completions for a shell
    Completions(Completions),
    /// Print the manual page
    Man,
    /// List the tools of a server, or show one in full
    Tools(Box<Target>),
    /// List the resources of a server
    Resources(Box<Target>),
    /// List the prompts of a server, or show one in full
    Prompts(Box<Target>),
    /// Call a tool of a server
    Call(Box<Call>),
    /// Read a resource of a server
    Read(Box<Read>),
    /// Get a prompt of a server, filled in
    Prompt(Box<Target>),
    /// Send any request or notification to a server
    Raw(Box<Raw>),
}

#[derive(Args)]
pub(super) struct Config {
    #[command(flatten)]
    pub(super) connect: Connect,

    /// Show all settings, those with their defaults as well
    #[arg(long)]
    pub(super) all: bool,

    /// Print JSON for a program
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args)]
pub(super) struct Login {
    #[command(flatten)]
    pub(super) connect: args::Account,

    /// Without a browser on this machine: paste the address that the browser ended up at
    #[arg(long)]
    pub(super) paste: bool,

    /// Import the tokens that mcp-remote has stored
    #[arg(long, conflicts_with = "paste")]
    pub(super) import: bool,

    /// Print the login as JSON, in the form of `mcp-span status --json`; errors are JSON on stderr
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args)]
pub(super) struct Logout {
    #[command(flatten)]
    pub(super) connect: args::Account,

    /// The login with this name in the list of `mcp-span status`, in place of URL
    #[arg(long, value_name = "NAME")]
    pub(super) file: Option<String>,

    /// Print what was done as JSON; errors are JSON on stderr
    ///
    /// Its members: "server"; "logged_out", whether there were tokens; "revocation_error", why they
    /// may still be valid elsewhere, or null; "pending_cancelled", whether a login was waiting for a
    /// person; "other_logins", how many this server has left, or null with --file.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args)]
pub(super) struct Status {
    #[command(flatten)]
    pub(super) connect: args::Account,

    /// Print JSON for a program: "logins" and "pending"; errors are JSON on stderr
    ///
    /// A login has the members "server", "profile", "resource", "issuer", "client", "scopes",
    /// "expires_at" (seconds since 1970), "renewable", "apart_by" (what else tells it from others),
    /// "name" (for logout --file) and "kept_in". One that waits for a person has "server",
    /// "profile", "apart_by", "name" and "open" (what the person has to do). What is not known is
    /// null.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args)]
pub(super) struct Demo {
    #[command(flatten)]
    pub(super) connect: args::Demo,
}

#[derive(Args, Debug)]
pub(super) struct Trace {
    /// The trace; what was moved to FILE.1 is shown before it
    pub(super) file: PathBuf,

    /// Only what belongs to the request with this id
    #[arg(long)]
    pub(super) id: Option<String>,

    /// Only what belongs to messages with this method
    #[arg(long)]
    pub(super) method: Option<String>,

    /// Print each event as JSON on a line of its own, without a summary
    ///
    /// Its members: "timestamp", "direction", "type" and "data" as in the trace ("data" is one message
    /// of a batch), "seconds" since the first line, "text" as a person sees it; where they are known,
    /// "id", "method" and "name" (of the tool, prompt or resource) of the request that it belongs to,
    /// and "took", the seconds until that was answered. Others may be added.
    #[arg(long)]
    pub(super) json: bool,
}
