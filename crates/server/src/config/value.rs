//! How values are read that need a check or must not be shown. Each refusal says what was found and what is allowed.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// A whole number within bounds, for `#[serde(with = …)]`.
pub(super) struct Whole<const MIN: u64, const MAX: u64>;

impl<const MIN: u64, const MAX: u64> Whole<MIN, MAX> {
    pub(super) fn deserialize<'de, D: Deserializer<'de>, T: TryFrom<u64>>(deserializer: D) -> Result<T, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let number = value.as_u64().filter(|number| (MIN..=MAX).contains(number));
        number
            .and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| D::Error::custom(format!("found {value}, expected a whole number from {MIN} to {MAX}")))
    }

    pub(super) fn serialize<S: Serializer, T: Serialize>(number: &T, serializer: S) -> Result<S::Ok, S::Error> {
        number.serialize(serializer)
    }
}

/// A time in whole milliseconds within bounds, for `#[serde(with = …)]`.
pub(super) struct Millis<const MIN: u64, const MAX: u64>;

impl<const MIN: u64, const MAX: u64> Millis<MIN, MAX> {
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        Whole::<MIN, MAX>::deserialize(deserializer).map(Duration::from_millis)
    }

    pub(super) fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        time.as_millis().serialize(serializer)
    }
}

/// Something that is never shown: not in logs, not by `handback config`, not in errors.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// Hides a value.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// The value itself.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Display for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<T> Serialize for Secret<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A secret that is long enough for HS256: no shorter than the hash (RFC 7518, 3.2).
pub(super) fn token_secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Secret<String>>, D::Error> {
    // Read as any value, for serde would show one that is no text.
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        Value::String(text) if text.len() >= 32 => Ok(Some(Secret(text))),
        Value::String(text) => Err(D::Error::custom(format!("found {} bytes, expected at least 32", text.len()))),
        _ => Err(D::Error::custom("found no text, expected a text of at least 32 bytes")),
    }
}

/// SHA-256 hashes in hex. What was found is not shown: it may be a key itself, put here by mistake.
pub(super) fn key_hashes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Secret<[u8; 32]>>, D::Error> {
    let expected = "expected the SHA-256 of a key in 64 hex digits";
    let Value::Array(items) = Value::deserialize(deserializer)? else {
        return Err(D::Error::custom("found no list, expected a list of SHA-256 hashes in 64 hex digits"));
    };
    let hashes = items.iter().enumerate().map(|(index, item)| {
        let hash = item.as_str().and_then(hash);
        hash.map(Secret)
            .ok_or_else(|| D::Error::custom(format!("found something else at entry {}, {expected}", index + 1)))
    });
    hashes.collect()
}

fn hash(text: &str) -> Option<[u8; 32]> {
    // Checked first, for `from_str_radix` takes a sign.
    if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let mut hash = [0; 32];
    for (index, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(hash)
}

/// An Ed25519 public key in PEM. What was found is not shown: it may be the private key, put here by mistake.
pub(super) fn public_key<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    if value.is_null() {
        return Ok(None);
    }
    let pem = value.as_str().unwrap_or_default().trim();
    let body =
        pem.strip_prefix("-----BEGIN PUBLIC KEY-----").and_then(|pem| pem.strip_suffix("-----END PUBLIC KEY-----"));
    let body: String = body.unwrap_or_default().split_whitespace().collect();
    // Each such key has 44 bytes, of which the first 12 are the same (RFC 8410).
    if body.starts_with("MCowBQYDK2VwAyEA") && body.len() == 60 && body.ends_with('=') {
        return Ok(Some(pem.to_owned()));
    }
    Err(D::Error::custom("found something else, expected an Ed25519 public key in PEM (-----BEGIN PUBLIC KEY-----)"))
}

/// An address to listen on; `localhost` is the IPv4 loopback address.
pub(super) fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    let address = match text.strip_prefix("localhost:") {
        Some(port) => port.parse().ok().map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
        None => text.parse().ok(),
    };
    let expected = "an address and a port, such as 127.0.0.1:4096, [::1]:4096 or localhost:4096";
    address.ok_or_else(|| D::Error::custom(format!("found {text:?}, expected {expected}")))
}

/// Host names or addresses without a port, in lower case.
pub(super) fn host_names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let expected = "a host name without scheme and port, such as tools.example.com";
    each(deserializer, expected, |text| is_host(text).then(|| text.to_owned()))
}

/// Origins as browsers send them: `scheme://host[:port]`, in lower case, without the scheme's own port.
pub(super) fn origins<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let expected = "scheme://host or scheme://host:port without a path, such as https://app.example.com; \"*\" is \
                    refused, for it would let every web page use this server";
    each(deserializer, expected, |text| {
        let (scheme, rest) = text.split_once("://")?;
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port.parse::<u16>().ok()?)),
            _ => (rest, None),
        };
        let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        match (scheme, port) {
            _ if scheme.is_empty() || !scheme.chars().all(is_scheme) || !is_host(host) => None,
            (_, None) | ("http", Some(80)) | ("https", Some(443)) => Some(format!("{scheme}://{host}")),
            (_, Some(port)) => Some(format!("{scheme}://{host}:{port}")),
        }
    })
}

/// A list of texts, each put into lower case and then read by `parse`.
fn each<'de, D: Deserializer<'de>>(
    deserializer: D,
    expected: &str,
    parse: impl Fn(&str) -> Option<String>,
) -> Result<Vec<String>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?.into_iter();
    let refused = |text: &str| D::Error::custom(format!("found {text:?}, expected {expected}"));
    texts.map(|text| parse(&text.to_ascii_lowercase()).ok_or_else(|| refused(&text))).collect()
}

/// Is it a name, an IPv4 address, or an IPv6 address in brackets?
fn is_host(text: &str) -> bool {
    match text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)),
    }
}
