//! What servers list: the members that one asks for by name, and all others as they came.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Something that a server lists.
pub trait Item: From<Map<String, Value>> {
    /// The request that lists it.
    const METHOD: &str;
    /// The member of the result that has the list.
    const MEMBER: &str;
    /// The capability of servers that have such a list.
    const CAPABILITY: &str;
}

macro_rules! item {
    ($(#[$about:meta])* $name:ident, $method:literal, $member:literal, $capability:literal) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Map<String, Value>);

        impl $name {
            /// The text of a member; nothing if it is none.
            #[must_use]
            pub fn text(&self, member: &str) -> &str {
                self.0.get(member).and_then(Value::as_str).unwrap_or_default()
            }

            /// Its name.
            #[must_use]
            pub fn name(&self) -> &str {
                self.text("name")
            }

            /// What it is called where people read it.
            #[must_use]
            pub fn title(&self) -> &str {
                match self.text("title") {
                    "" => self.name(),
                    title => title,
                }
            }

            /// What it is for.
            #[must_use]
            pub fn description(&self) -> &str {
                self.text("description")
            }
        }

        impl From<Map<String, Value>> for $name {
            fn from(members: Map<String, Value>) -> Self {
                Self(members)
            }
        }

        impl Item for $name {
            const METHOD: &str = $method;
            const MEMBER: &str = $member;
            const CAPABILITY: &str = $capability;
        }
    };
}

item!(
    /// A tool of a server's.
    Tool, "tools/list", "tools", "tools"
);
item!(
    /// A resource of a server's.
    Resource, "resources/list", "resources", "resources"
);
item!(
    /// A pattern of the addresses that resources have.
    ResourceTemplate, "resources/templates/list", "resourceTemplates", "resources"
);
item!(
    /// A prompt of a server's.
    Prompt, "prompts/list", "prompts", "prompts"
);

impl Tool {
    /// The schema of its arguments; `null` if it has none.
    #[must_use]
    pub fn schema(&self) -> &Value {
        self.0.get("inputSchema").unwrap_or(&Value::Null)
    }
}

impl Resource {
    /// Its address.
    #[must_use]
    pub fn uri(&self) -> &str {
        self.text("uri")
    }
}

impl ResourceTemplate {
    /// The pattern.
    #[must_use]
    pub fn pattern(&self) -> &str {
        self.text("uriTemplate")
    }
}

impl Prompt {
    /// Its arguments, as the server describes them.
    #[must_use]
    pub fn arguments(&self) -> &[Value] {
        self.0.get("arguments").and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }
}
