//! Whatever happens, in whatever order.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

proptest! {
    /// Whatever the server and the client do, each request ends once, given that each request to
    /// the server does.
    #[test]
    fn every_request_ends_exactly_once(
        steps in proptest::collection::vec((0u8..7, any::<prop::sample::Index>()), 1..80),
    ) {
        let mut rig = Rig::translating();
        let (mut up, mut down) = (Vec::<Value>::new(), Vec::<Value>::new());
        let mut ended: BTreeMap<u64, usize> = BTreeMap::new();
        let mut asked = 0;
        let mut sort = |rig: &mut Rig, up: &mut Vec<Value>, down: &mut Vec<Value>| {
            while let Some(step) = rig.out.pop_front() {
                match step {
                    Step::ToServer(m) if value(&m)["id"].is_u64() => up.push(value(&m)),
                    Step::ToServer(_) => {}
                    Step::ToClient(m) => match (value(&m)["id"].as_u64(), m.method()) {
                        (Some(id), None) => *ended.entry(id).or_default() += 1,
                        (None, Some("notifications/cancelled")) => {
                            let id = value(&m)["params"]["requestId"].clone();
                            down.retain(|question| question["id"] != id);
                        }
                        (None, Some(_)) => down.push(value(&m)),
                        _ => {}
                    },
                    Step::Failed { message, .. } => {
                        let id = value(&message)["id"].as_u64().expect("a request");
                        *ended.entry(id).or_default() += 1;
                    }
                    Step::SessionLost => {}
                }
            }
        };
        for (step, index) in steps {
            match step {
                0 | 1 => {
                    asked += 1;
                    rig.client(message(json!({"jsonrpc":"2.0","id":asked,"method":"tools/call","params":{"name":"x"}})));
                }
                2 if !up.is_empty() => {
                    let request = up.remove(index.index(up.len()));
                    rig.server(result(&request, json!({"resultType":"complete"})));
                }
                3 if !up.is_empty() => {
                    let request = up.remove(index.index(up.len()));
                    let question = json!({"method":"roots/list"});
                    rig.server(result(&request, json!({"resultType":"input_required","inputRequests":{"q":question},"requestState":"s"})));
                }
                4 if !up.is_empty() => {
                    let request = up.remove(index.index(up.len()));
                    rig.translation.failed(message(request), Error::new(Kind::Closed, "x"), rig.now, &mut rig.out);
                }
                5 if !down.is_empty() => {
                    let question = down.remove(index.index(down.len()));
                    rig.client(message(json!({"jsonrpc":"2.0","id":question["id"],"result":{}})));
                }
                _ => rig.pass(Duration::from_millis(100)),
            }
            sort(&mut rig, &mut up, &mut down);
        }
        for _ in 0..40 {
            for request in std::mem::take(&mut up) {
                rig.server(result(&request, json!({})));
            }
            for question in std::mem::take(&mut down) {
                rig.client(message(json!({"jsonrpc":"2.0","id":question["id"],"result":{}})));
            }
            rig.pass(limits::INPUT_WAIT);
            sort(&mut rig, &mut up, &mut down);
        }
        prop_assert_eq!(ended.len(), asked as usize, "{:?}", ended);
        prop_assert!(ended.values().all(|times| *times == 1), "{:?}", ended);
    }
}
