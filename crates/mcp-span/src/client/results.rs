//! What calls, resources and prompts bring, with the members that programs ask for by name.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::items::Resource;
use crate::error::{Error, ErrorKind};

/// The result of a tool.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let demo = mcp_span::Demo::start().await?;
/// # let client = mcp_span::Client::builder(demo.url()).connect().await?;
/// let result = client.call("add", serde_json::json!({"a": 2, "b": 40})).await?;
/// assert!(!result.is_error);
/// assert_eq!(result.text(), "42");
/// assert_eq!(result.structured::<u32>()?, 42);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct CallResult {
    /// What the tool brings for a model or a person.
    #[serde(deserialize_with = "or_default")]
    pub content: Vec<Content>,
    /// The same for programs, as the server wrote it.
    pub structured_content: Option<Box<RawValue>>,
    /// Whether the tool has failed; its content says why.
    #[serde(deserialize_with = "or_default")]
    pub is_error: bool,
}

impl CallResult {
    /// All text in the content, a line feed between two parts.
    #[must_use]
    pub fn text(&self) -> String {
        let texts = self.content.iter().filter_map(Content::as_text);
        texts.collect::<Vec<_>>().join("\n")
    }

    /// What the tool brings for programs. Of a tool that brings no structured content, the text is
    /// read as JSON.
    ///
    /// # Errors
    ///
    /// When it is no `T`.
    pub fn structured<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let read = match &self.structured_content {
            Some(json) => serde_json::from_str(json.get()),
            None => serde_json::from_str(&self.text()),
        };
        read.map_err(|why| {
            Error::new(ErrorKind::BadResponse, "The structured content cannot be read").because(why)
        })
    }
}

/// A part of what a tool or a prompt brings.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Content {
    /// Text.
    #[non_exhaustive]
    Text {
        /// The text itself.
        text: String,
    },
    /// An image.
    #[non_exhaustive]
    Image {
        /// In base64.
        data: String,
        /// Its media type.
        mime_type: String,
    },
    /// Sound.
    #[non_exhaustive]
    Audio {
        /// In base64.
        data: String,
        /// Its media type.
        mime_type: String,
    },
    /// The address of a resource.
    ResourceLink(Resource),
    /// A resource itself.
    #[non_exhaustive]
    Resource {
        /// What it holds.
        resource: ResourceContents,
    },
    /// Content of another form, as it came.
    #[serde(untagged)]
    Other(Value),
}

impl Content {
    /// The text, if it is text or a resource with text.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            Self::Resource { resource } => resource.text.as_deref(),
            _ => None,
        }
    }
}

/// The contents of a resource: text, or bytes in base64.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct ResourceContents {
    /// The address of the resource.
    pub uri: String,
    /// Its media type, if the server names one.
    pub mime_type: Option<String>,
    /// The contents of a resource that is text.
    pub text: Option<String>,
    /// The contents of any other, in base64.
    pub blob: Option<String>,
}

/// What reading a resource brings.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ReadResult {
    /// The resource, or those that it consists of.
    #[serde(deserialize_with = "or_default")]
    pub contents: Vec<ResourceContents>,
}

/// A prompt, filled in.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct PromptResult {
    /// What it is for.
    pub description: Option<String>,
    /// What a model is to be told.
    #[serde(deserialize_with = "or_default")]
    pub messages: Vec<PromptMessage>,
}

/// A message of a prompt.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct PromptMessage {
    /// Who says it: `user` or `assistant`.
    pub role: String,
    /// What is said.
    pub content: Content,
}

/// Some servers write `null` where they have nothing to say.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    value: D,
) -> Result<T, D::Error> {
    Option::deserialize(value).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn content_of_every_form_is_read_and_what_is_unknown_stays() {
        let result = json!({"isError": null, "content": [
            {"type": "text", "text": "a", "annotations": {}},
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            {"type": "resource_link", "uri": "file:///x", "name": "x"},
            {"type": "resource", "resource": {"uri": "file:///y", "text": "b"}},
            {"type": "hologram", "depth": 3},
            {"type": "text"},
        ]});
        let result: CallResult = serde_json::from_value(result).unwrap();
        assert_eq!((result.text().as_str(), result.is_error), ("a\nb", false));
        let Content::ResourceLink(link) = &result.content[2] else { panic!("{result:?}") };
        assert_eq!((link.uri(), link.name()), ("file:///x", "x"));
        let image = Content::Image { data: "aGk=".into(), mime_type: "image/png".into() };
        assert_eq!(result.content[1], image);
        assert_eq!(result.content[4], Content::Other(json!({"type": "hologram", "depth": 3})));
        assert_eq!(result.content[5], Content::Other(json!({"type": "text"})));
    }

    #[test]
    fn structured_content_keeps_large_numbers_and_text_stands_in_for_it() {
        let exact = r#"{"structuredContent":{"n":340282366920938463463374607431768211455}}"#;
        let exact: CallResult = serde_json::from_str(exact).unwrap();
        let n: std::collections::HashMap<String, u128> = exact.structured().unwrap();
        assert_eq!(n["n"], u128::MAX);
        let text = r#"{"content":[{"type":"text","text":"[1, 2]"}],"structuredContent":null}"#;
        let text: CallResult = serde_json::from_str(text).unwrap();
        assert_eq!(text.structured::<Vec<u8>>().unwrap(), [1, 2]);
        let error = text.structured::<String>().unwrap_err();
        assert_eq!(error.kind, ErrorKind::BadResponse);
    }
}
