//! A file that holds a token and is replaced from time to time, as Kubernetes does it.

use std::path::Path;

use http::HeaderMap;
use tokio::time::timeout;

use super::grant;
use crate::error::Error;
use crate::limits;

/// Reads it, on a thread of its own: it may lie on a disk that hangs.
pub(super) async fn read(path: &Path) -> Result<HeaderMap, Error> {
    let (shown, path) = (shown(path), path.to_owned());
    let reading = tokio::task::spawn_blocking(move || read_token_file(&path));
    match timeout(limits::CREDENTIAL_WAIT, reading).await {
        Ok(Ok(read)) => read,
        Ok(Err(error)) => Err(grant::unusable(&shown, "cannot be read").because(error)),
        Err(_) => Err(grant::unusable(&shown, "could not be read in time")),
    }
}

/// Reads the token in the file at `path` here and now.
///
/// # Errors
///
/// When it cannot be read, or holds no token.
pub fn read_token_file(path: &Path) -> Result<HeaderMap, Error> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| grant::unusable(&shown(path), "cannot be read").because(error))?;
    grant::bearer(&shown(path), &text)
}

fn shown(path: &Path) -> String {
    format!("The token file {}", path.display())
}
