//! The way back from a login for those whose browser is on another machine: the address, pasted.

use std::sync::Arc;

use tokio::sync::mpsc;
use url::Url;

use super::callback::Callback;
use super::words::login_error;
use crate::error::Error;
use crate::limits;

/// Where pasted lines come from, and where to say what is wrong with them.
#[derive(Clone)]
pub struct Paste {
    /// Begins to read lines; the channel closes when there are no more.
    pub lines: Arc<dyn Fn() -> mpsc::Receiver<String> + Send + Sync>,
    /// Says something to the person.
    pub say: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Paste {
    /// Hands on what is pasted of the login with this `state`, which is none before its page is shown;
    /// in the end, an error.
    pub(super) async fn forward(
        &self,
        arrivals: &mpsc::Sender<Result<Callback, Error>>,
        state: impl Fn() -> Option<String>,
    ) {
        let (mut lines, mut wrong) = ((self.lines)(), None);
        for _ in 0..limits::PASTES {
            let Some(line) = lines.recv().await else { break };
            let Some(state) = state() else { continue };
            match read(&line, &state) {
                // Full, or closed: the login has ended.
                Ok(callback) => drop(arrivals.try_send(Ok(callback))),
                Err(why) => {
                    (self.say)(why);
                    wrong = Some(why);
                }
            }
        }
        let message = match wrong {
            Some(why) => format!("What was pasted is not the end of this login: {why}"),
            None => "Nothing was pasted, and the input is closed".to_owned(),
        };
        drop(arrivals.try_send(Err(login_error(message))));
    }
}

/// Reads the address, or its query alone. What is wrong is said in words for the person.
fn read(line: &str, state: &str) -> Result<Callback, &'static str> {
    let line = line.trim().trim_matches(['"', '\'', '<', '>']);
    if line.is_empty() {
        return Err("there is nothing in this line");
    }
    let query = match Url::parse(line) {
        Ok(url) => url.query().unwrap_or_default().to_owned(),
        Err(_) => line.split_once('?').map_or(line, |(_, query)| query).to_owned(),
    };
    let callback = Callback::parse(&query);
    if callback.code.is_none() && callback.error.is_none() {
        return Err(match callback.state {
            Some(_) => {
                "this is the page to log in at: log in there first, then paste the address that the browser ends up at"
            }
            None if line.contains(['=', '/']) => "there is no code in this address",
            None => {
                "this is not the whole address: it begins with http:// and holds 'code' and 'state'"
            }
        });
    }
    match callback.state.as_deref() {
        None => Err("there is no 'state' in this address: paste the whole of it"),
        Some(given) if given != state => Err("this address belongs to another login"),
        Some(_) => Ok(callback),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_address_of_this_login_is_taken_in_many_forms() {
        for line in [
            "http://127.0.0.1:4000/callback?code=c&state=s&iss=https%3A%2F%2Fas",
            "  <http://127.0.0.1:4000/callback?state=s&iss=https%3A%2F%2Fas&code=c> ",
            "127.0.0.1:4000/callback?code=c&state=s&iss=https%3A%2F%2Fas",
            "?code=c&state=s&iss=https%3A%2F%2Fas",
            "code=c&state=s&iss=https%3A%2F%2Fas",
        ] {
            let callback = read(line, "s").unwrap();
            assert_eq!(callback.code.as_deref(), Some("c"), "{line}");
            assert_eq!(callback.issuer.as_deref(), Some("https://as"), "{line}");
        }
        assert_eq!(read("?error=no&state=s", "s").unwrap().error.as_deref(), Some("no"));
    }

    #[test]
    fn what_is_wrong_with_a_line_is_said() {
        for (line, part) in [
            ("", "nothing in this line"),
            ("abc123", "not the whole address"),
            ("http://127.0.0.1:1/callback", "no code"),
            ("http://127.0.0.1:1/callback?code=c", "no 'state'"),
            ("http://127.0.0.1:1/callback?code=c&state=other", "another login"),
            ("https://as/authorize?client_id=x&state=s", "log in there first"),
        ] {
            let why = read(line, "s").err().unwrap();
            assert!(why.contains(part), "{line}: {why}");
        }
    }

    proptest! {
        #[test]
        fn nothing_that_is_pasted_makes_it_stumble(line in "\\PC{0,60}") {
            let _ = read(&line, "s");
        }
    }
}
