//! A provider's endpoint: sends a request until it is answered, and leaves out what the provider refuses.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use handback_core::sessions::ModelRequest;
use handback_core::store::TurnError;
use reqwest::header::{ACCEPT, CONTENT_TYPE, DATE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Response, Url};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::conversation::{self, ChatEntry, Shown};
use super::fault::Fault;
use super::{InvalidSettings, RequestBounds, Settings};
use crate::config::Secret;

/// The longest wait between two tries, unless the provider asks for more.
const LONGEST_BACKOFF: Duration = Duration::from_secs(8);
/// How many bytes of an error's body are read. The rest is dropped.
const MOST_ERROR_BYTES: usize = 64 << 10;
/// The statuses with which providers refuse images.
const REFUSED_IMAGES: [u16; 4] = [400, 404, 415, 422];
/// A provider that refuses what it said itself uses one of these words.
const REFUSED_KEPT: [&str; 4] = ["reasoning", "thinking", "thought", "signature"];
/// How many models are remembered to take no images. The oldest is forgotten first.
const MOST_REMEMBERED: usize = 64;
/// How long a model is remembered to take no images. It is not for ever, because one image may have been bad.
const REMEMBERED_FOR: Duration = Duration::from_mins(10);

/// A provider's endpoint.
pub(super) struct Upstream {
    name: String,
    http: reqwest::Client,
    url: Url,
    /// The headers of every request.
    pub(super) headers: HeaderMap,
    key: Option<Secret<String>>,
    pub(super) bounds: RequestBounds,
    images: bool,
    /// A member of requests that is left out once the provider refuses it.
    pub(super) optional: Option<OptionalMember>,
    refused_optional: AtomicBool,
    /// The models that take no images, and since when that is known.
    without_images: Mutex<Vec<(String, Instant)>>,
}

/// A member of requests that some providers refuse.
pub(super) struct OptionalMember {
    /// Its JSON, with a comma at the end.
    pub(super) json: &'static str,
    /// A provider that refuses it uses one of these words.
    pub(super) names: &'static [&'static str],
}

/// A request, and smaller versions of it for when the provider refuses something in it.
pub(super) struct Question {
    all: (Shown, Bytes),
    less: Vec<(Shown, Bytes)>,
}

impl Question {
    /// Writes the request. The result borrows nothing.
    pub(super) fn new<'a>(
        request: &ModelRequest<'a>,
        upstream: &Upstream,
        write: impl Fn(Vec<ChatEntry<'a>>) -> serde_json::Result<Vec<u8>>,
    ) -> Result<Self, Fault> {
        let write = |most| {
            let (entries, shown) = conversation::entries(request, &upstream.name, most);
            let body = write(entries).map_err(|error| Fault::unwritable(&error))?;
            Ok((shown, Bytes::from(body)))
        };
        let all = write(Shown { images: upstream.images, kept: true })?;
        let less = [(true, false), (false, true), (false, false)].map(|(images, kept)| Shown { images, kept });
        let less = less.into_iter().filter(|less| *less != all.0 && less.is_within(all.0)).map(write);
        Ok(Self { less: less.collect::<Result<_, _>>()?, all })
    }

    /// The body that shows the most of what a model takes, and what it shows.
    fn body(&self, taken: Shown) -> (Shown, Bytes) {
        let mut ways = [&self.all].into_iter().chain(&self.less);
        ways.find(|(shown, _)| shown.is_within(taken)).unwrap_or(&self.all).clone()
    }
}

impl Upstream {
    /// The endpoint at `url`. The key goes out in `header`, after `scheme`.
    pub(super) fn new(
        settings: Settings,
        url: Url,
        (header, scheme): (HeaderName, &str),
    ) -> Result<Self, InvalidSettings> {
        let Settings { name, api_key, bounds, images, .. } = settings;
        let invalid = |problem: String| InvalidSettings { provider: name.clone(), problem };
        // A key from a file or a variable may end with a line break, or be empty.
        let key = api_key.map(|key| key.expose().trim().to_owned()).filter(|key| !key.is_empty()).map(Secret::new);
        let mut headers = HeaderMap::from_iter([
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (ACCEPT, HeaderValue::from_static("text/event-stream")),
        ]);
        if let Some(key) = &key {
            // The error does not show the key.
            let problem = ".apiKey: the key has characters that cannot be sent, such as a line break";
            let value = HeaderValue::try_from(format!("{scheme}{}", key.expose()));
            let mut value = value.map_err(|_| invalid(problem.to_owned()))?;
            value.set_sensitive(true);
            headers.insert(header, value);
        }
        let tls = handback_tls::client_config().map_err(|error| invalid(format!(": no HTTP client: {error}")))?;
        let mut http = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .user_agent(concat!("handback/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(bounds.connect)
            // A redirect would take the key along, to wherever it leads.
            .redirect(Policy::none());
        if handback_tls::is_loopback(url.host_str().unwrap_or_default()) {
            http = http.no_proxy();
        }
        let http = http.build().map_err(|error| invalid(format!(": no HTTP client: {error}")))?;
        Ok(Self {
            name,
            http,
            url,
            headers,
            key,
            bounds,
            images,
            optional: None,
            refused_optional: AtomicBool::new(false),
            without_images: Mutex::default(),
        })
    }

    /// Sends a question. Returns the response when its head says that a stream follows.
    pub(super) async fn ask(&self, model: &str, question: Question) -> Result<Response, Fault> {
        let known = Shown { images: self.takes_images(model), kept: true };
        let mut taken = known;
        // The fault of the whole request tells more than that of a request without the model's thoughts.
        let mut first = None;
        loop {
            let (shown, mut body) = question.body(taken);
            let optional = self.optional.as_ref().filter(|_| !self.refused_optional.load(Ordering::Relaxed));
            if let Some(optional) = optional {
                body = [b"{", optional.json.as_bytes(), &body[1..]].concat().into();
            }
            let fault = match self.send(model, &body).await {
                Ok(response) => {
                    // The provider refused the images, and nothing else.
                    if taken != known && taken.kept {
                        self.remember_no_images(model);
                    }
                    return Ok(response);
                }
                Err(fault) => fault,
            };
            let is_about_images = fault.status.is_some_and(|status| REFUSED_IMAGES.contains(&status));
            let is_bad_request = matches!(fault.status, Some(400 | 422));
            if optional.is_some_and(|optional| is_bad_request && fault.mentions(optional.names)) {
                self.refused_optional.store(true, Ordering::Relaxed);
            } else if shown.images && is_about_images && !(shown.kept && fault.mentions(&REFUSED_KEPT)) {
                tracing::debug!(provider = self.name, model, "images may be refused: they are named in the text");
                taken.images = false;
            } else if shown.kept && is_bad_request {
                tracing::debug!(provider = self.name, model, "what it said itself may be refused: it is left out");
                taken.kept = false;
                first.get_or_insert(fault);
            } else {
                return Err(first.unwrap_or(fault));
            }
        }
    }

    /// Sends a request until it is answered, or fails in a way that a retry does not help. Nothing of an answer is used
    /// before that, so a retry repeats nothing.
    async fn send(&self, model: &str, body: &Bytes) -> Result<Response, Fault> {
        let mut tries = 1;
        loop {
            let fault = match self.try_once(body.clone()).await {
                Ok(response) => return Ok(response),
                Err(fault) => fault,
            };
            let Some(wait) = fault.again.filter(|_| tries < self.bounds.tries) else {
                return Err(fault.after(tries));
            };
            let wait = wait.max(backoff(self.bounds.backoff, tries, fastrand::f64()));
            // Not in the provider's words: they may quote what people said.
            tracing::debug!(
                provider = self.name,
                model,
                tries,
                ?wait,
                status = fault.status,
                "a request will be sent again"
            );
            sleep(wait).await;
            tries += 1;
        }
    }

    async fn try_once(&self, body: Bytes) -> Result<Response, Fault> {
        let request = self.http.post(self.url.clone()).headers(self.headers.clone()).body(body);
        // The request's own timeout would also end the stream.
        let response = match timeout(self.bounds.first_byte, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) if error.is_connect() => {
                let what = format!("cannot be reached at {}", self.address());
                return Err(Fault::unreachable(what, &error.without_url()));
            }
            Ok(Err(error)) => return Err(Fault::unreachable("gave no answer".to_owned(), &error.without_url())),
            Err(_elapsed) => return Err(Fault::silent(self.bounds.first_byte)),
        };
        let (status, headers) = (response.status(), response.headers());
        let kind = text(headers, CONTENT_TYPE).to_owned();
        if status.is_redirection() {
            return Err(Fault::redirect(status, text(headers, LOCATION)));
        }
        if !status.is_success() {
            let retry_after = retry_after(headers);
            let body = self.read_error(response).await;
            let fault = Fault::status(status, &body, retry_after, self.bounds.retry_after);
            let misplaced = matches!(status.as_u16(), 404 | 405);
            return Err(if misplaced { fault.at(&format!("{}{}", self.address(), self.url.path())) } else { fault });
        }
        // Some servers do not say what they send.
        if !kind.is_empty() && !kind.to_ascii_lowercase().starts_with("text/event-stream") {
            return Err(Fault::no_stream(&kind, &self.read_error(response).await));
        }
        Ok(response)
    }

    /// As much of an error's body as comes in time, within the bound.
    async fn read_error(&self, mut response: Response) -> String {
        let mut body = Vec::new();
        let deadline = Instant::now() + self.bounds.stall;
        while body.len() < MOST_ERROR_BYTES {
            match timeout_at(deadline, response.chunk()).await {
                Ok(Ok(Some(chunk))) => body.extend_from_slice(&chunk),
                Ok(Ok(None) | Err(_)) | Err(_) => break,
            }
        }
        body.truncate(MOST_ERROR_BYTES);
        String::from_utf8_lossy(&body).into_owned()
    }

    /// The fault as the error of a turn.
    pub(super) fn error(&self, model: &str, fault: &Fault) -> TurnError {
        let message = self.describe(model, fault);
        match fault.status {
            Some(401 | 403) => {
                let message = format!("{message} ({})", self.advice());
                TurnError::Auth { provider: self.name.as_str().into(), message }
            }
            status => TurnError::Provider { message, status, retryable: fault.retryable },
        }
    }

    fn describe(&self, model: &str, fault: &Fault) -> String {
        let key = self.key.as_ref().map(|key| key.expose().as_str());
        format!("{}/{model} {}", self.name, fault.describe(key))
    }

    /// Advice for a key that is refused.
    fn advice(&self) -> String {
        let name = &self.name;
        let variable = match name.as_str() {
            "openai" | "anthropic" => format!(", or {}_API_KEY in the environment", name.to_uppercase()),
            _ => String::new(),
        };
        match self.key {
            Some(_) => format!("check its key: providers.{name}.apiKey or apiKeyEnv{variable}"),
            None => format!("no key is set for it: set providers.{name}.apiKey or apiKeyEnv{variable}"),
        }
    }

    /// Scheme, host and port. The rest of a URL may hold secrets.
    fn address(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    fn takes_images(&self, model: &str) -> bool {
        let mut remembered = self.remembered();
        remembered.retain(|(_, since)| since.elapsed() < REMEMBERED_FOR);
        !remembered.iter().any(|(name, _)| name == model)
    }

    fn remember_no_images(&self, model: &str) {
        let mut remembered = self.remembered();
        remembered.retain(|(name, _)| name != model);
        if remembered.len() >= MOST_REMEMBERED {
            remembered.remove(0);
        }
        remembered.push((model.to_owned(), Instant::now()));
    }

    fn remembered(&self) -> MutexGuard<'_, Vec<(String, Instant)>> {
        self.without_images.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads a base URL.
pub(super) fn base_url(settings: &Settings) -> Result<Url, InvalidSettings> {
    let reason = match Url::parse(settings.base_url.trim()) {
        Err(error) => error.to_string(),
        Ok(url) if !matches!(url.scheme(), "http" | "https") => "it must start with http:// or https://".to_owned(),
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            "credentials belong into apiKey, not into the URL".to_owned()
        }
        Ok(url) => return Ok(url),
    };
    Err(InvalidSettings { provider: settings.name.clone(), problem: format!(".baseURL: {reason}") })
}

/// The URL with segments added to its path.
pub(super) fn join(mut base: Url, path: &[&str]) -> Url {
    // Only a URL without a host has no path to extend, and `base_url` refuses those.
    if let Ok(mut segments) = base.path_segments_mut() {
        segments.pop_if_empty().extend(path);
    }
    base
}

fn text(headers: &HeaderMap, name: HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().trim()
}

/// How long the provider wants to be left alone. A date is compared with the provider's own clock.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = text(headers, RETRY_AFTER);
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let until = httpdate::parse_http_date(value).ok()?;
    let now = httpdate::parse_http_date(text(headers, DATE)).ok()?;
    Some(until.duration_since(now).unwrap_or_default())
}

/// The wait after so many tries: between half of the full wait (`chance` 0) and all of it (`chance` 1).
fn backoff(first: Duration, tries: u32, chance: f64) -> Duration {
    let full = first.saturating_mul(2_u32.saturating_pow(tries - 1)).min(LONGEST_BACKOFF);
    full.mul_f64(0.5 + chance / 2.0)
}

#[cfg(test)]
mod tests;
