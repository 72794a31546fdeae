//! Writes to stdout: small lines together, large ones in pieces with nothing in between.

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

/// Pieces that wait for stdout, for each large line.
pub(crate) const PIECES: usize = 4;

/// Below this, lines are copied together and leave in one write.
const COPIED: usize = 32 * 1024;

const BATCH: usize = 64;

/// One line.
pub(crate) enum Output {
    Line(Bytes),
    /// In pieces, up to the end of the channel.
    Pieces(mpsc::Receiver<Bytes>),
}

/// Writes until everybody who could hand over more is gone.
pub(crate) async fn write(
    mut output: pipe::Sender,
    mut outgoing: mpsc::UnboundedReceiver<Output>,
) -> std::io::Result<()> {
    let mut batch = Vec::with_capacity(BATCH);
    let mut buffer = Vec::with_capacity(COPIED);
    while outgoing.recv_many(&mut batch, BATCH).await > 0 {
        for line in batch.drain(..) {
            match line {
                Output::Line(line) if buffer.len() + line.len() < COPIED => {
                    buffer.extend_from_slice(&line);
                }
                Output::Line(line) => {
                    output.write_all(&buffer).await?;
                    buffer.clear();
                    output.write_all(&line).await?;
                }
                Output::Pieces(mut pieces) => {
                    output.write_all(&buffer).await?;
                    buffer.clear();
                    while let Some(piece) = pieces.recv().await {
                        output.write_all(&piece).await?;
                    }
                }
            }
            buffer.push(b'\n');
        }
        output.write_all(&buffer).await?;
        buffer.clear();
    }
    Ok(())
}
