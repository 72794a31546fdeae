//! The real binary against a scripted server. Put a new test into the module of its subject:
//!
//! - `flows`: whole conversations, byte for byte, as the requirements write them out.
//! - `stdio`: what comes in on stdin, and what must not.
//! - `passthrough`: bytes that must survive.
//! - `handshake`: headers and order of the opening.
//! - `sessions`: sessions that are lost. `session_proofs`: when they count as lost. `away`: servers
//!   that are. `delivery`: what is sent again.
//! - `answers`: JSON, events, acknowledgements, and all that is none of these.
//! - `failures`: connections that do not come about, break or stall.
//! - `faults`: the wire is damaged at every byte. `load`: much at once, and slow peers.
//!   `floods`: payloads of very many small parts.
//! - `soak`: all faults at once, for as long as you like.
//! - `cancelling`, `timeouts`, `redirects`, `server_stream`, `resuming`: what their names say.
//! - `modern`: requests of revision 2026-07-28, and probes. `params`: what their headers repeat.
//!   `subscriptions`: streams that stay. `eras`, `eras_modern`: clients and servers of two eras.
//!   `eras_asking`: what servers ask across them. `eras_failing`: what breaks between them.
//! - `concurrency`: what runs side by side, what waits.
//! - `going`: how the process ends.
//! - `seeing`: logs, and what they never hold. `echoes`: servers that repeat credentials.
//!   `hostile_text`: texts that act on terminals.
//! - `trace`: trace files, and what is told of them. `trace_events`: cuts, names and retries in them.
//!   `trace_shown`: how they are laid out, and as JSON.
//! - `legacy_sse`: servers of the older transport. `legacy_calls`: how calls to them end.
//!   `legacy_lost`: their streams end. `legacy_away`: they are not there.
//! - `detection`: which transport a server speaks. `finding`: where the local mcp-hub is.
//! - `credentials`: tokens that change. `proxied`: what stands between us and a server.
//! - `login`: when and how one happens. `login_faults`: what goes wrong.
//!   `login_process`: those that outlive their client. `login_words`: what is shown of it. `tokens`: what comes of it,
//!   and how it is kept fresh. `id_tokens`: those that say who somebody is. `tenants`: several at one server. `redirect_address`: where browsers come
//!   back to. `renewals`: the same in detail. `unbothered`: what opens no browser.
//!   `clients`: who we are to a provider. `accounts`: what a person sees. `login_list`: all logins
//!   at once. `login_commands`: the commands that pages and hints name.
//! - `attackers`: servers and providers that are after what belongs to others. `bound`: what goes to
//!   one authorization server alone.
//! - `device`, `paste`: logins without a browser on this machine. `import`: those of mcp-remote.
//!   `given`: with what servers do not say. `proxy_settings`: with the settings of mcp-oauth2-proxy.
//! - `proxies`: the user's own, by flag, file and environment. `proxy_faults`: they misbehave.
//! - `tool_filter`: tools that are hidden.
//! - `usage`: bad input on the command line. `compat`: command lines of other bridges.
//!   `configuration`: the file. `config_servers`: servers that have names in it, and commands.
//!   `install`: entries in those of clients, `install_clients` with files of each; also the
//!   manual page. `completions`: what shells offer.
//! - `discovery`: who gives out tokens. `browsers`: what a person logs in with. `keeping`: tokens at
//!   rest. `standing_in`: what a client is told while a person logs in.
//! - `secure`: https, and which servers are trusted. `identity`: client certificates, and bad files.
//!   `http2`: many requests on one connection.
//! - `library`: the client of the library, over each transport. `examples`: its programs.
//!   `children`: servers that are child processes.
//! - `manager`: many servers by their names. `manager_events`: what subscribers learn of them.
//!   `manager_login`: those that want a login. `manager_config`: those with options.
//!   `manager_tools`: names of tools, allow and deny lists. `hundred`: that many at once.
//! - `commands_look`: lists of tools, resources and prompts. `commands_call`: calls. `commands_raw`:
//!   reading, prompts, and any method. `commands_odd`: answers that fit no form.
//!   `commands_terminal`: a person at a terminal.
//! - `snapshots`: lists, help and errors as files of expected text, at several widths.
//! - `check_ways`: what a check says of the way to a server. `check_servers`: of what answers there.
//!   `check_access`: of logins. `check_programs`: of child processes. `check_reports`: how it is told.
//!   `check_layout`: at which width, and in which colours.
//! - `private_files`: whose files are read and written. `environments`: what processes that we
//!   start are given. `ways_around`: what all code must do in one way.
//! - `states`: what a log says at `info`, and of servers that cannot be reached.
//! - `documents`: links, headings and the table of contents. `demo`: the embedded server. `lessons`: what went wrong in other bridges.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that panics has failed, and says where"
)]

mod accounts;
mod answers;
mod attackers;
mod away;
mod bound;
mod browsers;
mod cancelling;
mod check_access;
mod check_layout;
mod check_programs;
mod check_reports;
mod check_servers;
mod check_ways;
#[cfg(target_os = "linux")]
mod children;
mod clients;
mod commands_call;
mod commands_look;
mod commands_odd;
mod commands_raw;
#[cfg(target_os = "linux")]
mod commands_terminal;
mod compat;
mod completions;
mod concurrency;
mod config_servers;
mod configuration;
mod credentials;
mod delivery;
mod demo;
mod detection;
mod device;
mod discovery;
mod documents;
mod echoes;
mod environments;
mod eras;
mod eras_asking;
mod eras_failing;
mod eras_modern;
mod every_option;
mod examples;
mod failures;
mod faults;
mod finding;
mod floods;
mod flows;
mod given;
mod going;
mod handshake;
mod hostile_text;
mod http2;
mod hundred;
mod id_tokens;
mod identity;
mod import;
mod install;
mod install_clients;
mod keeping;
mod legacy_away;
mod legacy_calls;
mod legacy_lost;
mod legacy_sse;
mod lessons;
mod library;
mod load;
mod login;
#[cfg(target_os = "linux")]
mod login_commands;
mod login_faults;
mod login_list;
#[cfg(target_os = "linux")]
mod login_process;
mod login_words;
mod manager;
mod manager_config;
mod manager_events;
mod manager_login;
mod manager_tools;
mod modern;
mod params;
mod passthrough;
mod paste;
mod pending;
mod private_files;
mod proxied;
mod proxies;
mod proxy_faults;
mod proxy_settings;
mod redirect_address;
mod redirects;
mod renewals;
mod resuming;
mod secure;
mod seeing;
mod server_stream;
mod session_proofs;
mod sessions;
mod snapshots;
mod soak;
mod standing_in;
mod states;
mod stdio;
mod subscriptions;
mod support;
mod tenants;
mod timeouts;
mod tokens;
mod tool_filter;
mod trace;
mod trace_events;
mod trace_shown;
mod unbothered;
mod usage;
mod ways_around;
