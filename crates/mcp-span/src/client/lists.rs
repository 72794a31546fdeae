//! The requests that every client makes, by their names; lists are read to their last page.

use std::collections::HashSet;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::items::{Item, Prompt, Resource, ResourceTemplate, Tool};
use super::page::{Page, TooMany};
use super::request::json_of;
use super::results::{CallResult, PromptResult, ReadResult};
use super::{Client, Request};
use crate::error::{Error, ErrorKind};
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
    pub async fn tools(&self) -> Result<Vec<Tool>, Error> {
        self.list().await
    }

    /// All resources.
    ///
    /// # Errors
    ///
    /// When the server does not list them.
    pub async fn resources(&self) -> Result<Vec<Resource>, Error> {
        self.list().await
    }

    /// All resource templates.
    ///
    /// # Errors
    ///
    /// When the server does not list them.
    pub async fn resource_templates(&self) -> Result<Vec<ResourceTemplate>, Error> {
        self.list().await
    }

    /// All prompts.
    ///
    /// # Errors
    ///
    /// When the server does not list them.
    pub async fn prompts(&self) -> Result<Vec<Prompt>, Error> {
        self.list().await
    }

    /// All items of one sort, read page by page. An entry that is no object is left out.
    ///
    /// # Errors
    ///
    /// When the server does not list them, or its list has no end or too many items.
    #[doc(hidden)]
    pub async fn list<T: Item>(&self) -> Result<Vec<T>, Error> {
        let entries = self.list_raw::<T>().await?;
        let read = |entry: Box<RawValue>| serde_json::from_str::<Map<String, Value>>(entry.get());
        Ok(entries.into_iter().filter_map(|entry| read(entry).ok()).map(T::from).collect())
    }

    /// The same as the server wrote them: large numbers and the order of members are untouched.
    ///
    /// # Errors
    ///
    /// When the server does not list them, or its list has no end or too many items.
    #[doc(hidden)]
    pub async fn list_raw<T: Item>(&self) -> Result<Vec<Box<RawValue>>, Error> {
        // Each page has a time limit that signs of life put off; all together have one that stands.
        let listing = timeout(limits::LISTING, self.pages(T::METHOD, T::MEMBER)).await;
        listing.unwrap_or_else(|_| Err(endless(T::METHOD))).map(|listed| listed.entries)
    }

    /// Asks with `method` for page after page, each of which has its entries in `member`.
    #[doc(hidden)]
    pub async fn pages(&self, method: &str, member: &str) -> Result<Listed, Error> {
        let (mut entries, mut pages) = (Vec::new(), 0);
        let mut seen = HashSet::new();
        let mut params = Value::Null;
        loop {
            let page = self.request(method, params).raw().await?;
            let room = limits::ITEMS.saturating_sub(entries.len());
            let page = Page::read(page.get(), member, room);
            let page = page.map_err(|TooMany| too_long(method))?;
            entries.extend(page.entries);
            pages += 1;
            let Some(cursor) = page.cursor else { return Ok(Listed { entries, pages }) };
            if !seen.insert(cursor.clone()) || pages >= limits::PAGES {
                return Err(endless(method));
            }
            params = json!({ "cursor": cursor });
        }
    }

    /// Calls a tool. Its arguments are anything that serializes to a JSON object, `()` for none.
    pub fn call(&self, tool: &str, arguments: impl Serialize) -> Request<'_, CallResult> {
        Request::new(&self.shared, "tools/call".to_owned(), named(tool, arguments)).typed()
    }

    /// Reads a resource.
    pub fn read_resource(&self, uri: &str) -> Request<'_, ReadResult> {
        self.request("resources/read", json!({ "uri": uri })).typed()
    }

    /// Gets a prompt, filled in with these arguments.
    pub fn get_prompt(&self, name: &str, arguments: impl Serialize) -> Request<'_, PromptResult> {
        Request::new(&self.shared, "prompts/get".to_owned(), named(name, arguments)).typed()
    }

    /// Asks for completions of an argument; `reference` is `{"type": "ref/prompt", "name": …}` or
    /// `{"type": "ref/resource", "uri": …}`.
    pub fn complete(&self, reference: Value, argument: &str, value: &str) -> Request<'_> {
        let argument = json!({ "name": argument, "value": value });
        self.request("completion/complete", json!({ "ref": reference, "argument": argument }))
    }

    /// Subscribes to a resource: its changes are notifications from now on.
    pub fn subscribe(&self, uri: &str) -> Request<'_> {
        self.request("resources/subscribe", json!({ "uri": uri }))
    }

    /// Ends a subscription.
    pub fn unsubscribe(&self, uri: &str) -> Request<'_> {
        self.request("resources/unsubscribe", json!({ "uri": uri }))
    }

    /// Sets the least severe log messages that the server sends: `debug`, `info`, `warning`…
    pub fn set_log_level(&self, level: &str) -> Request<'_> {
        self.request("logging/setLevel", json!({ "level": level }))
    }

    /// Asks for a sign of life.
    pub fn ping(&self) -> Request<'_> {
        self.request("ping", ())
    }
}

/// The parameters of what has a name and arguments.
fn named(name: &str, arguments: impl Serialize) -> Result<Option<String>, Error> {
    let arguments = json_of(arguments)?.unwrap_or_else(|| "{}".to_owned());
    Ok(Some(format!(r#"{{"name":{},"arguments":{arguments}}}"#, Value::from(name))))
}

fn endless(method: &str) -> Error {
    Error::new(ErrorKind::BadResponse, format!("The list of {method} has no end"))
}

fn too_long(method: &str) -> Error {
    let text = format!("The list of {method} has more than {} items", limits::ITEMS);
    Error::new(ErrorKind::BadResponse, text)
}
