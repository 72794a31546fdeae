//! The requests that every client makes, by their names; lists are read to their last page.

use std::collections::HashSet;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::items::{Item, Prompt, Resource, Template, Tool};
use super::page::{Page, TooMany};
use super::{Client, Failure, Request};
use crate::error::{Error, Kind};
use crate::limits;

/// A whole list.
#[derive(Debug)]
#[doc(hidden)]
pub struct Listed {
    /// As the server wrote them.
    pub entries: Vec<Box<RawValue>>,
    /// How many it took.
    pub pages: usize,
}

impl Client {
    /// All tools.
    ///
    /// # Errors
    ///
    /// When the server does not list them.
    pub async fn tools(&self) -> Result<Vec<Tool>, Failure> {
        self.list().await
    }

    /// All resources.
    ///
    /// # Errors
    ///
    /// When the server does not list them.
    pub async fn resources(&self) -> Result<Vec<Resource>, Failure> {
        self.list().await
    }

    /// All patterns of resources.
    ///
    /// # Errors
    ///
    /// When the server does not list them.
    pub async fn templates(&self) -> Result<Vec<Template>, Failure> {
        self.list().await
    }

    /// All prompts.
    ///
    /// # Errors
    ///
    /// When the server does not list them.
    pub async fn prompts(&self) -> Result<Vec<Prompt>, Failure> {
        self.list().await
    }

    /// All items of one sort, page by page. An entry that is no object is passed over.
    ///
    /// # Errors
    ///
    /// When the server does not list them, or its list has no end or too many items.
    pub async fn list<T: Item>(&self) -> Result<Vec<T>, Failure> {
        let entries = self.list_raw::<T>().await?;
        let read = |entry: Box<RawValue>| serde_json::from_str::<Map<String, Value>>(entry.get());
        Ok(entries.into_iter().filter_map(|entry| read(entry).ok()).map(T::from).collect())
    }

    /// The same as the server wrote them, large numbers and the order of members included.
    ///
    /// # Errors
    ///
    /// When the server does not list them, or its list has no end or too many items.
    pub async fn list_raw<T: Item>(&self) -> Result<Vec<Box<RawValue>>, Failure> {
        // Each page has a time limit that signs of life put off; all together have one that stands.
        let listing = timeout(limits::LISTING, self.pages(T::METHOD, T::MEMBER)).await;
        listing.unwrap_or_else(|_| Err(self.endless(T::METHOD))).map(|listed| listed.entries)
    }

    /// Asks with `method` for page after page, each of which has its entries in `member`.
    #[doc(hidden)]
    pub async fn pages(&self, method: &str, member: &str) -> Result<Listed, Failure> {
        let (mut entries, mut pages) = (Vec::new(), 0);
        let mut seen = HashSet::new();
        let mut params = Value::Null;
        loop {
            let page = self.request(method, params).raw().await?;
            let room = limits::ITEMS.saturating_sub(entries.len());
            let page = Page::read(page.get(), member, room);
            let page = page.map_err(|TooMany| self.too_long(method))?;
            entries.extend(page.entries);
            pages += 1;
            let Some(cursor) = page.cursor else { return Ok(Listed { entries, pages }) };
            if !seen.insert(cursor.clone()) || pages >= limits::PAGES {
                return Err(self.endless(method));
            }
            params = json!({ "cursor": cursor });
        }
    }

    fn endless(&self, method: &str) -> Failure {
        self.bad_list(format!("The list of {method} has no end"))
    }

    fn too_long(&self, method: &str) -> Failure {
        self.bad_list(format!("The list of {method} has more than {} items", limits::ITEMS))
    }

    fn bad_list(&self, message: String) -> Failure {
        Failure::of(self.transport(), Error::new(Kind::BadResponse, message))
    }

    /// Calls a tool.
    pub fn call(&self, tool: &str, arguments: Value) -> Request<'_> {
        let arguments = if arguments.is_null() { json!({}) } else { arguments };
        self.request("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// Reads a resource.
    pub fn read(&self, uri: &str) -> Request<'_> {
        self.request("resources/read", json!({ "uri": uri }))
    }

    /// Gets a prompt, filled in with these arguments.
    pub fn get(&self, prompt: &str, arguments: Value) -> Request<'_> {
        let arguments = if arguments.is_null() { json!({}) } else { arguments };
        self.request("prompts/get", json!({ "name": prompt, "arguments": arguments }))
    }

    /// Asks how an argument could go on; `reference` is `{"type": "ref/prompt", "name": …}` or
    /// `{"type": "ref/resource", "uri": …}`.
    pub fn complete(&self, reference: Value, argument: &str, value: &str) -> Request<'_> {
        let argument = json!({ "name": argument, "value": value });
        self.request("completion/complete", json!({ "ref": reference, "argument": argument }))
    }

    /// Wants to hear of changes of a resource, among the notifications.
    pub fn subscribe(&self, uri: &str) -> Request<'_> {
        self.request("resources/subscribe", json!({ "uri": uri }))
    }

    /// No longer wants to.
    pub fn unsubscribe(&self, uri: &str) -> Request<'_> {
        self.request("resources/unsubscribe", json!({ "uri": uri }))
    }

    /// Which log messages the server should send: `debug`, `info`, `warning`, `error`…
    pub fn log_level(&self, level: &str) -> Request<'_> {
        self.request("logging/setLevel", json!({ "level": level }))
    }

    /// Whether the server answers at all.
    pub fn ping(&self) -> Request<'_> {
        self.request("ping", Value::Null)
    }
}
