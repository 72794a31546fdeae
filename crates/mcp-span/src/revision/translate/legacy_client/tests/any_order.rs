//! Whatever happens, in whatever order.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// What is under way on both sides, and how often each request of the client's has ended.
#[derive(Default)]
struct World {
    at_server: Vec<Value>,
    at_client: Vec<Value>,
    ended: BTreeMap<u64, usize>,
    asked: u64,
}

impl World {
    fn note(&mut self, rig: &mut Rig) {
        while let Some(step) = rig.out.pop_front() {
            match step {
                Step::ToServer(m) if m.id().is_some() => self.at_server.push(value(&m)),
                Step::ToServer(_) | Step::Found(_) | Step::SessionLost => {}
                Step::ToClient(m) => self.on_message_to_client(&value(&m)),
                // Whoever hands it in decides about another try.
                Step::Failed { message, .. } => self.end(&value(&message)["id"]),
            }
        }
    }

    fn on_message_to_client(&mut self, message: &Value) {
        match message["method"].as_str() {
            // The core drops what nobody waits for: answers under our ids that came too late.
            None if message["id"].as_u64() > Some(self.asked) => {}
            None => self.end(&message["id"]),
            Some("notifications/cancelled") => {
                self.at_client.retain(|asked| asked["id"] != message["params"]["requestId"]);
            }
            Some(_) => self.at_client.push(message.clone()),
        }
    }

    fn end(&mut self, id: &Value) {
        *self.ended.entry(id.as_u64().expect("an id of the client's")).or_default() += 1;
    }

    /// The server answers the request `index`, in the way `step`.
    fn server_answers(&mut self, rig: &mut Rig, index: usize, step: u8) {
        let request = self.at_server.remove(index);
        let is_question = request["method"] == "server/discover";
        match step {
            2 if is_question => rig.server(result(&request, offer())),
            2 => rig.server(result(&request, json!({"resultType":"complete"}))),
            3 if !is_question => {
                let questions = json!({"q":{"method":"roots/list"}});
                rig.server(result(&request, json!({"resultType":"input_required","inputRequests":questions,"requestState":"s"})));
            }
            4 => rig.fail(message(request), Error::new(ErrorKind::Closed, "x")),
            _ => rig.server(refused(&request, -32000, "Server not initialized", &Value::Null)),
        }
    }

    fn client_answers(&mut self, rig: &mut Rig, index: usize) {
        let question = self.at_client.remove(index);
        rig.client(message(json!({"jsonrpc":"2.0","id":question["id"],"result":{}})));
    }

    fn client_asks(&mut self, rig: &mut Rig) {
        self.asked += 1;
        let call =
            json!({"jsonrpc":"2.0","id":self.asked,"method":"tools/call","params":{"name":"x"}});
        rig.client(message(call));
    }
}

proptest! {
    /// Whatever the server and the client do, each request ends once, given that each request to
    /// the server does: also if the server is asked whether it is still what it was, and is not.
    #[test]
    fn every_request_ends_exactly_once(
        steps in proptest::collection::vec((0u8..8, any::<prop::sample::Index>()), 1..80),
    ) {
        let mut rig = Rig::translating();
        let mut world = World::default();
        for (step, index) in steps {
            match step {
                0 | 1 => world.client_asks(&mut rig),
                2..=5 if !world.at_server.is_empty() => {
                    let index = index.index(world.at_server.len());
                    world.server_answers(&mut rig, index, step);
                }
                6 if !world.at_client.is_empty() => {
                    let index = index.index(world.at_client.len());
                    world.client_answers(&mut rig, index);
                }
                _ => rig.pass(Duration::from_millis(100)),
            }
            world.note(&mut rig);
        }
        for _ in 0..40 {
            while !world.at_server.is_empty() {
                world.server_answers(&mut rig, 0, 2);
                world.note(&mut rig);
            }
            while !world.at_client.is_empty() {
                world.client_answers(&mut rig, 0);
                world.note(&mut rig);
            }
            rig.pass(limits::INPUT_WAIT);
            world.note(&mut rig);
        }
        prop_assert_eq!(world.ended.len() as u64, world.asked, "{:?}", world.ended);
        prop_assert!(world.ended.values().all(|times| *times == 1), "{:?}", world.ended);
    }
}
