//! What the scripted server does in answer to a request, down to the byte.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use h2::Reason;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Mutex, Semaphore, mpsc};

/// A reply waits at it until the test opens it.
#[derive(Clone, Debug)]
pub(crate) struct Gate(Arc<Semaphore>);

impl Gate {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    /// For all who wait, and all who come.
    pub(crate) fn open(&self) {
        self.0.add_permits(10_000);
    }

    /// For one, now or later.
    pub(crate) fn open_once(&self) {
        self.0.add_permits(1);
    }

    pub(super) async fn pass(&self) {
        self.0.acquire().await.expect("a gate is never closed").forget();
    }
}

/// A body that is written while it goes out: by the test, or by the script of another request.
#[derive(Clone, Debug)]
pub(crate) struct Feed {
    to: mpsc::UnboundedSender<Step>,
    from: Arc<Mutex<mpsc::UnboundedReceiver<Step>>>,
}

impl Feed {
    pub(crate) fn new() -> Self {
        let (to, from) = mpsc::unbounded_channel();
        Self { to, from: Arc::new(Mutex::new(from)) }
    }

    /// An event with this data.
    pub(crate) fn event(&self, data: impl AsRef<str>) {
        self.chunk(format!("event: message\ndata: {}\n\n", data.as_ref()));
    }

    pub(crate) fn chunk(&self, bytes: impl AsRef<[u8]>) {
        self.add(Step::Chunk(bytes.as_ref().to_vec()));
    }

    pub(crate) fn pause(&self, milliseconds: u64) {
        self.add(Step::Pause(Duration::from_millis(milliseconds)));
    }

    /// The body is complete.
    pub(crate) fn end(&self) {
        self.add(Step::End);
    }

    /// The connection is closed in the middle of a chunk.
    pub(crate) fn cut(&self) {
        self.add(Step::Raw(b"ff\r\nevent: mess".to_vec()));
        self.add(Step::Close);
    }

    pub(crate) fn reset(&self) {
        self.add(Step::Reset);
    }

    fn add(&self, step: Step) {
        self.to.send(step).expect("the other end is ours, too");
    }

    pub(super) async fn next(&self) -> Step {
        self.from.lock().await.recv().await.expect("the other end is ours, too")
    }
}

/// A list of steps on the connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reply {
    pub(super) head: Option<String>,
    pub(super) steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Bytes as they are.
    Raw(Vec<u8>),
    /// A piece of a chunked body.
    Chunk(Vec<u8>),
    Wait(Gate),
    /// Whatever comes in, until it brings the end of the body.
    Feed(Feed),
    /// The body is complete.
    End,
    Pause(Duration),
    /// Close in order.
    Close,
    /// Close with a reset.
    Reset,
    /// Nothing more, until the peer closes.
    Hang,
    /// HTTP/2: the stream is reset for this reason.
    Stop(Reason),
}

/// How a reply has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    NextRequest,
    Close,
    Reset,
    /// The peer closed the connection while the reply was under way.
    PeerClosed,
}

impl Reply {
    pub(crate) fn status(status: u16, content_type: &str, body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let mut head = format!("HTTP/1.1 {status} Text\r\nContent-Length: {}\r\n", body.len());
        if !content_type.is_empty() {
            head += &format!("Content-Type: {content_type}\r\n");
        }
        Self { head: Some(head), steps: vec![Step::Raw(body.to_vec())] }
    }

    pub(crate) fn json(body: impl AsRef<[u8]>) -> Self {
        Self::status(200, "application/json", body)
    }

    pub(crate) fn accepted() -> Self {
        Self::status(202, "", "")
    }

    /// The head of an event stream; steps follow.
    pub(crate) fn sse() -> Self {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                    Transfer-Encoding: chunked\r\n";
        Self { head: Some(head.to_owned()), steps: Vec::new() }
    }

    /// No head: exactly the bytes that are added.
    pub(crate) fn nothing() -> Self {
        Self::default()
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        let head = self.head.as_mut().expect("a reply with a head");
        *head += &format!("{name}: {value}\r\n");
        self
    }

    /// An event with this data.
    pub(crate) fn event(self, data: impl AsRef<str>) -> Self {
        self.chunk(format!("event: message\ndata: {}\n\n", data.as_ref()))
    }

    /// A piece of the body.
    pub(crate) fn chunk(self, bytes: impl AsRef<[u8]>) -> Self {
        self.step(Step::Chunk(bytes.as_ref().to_vec()))
    }

    pub(crate) fn raw(self, bytes: impl AsRef<[u8]>) -> Self {
        self.step(Step::Raw(bytes.as_ref().to_vec()))
    }

    pub(crate) fn wait(self, gate: &Gate) -> Self {
        self.step(Step::Wait(gate.clone()))
    }

    /// The head goes out at once, all the rest when the gate is open.
    pub(crate) fn held(mut self, gate: &Gate) -> Self {
        self.steps.insert(0, Step::Wait(gate.clone()));
        self
    }

    pub(crate) fn pause(self, milliseconds: u64) -> Self {
        self.step(Step::Pause(Duration::from_millis(milliseconds)))
    }

    /// The body is complete.
    pub(crate) fn end(self) -> Self {
        self.step(Step::End)
    }

    /// The rest of the body is what comes in here.
    pub(crate) fn feed(self, feed: &Feed) -> Self {
        self.step(Step::Feed(feed.clone()))
    }

    /// The connection is closed, whatever is missing.
    pub(crate) fn cut(self) -> Self {
        self.step(Step::Close)
    }

    pub(crate) fn reset(self) -> Self {
        self.step(Step::Reset)
    }

    /// HTTP/2 alone: the stream is reset, the connection lives on.
    pub(crate) fn stop(self, reason: Reason) -> Self {
        self.step(Step::Stop(reason))
    }

    pub(crate) fn hang(self) -> Self {
        self.step(Step::Hang)
    }

    fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Plays the reply.
    pub(crate) async fn play(self, stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> Then {
        if let Some(head) = &self.head {
            let head = format!("{head}\r\n");
            if stream.write_all(head.as_bytes()).await.is_err() {
                return Then::PeerClosed;
            }
        }
        let mut steps = VecDeque::from(self.steps);
        while let Some(mut step) = steps.pop_front() {
            if let Step::Feed(feed) = &step {
                let next = tokio::select! {
                    next = feed.next() => next,
                    () = closed(stream) => return Then::PeerClosed,
                };
                if !matches!(next, Step::End) {
                    steps.push_front(step);
                }
                step = next;
            }
            match step.play(stream).await {
                // TLS keeps what the socket has no room for.
                Ok(None) if stream.flush().await.is_ok() => {}
                Ok(Some(then)) => return then,
                Ok(None) | Err(_) => return Then::PeerClosed,
            }
        }
        Then::NextRequest
    }
}

impl Step {
    /// Plays the step; `Some` if it is the last.
    async fn play(
        self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    ) -> io::Result<Option<Then>> {
        match self {
            Self::Raw(bytes) => stream.write_all(&bytes).await?,
            Self::Chunk(bytes) => {
                let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
                chunk.extend_from_slice(&bytes);
                chunk.extend_from_slice(b"\r\n");
                stream.write_all(&chunk).await?;
            }
            Self::End => stream.write_all(b"0\r\n\r\n").await?,
            Self::Wait(gate) => {
                tokio::select! {
                    () = gate.pass() => {}
                    () = closed(stream) => return Ok(Some(Then::PeerClosed)),
                }
            }
            Self::Pause(duration) => tokio::time::sleep(duration).await,
            Self::Close => return Ok(Some(Then::Close)),
            Self::Reset => return Ok(Some(Then::Reset)),
            Self::Stop(_) => panic!("HTTP/1.1 has no streams"),
            // A feed is played by whoever has the steps.
            Self::Hang | Self::Feed(_) => {
                closed(stream).await;
                return Ok(Some(Then::PeerClosed));
            }
        }
        Ok(None)
    }
}

/// A client sends nothing while it waits for an answer: what can be read is the end.
async fn closed(stream: &mut (impl AsyncRead + Unpin)) {
    let _ = stream.read_u8().await;
}
