//! Takes a modern request apart: what its envelope says, and what is left for a legacy server.

use std::borrow::Cow;

use crate::message::{Id, Json, Members, Method, get};
use crate::revision::translate::{CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION};

/// What a request says about itself.
#[derive(Debug, Default)]
pub(super) struct Asks<'a> {
    /// The level, as JSON, from which on it wants log messages.
    pub(super) log_level: Option<Cow<'a, str>>,
    /// The token under which it wants to hear of its progress.
    pub(super) token: Option<Id>,
    /// The handle of the call that it goes on with, as JSON.
    pub(super) handle: Option<Cow<'a, str>>,
    /// The answers that it brings, as JSON.
    pub(super) responses: Option<Cow<'a, str>>,
}

impl<'a> Asks<'a> {
    /// Takes out what a legacy server does not know. `None`: its parameters are no object.
    ///
    /// `may_resume`: it may bring answers to a server's questions.
    pub(super) fn take(request: &mut Members<'a>, may_resume: bool) -> Option<Self> {
        let mut asks = Asks::default();
        if !request.has("params") {
            return Some(asks);
        }
        request.get("params").filter(|json| json.starts_with('{'))?;
        let params = request.object("params");
        if may_resume {
            asks.handle = params.remove("requestState");
            asks.responses = params.remove("inputResponses");
        }
        let meta = params.object("_meta");
        for name in [PROTOCOL_VERSION, CLIENT_INFO, CLIENT_CAPABILITIES] {
            meta.remove(name);
        }
        asks.log_level = meta.remove(LOG_LEVEL).filter(|json| json.starts_with('"'));
        asks.token = meta.get("progressToken").and_then(Id::from_json);
        params.drop_if_empty("_meta");
        Some(asks)
    }
}

/// Whether a client with these capabilities can be asked `method` with `params`.
pub(super) fn can_be_asked(capabilities: &str, method: &Method, params: Option<&str>) -> bool {
    let has = |path: &[&str]| get(capabilities, path).is_some();
    let is_given = |name| get(capabilities, &[name]).is_some_and(|json| !json.is_null());
    let url = has(&["elicitation", "url"]);
    match method {
        Method::Elicit if is_url_mode(params) => url,
        // An empty object stands for forms.
        Method::Elicit if !url || has(&["elicitation", "form"]) => {
            get(capabilities, &["elicitation"]).is_some_and(Json::is_object)
        }
        Method::CreateMessage => is_given("sampling"),
        Method::RootsList => is_given("roots"),
        _ => false,
    }
}

/// Whether the parameters of `elicitation/create` are about a page to be visited.
pub(super) fn is_url_mode(params: Option<&str>) -> bool {
    let mode = params.and_then(|params| get(params, &["mode"])?.text());
    mode.as_deref() == Some("url")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_envelope_goes_and_the_rest_stays() {
        let text = concat!(
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"#,
            r#""io.modelcontextprotocol/protocolVersion":"x","progressToken":7,"#,
            r#""io.modelcontextprotocol/clientCapabilities":{"roots":{}},"#,
            r#""io.modelcontextprotocol/logLevel":"info","traceparent":"00-1"},"#,
            r#""name":"a","requestState":"h","inputResponses":{"k":{}},"arguments":{ "x" : 1.50 }}}"#
        );
        let mut request = Members::of(text).unwrap();
        let asks = Asks::take(&mut request, true).unwrap();
        assert_eq!(
            request.to_json(),
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":7,"traceparent":"00-1"},"name":"a","arguments":{ "x" : 1.50 }}}"#
        );
        assert_eq!(asks.log_level.as_deref(), Some("\"info\""));
        assert_eq!(asks.token.unwrap().as_json(), "7");
        assert_eq!(asks.handle.as_deref(), Some("\"h\""));
        assert_eq!(asks.responses.as_deref(), Some(r#"{"k":{}}"#));
    }

    #[test]
    fn nothing_appears_where_nothing_was() {
        for text in [r#"{"id":1}"#, r#"{"id":1,"params":{}}"#, r#"{"params":{"requestState":1}}"#] {
            let mut request = Members::of(text).unwrap();
            assert!(Asks::take(&mut request, false).is_some());
            assert_eq!(request.to_json(), text);
        }
        let mut request = Members::of(r#"{"params":[1]}"#).unwrap();
        assert!(Asks::take(&mut request, false).is_none());
    }

    #[test]
    fn what_a_client_can_be_asked_is_what_it_declares() {
        let form = r#"{"elicitation":{}}"#;
        let url = r#"{"mode":"url"}"#;
        assert!(can_be_asked(form, &Method::Elicit, Some("{}")));
        assert!(!can_be_asked(form, &Method::Elicit, Some(url)));
        let page = r#"{"elicitation":{"url":{}}}"#;
        assert!(can_be_asked(page, &Method::Elicit, Some(url)));
        assert!(!can_be_asked(page, &Method::Elicit, None));
        let both = r#"{"elicitation":{"url":{},"form":{}},"sampling":{}}"#;
        assert!(can_be_asked(both, &Method::Elicit, Some(url)));
        assert!(can_be_asked(both, &Method::Elicit, None));
        assert!(can_be_asked(both, &Method::CreateMessage, None));
        assert!(!can_be_asked(both, &Method::RootsList, None));
        assert!(!can_be_asked(both, &Method::TasksGet, None));
        for method in [Method::Elicit, Method::CreateMessage, Method::RootsList] {
            assert!(!can_be_asked("5", &method, None) && !can_be_asked("", &method, Some(url)));
        }
    }
}
