//! Changes of state, told to whoever listens: to the log in plain words, to a trace as events.
//!
//! The words for the log stand here alone. Each change is a line at `info`; that a server is waited
//! for is a warning, once until it was reached again. "error" is in none of them: some clients take
//! every line with that word for a failure.

use std::time::Duration;

use http::HeaderValue;
use serde::Serialize;
use tracing::{info, warn};
use url::Url;

use super::{Data, TrafficKind, in_words, is_on, tell};
use crate::error::Error;
use crate::limits;
use crate::secret::shown;

/// What was lost, or found again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Recovery {
    /// The server no longer knows the session.
    SessionLost,
    /// Another one stands in its place.
    SessionOpened,
    /// The server wants no other.
    SessionRefused,
    /// The server cannot be reached.
    ServerAway,
    /// It can be reached again.
    ServerBack,
    /// A stream has ended before its time.
    StreamCut,
    /// The stream for what the server says by itself was opened again: its own, or a subscription's.
    StreamReopened,
    /// The stream of an answer goes on where it was cut.
    StreamResumed,
    /// The server wants credentials, which there are now.
    CredentialsFound,
    /// The server refused the credentials, and there are new ones.
    CredentialsRenewed,
    /// A request that did no harm is sent once more.
    SentAgain,
    /// A request waits, since the server asked for a pause.
    AskedToWait,
    /// Another try at a server that cannot be reached, which has failed as well.
    Retry,
}

impl Recovery {
    /// What the log says, if that is for the log to say: whether anybody waits for the server, and
    /// what becomes of a request, is known elsewhere.
    fn words(self) -> Option<&'static str> {
        Some(match self {
            Self::SessionLost => "Session lost, opening another",
            Self::SessionOpened => "Session opened again",
            Self::SessionRefused => "The server refuses another session",
            Self::StreamReopened => "Server's own stream open again",
            Self::StreamResumed => "Stream resumed",
            Self::CredentialsFound => "Credentials wanted, sending again with them",
            Self::CredentialsRenewed => "Credentials refused, sending again with new ones",
            Self::ServerAway | Self::ServerBack | Self::StreamCut => return None,
            Self::SentAgain | Self::AskedToWait | Self::Retry => return None,
        })
    }
}

/// Something was lost, or found again.
pub fn recovery(what: Recovery, why: Option<&Error>) {
    let why = why.map(in_words);
    if let Some(words) = what.words() {
        info!("{words}{}", in_brackets(why.as_deref()));
    }
    if is_on() {
        tell(TrafficKind::Recovery, &Data::default().with("what", what).with_some("why", why));
    }
}

fn in_brackets(why: Option<&str>) -> String {
    why.map_or_else(String::new, |why| format!(" ({why})"))
}

/// Which stream was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// That of an answer.
    Answer,
    /// The one for what the server says by itself, or a subscription's.
    Own,
    /// The one that a whole HTTP+SSE session lives on.
    Session,
}

/// A stream has ended before its time. `after`: the event behind which it can go on.
pub fn stream_cut(stream: StreamKind, why: Option<&Error>, after: Option<&HeaderValue>) {
    let (why, after) = (why.map(in_words), after.and_then(|id| id.to_str().ok()));
    info!("{}", cut_words(stream, why.as_deref(), after));
    if is_on() {
        let data = Data::default().with("what", Recovery::StreamCut);
        tell(TrafficKind::Recovery, &data.with_some("why", why).with_some("after", after));
    }
}

fn cut_words(stream: StreamKind, why: Option<&str>, after: Option<&str>) -> String {
    let words = match stream {
        StreamKind::Answer if after.is_some() => "Stream cut, resuming",
        StreamKind::Answer | StreamKind::Session => "Stream cut",
        StreamKind::Own => "Server's own stream cut, opening it again",
    };
    let after = after.map_or_else(String::new, |id| format!(" after event {id}"));
    format!("{words}{after}{}", in_brackets(why))
}

/// The server has answered for the first time.
pub fn connected(transport: &str, revision: Option<&str>) {
    match revision {
        Some(revision) => info!("Connected over {transport}, revision {revision}"),
        None => info!("Connected over {transport}"),
    }
}

/// A server that is a child process was started.
pub fn started(program: &str, pid: Option<u32>) {
    info!(pid, "Started {program}");
}

/// A person, or whoever gives out tokens, is asked for one.
pub fn login_begun(server: &Url) {
    info!("Logging in to {}", shown(server));
}

/// There is a token.
pub fn logged_in(server: &Url) {
    info!("Logged in to {}", shown(server));
}

/// There is another token, without a login.
pub fn token_refreshed(server: &Url) {
    info!("Token for {} refreshed", shown(server));
}

/// What was said of a server that cannot be reached, so that it is said once.
#[derive(Debug, Default)]
pub struct Absence {
    said: Said,
    /// There was a warning, and the server has said nothing since: one that accepts connections and
    /// still cannot work is worth no second one.
    has_warned: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Said {
    #[default]
    Nothing,
    /// That it cannot be reached.
    Away,
    /// That somebody waits for it.
    Waiting,
}

impl Absence {
    /// The server cannot be reached; somebody waits for it, for no longer than `wait`.
    pub fn unreachable(&mut self, why: &Error, wait: Option<Duration>) {
        // Who waits for a moment hears of the failure itself before long.
        let wait = wait.filter(|wait| *wait >= limits::WAIT_WORTH_A_WARNING);
        if !self.is_news(wait.is_some()) {
            return;
        }
        let why = without_number(&in_words(why));
        match wait {
            Some(wait) if !std::mem::replace(&mut self.has_warned, true) => {
                warn!("Server not reachable ({why}), waiting up to {}", seconds(wait));
            }
            Some(wait) => info!("Server not reachable ({why}), waiting up to {}", seconds(wait)),
            None => info!("Server not reachable ({why})"),
        }
    }

    /// The server is there.
    pub fn reachable(&mut self) {
        if std::mem::take(&mut self.said) != Said::Nothing {
            info!("Server reachable again");
        }
    }

    /// The server has said something: it works.
    #[inline]
    pub fn answered(&mut self) {
        self.has_warned = false;
    }

    fn is_news(&mut self, somebody_waits: bool) -> bool {
        let said = if somebody_waits { Said::Waiting } else { Said::Away };
        let is_news = said > self.said;
        self.said = self.said.max(said);
        is_news
    }
}

/// What the system says of a failure, without the number that it has there.
fn without_number(why: &str) -> String {
    let Some((before, rest)) = why.split_once(" (os error ") else { return why.to_owned() };
    let after = rest.split_once(')').map_or("", |(_, after)| after);
    format!("{before}{after}")
}

/// A time as a person says it.
fn seconds(time: Duration) -> String {
    format!("{:.0} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absence_is_news_once_and_a_wait_for_it_once_more() {
        let mut absence = Absence::default();
        assert!(absence.is_news(false) && !absence.is_news(false));
        assert!(absence.is_news(true), "now somebody waits");
        assert!(!absence.is_news(true) && !absence.is_news(false));
        absence.reachable();
        assert!(absence.is_news(true) && !absence.is_news(false));
    }

    #[test]
    fn a_cut_says_where_the_stream_goes_on_and_why_it_ended() {
        assert_eq!(
            cut_words(StreamKind::Answer, None, Some("17")),
            "Stream cut, resuming after event 17"
        );
        assert_eq!(cut_words(StreamKind::Answer, Some("reset"), None), "Stream cut (reset)");
        assert_eq!(
            cut_words(StreamKind::Own, None, Some("4")),
            "Server's own stream cut, opening it again after event 4"
        );
        assert_eq!(cut_words(StreamKind::Session, None, None), "Stream cut");
    }

    #[test]
    fn numbers_of_the_system_are_left_out() {
        assert_eq!(without_number("h: refused (os error 111), so"), "h: refused, so");
        assert_eq!(without_number("h: refused"), "h: refused");
        assert_eq!(without_number("h (os error "), "h");
    }

    #[test]
    fn times_are_told_as_people_say_them() {
        assert_eq!(seconds(Duration::from_secs(25)), "25 s");
        assert_eq!(seconds(Duration::from_millis(24_990)), "25 s");
    }
}
