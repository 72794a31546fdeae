//! The least that a bridge from stdio to HTTP can do: lines out as POSTs, answers back as lines.
//!
//! No sessions, no ids, no timeouts, no limits: what `mcp-span` takes on top of this is the
//! price of all of them.

use std::io::{stdin, stdout};
use std::os::fd::AsFd;

use bytes::{Bytes, BytesMut};
use http::Uri;
use memchr::memchr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

use super::exchange::{Fault, HttpClient, client, post};

/// Below this, lines are copied together and leave in one write.
const COPIED: usize = 32 * 1024;

const READ_CHUNK: usize = 64 * 1024;

/// When a read buffer has less room than this, it gets more.
const ROOM: usize = 4 * 1024;

const BATCH: usize = 64;

/// Passes on until stdin ends and everything is answered.
pub(crate) fn run(url: &str) -> Result<(), Fault> {
    let uri: Uri = url.parse()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let done = runtime.block_on(pass_through(uri));
    runtime.shutdown_background();
    done
}

async fn pass_through(uri: Uri) -> Result<(), Fault> {
    let input = pipe::Receiver::from_owned_fd(stdin().as_fd().try_clone_to_owned()?)?;
    let output = pipe::Sender::from_owned_fd(stdout().as_fd().try_clone_to_owned()?)?;
    let (answers, outgoing) = mpsc::unbounded_channel();
    let writer = tokio::spawn(write(output, outgoing));
    read(input, &client(), &uri, answers).await?;
    Ok(writer.await??)
}

async fn read(
    mut input: pipe::Receiver,
    client: &HttpClient,
    uri: &Uri,
    answers: mpsc::UnboundedSender<Bytes>,
) -> Result<(), Fault> {
    let mut buffer = BytesMut::new();
    loop {
        if buffer.capacity() - buffer.len() < ROOM {
            buffer.reserve(READ_CHUNK);
        }
        let searched = buffer.len();
        if input.read_buf(&mut buffer).await? == 0 {
            return Ok(());
        }
        let mut from = searched;
        while let Some(end) = memchr(b'\n', &buffer[from..]) {
            let mut line = buffer.split_to(from + end + 1).freeze();
            line.truncate(from + end);
            from = 0;
            tokio::spawn(pass(client.clone(), uri.clone(), line, answers.clone()));
        }
    }
}

async fn pass(client: HttpClient, uri: Uri, line: Bytes, answers: mpsc::UnboundedSender<Bytes>) {
    let posted = post(&client, &uri, line, |payload| {
        // Fails only when stdout is gone.
        let _ = answers.send(payload);
    });
    if let Err(error) = posted.await {
        eprintln!("floor: {error}");
    }
}

async fn write(
    mut output: pipe::Sender,
    mut outgoing: mpsc::UnboundedReceiver<Bytes>,
) -> std::io::Result<()> {
    let mut batch = Vec::with_capacity(BATCH);
    let mut buffer = Vec::with_capacity(COPIED);
    while outgoing.recv_many(&mut batch, BATCH).await > 0 {
        for line in batch.drain(..) {
            if buffer.len() + line.len() < COPIED {
                buffer.extend_from_slice(&line);
            } else {
                output.write_all(&buffer).await?;
                buffer.clear();
                output.write_all(&line).await?;
            }
            buffer.push(b'\n');
        }
        output.write_all(&buffer).await?;
        buffer.clear();
    }
    Ok(())
}
