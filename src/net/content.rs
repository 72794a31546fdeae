//! The body of an answer, unpacked where a server has packed it although nobody asked for that.

use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use http::Response;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::io::Write;
use url::Url;

use super::fault;
use crate::error::{Error, Kind};
use crate::secret::shown;

/// A body that is read piece by piece.
#[derive(Debug)]
pub struct Content {
    body: Incoming,
    /// A rare case: it is boxed, so that the others do not carry it.
    packed: Option<Box<MultiGzDecoder<Vec<u8>>>>,
}

impl Content {
    /// The answer with a body that can be read.
    ///
    /// # Errors
    ///
    /// When it is packed in a way that is not known here.
    pub fn of(response: Response<Incoming>, url: &Url) -> Result<Response<Self>, Error> {
        let Some(encoding) = response.headers().get(CONTENT_ENCODING) else {
            return Ok(response.map(|body| Self { body, packed: None }));
        };
        let packed = match encoding.to_str().unwrap_or_default().trim().to_ascii_lowercase() {
            name if name.is_empty() || name == "identity" => None,
            name if name == "gzip" || name == "x-gzip" => {
                Some(Box::new(MultiGzDecoder::new(Vec::new())))
            }
            name => {
                let message = format!("{} packs its answer as '{name}'", shown(url));
                let mut error = Error::new(Kind::BadResponse, message)
                    .hint("Nobody asked for that: check what a proxy on the way does");
                error.status = Some(response.status().as_u16());
                return Err(error);
            }
        };
        let mut response = response.map(|body| Self { body, packed });
        // It is about the packed form.
        response.headers_mut().remove(CONTENT_LENGTH);
        Ok(response)
    }

    /// How long it is said to be; 0 if that is not known.
    #[must_use]
    pub fn expected(&self) -> u64 {
        match self.packed {
            None => self.body.size_hint().exact().unwrap_or_default(),
            Some(_) => 0,
        }
    }

    /// The next piece; `None` at its end. Nothing is lost if it is dropped and asked for again.
    ///
    /// # Errors
    ///
    /// When the connection to `url` breaks, or what comes cannot be unpacked.
    pub async fn next(&mut self, url: &Url) -> Result<Option<Bytes>, Error> {
        loop {
            let data = match self.body.frame().await {
                None => return self.rest(url),
                Some(Err(error)) => return Err(fault::explain_body(&error, url)),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => data,
                    // Trailers are of no interest.
                    Err(_) => continue,
                },
            };
            let Some(unpacking) = &mut self.packed else { return Ok(Some(data)) };
            unpacking.write_all(&data).map_err(|error| broken(url, &error))?;
            let piece = std::mem::take(unpacking.get_mut());
            if !piece.is_empty() {
                return Ok(Some(piece.into()));
            }
        }
    }

    /// What is left at the end of a packed body.
    fn rest(&mut self, url: &Url) -> Result<Option<Bytes>, Error> {
        let Some(unpacking) = self.packed.take() else { return Ok(None) };
        let rest = unpacking.finish().map_err(|error| broken(url, &error))?;
        Ok((!rest.is_empty()).then(|| rest.into()))
    }

    /// Reads it to its end, so that its connection can be used again.
    pub async fn drain(mut self) {
        while let Some(Ok(_)) = self.body.frame().await {}
    }
}

fn broken(url: &Url, error: &std::io::Error) -> Error {
    let message = format!("The packed answer of {} cannot be unpacked", shown(url));
    Error::new(Kind::BadResponse, message).because(error)
}
