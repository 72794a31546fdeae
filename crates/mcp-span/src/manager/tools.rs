//! The tools of all servers under one roof: listed, found by their names, and called.

use std::collections::HashSet;
use std::sync::Arc;

use serde::Serialize;

use super::server_handle::ServerHandle;
use super::{ListKind, Manager, errors, tool_names};
use crate::client::{CallResult, Tool};
use crate::error::Error;
use crate::lock::lock;

/// A tool of one of the servers.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ManagedTool {
    /// The name for [`Manager::call`], unique among all servers: `server__tool`. It consists of at
    /// most 64 letters, digits, `_` and `-`, as model providers want it; a name that is longer, or
    /// that several tools would have, ends with a hash.
    pub name: String,
    /// The name of the server.
    pub server: Arc<str>,
    /// The tool as the server lists it.
    pub tool: Tool,
    /// See [`ServerList::is_current`](super::ServerList::is_current).
    pub is_current: bool,
}

impl Manager {
    /// The tools of all servers, as last known, without those that a filter denies
    /// ([`ManagerOptions::tools`](super::ManagerOptions::tools)).
    #[must_use]
    pub fn tools(&self) -> Vec<ManagedTool> {
        let servers = lock(&self.shared.servers);
        let mut tools = Vec::new();
        for (server, handle) in &servers.by_name {
            let view = handle.view.borrow();
            let is_current = view.is_current(ListKind::Tools);
            let mut names = HashSet::new();
            // Some servers list a tool twice, and one without a name cannot be called.
            let listed = view.cached.tools.iter().filter(|tool| {
                let name = tool.name();
                !name.is_empty() && names.insert(name) && self.allows(handle, name)
            });
            tools.extend(listed.map(|tool| ManagedTool {
                name: String::new(),
                server: Arc::clone(server),
                tool: tool.clone(),
                is_current,
            }));
        }
        let keys: Vec<_> = tools.iter().map(|tool| (&*tool.server, tool.tool.name())).collect();
        let names = tool_names::qualify(&keys);
        tools.iter_mut().zip(names).for_each(|(tool, name)| tool.name = name);
        tools
    }

    /// Calls a tool by the name that [`Self::tools`] gives it. If the connection turns out to be
    /// gone before anything was sent, the call is made over the next one.
    ///
    /// A server that has not listed its tools yet is found by its own name: what follows the `__`
    /// is the tool's.
    ///
    /// # Errors
    ///
    /// When there is no such tool, a filter denies it, the server is not there, or the call
    /// fails; `delivery` says whether it may have been carried out.
    pub async fn call(&self, name: &str, arguments: impl Serialize) -> Result<CallResult, Error> {
        let (handle, tool) = self.find_tool(name)?;
        handle.call(&tool, arguments).await
    }

    /// Calls a tool by the names of its server and its own.
    ///
    /// # Errors
    ///
    /// As for [`Self::call`].
    pub async fn call_on(
        &self,
        server: &str,
        tool: &str,
        arguments: impl Serialize,
    ) -> Result<CallResult, Error> {
        let handle = self.handle(server)?;
        if !self.allows(&handle, tool) {
            return Err(errors::denied_tool(tool));
        }
        handle.call(tool, arguments).await
    }

    /// The server and the own name of the tool that `name` stands for.
    fn find_tool(&self, name: &str) -> Result<(ServerHandle, String), Error> {
        let servers = lock(&self.shared.servers);
        let mut found = Vec::new();
        for (server, handle) in &servers.by_name {
            let view = handle.view.borrow();
            let tools: HashSet<_> = view.cached.tools.iter().map(Tool::name).collect();
            let meant =
                tools.into_iter().filter(|tool| tool_names::stands_for(name, (server, tool)));
            found.extend(meant.map(|tool| (handle, tool.to_owned())));
        }
        if found.is_empty() {
            let servers = servers.by_name.values();
            let named = servers.filter_map(|handle| {
                Some((handle, tool_names::without_server(name, &handle.name)?.to_owned()))
            });
            found.extend(named.max_by_key(|(handle, _)| handle.name.len()));
        }
        if found.is_empty() {
            return Err(errors::unknown_tool(name));
        }
        found.retain(|(handle, tool)| self.allows(handle, tool));
        match found.pop() {
            None => Err(errors::denied_tool(name)),
            Some((handle, tool)) if found.is_empty() => Ok((handle.clone(), tool)),
            Some(_) => Err(errors::ambiguous_tool(name)),
        }
    }

    fn allows(&self, handle: &ServerHandle, tool: &str) -> bool {
        let filters = [&self.shared.options.tools, &handle.tools];
        filters.iter().all(|filter| filter.allows(&handle.name, tool))
    }
}
