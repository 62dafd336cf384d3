//! What went wrong with a provider, in words.

use std::error::Error;
use std::io;
use std::time::Duration;

use reqwest::StatusCode;
use serde_json::Value;

/// Statuses after which the same request may succeed.
const TRANSIENT: [u16; 7] = [408, 429, 500, 502, 503, 504, 529];
/// What providers call errors in a stream after which the same request may succeed.
const TRANSIENT_KINDS: [&str; 6] =
    ["overloaded_error", "rate_limit_error", "api_error", "timeout_error", "server_error", "rate_limit_exceeded"];
/// Characters of what is told of a failure; the rest is cut.
const MOST_TOLD: usize = 500;
/// Bytes below which a key is taken for a placeholder (local servers want any), which may occur in any text.
const SHORTEST_KEY: usize = 8;

/// What went wrong.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{what}")]
pub(super) struct Fault {
    /// What the provider did, such as "answered 500 Internal Server Error". It may quote what came.
    what: String,
    /// The provider's own words, as they came.
    words: Option<String>,
    /// The status that goes with it.
    pub(super) status: Option<u16>,
    /// Whether another try may help.
    pub(super) retryable: bool,
    /// Whether to try at once, and how long to wait at least.
    pub(super) again: Option<Duration>,
}

impl Fault {
    fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), words: None, status: None, retryable: false, again: None }
    }

    /// No connection, or one that broke before an answer came.
    pub(super) fn unreachable(what: String, cause: &(dyn Error + 'static)) -> Self {
        Self { words: Some(root_cause(cause)), retryable: true, again: Some(Duration::ZERO), ..Self::new(what) }
    }

    /// It was silent for too long.
    pub(super) fn silent(patience: Duration) -> Self {
        Self { retryable: true, ..Self::new(format!("sent nothing for {}", spell(patience))) }
    }

    /// It took too long in all.
    pub(super) fn endless(patience: Duration) -> Self {
        Self::new(format!("was not done after {}", spell(patience)))
    }

    /// It answered with a status that is no success; it may have asked for a wait before the next try.
    pub(super) fn status(status: StatusCode, body: &str, retry_after: Option<Duration>, longest: Duration) -> Self {
        let transient = TRANSIENT.contains(&status.as_u16());
        let wait = retry_after.unwrap_or_default();
        let reason = status.canonical_reason().map(|reason| format!(" {reason}")).unwrap_or_default();
        let patience = match retry_after {
            Some(wait) if wait > longest => format!(" and wants to be asked again in {}", spell(wait)),
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

    /// It redirects, which is not followed: the key is for this host alone.
    pub(super) fn redirect(status: StatusCode, location: &str) -> Self {
        let what = format!("answered {} and redirects; set baseURL to where its API is", status.as_u16());
        Self { words: Some(location.to_owned()), status: Some(status.as_u16()), ..Self::new(what) }
    }

    /// Its answer is no stream of events.
    pub(super) fn no_stream(kind: &str, body: &str) -> Self {
        let kind = if kind.is_empty() { "something" } else { kind };
        Self { words: words(body), ..Self::new(format!("answered with {kind} in place of an event stream")) }
    }

    /// The stream ended before the answer was complete.
    pub(super) fn cut(cause: Option<&(dyn Error + 'static)>) -> Self {
        Self { words: cause.map(root_cause), retryable: true, ..Self::new("cut its answer short") }
    }

    /// More came than is taken.
    pub(super) fn too_much(what: &str, most: usize) -> Self {
        Self::new(format!("sent more than {most} {what}"))
    }

    /// An event that is not what the wire says.
    pub(super) fn unreadable(cause: &(dyn Error + 'static)) -> Self {
        Self::new(format!("sent an event that cannot be read: {cause}"))
    }

    /// A request that cannot be put into words.
    pub(super) fn unwritable(cause: &(dyn Error + 'static)) -> Self {
        Self::new(format!("cannot be asked: {cause}"))
    }

    /// It reports an error in the middle of its stream.
    pub(super) fn reported(error: &Value) -> Self {
        let member = |name: &str| error.get(name).filter(|value| !value.is_null());
        let code = member("code").or_else(|| member("status")).and_then(Value::as_u64);
        let status = code.and_then(|code| u16::try_from(code).ok()).filter(|code| (400..600).contains(code));
        let kind = member("type").or_else(|| member("code")).and_then(Value::as_str);
        let retryable = status.is_some_and(|status| TRANSIENT.contains(&status))
            || kind.is_some_and(|kind| TRANSIENT_KINDS.contains(&kind));
        let words = match kind {
            Some(kind) => format!("{} ({kind})", spoken(error)),
            None => spoken(error),
        };
        Self { words: Some(words), status, retryable, ..Self::new("failed while it answered") }
    }

    /// Says where it was asked, for those who set it up.
    #[must_use]
    pub(super) fn at(mut self, address: &str) -> Self {
        self.what = format!("{} at {address}", self.what);
        self
    }

    /// Says how often it was tried.
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

    /// All of it, for people: on one line, bounded, and without the key, whatever of it came from the provider.
    pub(super) fn tell(&self, key: Option<&str>) -> String {
        let whole = match self.words.as_deref().map(str::trim) {
            Some(words) if !words.is_empty() => format!("{}: {words}", self.what),
            _ => self.what.clone(),
        };
        // Control characters go first: one within the key would hide it.
        let plain: String = whole.chars().filter(|char| char.is_whitespace() || !char.is_control()).collect();
        let tidy = plain.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut safe = match key {
            Some(key) if key.len() >= SHORTEST_KEY => tidy.replace(key, "[redacted]"),
            _ => tidy,
        };
        if let Some((end, _)) = safe.char_indices().nth(MOST_TOLD) {
            safe.truncate(end);
            safe.push('…');
        }
        safe
    }
}

/// What the body of an error says.
fn words(body: &str) -> Option<String> {
    let body = body.trim();
    if let Ok(value) = serde_json::from_str::<Value>(body) {
        // Google's endpoint puts its errors into a list.
        return Some(spoken(value.as_array().and_then(|list| list.first()).unwrap_or(&value)));
    }
    if body.starts_with('<') {
        let (_, rest) = body.split_once("<title>")?;
        return rest.split_once("</title>").map(|(title, _)| title.to_owned());
    }
    (!body.is_empty()).then(|| body.to_owned())
}

/// What an error says, wherever its provider puts it.
fn spoken(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(members) => {
            let inner =
                ["error", "message", "detail"].iter().find_map(|name| members.get(*name).filter(|v| !v.is_null()));
            // OpenRouter has the words of the provider behind it there.
            let behind = members.get("metadata").and_then(|metadata| metadata.get("raw")).and_then(Value::as_str);
            match (inner, behind) {
                (Some(inner), Some(behind)) => format!("{}: {behind}", spoken(inner)),
                (Some(inner), None) => spoken(inner),
                (None, _) => value.to_string(),
            }
        }
        other => other.to_string(),
    }
}

/// What happened first: the outer errors only say that a request failed.
fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    match cause.downcast_ref::<io::Error>() {
        Some(error) if error.kind() == io::ErrorKind::UnexpectedEof => "the connection was closed".to_owned(),
        _ => cause.to_string(),
    }
}

fn spell(time: Duration) -> String {
    if time.subsec_nanos() == 0 { format!("{} s", time.as_secs()) } else { format!("{} ms", time.as_millis()) }
}
