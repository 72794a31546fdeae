//! The data of events: whatever line begins with `data:`.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use memchr::memchr;
use tokio::sync::mpsc;

use super::writer::{Output, PIECES};
use crate::exchange::Fault;

/// A line that is longer is passed on in pieces.
const LONG: usize = 64 * 1024;

const DATA: &[u8] = b"data:";

/// The body of an answer, cut into data.
pub(crate) struct Stream {
    body: Incoming,
    pending: BytesMut,
    /// The line that is passed on in pieces.
    long: Option<mpsc::Sender<Bytes>>,
}

impl Stream {
    pub(crate) fn new(body: Incoming) -> Self {
        Self { body, pending: BytesMut::new(), long: None }
    }

    /// The next data; if it comes in pieces, [`Self::pass_rest`] has to be called next.
    pub(crate) async fn next(&mut self) -> Result<Option<Output>, Fault> {
        let mut searched = 0;
        loop {
            while let Some(end) = memchr(b'\n', &self.pending[searched..]) {
                let mut line = self.pending.split_to(searched + end + 1).freeze();
                line.truncate(searched + end);
                searched = 0;
                if let Some(data) = data(&line) {
                    return Ok(Some(Output::Line(data)));
                }
            }
            searched = self.pending.len();
            if searched > LONG && self.pending.starts_with(DATA) {
                let (pieces, written) = mpsc::channel(PIECES);
                let begun = self.pending.split().freeze();
                pieces.send(data(&begun).unwrap_or(begun)).await?;
                self.long = Some(pieces);
                return Ok(Some(Output::Pieces(written)));
            }
            let Some(piece) = self.piece().await? else {
                return Ok(None);
            };
            // Nothing is left over from before, as a rule: then nothing is copied.
            match piece.try_into_mut() {
                Ok(piece) if self.pending.is_empty() => self.pending = piece,
                Ok(piece) => self.pending.extend_from_slice(&piece),
                Err(piece) => self.pending.extend_from_slice(&piece),
            }
        }
    }

    /// Passes on what is left of a long line.
    pub(crate) async fn pass_rest(&mut self) -> Result<(), Fault> {
        let Some(pieces) = self.long.take() else {
            return Ok(());
        };
        while let Some(mut piece) = self.piece().await? {
            let Some(end) = memchr(b'\n', &piece) else {
                pieces.send(piece).await?;
                continue;
            };
            let last = piece.split_to(end);
            self.pending.extend_from_slice(&piece);
            pieces.send(last).await?;
            break;
        }
        Ok(())
    }

    async fn piece(&mut self) -> Result<Option<Bytes>, Fault> {
        while let Some(frame) = self.body.frame().await {
            if let Ok(piece) = frame?.into_data() {
                return Ok(Some(piece));
            }
        }
        Ok(None)
    }
}

fn data(line: &Bytes) -> Option<Bytes> {
    let data = line.strip_prefix(DATA)?;
    Some(line.slice_ref(data.strip_prefix(b" ").unwrap_or(data)))
}
