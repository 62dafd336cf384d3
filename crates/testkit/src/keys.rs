//! Application keys and client tokens, good ones and forged ones. Tokens are put together by hand, so that a test can
//! make those that no library would.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use handback_core::clock::Clock;
use handback_server::config::{Config, Secret};
use ring::digest::{SHA256, digest};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

/// The application key of a protected test server.
pub const APPLICATION_KEY: &str = "application-key-of-the-tests-4d1f";
/// The secret that its client tokens are signed with.
pub const TOKEN_SECRET: &str = "token-secret-of-the-tests-8c2e-with-enough-bytes";

/// Sets the key and the secret.
pub fn protect(config: &mut Config) {
    config.auth.keys = vec![Secret::new(hash(APPLICATION_KEY))];
    config.auth.token_secret = Some(Secret::new(TOKEN_SECRET.to_owned()));
}

/// The hash by which the configuration knows a key.
pub fn hash(key: &str) -> [u8; 32] {
    digest(&SHA256, key.as_bytes()).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// The time in so many seconds from now, as tokens say it.
pub fn seconds_from_now(seconds: i64) -> i64 {
    let now = Clock::system().now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    i64::try_from(now.as_secs()).expect("it is before the year 292 billion") + seconds
}

/// How far a time in RFC 3339 is from now, in seconds.
pub fn seconds_until(time: &str) -> f64 {
    let time: SystemTime = humantime::parse_rfc3339(time).expect("a time in RFC 3339");
    match time.duration_since(Clock::system().now()) {
        Ok(ahead) => ahead.as_secs_f64(),
        Err(behind) => -behind.duration().as_secs_f64(),
    }
}

/// How long it is from one time in RFC 3339 to another.
pub fn between(from: &str, to: &str) -> Duration {
    let [from, to] = [from, to].map(|time| humantime::parse_rfc3339(time).expect("a time in RFC 3339"));
    to.duration_since(from).expect("the times are in order")
}

/// A token as the server itself would sign it.
pub fn token(claims: &Value) -> String {
    let signing = signing_input(&json!({ "alg": "HS256", "typ": "JWT" }), claims);
    let signature = hmac_signature(hmac::HMAC_SHA256, TOKEN_SECRET, &signing);
    with_signature(&signing, &signature)
}

/// The part of a token that is signed.
pub fn signing_input(header: &Value, claims: &Value) -> String {
    signing_bytes(header.to_string().as_bytes(), claims.to_string().as_bytes())
}

/// The same with a header and claims that may be anything.
pub fn signing_bytes(header: &[u8], claims: &[u8]) -> String {
    format!("{}.{}", base64_url(header), base64_url(claims))
}

/// The signature of a text under a shared secret.
pub fn hmac_signature(algorithm: hmac::Algorithm, secret: &str, text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(algorithm, secret.as_bytes()), text.as_bytes()).as_ref().to_vec()
}

/// A token of its parts.
pub fn with_signature(signing_input: &str, signature: &[u8]) -> String {
    format!("{signing_input}.{}", base64_url(signature))
}

/// A key pair that signs tokens elsewhere.
pub struct Issuer(Ed25519KeyPair);

impl Issuer {
    /// A new key pair.
    pub fn new() -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key pair");
        Self(Ed25519KeyPair::from_pkcs8(document.as_ref()).expect("a key pair"))
    }

    /// The public key as `auth.publicKey` takes it.
    pub fn public_key(&self) -> String {
        // What comes before the 32 bytes of every Ed25519 public key (RFC 8410).
        let mut bytes = vec![0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
        bytes.extend_from_slice(self.0.public_key().as_ref());
        format!("-----BEGIN PUBLIC KEY-----\n{}=\n-----END PUBLIC KEY-----", base64(&bytes, b"+/"))
    }

    /// A token that it has signed.
    pub fn token(&self, claims: &Value) -> String {
        let signing = signing_input(&json!({ "alg": "EdDSA", "typ": "JWT" }), claims);
        with_signature(&signing, &self.sign(&signing))
    }

    /// Its signature of a text.
    pub fn sign(&self, text: &str) -> Vec<u8> {
        self.0.sign(text.as_bytes()).as_ref().to_vec()
    }
}

impl Default for Issuer {
    fn default() -> Self {
        Self::new()
    }
}

fn base64_url(bytes: &[u8]) -> String {
    base64(bytes, b"-_")
}

/// Base 64 without padding; the last two digits differ between its kinds.
fn base64(bytes: &[u8], last: &[u8; 2]) -> String {
    let digit = |value: u8| match value {
        0..26 => b'A' + value,
        26..52 => b'a' + value - 26,
        52..62 => b'0' + value - 52,
        _ => last[usize::from(value) - 62],
    };
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let mut padded = [0; 3];
        padded[..group.len()].copy_from_slice(group);
        let [a, b, c] = padded;
        let values = [a >> 2, (a & 3) << 4 | b >> 4, (b & 15) << 2 | c >> 6, c & 63];
        text.extend(values.iter().take(group.len() + 1).map(|value| char::from(digit(*value))));
    }
    text
}
