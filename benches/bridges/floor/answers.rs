//! Hands answers over to the writer: small ones whole, large ones in pieces as they come.

use http::Response;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::sync::mpsc;

use super::events::Stream;
use super::writer::{Output, PIECES};
use crate::exchange::{Fault, is_event_stream};

/// Passes on all that one answer holds.
pub(crate) async fn pass(
    response: Response<Incoming>,
    output: &mpsc::UnboundedSender<Output>,
) -> Result<(), Fault> {
    if is_event_stream(&response) {
        return pass_events(Stream::new(response.into_body()), output).await;
    }
    let mut body = response.into_body();
    let Some(first) = body.frame().await.transpose()?.and_then(|frame| frame.into_data().ok())
    else {
        return Ok(());
    };
    if body.is_end_stream() {
        output.send(Output::Line(first))?;
        return Ok(());
    }
    let (pieces, written) = mpsc::channel(PIECES);
    output.send(Output::Pieces(written))?;
    pieces.send(first).await?;
    while let Some(frame) = body.frame().await {
        if let Ok(piece) = frame?.into_data() {
            pieces.send(piece).await?;
        }
    }
    Ok(())
}

/// Passes on every event until the stream ends.
pub(crate) async fn pass_events(
    mut stream: Stream,
    output: &mpsc::UnboundedSender<Output>,
) -> Result<(), Fault> {
    while let Some(event) = stream.next().await? {
        output.send(event)?;
        stream.pass_rest().await?;
    }
    Ok(())
}

/// Reads to the end, so that the connection can be used again.
pub(crate) async fn discard(response: Response<Incoming>) -> Result<(), Fault> {
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        frame?;
    }
    Ok(())
}
