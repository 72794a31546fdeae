//! A file that holds a token and is replaced from time to time, as Kubernetes does it.

use std::path::PathBuf;

use http::HeaderMap;
use tokio::time::timeout;

use super::grant;
use crate::error::Error;
use crate::limits;

/// The file's path.
#[derive(Clone, Debug)]
pub struct TokenFile {
    path: PathBuf,
}

impl TokenFile {
    /// The file at `path`; it is read on use.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Reads it, on a thread of its own: it may lie on a disk that hangs.
    pub(super) async fn read(&self) -> Result<HeaderMap, Error> {
        let file = self.clone();
        let reading = tokio::task::spawn_blocking(move || file.read_now());
        let place = self.place();
        match timeout(limits::CREDENTIAL_WAIT, reading).await {
            Ok(Ok(read)) => read,
            Ok(Err(error)) => Err(grant::unusable(&place, "cannot be read").because(error)),
            Err(_) => Err(grant::unusable(&place, "could not be read in time")),
        }
    }

    /// Reads it here and now.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or holds no token.
    pub fn read_now(&self) -> Result<HeaderMap, Error> {
        let text = std::fs::read_to_string(&self.path)
            .map_err(|error| grant::unusable(&self.place(), "cannot be read").because(error))?;
        grant::bearer(&self.place(), &text)
    }

    fn place(&self) -> String {
        format!("The token file {}", self.path.display())
    }
}
