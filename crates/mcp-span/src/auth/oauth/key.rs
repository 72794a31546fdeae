//! A private key of ours, and what we sign with it (RFC 7523).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::json;

use super::words::login_error;
use crate::error::Error;
use crate::secret::Secret;

/// How long what was signed can be used.
const LIFETIME: Duration = Duration::from_secs(60);

/// A key for ES256, RS256 or EdDSA.
#[derive(Clone)]
pub struct PrivateKey {
    pair: Arc<Pair>,
    /// The text that it was read from.
    pem: Secret,
}

enum Pair {
    Ecdsa(EcdsaKeyPair),
    Rsa(Box<RsaKeyPair>),
    Ed25519(Ed25519KeyPair),
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey([secret])")
    }
}

impl PrivateKey {
    /// Reads a key in PEM.
    ///
    /// # Errors
    ///
    /// A sentence when there is none in it that can be used.
    pub fn from_pem(text: &[u8]) -> Result<Self, String> {
        let der = PrivateKeyDer::from_pem_slice(text)
            .map_err(|_| "there is no private key in it, or it is encrypted".to_owned())?;
        let bytes = der.secret_der();
        let curve = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pair = EcdsaKeyPair::from_pkcs8(curve, bytes, &SystemRandom::new())
            .map(Pair::Ecdsa)
            .or_else(|_| Ed25519KeyPair::from_pkcs8_maybe_unchecked(bytes).map(Pair::Ed25519))
            .or_else(|_| RsaKeyPair::from_pkcs8(bytes).map(|pair| Pair::Rsa(Box::new(pair))))
            .or_else(|_| RsaKeyPair::from_der(bytes).map(|pair| Pair::Rsa(Box::new(pair))))
            .map_err(|_| match der {
                PrivateKeyDer::Sec1(_) => {
                    "the key in it is in the form of SEC 1 ('BEGIN EC PRIVATE KEY'): bring it into \
                     PKCS #8 with 'openssl pkcs8 -topk8 -nocrypt -in OLD -out NEW'"
                }
                _ => "the key in it is neither P-256, RSA nor Ed25519",
            })?;
        let pem = Secret::new(String::from_utf8_lossy(text));
        Ok(Self { pair: Arc::new(pair), pem })
    }

    /// The text that it was read from, for another process.
    pub(super) fn pem(&self) -> &Secret {
        &self.pem
    }

    /// A signed statement that we are `client`, for `audience`, at `now` (since 1970).
    pub(super) fn sign(
        &self,
        client: &str,
        audience: &str,
        id: &str,
        now: Duration,
    ) -> Result<String, Error> {
        let head = json!({"alg": self.algorithm(), "typ": "JWT"});
        let seconds = now.as_secs();
        let claims = json!({
            "iss": client, "sub": client, "aud": audience, "jti": id,
            "iat": seconds, "exp": seconds + LIFETIME.as_secs(),
        });
        let coded = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", coded(&head), coded(&claims));
        let signature = self
            .signature(signed.as_bytes())
            .ok_or_else(|| login_error("The private key cannot sign"))?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    fn algorithm(&self) -> &'static str {
        match &*self.pair {
            Pair::Ecdsa(_) => "ES256",
            Pair::Rsa(_) => "RS256",
            Pair::Ed25519(_) => "EdDSA",
        }
    }

    fn signature(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match &*self.pair {
            Pair::Ecdsa(pair) => pair.sign(&random, bytes).ok().map(|s| s.as_ref().to_vec()),
            Pair::Ed25519(pair) => Some(pair.sign(bytes).as_ref().to_vec()),
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, bytes, &mut signature).ok()?;
                Some(signature)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ring::signature::{ECDSA_P256_SHA256_FIXED, KeyPair as _, UnparsedPublicKey};

    use super::*;

    #[test]
    fn a_key_in_an_older_form_is_told_how_to_be_converted() {
        let pem = "-----BEGIN EC PRIVATE KEY-----\nMAA=\n-----END EC PRIVATE KEY-----\n";
        let why = PrivateKey::from_pem(pem.as_bytes()).unwrap_err();
        assert!(why.contains("openssl pkcs8 -topk8"), "{why}");
    }

    #[test]
    fn what_was_signed_can_be_verified() {
        let pem = rcgen::KeyPair::generate().unwrap().serialize_pem();
        let key = PrivateKey::from_pem(pem.as_bytes()).unwrap();
        let token = key.sign("me", "https://as", "1", Duration::from_secs(1000)).unwrap();
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let Pair::Ecdsa(pair) = &*key.pair else { panic!("P-256 is the default") };
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, pair.public_key().as_ref());
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        assert!(public.verify(signed.as_bytes(), &signature).is_ok());
        let claims = signed.split('.').nth(1).unwrap();
        let claims: serde_json::Value =
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
        assert_eq!((&claims["iss"], &claims["exp"]), (&json!("me"), &json!(1060)));
        assert_eq!(format!("{key:?}"), "PrivateKey([secret])");
    }

    #[test]
    fn what_is_no_key_is_said_to_be_none() {
        for text in
            ["", "nonsense", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
        {
            assert!(PrivateKey::from_pem(text.as_bytes()).is_err(), "{text}");
        }
    }
}
