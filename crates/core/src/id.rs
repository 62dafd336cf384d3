//! Names of things. A value of one of these types has been validated; parsing is the only way to make one.
//!
//! Short names (23 bytes, our own call ids among them) are held in place: a call makes many, and copies them often.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smol_str::SmolStr;

/// A name that is not allowed, and what is.
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

/// Characters of client ids, tool names and connection names.
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

/// Names that others make and we only pass on: anything printable, within a length.
fn parse_opaque(what: &'static str, text: &str, shortest: usize) -> Result<SmolStr, InvalidId> {
    let printable = |text: &str| text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let clean = |text: &str| printable(text) || !text.chars().any(char::is_control);
    if (shortest..=256).contains(&text.len()) && clean(text) {
        Ok(text.into())
    } else {
        Err(InvalidId::new(what, text, format!("{shortest} to 256 bytes without control characters")))
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $parse:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $type(SmolStr);

        impl $type {
            /// Checks the text and takes it as a name.
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

        name!(@text $type);
    };
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

name! {
    /// Something that can run tools.
    ClientId, |text| parse_name("clientID", text, 128)
}
name! {
    /// A tool's own name, unique within its client.
    ToolName, |text| parse_name("tool id", text, 64)
}
name! {
    /// What a client calls one of its connections, so that a newer one of that name takes over.
    ConnectionName, |text| parse_name("connection", text, 128)
}
name! {
    /// A call. Whoever knows it may answer the call where no tokens are used, so ours are random.
    RequestId, |text| parse_opaque("requestID", text, 1)
}
name! {
    /// A conversation with a model; empty where a call belongs to none.
    SessionId, |text| parse_opaque("sessionID", text, 0)
}
name! {
    /// The message that a call belongs to; empty where there is none.
    MessageId, |text| parse_opaque("messageID", text, 0)
}
name! {
    /// The caller's own id of a call; empty where there is none.
    CallId, |text| parse_opaque("callID", text, 0)
}

name! {
    /// A part of a message.
    PartId, |text| parse_opaque("partID", text, 1)
}
name! {
    /// A question to whoever may allow a call.
    PermissionId, |text| parse_opaque("permissionID", text, 1)
}
name! {
    /// A run of a thread.
    RunId, |text| parse_opaque("runID", text, 1)
}

/// Names that the [`Clock`](crate::clock::Clock) makes: they fit where no memory is needed.
pub(crate) trait Made {
    /// A name of our own making, of letters, digits, `-` and `_`.
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

made!(RequestId, SessionId, MessageId, CallId, PartId, PermissionId, RunId);

impl Default for MessageId {
    /// The name of no message.
    fn default() -> Self {
        Self(SmolStr::default())
    }
}

impl From<&CallId> for RequestId {
    /// A call of a frontend has one name for everybody: it is answered by the one that its page knows it by.
    fn from(call: &CallId) -> Self {
        Self(call.0.clone())
    }
}

impl From<&SessionId> for ClientId {
    /// Stands for the frontend of a session that belongs to no client. No client has such an id: it has a slash.
    fn from(session: &SessionId) -> Self {
        Self(smol_str::format_smolstr!("session/{session}"))
    }
}

/// A tool's full id, `client_{clientID}_{name}`; of a frontend's tool, its name.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolId(SmolStr);

name!(@text ToolId);

impl ToolId {
    /// The full id of a client's tool.
    pub fn new(client: &ClientId, name: &ToolName) -> Self {
        Self(smol_str::format_smolstr!("client_{client}_{name}"))
    }

    /// The id of a frontend's tool: its own name.
    pub fn of_frontend(name: &ToolName) -> Self {
        Self(name.0.clone())
    }
}

/// Where a stream stands: the number of a frame, and the run of the server that counted it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventId {
    /// The server's run; numbers of another run mean nothing.
    pub epoch: Arc<str>,
    /// The frame's number.
    pub number: u64,
}

impl EventId {
    /// Reads `<epoch>-<n>`; `None` if it is anything else, which is no error: it only means that nothing is known.
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
