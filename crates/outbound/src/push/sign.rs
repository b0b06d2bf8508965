//! Signatures by Standard Webhooks: a receiver that shares the secret can verify that we sent a
//! request, and when.

use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::sync::Arc;

/// Signs pushed jobs. It has no `Debug`: secrets are never logged.
#[derive(Clone)]
pub struct Signer(Arc<[u8]>);

/// The text is not a signing secret. The error does not repeat the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a signing secret is whsec_ and the base64 of 24 to 64 bytes")]
pub struct SignerError;

const PREFIX: &str = "whsec_";

impl Signer {
    /// Parses a secret as users share it: `whsec_…`.
    pub fn parse(text: &str) -> Result<Self, SignerError> {
        let base64 = text.trim().strip_prefix(PREFIX).ok_or(SignerError)?;
        let secret = STANDARD.decode(base64).map_err(|_| SignerError)?;
        let is_valid = (24..=64).contains(&secret.len());
        is_valid.then(|| Signer(secret.into())).ok_or(SignerError)
    }

    /// Writes a secret as users share it.
    pub fn write(secret: &[u8; 32]) -> String {
        format!("{PREFIX}{}", STANDARD.encode(secret))
    }

    /// Derives another secret, for one purpose: it reveals nothing of this one or of those for
    /// other purposes.
    pub fn derive(&self, purpose: &str) -> [u8; 32] {
        self.mac(&[purpose.as_bytes()])
    }

    pub(super) fn sign(&self, id: &str, timestamp: u64, body: &[u8]) -> String {
        let mac = self.mac(&[format!("{id}.{timestamp}.").as_bytes(), body]);
        format!("v1,{}", STANDARD.encode(mac))
    }

    fn mac(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("a key of any length will do");
        parts.iter().for_each(|part| mac.update(part));
        mac.finalize().into_bytes().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example that the standard's own libraries are tested with.
    #[test]
    fn the_standards_own_example_is_signed_alike() {
        let signer = Signer::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n").unwrap();
        let signature =
            signer.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn the_signer_parses_only_valid_secrets() {
        assert!(Signer::parse(&Signer::write(&[7; 32])).is_ok());
        let short = format!("whsec_{}", STANDARD.encode([7; 23]));
        let long = format!("whsec_{}", STANDARD.encode([7; 65]));
        for wrong in ["", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_!", &short, &long] {
            assert_eq!(Signer::parse(wrong).err(), Some(SignerError), "{wrong}");
        }
    }
}
