//! The methods of the protocol, and what each of them means to a bridge: the one table.

use std::fmt;
use std::sync::Arc;

use crate::limits::Clock;

/// What a bridge has to know about a method. Nothing else in this library decides by a method's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Properties {
    /// Whether it is no part of the modern era.
    pub is_legacy_only: bool,
    /// Whether carrying it out twice does no harm, whatever it is about.
    pub is_safe: bool,
    /// How long it may be silent.
    pub clock: Clock,
    /// How it is queued.
    pub lane: QueueLane,
    /// What becomes of it while a person has to log in.
    pub login: LoginWait,
    /// Whether it opens the conversation with a server: no session is needed for it.
    pub opens: bool,
    /// Whether a new session has to be told it again, once it has succeeded.
    pub is_restored: bool,
    /// Whether its result tells how long it may be cached, in the modern era.
    pub is_cacheable: bool,
    /// Whether the server may ask for input before it answers, in the modern era.
    pub may_ask_input: bool,
    /// The member of its parameters that says what it is about.
    pub subject: Option<Subject>,
}

/// The member of a request's parameters that says what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The modern era repeats it in a header.
    Named(&'static str),
    /// It is worth showing to people.
    Shown(&'static str),
}

impl Subject {
    /// The name of the member.
    #[must_use]
    pub fn member(self) -> &'static str {
        match self {
            Self::Named(member) | Self::Shown(member) => member,
        }
    }
}

/// How a message is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLane {
    /// In order, a limited number at once.
    Ordinary,
    /// Past the queue, unless strict order is asked for.
    Urgent,
    /// Past the queue in any case.
    Always,
}

/// What becomes of a request while a person has to log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginWait {
    /// It starts no login and waits for none.
    Never,
    /// It waits for as long as it takes.
    Waits,
    /// It ends with the address of the login page after a while.
    Limited,
}

const REQUEST: Properties = Properties {
    is_legacy_only: false,
    is_safe: false,
    clock: Clock::Quick,
    lane: QueueLane::Ordinary,
    login: LoginWait::Limited,
    opens: false,
    is_restored: false,
    is_cacheable: false,
    may_ask_input: false,
    subject: None,
};

const SAFE: Properties = Properties { is_safe: true, ..REQUEST };
const LIST: Properties = Properties { is_cacheable: true, ..SAFE };
const STATE: Properties = Properties { is_legacy_only: true, is_restored: true, ..REQUEST };
const SUBSCRIPTION: Properties = Properties { subject: Some(Subject::Shown("uri")), ..STATE };
const WORK: Properties = Properties { clock: Clock::Work, may_ask_input: true, ..REQUEST };
const TASK: Properties = Properties { subject: Some(Subject::Named("taskId")), ..REQUEST };
const NOTIFICATION: Properties = Properties { login: LoginWait::Never, ..REQUEST };

/// Of the requests that the protocol does not know (yet), those that end so only look.
const SAFE_ENDINGS: [&str; 3] = ["/list", "/read", "/get"];

macro_rules! methods {
    ($($variant:ident $name:literal $properties:expr;)*) => {
        /// A method of the protocol, or any other.
        #[derive(Clone, PartialEq, Eq, Hash)]
        pub enum Method {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
            /// One that the protocol does not know.
            Other(Arc<str>),
        }

        impl Method {
            /// The method of this name.
            #[must_use]
            pub fn named(name: &str) -> Self {
                match name {
                    $($name => Self::$variant,)*
                    _ => Self::Other(name.into()),
                }
            }

            /// Its name on the wire.
            #[must_use]
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Other(name) => name,
                }
            }

            /// What it means to a bridge.
            #[must_use]
            pub fn properties(&self) -> Properties {
                match self {
                    $(Self::$variant => const { $properties },)*
                    Self::Other(name) => {
                        let is_safe = SAFE_ENDINGS.iter().any(|end| name.ends_with(end));
                        Properties { is_safe, ..REQUEST }
                    }
                }
            }

            /// All that the protocol knows.
            #[cfg(test)]
            const ALL: &[Self] = &[$(Self::$variant,)*];
        }
    };
}

methods! {
    Initialize "initialize" Properties {
        is_legacy_only: true, login: LoginWait::Waits, opens: true, ..SAFE
    };
    Initialized "notifications/initialized" NOTIFICATION;
    Ping "ping" Properties {
        is_legacy_only: true, lane: QueueLane::Urgent, login: LoginWait::Never, ..SAFE
    };
    // The client's own starts no login: it is a probe. Whoever sends one as the first step of a
    // translation asks for a login explicitly.
    Discover "server/discover" Properties { login: LoginWait::Never, opens: true, ..SAFE };
    ToolsList "tools/list" LIST;
    // Safe by the tool's own hints alone.
    ToolsCall "tools/call" Properties { subject: Some(Subject::Named("name")), ..WORK };
    PromptsList "prompts/list" LIST;
    PromptsGet "prompts/get" Properties { is_safe: true, subject: Some(Subject::Named("name")), ..WORK };
    ResourcesList "resources/list" LIST;
    ResourceTemplatesList "resources/templates/list" LIST;
    ResourcesRead "resources/read" Properties {
        is_safe: true, is_cacheable: true, subject: Some(Subject::Named("uri")), ..WORK
    };
    ResourcesSubscribe "resources/subscribe" SUBSCRIPTION;
    ResourcesUnsubscribe "resources/unsubscribe" SUBSCRIPTION;
    SetLevel "logging/setLevel" STATE;
    Complete "completion/complete" Properties { clock: Clock::Work, ..SAFE };
    // It stays for good, and would hold a place in the queue for ever.
    Listen "subscriptions/listen" Properties { clock: Clock::Never, lane: QueueLane::Always, ..REQUEST };
    TasksGet "tasks/get" Properties { is_safe: true, ..TASK };
    TasksUpdate "tasks/update" TASK;
    TasksCancel "tasks/cancel" TASK;
    // What servers ask clients.
    RootsList "roots/list" SAFE;
    CreateMessage "sampling/createMessage" REQUEST;
    Elicit "elicitation/create" REQUEST;
    Cancelled "notifications/cancelled" Properties { lane: QueueLane::Always, ..NOTIFICATION };
    Progress "notifications/progress" NOTIFICATION;
    LogMessage "notifications/message" NOTIFICATION;
    ToolsChanged "notifications/tools/list_changed" NOTIFICATION;
    PromptsChanged "notifications/prompts/list_changed" NOTIFICATION;
    ResourcesChanged "notifications/resources/list_changed" NOTIFICATION;
    RootsChanged "notifications/roots/list_changed" NOTIFICATION;
    ResourceUpdated "notifications/resources/updated" NOTIFICATION;
    Acknowledged "notifications/subscriptions/acknowledged" NOTIFICATION;
    ElicitationComplete "notifications/elicitation/complete" NOTIFICATION;
    TaskStatus "notifications/tasks/status" NOTIFICATION;
}

impl From<&str> for Method {
    fn from(name: &str) -> Self {
        Self::named(name)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// As a text: that is how people know it.
impl fmt::Debug for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of those for which `property` holds.
    fn with(property: impl Fn(Properties) -> bool) -> Vec<&'static str> {
        let known = Method::ALL.iter().filter(|method| property(method.properties()));
        known.map(Method::name).collect()
    }

    #[test]
    fn every_method_is_known_by_its_name() {
        for method in Method::ALL {
            assert_eq!(Method::named(method.name()), *method);
        }
        assert_eq!(Method::named("x/y"), Method::Other("x/y".into()));
        assert_eq!(Method::named("x/y").name(), "x/y");
        assert_eq!(format!("{0} {0:?}", Method::named("x")), r#"x "x""#);
    }

    #[test]
    fn looking_is_safe_and_doing_is_not() {
        let safe = [
            "initialize",
            "ping",
            "server/discover",
            "tools/list",
            "prompts/list",
            "prompts/get",
            "resources/list",
            "resources/templates/list",
            "resources/read",
            "completion/complete",
            "tasks/get",
            "roots/list",
        ];
        assert_eq!(with(|method| method.is_safe), safe);
        for name in ["x/list", "x/read", "x/y/get"] {
            assert!(Method::named(name).properties().is_safe, "{name}");
        }
        for name in ["x", "list", "x/listing", "x/delete"] {
            assert!(!Method::named(name).properties().is_safe, "{name}");
        }
    }

    #[test]
    fn work_has_time_and_a_subscription_has_no_end() {
        // C2
        let work = ["tools/call", "prompts/get", "resources/read", "completion/complete"];
        let mut found = with(|method| method.clock == Clock::Work);
        found.sort_by_key(|name| work.iter().position(|known| known == name));
        assert_eq!(found, work);
        assert_eq!(with(|method| method.clock == Clock::Never), ["subscriptions/listen"]);
    }

    #[test]
    fn what_does_not_wait_behind_calls_is_named() {
        assert_eq!(with(|method| method.lane == QueueLane::Urgent), ["ping"]);
        let always = ["subscriptions/listen", "notifications/cancelled"];
        assert_eq!(with(|method| method.lane == QueueLane::Always), always);
    }

    #[test]
    fn eras_sessions_and_subjects_are_as_the_protocol_has_them() {
        let state = ["resources/subscribe", "resources/unsubscribe", "logging/setLevel"];
        assert_eq!(with(|method| method.is_restored), state);
        let legacy = [&["initialize", "ping"][..], &state].concat();
        assert_eq!(with(|method| method.is_legacy_only), legacy);
        assert_eq!(with(|method| method.opens), ["initialize", "server/discover"]);
        assert_eq!(with(|method| method.login == LoginWait::Waits), ["initialize"]);
        let cacheable = [
            "tools/list",
            "prompts/list",
            "resources/list",
            "resources/templates/list",
            "resources/read",
        ];
        assert_eq!(with(|method| method.is_cacheable), cacheable);
        let asking = ["tools/call", "prompts/get", "resources/read"];
        assert_eq!(with(|method| method.may_ask_input), asking);
        let by = |member| with(move |method| method.subject == Some(Subject::Named(member)));
        assert_eq!(by("name"), ["tools/call", "prompts/get"]);
        assert_eq!(by("uri"), ["resources/read"]);
        assert_eq!(by("taskId"), ["tasks/get", "tasks/update", "tasks/cancel"]);
    }
}
