//! There and back: what is made modern and legacy again, or the reverse, keeps every payload byte.

use std::collections::VecDeque;

use bytes::Bytes;
use proptest::prelude::*;
use tokio::time::Instant;

use super::legacy_client::LegacyClient;
use super::modern_client::ModernClient;
use super::{Protocol, Step, TranslatorContext};
use crate::limits;
use crate::message::budget::MemoryBudget;
use crate::message::{Id, Message};
use crate::revision::Era;

fn message(text: impl Into<String>) -> Message {
    Message::parse(Bytes::from(text.into())).expect("a message")
}

fn text(message: &Message) -> String {
    String::from_utf8(message.bytes().to_vec()).expect("UTF-8")
}

/// The translator of a modern client at a server that is known to be legacy.
fn modern_client(protocol: Protocol, now: Instant) -> ModernClient {
    let memory = MemoryBudget::new(limits::UNANSWERED_BYTES);
    ModernClient::new(protocol, Some(Era::Legacy), TranslatorContext::new(4, now), memory)
}

/// A legacy client and a legacy server with both translations between them.
struct Pair {
    near: LegacyClient,
    far: ModernClient,
    now: Instant,
    out: VecDeque<Step>,
}

impl Pair {
    fn opened() -> Self {
        let now = Instant::now();
        let near =
            LegacyClient::new(Protocol::Auto, Some(Era::Modern), TranslatorContext::new(3, now));
        let far = modern_client(Protocol::Modern, now);
        let mut pair = Self { near, far, now, out: VecDeque::new() };
        let discover = pair.near_says(message(
            r#"{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#,
        ));
        // It is refused, as a legacy server does, and answered by translation.
        pair.far.on_client_message(discover, pair.now);
        pair.collect_steps();
        let asked = pair.heard_by_server();
        let refusal = format!(
            r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32601,"message":"no"}}}}"#,
            id(&asked)
        );
        pair.far.on_server_message(message(refusal), pair.now);
        pair.collect_steps();
        let initialize = pair.heard_by_server();
        let welcome = format!(
            r#"{{"jsonrpc":"2.0","id":{},"result":{{"protocolVersion":"2025-11-25","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"s","version":"1"}}}}}}"#,
            id(&initialize)
        );
        pair.far.on_server_message(message(welcome), pair.now);
        pair.collect_steps();
        pair.heard_by_server();
        let discovered = pair.heard_by_client();
        pair.near.on_server_message(discovered, pair.now);
        pair.collect_steps();
        assert!(text(&pair.heard_by_client()).contains(r#""name":"s""#), "the client is answered");
        pair
    }

    fn near_says(&mut self, message: Message) -> Message {
        self.near.on_client_message(message, self.now);
        self.collect_steps();
        self.heard_by_server()
    }

    /// To the server and back, with this result.
    fn round(&mut self, request: Message, result: &str) -> (Message, Message) {
        let modern = self.near_says(request);
        self.far.on_client_message(modern, self.now);
        self.collect_steps();
        let arrived = self.heard_by_server();
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, id(&arrived));
        self.far.on_server_message(message(answer), self.now);
        self.collect_steps();
        let modern = self.heard_by_client();
        self.near.on_server_message(modern, self.now);
        self.collect_steps();
        (arrived, self.heard_by_client())
    }

    fn collect_steps(&mut self) {
        let near = std::iter::from_fn(|| self.near.next_step());
        let steps = near.chain(std::iter::from_fn(|| self.far.next_step()));
        self.out.extend(steps.filter(|step| !matches!(step, Step::Found(_))));
    }

    fn heard_by_server(&mut self) -> Message {
        match self.out.pop_front() {
            Some(Step::ToServer(message)) => message,
            other => panic!("not to the server: {other:?}"),
        }
    }

    fn heard_by_client(&mut self) -> Message {
        match self.out.pop_front() {
            Some(Step::ToClient(message)) => message,
            other => panic!("not to the client: {other:?}"),
        }
    }
}

/// A modern client and a modern server with both translations between them.
struct Turned(Pair);

impl Turned {
    fn opened() -> Self {
        let now = Instant::now();
        let near =
            LegacyClient::new(Protocol::Auto, Some(Era::Modern), TranslatorContext::new(5, now));
        let far = modern_client(Protocol::Auto, now);
        let mut pair = Pair { near, far, now, out: VecDeque::new() };
        pair.far.on_client_message(envelope("0", "tools/list", ""), pair.now);
        pair.collect_steps();
        let initialize = pair.heard_by_server();
        let discover = pair.near_says(initialize);
        let offer = format!(
            r#"{{"jsonrpc":"2.0","id":{},"result":{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{{"tools":{{}}}}}}}}"#,
            id(&discover)
        );
        pair.near.on_server_message(message(offer), pair.now);
        pair.collect_steps();
        let opened = pair.heard_by_client();
        pair.far.on_server_message(opened, pair.now);
        pair.collect_steps();
        pair.out.clear();
        Self(pair)
    }

    /// To the server and back, with this result.
    fn round(&mut self, request: Message, result: &str) -> (Message, Message) {
        let pair = &mut self.0;
        pair.far.on_client_message(request, pair.now);
        pair.collect_steps();
        let legacy = pair.heard_by_server();
        let arrived = pair.near_says(legacy);
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, id(&arrived));
        pair.near.on_server_message(message(answer), pair.now);
        pair.collect_steps();
        let legacy = pair.heard_by_client();
        pair.far.on_server_message(legacy, pair.now);
        pair.collect_steps();
        (arrived, pair.heard_by_client())
    }
}

/// A modern request with more parameters, and more in `_meta`.
fn envelope(id: &str, method: &str, more: &str) -> Message {
    message(format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{more}"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
    ))
}

fn id(message: &Message) -> &Id {
    message.id().expect("an id")
}

/// JSON in all the forms that a careless writer rewrites.
fn payload() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        "-?(0|[1-9][0-9]{0,25})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?",
        "\"([a-z ä€]|\\\\u00[0-9a-f]{2}|\\\\n|\\\\/|\\\\ud800){0,8}\"",
        Just("null".to_owned()),
        Just(" true ".to_owned()),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4)
                .prop_map(|all| format!("[ {} ]", all.join(" ,"))),
            proptest::collection::vec(("[a-c]|\\\\u0061|\\\\/|id|_meta|method", inner), 0..4)
                .prop_map(|all| {
                    let members: Vec<String> =
                        all.iter().map(|(name, value)| format!("\"{name}\" : {value}")).collect();
                    format!("{{{}}}", members.join(", "))
                }),
        ]
    })
}

proptest! {
    #[test]
    fn payloads_survive_both_translations(
        argument in payload(),
        extra in payload(),
        content in payload(),
        number in any::<u64>(),
    ) {
        let mut pair = Pair::opened();
        let request = format!(
            r#"{{"jsonrpc":"2.0","id":{number},"method":"tools/call","params":{{"name":"t","arguments":{argument},"_meta":{{"x/y":{extra}}}}}}}"#
        );
        let result = format!(r#"{{"content":{content},"_meta":{{"x/y":{extra}}}}}"#);
        let (arrived, returned) = pair.round(message(request), &result);
        let (arrived, returned_text) = (text(&arrived), text(&returned));
        let (argument, extra, content) = (argument.trim(), extra.trim(), content.trim());
        prop_assert!(arrived.contains(&format!(r#""arguments":{argument},"#)), "{arrived}");
        prop_assert!(arrived.contains(&format!(r#""_meta":{{"x/y":{extra}}}"#)), "{arrived}");
        prop_assert!(!arrived.contains("modelcontextprotocol"), "{arrived}");
        prop_assert!(returned_text.contains(&format!(r#""content":{content},"#)), "{returned_text}");
        prop_assert!(returned_text.contains(&format!(r#""x/y":{extra}"#)), "{returned_text}");
        prop_assert_eq!(id(&returned).as_json(), number.to_string());
    }

    #[test]
    fn payloads_survive_the_other_way_round(
        argument in payload(),
        content in payload(),
        number in any::<u64>(),
    ) {
        let mut turned = Turned::opened();
        let more = format!(r#""name":"t","arguments":{argument},"#);
        let request = envelope(&number.to_string(), "tools/call", &more);
        let result = format!(r#"{{"resultType":"complete","content":{content},"ttlMs":1}}"#);
        let (arrived, returned) = turned.round(request, &result);
        let (arrived, returned_text) = (text(&arrived), text(&returned));
        let (argument, content) = (argument.trim(), content.trim());
        prop_assert!(arrived.contains(&format!(r#""arguments":{argument},"#)), "{arrived}");
        prop_assert!(arrived.contains("clientCapabilities"), "{arrived}");
        prop_assert!(returned_text.contains(&format!(r#""content":{content},"#)), "{returned_text}");
        prop_assert!(returned_text.contains(r#""resultType":"complete""#), "{returned_text}");
        prop_assert_eq!(id(&returned).as_json(), number.to_string());
    }
}
