//! Names of things. A value of one of these types is valid: parsing is the only way to make one.
//!
//! Short names (up to 23 bytes, such as the server's call ids) need no allocation: a call makes and copies many.

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hasher;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use siphasher::sip::SipHasher13;
use smol_str::SmolStr;

/// A name that is not allowed, and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {found} is not allowed: {allowed}")]
pub struct InvalidId {
    what: &'static str,
    found: String,
    allowed: String,
}

impl InvalidId {
    pub(crate) fn new(what: &'static str, found: &str, allowed: String) -> Self {
        let shown: String = found.chars().take(40).flat_map(char::escape_default).collect();
        let dots = if found.chars().count() > 40 { "…" } else { "" };
        Self { what, found: format!("\"{shown}{dots}\""), allowed }
    }
}

/// Whether a character is allowed in client ids, tool names and connection names.
pub(crate) fn is_name_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '.' | ':' | '@' | '-')
}

fn parse_name(what: &'static str, text: &str, longest: usize) -> Result<SmolStr, InvalidId> {
    if (1..=longest).contains(&text.len()) && text.chars().all(is_name_character) {
        Ok(text.into())
    } else {
        Err(InvalidId::new(what, text, format!("1 to {longest} of A-Z a-z 0-9 _ . : @ -")))
    }
}

/// How many bytes a name may have that others make.
const LONGEST: usize = 256;

/// Parses a name that others make and the server only passes on: anything printable, within a length.
fn parse_opaque(what: &'static str, text: &str, shortest: usize) -> Result<SmolStr, InvalidId> {
    let printable = |text: &str| text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let clean = |text: &str| printable(text) || !text.chars().any(char::is_control);
    if (shortest..=LONGEST).contains(&text.len()) && clean(text) {
        Ok(text.into())
    } else {
        Err(InvalidId::new(what, text, format!("{shortest} to {LONGEST} bytes without control characters")))
    }
}

/// Parses the id of an HTTP request. It goes to the log as it is, so it has nothing that could be taken for more than an id.
fn parse_http_request(text: &str) -> Result<SmolStr, InvalidId> {
    let is_allowed = |character| is_name_character(character) || matches!(character, '/' | '+' | '=' | '~');
    if (1..=128).contains(&text.len()) && text.chars().all(is_allowed) {
        Ok(text.into())
    } else {
        Err(InvalidId::new("x-request-id", text, "1 to 128 of A-Z a-z 0-9 _ . : @ - / + = ~".to_owned()))
    }
}

macro_rules! names {
    ($($(#[$doc:meta])* $type:ident = $parse:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $type(SmolStr);

        impl $type {
            /// Validates the text as a name.
            pub fn parse(text: &str) -> Result<Self, InvalidId> {
                let parse: fn(&str) -> Result<SmolStr, InvalidId> = $parse;
                parse(text).map(Self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
                Self::parse(&text).map_err(serde::de::Error::custom)
            }
        }

        names!(@text $type);
    )*};
    (@text $type:ident) => {
        impl $type {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, formatter)
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

names! {
    /// The id of a client: a program that can run tools.
    ClientId = |text| parse_name("clientID", text, 128);
    /// A tool's own name, unique within its client.
    ToolName = |text| parse_name("tool id", text, 64);
    /// A client's name for one of its connections. A newer connection with the same name supersedes it.
    ConnectionName = |text| parse_name("connection", text, 128);
    /// The id of a call. Without tokens, whoever knows it may answer the call, so the server's ids are random.
    RequestId = |text| parse_opaque("requestID", text, 1);
    /// The id of a conversation with a model; empty if a call belongs to none.
    SessionId = |text| parse_opaque("sessionID", text, 0);
    /// The id of the message that a call belongs to; empty if there is none.
    MessageId = |text| parse_opaque("messageID", text, 0);
    /// The caller's own id of a call; empty if there is none.
    CallId = |text| parse_opaque("callID", text, 0);
    /// The id of a part of a message.
    PartId = |text| parse_opaque("partID", text, 1);
    /// The id of an ask: the question whether a call may be made.
    PermissionId = |text| parse_opaque("permissionID", text, 1);
    /// The id of a run of a thread.
    RunId = |text| parse_opaque("runID", text, 1);
    /// The id of an HTTP request, in its `x-request-id`.
    HttpRequestId = |text| parse_http_request(text);
}

/// Names that the [`Clock`](crate::clock::Clock) makes. They are short enough to need no allocation.
pub(crate) trait Made {
    /// Wraps a generated name of letters, digits, `-` and `_`.
    fn made(text: [u8; 23]) -> Self;
}

macro_rules! made {
    ($($type:ident),*) => {$(
        impl Made for $type {
            fn made(text: [u8; 23]) -> Self {
                Self(SmolStr::new_inline(str::from_utf8(&text).unwrap_or_default()))
            }
        }
    )*};
}

made!(RequestId, SessionId, MessageId, CallId, PartId, PermissionId, RunId, HttpRequestId);

impl Default for MessageId {
    /// The empty id, which no message has.
    fn default() -> Self {
        Self(SmolStr::default())
    }
}

impl From<&CallId> for RequestId {
    /// A frontend's call has the same id for everybody: the page's own id of the call.
    fn from(call: &CallId) -> Self {
        Self(call.0.clone())
    }
}

impl MessageId {
    /// The id of the message that has the late result of a call.
    pub(crate) fn of_late_result(request: &RequestId) -> Self {
        let id = smol_str::format_smolstr!("late_{request}");
        if id.len() <= LONGEST {
            return Self(id);
        }
        let mut hasher = SipHasher13::new();
        hasher.write(request.as_str().as_bytes());
        Self(smol_str::format_smolstr!("late_{:016x}", hasher.finish()))
    }
}

impl From<&SessionId> for ClientId {
    /// The id that stands for the frontend of a session of no client. No client has such an id, because of the slash.
    fn from(session: &SessionId) -> Self {
        Self(smol_str::format_smolstr!("session/{session}"))
    }
}

/// A tool's full id: `client_{clientID}_{name}` for a client tool, its name for a frontend tool.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolId(SmolStr);

names!(@text ToolId);

impl ToolId {
    /// The full id of a client tool.
    pub fn new(client: &ClientId, name: &ToolName) -> Self {
        Self(smol_str::format_smolstr!("client_{client}_{name}"))
    }

    /// The id of a frontend tool: its own name.
    pub fn of_frontend(name: &ToolName) -> Self {
        Self(name.0.clone())
    }
}

/// One process of a server, among several that share a store. A number is never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(i64);

impl NodeId {
    /// The node with this number.
    pub fn new(number: i64) -> Self {
        Self(number)
    }

    /// Its number.
    pub fn number(self) -> i64 {
        self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// A position in a stream: the number of a frame, and the server process that numbered it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventId {
    /// The server process. Numbers of another process mean nothing.
    pub epoch: Arc<str>,
    /// The frame's number.
    pub number: u64,
}

impl EventId {
    /// Parses `<epoch>-<n>`. Anything else gives `None`, which is no error: the stream starts anew.
    pub fn parse(text: &str) -> Option<Self> {
        let (epoch, number) = text.rsplit_once('-')?;
        Some(Self { epoch: epoch.into(), number: number.parse().ok()? })
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.epoch, self.number)
    }
}

#[cfg(test)]
mod tests;
