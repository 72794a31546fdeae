//! The least that a bridge from stdio to HTTP can do: lines out as POSTs, answers back as lines.
//!
//! No sessions, no ids, no timeouts, no limits, no look at what passes by: what `mcp-span` takes
//! on top of this is the price of all of them.

mod answers;
mod events;
mod writer;

use std::io::{stdin, stdout};
use std::os::fd::AsFd;
use std::path::Path;

use bytes::BytesMut;
use http::Uri;
use hyper_util::client::legacy::connect::Connect;
use memchr::memchr;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

use self::writer::Output;
use crate::exchange::{Fault, HttpClient, client, open, post, secure_client};

const READ_CHUNK: usize = 64 * 1024;

/// When a read buffer has less room than this, it gets more.
const ROOM: usize = 4 * 1024;

/// Passes on until stdin ends and everything is answered.
pub(crate) fn streamable(url: &str) -> Result<(), Fault> {
    run(pass_through(client(), url.parse()?))
}

/// The same over https, where `root` vouches for the server.
pub(crate) fn secure(url: &str, root: &str) -> Result<(), Fault> {
    run(pass_through(secure_client(Path::new(root))?, url.parse()?))
}

/// The same for the older transport: answers come by one stream, at the end of which it ends.
pub(crate) fn old(url: &str) -> Result<(), Fault> {
    run(pass_through_old(client(), url.parse()?))
}

fn run(work: impl Future<Output = Result<(), Fault>>) -> Result<(), Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    done
}

async fn pass_through<C>(client: HttpClient<C>, uri: Uri) -> Result<(), Fault>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let (output, outgoing) = mpsc::unbounded_channel();
    let writer = tokio::spawn(writer::write(stdout_pipe()?, outgoing));
    each_line(|line| {
        let (client, uri, output) = (client.clone(), uri.clone(), output.clone());
        tokio::spawn(async move {
            told(async { answers::pass(post(&client, &uri, line).await?, &output).await }.await);
        });
    })
    .await?;
    drop(output);
    Ok(writer.await??)
}

async fn pass_through_old(client: HttpClient, uri: Uri) -> Result<(), Fault> {
    let (output, outgoing) = mpsc::unbounded_channel();
    tokio::spawn(writer::write(stdout_pipe()?, outgoing));
    let mut stream = events::Stream::new(open(&client, &uri).await?.into_body());
    let address = stream.next().await?.ok_or("the stream ended before the address")?;
    let Output::Line(address) = address else {
        return Err("no address is that long".into());
    };
    let target: Uri =
        format!("http://{}{}", uri.authority().ok_or("no host")?, std::str::from_utf8(&address)?)
            .parse()?;
    tokio::spawn(async move { told(answers::pass_events(stream, &output).await) });
    each_line(|line| {
        let (client, target) = (client.clone(), target.clone());
        tokio::spawn(async move {
            told(async { answers::discard(post(&client, &target, line).await?).await }.await);
        });
    })
    .await
}

/// Failures show in what does not arrive; a person who looks may know why.
fn told(outcome: Result<(), Fault>) {
    if let Err(error) = outcome {
        eprintln!("floor: {error}");
    }
}

fn stdout_pipe() -> Result<pipe::Sender, Fault> {
    Ok(pipe::Sender::from_owned_fd(stdout().as_fd().try_clone_to_owned()?)?)
}

async fn each_line(mut pass: impl FnMut(bytes::Bytes)) -> Result<(), Fault> {
    let mut input = pipe::Receiver::from_owned_fd(stdin().as_fd().try_clone_to_owned()?)?;
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
            pass(line);
        }
    }
}
