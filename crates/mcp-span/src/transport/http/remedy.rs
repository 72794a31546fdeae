//! What a refusal of a request leads to: another try where what the server complains about can be
//! mended, else an answer or an error.

use std::borrow::Cow;

use http::Response;
use tracing::debug;

use super::SendOptions;
use super::answer::{Answer, Refusal, is_about_else, session_lost, unreadable, whole};
use super::events::{Events, Item, Position};
use super::modern::is_whole;
use super::ping::{self, own_id};
use super::post::Exchange;
use super::report::Report;
use super::session_loss::Fate;
use super::streamable::session_gone;
use crate::error::{Error, ErrorKind};
use crate::limits;
use crate::message::{Id, Json, Members, Message, Method, edit, peek, reply};
use crate::net::{Call, Content};
use crate::revision::era_hints::{HEADER_MISMATCH, UNSUPPORTED_VERSION, era_of};
use crate::revision::tools::ToolsPage;
use crate::revision::{Envelope, Era, Revision};
use crate::traffic::{self, Recovery};
use crate::transport::{Event, Send, Ticket};

impl Exchange {
    pub(super) async fn refused(&mut self, response: Response<Content>) -> Result<(), Error> {
        let refusal = Refusal::read(response, &self.context, self.request_id()).await;
        let fate = match self.session_id().is_some() && !self.opens() {
            true => {
                let post = self.context.post_in(&self.session);
                ping::fate(&self.context, &refusal, &self.send, &post).await
            }
            false => Fate::Answered,
        };
        if fate == Fate::Lost {
            self.lose_session(refusal);
            return Ok(());
        }
        let answered = self.answer_refusal(refusal).await;
        if fate == Fate::AnsweredThenLost {
            self.report_loss(session_gone());
        }
        answered
    }

    /// The session that it was sent in is lost.
    fn lose_session(&mut self, refusal: Refusal) {
        let error = self.context.scrubbed(session_lost(refusal.error));
        let answer = refusal.answer.zip(self.request_id());
        let last_word = answer.map(|(error, id)| edit::with_id(&error, id));
        if !self.send.is_last_try {
            self.report_loss(error.clone());
        }
        let (ticket, session, error) = (self.send.ticket, self.session.opened_by, error.into());
        self.context.events.push(Event::SessionRejected { ticket, session, error, last_word });
        self.is_settled = true;
    }

    fn report_loss(&self, error: Error) {
        if let Some(session) = self.session_id().cloned() {
            self.context.report(Report::SessionGone { session, error });
        }
    }

    /// The session is not what it was refused for.
    async fn answer_refusal(&mut self, refusal: Refusal) -> Result<(), Error> {
        let Some(id) = self.request_id().cloned() else {
            return Err(refusal.error);
        };
        if self.opens() && is_about_else(refusal.status.as_u16()) {
            return self.refused_for_else(refusal, &id).await;
        }
        if self.is(&Method::Initialize) && self.may_be_older(&refusal) {
            return self.try_older_transport(refusal).await;
        }
        if let Some(call) = self.remedy(refusal.answer.as_ref()).await {
            // It was refused, so it was not carried out.
            traffic::recovery(Recovery::SentAgain, None);
            return Box::pin(self.perform(call)).await;
        }
        let is_unknown = self.is(&Method::Discover) && refusal.status.is_client_error();
        let answer = match refusal.answer.filter(|answer| !is_unknown || is_modern_refusal(answer))
        {
            // C23: whatever id it has, it is the answer to this POST.
            Some(answer) => edit::with_id(&answer, &id),
            // C22: whoever refuses the question is a legacy server.
            None if is_unknown => reply::method_not_found(&id, "server/discover"),
            None => return Err(refusal.error),
        };
        self.deliver(answer).await;
        Ok(())
    }

    /// An opening was refused for reasons that have nothing to do with eras. The body is not read as
    /// an answer: a gateway that fails writes JSON-RPC errors of its own.
    async fn refused_for_else(&mut self, refusal: Refusal, id: &Id) -> Result<(), Error> {
        if !self.is_probe() || refusal.status.is_server_error() {
            return Err(refusal.error);
        }
        // A client that probes goes on with `initialize` after this, and that may log in.
        let error = self.context.scrubbed(refusal.error.not_delivered());
        self.deliver(reply::method_not_found_because(id, "server/discover", &error)).await;
        Ok(())
    }

    /// The next try of a modern request, if what `answer` complains about can be mended.
    async fn remedy(&mut self, answer: Option<&Message>) -> Option<Call> {
        let asked = self.send.envelope.as_ref()?.version.clone();
        let (code, supported) = peek::error_code(answer?)?;
        match code {
            UNSUPPORTED_VERSION if !self.tried_another_version => {
                self.tried_another_version = true;
                let common = Revision::modern_in_common(&asked, &supported)?;
                self.context.speak(&asked, common);
            }
            HEADER_MISMATCH if !self.tried_other_headers && self.is(&Method::ToolsCall) => {
                self.tried_other_headers = true;
                // Somebody else may have learnt better in the meantime.
                if !self.has_other_headers() {
                    self.learn_tools_anew().await;
                }
                if !self.has_other_headers() {
                    return None;
                }
            }
            _ => return None,
        }
        self.send.progress.reset();
        Some(self.written())
    }

    /// The message as it looks by what is known now.
    pub(super) fn written(&mut self) -> Call {
        let outgoing = match &self.alias {
            Some(alias) => {
                let message = edit::with_id(&self.send.message, alias);
                Cow::Owned(Send { message, ..self.send.clone() })
            }
            None => Cow::Borrowed(&self.send),
        };
        let (call, mirrored) = self.context.post(&self.session, &outgoing);
        self.mirrored = mirrored;
        call
    }

    fn has_other_headers(&self) -> bool {
        self.context.mirrored(&self.send) != self.mirrored
    }

    /// Lists the tools on our own account: what they want in headers may have changed.
    async fn learn_tools_anew(&self) {
        let mut pages: Vec<ToolsPage> = Vec::new();
        while pages.len() < limits::LIST_PAGES && !is_whole(&pages) {
            let cursor = pages.last().and_then(|page| page.next.as_deref());
            match self.list_page(cursor).await {
                Ok(page) => pages.push(page),
                Err(error) => {
                    debug!("no list of tools: {}", self.context.scrubbed(error));
                    break;
                }
            }
        }
        debug!(pages = pages.len(), is_whole = is_whole(&pages), "the tools were listed again");
        self.context.replace_tools(&pages);
    }

    async fn list_page(&self, cursor: Option<&str>) -> Result<ToolsPage, Error> {
        let limit = self.context.settings.timeouts.quick.unwrap_or(limits::QUICK_TIMEOUT);
        let message = list_request(&self.send.message, &own_id(), cursor);
        let envelope = Envelope::of(&message);
        let asking = self.ask(Send { envelope, ..Send::new(Ticket::default(), message) });
        let silent = |_| Error::new(ErrorKind::Timeout, "tools/list was not answered in time");
        let answer = tokio::time::timeout(limit, asking).await.map_err(silent)??;
        let other =
            || Error::new(ErrorKind::BadResponse, "tools/list was not answered with a list");
        ToolsPage::read(&answer).ok_or_else(other)
    }

    /// The answer to a request of our own.
    async fn ask(&self, request: Send) -> Result<Message, Error> {
        let context = &self.context;
        let (call, _) = context.post(&self.session, &request);
        let response = context.send(call, SendOptions::aside()).await?;
        match Answer::of(&response) {
            Answer::Json => {
                let body = whole(response.into_body(), context, None).await?;
                let malformed = |error| Error::new(ErrorKind::BadResponse, format!("{error}"));
                Message::parse(body).map_err(malformed)
            }
            Answer::Events => {
                let mut events = Events::new(response.into_body(), context, Position::default());
                while let Some(Item::Message(message)) = events.next(None).await? {
                    if message.is_answer() && message.id() == request.message.id() {
                        return Ok(message);
                    }
                }
                Err(Error::new(ErrorKind::NoResponse, "the stream ended without an answer"))
            }
            Answer::Refused => Err(Refusal::read(response, context, None).await.error),
            Answer::Other => Err(unreadable(&response, context.endpoint.url())),
        }
    }
}

/// A request for a page of tools, in the envelope of `call`.
fn list_request(call: &Message, id: &Id, cursor: Option<&str>) -> Message {
    let mut params = Members::default();
    if let Some(cursor) = cursor {
        params.set("cursor", cursor);
    }
    let given = call.get(&["params", "_meta"]).and_then(Json::members);
    let envelope = params.object("_meta");
    for (name, value) in given.into_iter().flatten() {
        // The rest is about the call alone: its progress, its trace.
        if name.starts_with("io.modelcontextprotocol/") {
            envelope.set(name, value.as_str());
        }
    }
    reply::request(id, Method::ToolsList.name(), Some(&params.to_json()))
}

/// Errors that only a modern server writes; to all others `server/discover` is unknown.
pub(super) fn is_modern_refusal(answer: &Message) -> bool {
    era_of(answer) == Some(Era::Modern)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn a_list_of_our_own_has_the_envelope_of_the_call_and_nothing_else_of_it() {
        let text = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{ }}}}"#;
        let call = Message::parse(Bytes::from_static(text.as_bytes())).unwrap();
        let id = Id::string("x");
        let list = list_request(&call, &id, None);
        let expected = r#"{"jsonrpc":"2.0","id":"x","method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{ }}}}"#;
        assert_eq!(&list.bytes()[..], expected.as_bytes());
        assert_eq!(Message::parse(list.bytes().clone()).as_ref(), Ok(&list));
        let next = list_request(&call, &id, Some("\"c\\n\""));
        let text = String::from_utf8_lossy(next.bytes()).into_owned();
        assert!(text.contains(r#""params":{"cursor":"c\n","_meta":{"#), "{text}");
    }
}
