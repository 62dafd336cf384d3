//! What went wrong with a provider: whether a retry helps, and the words for people.

use std::error::Error;
use std::time::Duration;

use handback_core::text::shortened;
use reqwest::StatusCode;
use serde_json::Value;

/// The statuses after which a retry may succeed.
const TRANSIENT: [u16; 7] = [408, 429, 500, 502, 503, 504, 529];
/// The types of errors in a stream after which a retry may succeed.
const TRANSIENT_KINDS: [&str; 6] =
    ["overloaded_error", "rate_limit_error", "api_error", "timeout_error", "server_error", "rate_limit_exceeded"];
/// How many characters of a message are shown. The rest is cut.
const MOST_SHOWN: usize = 500;
/// A key with fewer bytes is taken for a placeholder, as local servers get, and may occur in any text.
const SHORTEST_KEY: usize = 8;

/// Why a request to a provider failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{what}")]
pub(super) struct Fault {
    /// What the provider did, such as "answered 500 Internal Server Error". It may quote the provider.
    what: String,
    /// The provider's own words, unchanged.
    words: Option<String>,
    /// The status of the response or of the reported error.
    pub(super) status: Option<u16>,
    /// Whether a retry may help.
    pub(super) retryable: bool,
    /// How long to wait at least before a retry, if this request is retried.
    pub(super) again: Option<Duration>,
}

impl Fault {
    fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), words: None, status: None, retryable: false, again: None }
    }

    /// The connection failed, or broke before an answer came.
    pub(super) fn unreachable(what: String, cause: &(dyn Error + 'static)) -> Self {
        Self { words: Some(root_cause(cause)), retryable: true, again: Some(Duration::ZERO), ..Self::new(what) }
    }

    /// The provider was silent for too long.
    pub(super) fn silent(patience: Duration) -> Self {
        Self { retryable: true, ..Self::new(format!("sent nothing for {}", seconds(patience))) }
    }

    /// The whole answer took too long.
    pub(super) fn endless(patience: Duration) -> Self {
        Self::new(format!("was not done after {}", seconds(patience)))
    }

    /// The provider answered with an error status. It may have asked for a wait before a retry.
    pub(super) fn status(status: StatusCode, body: &str, retry_after: Option<Duration>, longest: Duration) -> Self {
        let transient = TRANSIENT.contains(&status.as_u16());
        let wait = retry_after.unwrap_or_default();
        let reason = status.canonical_reason().map(|reason| format!(" {reason}")).unwrap_or_default();
        let patience = match retry_after {
            Some(wait) if wait > longest => format!(" and wants to be asked again in {}", seconds(wait)),
            _ => String::new(),
        };
        Self {
            words: words(body),
            status: Some(status.as_u16()),
            retryable: transient,
            again: (transient && wait <= longest).then_some(wait),
            ..Self::new(format!("answered {}{reason}{patience}", status.as_u16()))
        }
    }

    /// The provider redirects. That is not followed, because the key is for this host alone.
    pub(super) fn redirect(status: StatusCode, location: &str) -> Self {
        let what = format!("answered {} and redirects; set baseURL to where its API is", status.as_u16());
        Self { words: Some(location.to_owned()), status: Some(status.as_u16()), ..Self::new(what) }
    }

    /// The answer is no stream of events.
    pub(super) fn no_stream(kind: &str, body: &str) -> Self {
        let kind = if kind.is_empty() { "something" } else { kind };
        Self { words: words(body), ..Self::new(format!("answered with {kind} in place of an event stream")) }
    }

    /// The stream ended before the answer was complete.
    pub(super) fn cut(cause: Option<&(dyn Error + 'static)>) -> Self {
        Self { words: cause.map(root_cause), retryable: true, ..Self::new("cut its answer short") }
    }

    /// The answer exceeds a bound.
    pub(super) fn too_much(what: &str, most: usize) -> Self {
        Self::new(format!("sent more than {most} {what}"))
    }

    /// An event of the stream is invalid.
    pub(super) fn unreadable(cause: &(dyn Error + 'static)) -> Self {
        Self::new(format!("sent an event that cannot be read: {cause}"))
    }

    /// The request cannot be written as JSON.
    pub(super) fn unwritable(cause: &(dyn Error + 'static)) -> Self {
        Self::new(format!("cannot be asked: {cause}"))
    }

    /// The provider reports an error within its stream.
    pub(super) fn reported(error: &Value) -> Self {
        let member = |name: &str| error.get(name).filter(|value| !value.is_null());
        let code = member("code").or_else(|| member("status")).and_then(Value::as_u64);
        let status = code.and_then(|code| u16::try_from(code).ok()).filter(|code| (400..600).contains(code));
        let kind = member("type").or_else(|| member("code")).and_then(Value::as_str);
        let retryable = status.is_some_and(|status| TRANSIENT.contains(&status))
            || kind.is_some_and(|kind| TRANSIENT_KINDS.contains(&kind));
        let words = match kind {
            Some(kind) => format!("{} ({kind})", message_of(error)),
            None => message_of(error),
        };
        Self { words: Some(words), status, retryable, ..Self::new("failed while it answered") }
    }

    /// Adds the address of the request.
    #[must_use]
    pub(super) fn at(mut self, address: &str) -> Self {
        self.what = format!("{} at {address}", self.what);
        self
    }

    /// Adds the number of tries.
    #[must_use]
    pub(super) fn after(mut self, tries: u32) -> Self {
        if tries > 1 {
            self.what = format!("{}, {tries} times", self.what);
        }
        self
    }

    /// Whether the provider's words contain one of these.
    pub(super) fn mentions(&self, names: &[&str]) -> bool {
        self.words.as_deref().is_some_and(|words| names.iter().any(|name| words.contains(name)))
    }

    /// The message for people: one line, bounded, and without the key even where the provider quotes it.
    pub(super) fn describe(&self, key: Option<&str>) -> String {
        let whole = match self.words.as_deref().map(str::trim) {
            Some(words) if !words.is_empty() => format!("{}: {words}", self.what),
            _ => self.what.clone(),
        };
        // Control characters are removed first, because one within the key would hide it.
        let plain: String = whole.chars().filter(|char| char.is_whitespace() || !char.is_control()).collect();
        let tidy = plain.split_whitespace().collect::<Vec<_>>().join(" ");
        let safe = match key {
            Some(key) if key.len() >= SHORTEST_KEY => tidy.replace(key, "[redacted]"),
            _ => tidy,
        };
        shortened(&safe, MOST_SHOWN)
    }
}

/// The message in the body of an error.
fn words(body: &str) -> Option<String> {
    let body = body.trim();
    if let Ok(value) = serde_json::from_str::<Value>(body) {
        // Google's endpoint puts its errors into a list.
        return Some(message_of(value.as_array().and_then(|list| list.first()).unwrap_or(&value)));
    }
    if body.starts_with('<') {
        let (_, rest) = body.split_once("<title>")?;
        return rest.split_once("</title>").map(|(title, _)| title.to_owned());
    }
    (!body.is_empty()).then(|| body.to_owned())
}

/// The message of an error, wherever its provider puts it.
fn message_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(members) => {
            let inner =
                ["error", "message", "detail"].iter().find_map(|name| members.get(*name).filter(|v| !v.is_null()));
            // OpenRouter puts the message of the provider behind it there.
            let behind = members.get("metadata").and_then(|metadata| metadata.get("raw")).and_then(Value::as_str);
            match (inner, behind) {
                (Some(inner), Some(behind)) => format!("{}: {behind}", message_of(inner)),
                (Some(inner), None) => message_of(inner),
                (None, _) => value.to_string(),
            }
        }
        other => other.to_string(),
    }
}

/// The reason why a request failed.
fn root_cause(error: &(dyn Error + 'static)) -> String {
    handback_tls::root_cause(error).unwrap_or_else(|| "the connection was closed".to_owned())
}

fn seconds(time: Duration) -> String {
    if time.subsec_nanos() == 0 { format!("{} s", time.as_secs()) } else { format!("{} ms", time.as_millis()) }
}
