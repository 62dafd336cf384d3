//! Reads values that need a check or must not be shown. Each refusal says what was found and what is allowed.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use axum::http::Uri;
use handback_core::limits::Whole;
use handback_core::store::ModelRef;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::ProviderKind;

/// A value that is never shown: not in logs, not by `handback config`, not in errors.
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
    // Any value is accepted here, because serde's own error would show a value that is not text.
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        Value::String(text) if text.len() >= 32 => Ok(Some(Secret(text))),
        Value::String(text) => Err(D::Error::custom(format!("found {} bytes, expected at least 32", text.len()))),
        _ => Err(D::Error::custom("found no text, expected a text of at least 32 bytes")),
    }
}

/// SHA-256 hashes in hex. An error does not show what was found, because it may be a key itself.
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
    // Checked first, because `from_str_radix` takes a sign.
    if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let mut hash = [0; 32];
    for (index, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(hash)
}

/// A text that `parse` accepts, or none. An error does not show what was found, because it may be a secret.
fn hidden<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    expected: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    if value.is_null() {
        return Ok(None);
    }
    let parsed = value.as_str().and_then(parse);
    parsed.map(Some).ok_or_else(|| D::Error::custom(format!("found something else, expected {expected}")))
}

/// An Ed25519 public key in PEM.
pub(super) fn public_key<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    hidden(deserializer, "an Ed25519 public key in PEM (-----BEGIN PUBLIC KEY-----)", |text| {
        let pem = text.trim();
        let body = pem.strip_prefix("-----BEGIN PUBLIC KEY-----")?.strip_suffix("-----END PUBLIC KEY-----")?;
        let body: String = body.split_whitespace().collect();
        // Each such key has 44 bytes, of which the first 12 are the same (RFC 8410).
        let is_key = body.starts_with("MCowBQYDK2VwAyEA") && body.len() == 60 && body.ends_with('=');
        is_key.then(|| pem.to_owned())
    })
}

/// The URL of a PostgreSQL database, which may have a password in it. An empty one is none.
pub(super) fn database<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Secret<String>>, D::Error> {
    let url = hidden(deserializer, "a URL such as postgres://user:password@host:5432/name", |url| {
        let is_url = url.is_empty() || url.starts_with("postgres://") || url.starts_with("postgresql://");
        is_url.then(|| url.to_owned())
    })?;
    Ok(url.filter(|url| !url.is_empty()).map(Secret))
}

/// A provider's key, which goes into a header.
pub(super) fn api_key<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Secret<String>>, D::Error> {
    hidden(deserializer, "1 to 4096 letters, digits and signs without spaces", |key| {
        let is_key = (1..=4096).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic());
        is_key.then(|| Secret(key.to_owned()))
    })
}

/// The name of an environment variable. An operator may have put a key here by mistake.
pub(super) fn variable_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let expected = "the name of an environment variable, such as OPENAI_API_KEY";
    hidden(deserializer, expected, |name| is_variable_name(name).then(|| name.to_owned()))
}

/// Whether a text has only letters, digits and `_`, as few keys do.
pub(super) fn is_variable_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A text that `parse` accepts. An error shows what was found.
fn shown<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    expected: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).ok_or_else(|| D::Error::custom(format!("found {text:?}, expected {expected}")))
}

/// The URL of an API.
pub(super) fn base_url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let expected = "an http:// or https:// URL without user, query and fragment, such as http://127.0.0.1:11434/v1";
    let text = String::deserialize(deserializer)?;
    // A URL that may hold a password or a key is not shown.
    let found = if text.contains(['@', '?']) { "something else".to_owned() } else { format!("{text:?}") };
    normal_url(&text).ok_or_else(|| D::Error::custom(format!("found {found}, expected {expected}")))
}

/// An HTTP URL in a normal form, in which two can be compared and paths can be appended.
pub(super) fn normal_url(text: &str) -> Option<String> {
    let url: Uri = text.parse().ok().filter(|_| !text.contains(['@', '?', '#']))?;
    let scheme = url.scheme_str().filter(|scheme| matches!(*scheme, "http" | "https"))?;
    let authority = url.authority()?;
    // An invalid port stays in the authority, and reads as if there were no port.
    if authority.host().is_empty() || (authority.port().is_none() && authority.as_str() != authority.host()) {
        return None;
    }
    Some(format!("{scheme}://{}{}", authority.as_str().to_ascii_lowercase(), url.path().trim_end_matches('/')))
}

/// The most tokens of an answer, or none.
pub(super) fn token_count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    let count = Option::<Value>::deserialize(deserializer)?;
    count.map(Whole::<1, 1_000_000_000>::deserialize).transpose().map_err(D::Error::custom)
}

/// A number of seconds. The code that uses it brings it within bounds.
pub(super) fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let value = Value::deserialize(deserializer)?;
    value.as_f64().ok_or_else(|| D::Error::custom(format!("found {value}, expected a number of seconds")))
}

impl<'de> Deserialize<'de> for ProviderKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The value is read as an option, because serde then also calls this when the key is missing.
        let found = Option::<Value>::deserialize(deserializer)?;
        let kind = Self::ALL.into_iter().find(|kind| found.as_ref().is_some_and(|found| found == kind.as_str()));
        let found = found.map_or("no kind".to_owned(), |found| found.to_string());
        kind.ok_or_else(|| D::Error::custom(format!("found {found}, expected kind = \"openai\" or \"anthropic\"")))
    }
}

/// A model, as `providerID/modelID`.
pub(super) fn model<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ModelRef, D::Error> {
    shown(deserializer, "providerID/modelID, such as demo/scripted", |text| ModelRef::parse(text).ok())
}

/// A model, or none.
pub(super) fn optional_model<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ModelRef>, D::Error> {
    Option::<Value>::deserialize(deserializer)?.map(model).transpose().map_err(D::Error::custom)
}

/// A directory, or none.
pub(super) fn directory<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    if text.is_empty() || text.starts_with('~') {
        let expected = "expected the path of a directory; ~ has no meaning here";
        return Err(D::Error::custom(format!("found {text:?}, {expected}")));
    }
    Ok(Some(text.into()))
}

pub(super) fn as_text<S: Serializer>(value: &impl fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

pub(super) fn optional_text<S: Serializer>(
    value: &Option<impl fmt::Display>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    value.as_ref().map(ToString::to_string).serialize(serializer)
}

/// A path, even one that is not Unicode.
pub(super) fn optional_path<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    optional_text(&path.as_ref().map(|path| path.display()), serializer)
}

/// An address to listen on; `localhost` is the IPv4 loopback address.
pub(super) fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let expected = "an address and a port, such as 127.0.0.1:4096, [::1]:4096 or localhost:4096";
    shown(deserializer, expected, |text| match text.strip_prefix("localhost:") {
        Some(port) => port.parse().ok().map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
        None => text.parse().ok(),
    })
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

/// A list of texts that `parse` accepts in lower case.
fn each<'de, D: Deserializer<'de>>(
    deserializer: D,
    expected: &str,
    parse: impl Fn(&str) -> Option<String>,
) -> Result<Vec<String>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?.into_iter();
    let refused = |text: &str| D::Error::custom(format!("found {text:?}, expected {expected}"));
    texts.map(|text| parse(&text.to_ascii_lowercase()).ok_or_else(|| refused(&text))).collect()
}

/// Whether a text is a name, an IPv4 address, or an IPv6 address in brackets.
fn is_host(text: &str) -> bool {
    match text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)),
    }
}
