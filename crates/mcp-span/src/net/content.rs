//! The body of an answer, unpacked where a server has packed it although nobody asked for that.

use std::io::{self, Write};
use std::net::IpAddr;

use bytes::{Buf, Bytes};
use flate2::write::MultiGzDecoder;
use http::Response;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use http_body::Body;
use http_body_util::BodyExt;
use url::Url;

use super::body::Inbound;
use super::fault;
use crate::error::{Error, ErrorKind};
use crate::secret::shown;
use crate::wire::header;

/// A body that is read piece by piece.
#[derive(Debug)]
pub struct Content {
    inbound: Inbound,
    /// A rare case: it is boxed, so that the others do not carry it.
    packed: Option<Box<Unpacking>>,
}

impl Content {
    /// The answer with a body that can be read.
    ///
    /// # Errors
    ///
    /// When it is packed in a way that is not known here.
    pub fn of(response: Response<Inbound>, url: &Url) -> Result<Response<Self>, Error> {
        let Some(encoding) = header::find(response.headers(), &CONTENT_ENCODING) else {
            return Ok(response.map(|inbound| Self { inbound, packed: None }));
        };
        let packed = match encoding.to_str().unwrap_or_default().trim().to_ascii_lowercase() {
            name if name.is_empty() || name == "identity" => None,
            name if name == "gzip" || name == "x-gzip" => Some(Box::default()),
            name => {
                let message = format!("{} packs its answer as '{name}'", shown(url));
                let mut error = Error::new(ErrorKind::BadResponse, message)
                    .hint("Nobody asked for that: check what a proxy on the way does");
                error.status = Some(response.status().as_u16());
                return Err(error);
            }
        };
        let mut response = response.map(|inbound| Self { inbound, packed });
        // It is about the packed form.
        response.headers_mut().remove(CONTENT_LENGTH);
        Ok(response)
    }

    /// How long it is said to be; 0 if that is not known.
    #[must_use]
    pub fn expected(&self) -> u64 {
        match self.packed {
            None => self.inbound.body.size_hint().exact().unwrap_or_default(),
            Some(_) => 0,
        }
    }

    /// The address of whoever has answered; `None` if a proxy stands in between.
    #[must_use]
    pub fn peer(&self) -> Option<IpAddr> {
        self.inbound.peer
    }

    /// Whether somebody keeps what is read of it.
    pub(crate) fn is_recorded(&self) -> bool {
        self.inbound.recording.is_some()
    }

    /// Whether it is known, without any wait, that nothing more comes.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.packed.is_none() && self.inbound.body.is_end_stream()
    }

    /// The next piece; `None` at its end. Nothing is lost if it is dropped and asked for again.
    ///
    /// # Errors
    ///
    /// When the connection to `url` breaks, or what comes cannot be unpacked.
    pub async fn next(&mut self, url: &Url) -> Result<Option<Bytes>, Error> {
        let piece = self.next_piece(url).await;
        if let Some(recording) = &self.inbound.recording {
            recording.read(&piece);
        }
        piece
    }

    async fn next_piece(&mut self, url: &Url) -> Result<Option<Bytes>, Error> {
        loop {
            if let Some(unpacking) = &mut self.packed
                && let Some(piece) = unpacking.next().map_err(|error| broken(url, &error))?
            {
                return Ok(Some(piece));
            }
            let data = match self.inbound.body.frame().await {
                None => {
                    let Some(unpacking) = self.packed.take() else { return Ok(None) };
                    let rest = unpacking.decoder.finish().map_err(|error| broken(url, &error))?;
                    return Ok((!rest.is_empty()).then(|| rest.into()));
                }
                Some(Err(error)) => return Err(fault::explain_body(&error, url)),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => data,
                    // Trailers are of no interest.
                    Err(_) => continue,
                },
            };
            match &mut self.packed {
                None => return Ok(Some(data)),
                Some(unpacking) => unpacking.packed = data,
            }
        }
    }

    /// Reads it to its end, so that its connection can be used again.
    pub async fn drain(mut self) {
        while let Some(Ok(_)) = self.inbound.body.frame().await {}
    }
}

/// Packed bytes on their way to plain ones. A few of them can stand for gigabytes, so they are
/// unpacked no faster than the reader asks for pieces: one who has enough stops asking.
#[derive(Debug)]
struct Unpacking {
    /// What was not looked at yet.
    packed: Bytes,
    decoder: MultiGzDecoder<Vec<u8>>,
}

impl Default for Unpacking {
    fn default() -> Self {
        Self { packed: Bytes::new(), decoder: MultiGzDecoder::new(Vec::new()) }
    }
}

impl Unpacking {
    /// The next piece; `None` if more packed bytes are needed for it.
    fn next(&mut self) -> io::Result<Option<Bytes>> {
        while !self.packed.is_empty() {
            // One write gives about as much as the decoder's own buffer holds (32 KiB).
            match self.decoder.write(&self.packed)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                taken => self.packed.advance(taken),
            }
            if self.packed.is_empty() {
                // An event must not wait in the decoder for the next one.
                self.decoder.flush()?;
            }
            let piece = std::mem::take(self.decoder.get_mut());
            if !piece.is_empty() {
                return Ok(Some(piece.into()));
            }
        }
        Ok(None)
    }
}

fn broken(url: &Url, error: &io::Error) -> Error {
    let message = format!("The packed answer of {} cannot be unpacked", shown(url));
    Error::new(ErrorKind::BadResponse, message).because(error)
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    #[test]
    fn a_few_bytes_that_stand_for_millions_are_unpacked_piece_by_piece() {
        const PLAIN: usize = 32 * 1024 * 1024;
        let mut packer = GzEncoder::new(Vec::new(), Compression::best());
        packer.write_all(&vec![0; PLAIN]).unwrap();
        let packed = packer.finish().unwrap();
        assert!(packed.len() < PLAIN / 500);
        let mut unpacking = Unpacking { packed: packed.into(), ..Unpacking::default() };
        let mut total = 0;
        while let Some(piece) = unpacking.next().unwrap() {
            assert!(piece.len() <= 256 * 1024, "{} at once", piece.len());
            total += piece.len();
        }
        total += unpacking.decoder.finish().unwrap().len();
        assert_eq!(total, PLAIN);
    }

    #[test]
    fn what_was_flushed_does_not_wait_for_what_comes_next() {
        let mut packer = GzEncoder::new(Vec::new(), Compression::default());
        let mut unpacking = Unpacking::default();
        for text in ["data: 1\n\n", "data: 2\n\n"] {
            packer.write_all(text.as_bytes()).unwrap();
            packer.flush().unwrap();
            unpacking.packed = std::mem::take(packer.get_mut()).into();
            let mut plain = Vec::new();
            while let Some(piece) = unpacking.next().unwrap() {
                plain.extend_from_slice(&piece);
            }
            assert_eq!(plain, text.as_bytes());
        }
    }
}
