//! Random texts that nobody guesses, and the proof that who redeems a code is who asked for it.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest;
use ring::rand::{SecureRandom, SystemRandom};

use super::words::login_error;
use crate::error::Error;

/// A text of 256 random bits.
pub(super) fn random() -> Result<String, Error> {
    let mut bytes = [0; 32];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| login_error("The system has no random numbers"))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// The challenge of a verifier (S256).
pub(super) fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_challenge_is_that_of_the_specification() {
        // RFC 7636, appendix B
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        assert_eq!(challenge(verifier), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn no_two_are_the_same() {
        let one = random().unwrap();
        assert_eq!(one.len(), 43);
        assert_ne!(one, random().unwrap());
    }
}
