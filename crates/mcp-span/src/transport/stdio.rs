//! A link over two byte streams that carry one message a line: stdin and stdout, or a child's.

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tracing::{debug, warn};

use super::channel::Closed;
use super::elements::Elements;
use super::{Ends, Incoming, Link, Written, channel, spawn};
use crate::error::{Error, ErrorKind};
use crate::limits;
use crate::message::{Malformed, Message, Outline, Outliner, edit, reply};
use crate::traffic;
use crate::wire::lines::{Line, Lines};

/// Below this, queued messages are copied together and leave in one write.
const COPIED: usize = 32 * 1024;

/// Reads messages of at most `max_message` bytes from `input` and writes them to `output`.
///
/// The inbox ends with `input`; the outbox closes when `output` can no longer be written.
pub fn open<I, O>(input: I, output: O, max_message: usize) -> Link
where
    I: AsyncRead + Send + Unpin + 'static,
    O: AsyncWrite + Send + Unpin + 'static,
{
    spawn(|Ends { outgoing, incoming, written, .. }| async move {
        // Reading ends by itself with the input; whoever waits for the link waits for the writes.
        let reader = tokio::spawn(read(input, incoming, max_message, traffic::TrafficKind::Stdin));
        write(Counted { output, written }, outgoing, traffic::TrafficKind::Stdout).await;
        reader.abort();
    })
}

/// Reads until the end, or until nobody wants what is read. `kind` is what a line is in a trace.
pub(super) async fn read(
    mut input: impl AsyncRead + Unpin,
    incoming: channel::Sender<Incoming>,
    max: usize,
    kind: traffic::TrafficKind,
) {
    let mut lines = Lines::new(max);
    // Looks for the id of a line that is over the limit.
    let mut outliner = Outliner::default();
    while let Some(line) = lines.next_of(&mut input).await {
        let sent = match line {
            Line::Whole(bytes) => {
                traffic::message(kind, &bytes);
                pass_on(bytes, &incoming).await
            }
            Line::Excess { piece, is_last } => {
                outliner.feed(&piece);
                let ended = is_last.then(|| std::mem::take(&mut outliner).finish());
                match ended.and_then(|outline| refuse_excess(outline, max)) {
                    Some(item) => incoming.send(item).await,
                    None => Ok(()),
                }
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Passes on the messages of a line.
async fn pass_on(line: Bytes, incoming: &channel::Sender<Incoming>) -> Result<(), Closed> {
    let mut elements = Elements::of(line);
    while let Some(element) = elements.next().await {
        let item = element.map_or_else(refuse, |message| Some(Incoming::Message(message)));
        if let Some(item) = item {
            incoming.send(item).await?;
        }
    }
    if let Some(skipped) = elements.skipped("a line") {
        warn!("{skipped}");
    }
    Ok(())
}

/// A line was too long: whoever waits for an answer to it, on either side, gets one.
fn refuse_excess(outline: Outline, max: usize) -> Option<Incoming> {
    let message = format!("The message is larger than {max} bytes");
    let error = Error::new(ErrorKind::TooLarge, message)
        .not_delivered()
        .hint("Allow larger messages with --max-message-size");
    warn!(id = outline.id.as_ref().map(ToString::to_string), "{error}: skipped");
    let id = outline.id?;
    Some(match outline.has_method {
        true => Incoming::Refused { id: Some(id), error: error.into() },
        // An answer that is too large becomes an error answer: the other side waits for one.
        false => Incoming::Message(reply::error(Some(&id), &error)),
    })
}

/// C12: what cannot be attributed is skipped; what has an id is answered.
fn refuse(malformed: Malformed) -> Option<Incoming> {
    let text = malformed.to_string();
    let Malformed::NotJsonRpc { waiting: Some(id), .. } = malformed else { return None };
    let error = Error::new(ErrorKind::InvalidRequest, format!("Invalid request: {text}"));
    Some(Incoming::Refused { id, error: error.not_delivered().into() })
}

/// Writes until there is nothing more to write, or nobody who reads it; gives back whether all was
/// written.
pub(super) async fn write(
    mut output: Counted<impl AsyncWrite + Unpin>,
    mut outgoing: channel::Receiver<Message>,
    kind: traffic::TrafficKind,
) -> bool {
    let mut buffer: Vec<u8> = Vec::new();
    while let Some(first) = outgoing.recv().await {
        // What is queued goes out in one write.
        let rest = std::iter::from_fn(|| outgoing.try_recv());
        let lines = std::iter::once(first).chain(rest).map(|m| edit::one_line(m.bytes()));
        let lines = lines.inspect(|line| traffic::message(kind, line));
        if let Err(error) = write_lines(&mut output, &mut buffer, lines).await {
            debug!(%error, "writing ended");
            return false;
        }
    }
    true
}

/// An output that notes what was taken of it.
pub(super) struct Counted<O> {
    pub(super) output: O,
    pub(super) written: Written,
}

impl<O: AsyncWrite + Unpin> Counted<O> {
    async fn write_all(&mut self, mut bytes: &[u8]) -> std::io::Result<()> {
        while !bytes.is_empty() {
            let piece = &bytes[..bytes.len().min(limits::WRITE_PIECE)];
            let taken = self.output.write(piece).await?;
            if taken == 0 {
                return Err(std::io::ErrorKind::WriteZero.into());
            }
            self.written.note();
            bytes = &bytes[taken..];
        }
        Ok(())
    }
}

async fn write_lines(
    output: &mut Counted<impl AsyncWrite + Unpin>,
    buffer: &mut Vec<u8>,
    lines: impl Iterator<Item = Bytes>,
) -> std::io::Result<()> {
    buffer.clear();
    for line in lines {
        if line.len() + buffer.len() > COPIED {
            output.write_all(buffer).await?;
            buffer.clear();
        }
        if line.len() > COPIED {
            output.write_all(&line).await?;
        } else {
            buffer.extend_from_slice(&line);
        }
        buffer.push(b'\n');
    }
    output.write_all(buffer).await?;
    output.output.flush().await
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    /// What the link makes of `input`.
    async fn exchange(input: &'static [u8], max: usize) -> Vec<Incoming> {
        let mut link = open(input, tokio::io::sink(), max);
        let mut all = Vec::new();
        while let Some(incoming) = link.inbox.recv().await {
            all.push(incoming);
        }
        all
    }

    fn ids(all: &[Incoming]) -> Vec<String> {
        all.iter()
            .map(|incoming| match incoming {
                Incoming::Message(m) => m.id().map_or("-".into(), ToString::to_string),
                Incoming::Refused { id, error } => {
                    let id = id.as_ref().map_or("null".into(), ToString::to_string);
                    format!("!{id} {}", error.code())
                }
                Incoming::Ended(_) => unreachable!("nothing has ended"),
            })
            .collect()
    }

    #[tokio::test]
    async fn bad_lines_are_skipped_or_answered_and_reading_goes_on() {
        // S2-17, S2-23, C12
        let input = b"garbage\n\n{\"id\":1}\n[{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"a\"},7]\n\
            {\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"a\"}\n{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"a\"}";
        assert_eq!(ids(&exchange(input, 1000).await), ["!1 -32600", "2", "!null -32600", "3"]);
    }

    #[tokio::test]
    async fn a_line_over_the_limit_is_answered_for_whoever_waits() {
        // C34
        let input = b"{\"jsonrpc\":\"2.0\",\"params\":\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\",\"method\":\"a\",\"id\":9}\n\
            {\"jsonrpc\":\"2.0\",\"result\":\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\",\"id\":8}\n\
            {\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"a\"}\n";
        let all = exchange(input, 50).await;
        assert_eq!(ids(&all), ["!9 -32000", "8", "3"]);
        let Incoming::Message(answer) = &all[1] else { panic!("{all:?}") };
        assert_eq!(answer.type_name(), "error", "the other side learns that the answer is lost");
    }

    #[tokio::test]
    async fn a_stream_that_fails_ends_the_link_after_what_it_brought() {
        // S1-27
        struct Fails(bool);
        impl AsyncRead for Fails {
            fn poll_read(
                mut self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
                buffer: &mut tokio::io::ReadBuf<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                if std::mem::replace(&mut self.0, true) {
                    return std::task::Poll::Ready(Err(std::io::ErrorKind::ConnectionReset.into()));
                }
                buffer.put_slice(b"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"a\"}\n");
                std::task::Poll::Ready(Ok(()))
            }
        }
        let mut link = open(Fails(false), tokio::io::sink(), 1000);
        assert!(matches!(link.inbox.recv().await, Some(Incoming::Message(_))));
        assert_eq!(link.inbox.recv().await, None);
    }

    #[tokio::test]
    async fn messages_are_written_one_a_line_large_ones_too() {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let link = open(tokio::io::empty(), theirs, 1000);
        let big = format!(r#"{{"jsonrpc":"2.0","method":"{}"}}"#, "x".repeat(2 * COPIED));
        let texts = [
            "{\"jsonrpc\":\"2.0\",\n\"method\":\"a\"}",
            &big,
            "{\"jsonrpc\":\"2.0\",\"method\":\"b\"}",
        ];
        for text in texts {
            let message = Message::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap();
            link.outbox.send(message).await.unwrap();
        }
        drop(link.outbox);
        link.done.await.unwrap();
        let mut written = String::new();
        let mut ours = ours;
        ours.read_to_string(&mut written).await.unwrap();
        let expected: String = texts.iter().map(|t| t.replace('\n', " ") + "\n").collect();
        assert_eq!(written, expected);
    }
}
