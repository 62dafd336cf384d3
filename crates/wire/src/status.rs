//! `GET /status`: how a server is, for whoever runs it. Nothing in it is secret.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// How a server is.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ServerStatus {
    /// The version of the server.
    pub version: String,
    /// Whether it takes new calls, as `GET /readyz` says.
    pub ready: bool,
    /// What its clock shows, in milliseconds since 1970.
    pub time: u64,
    /// How long it has run, in milliseconds.
    pub uptime: u64,
    /// Where it keeps sessions and calls.
    pub store: StoreKind,
    /// The model that answers when no message, session or agent names one, as `providerID/modelID`.
    pub model: String,
    /// The configured providers of models, by name.
    pub providers: BTreeMap<String, ProviderKey>,
    /// How much there is at the moment.
    pub counts: ServerCounts,
    /// How much of each bound is used, by the setting that bounds it. A setting without a limit is not listed.
    pub bounds: BTreeMap<String, BoundUse>,
    /// How many files the server has open, and how many the system allows it; absent where the system does not say.
    pub open_files: Option<BoundUse>,
}

/// Where a server keeps sessions and calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum StoreKind {
    /// In a database, which outlives the server.
    Database,
    /// In memory.
    Memory,
}

/// Whether a provider of models has a key. The key itself is never sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum ProviderKey {
    /// It has one.
    Set,
    /// It has none, and its address is that of a public API, which wants one.
    Missing,
    /// It has none, and its address is not that of a public API.
    None,
}

/// How much there is on a server at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServerCounts {
    /// Known clients.
    pub clients: u64,
    /// Open connections of clients.
    pub connections: u64,
    /// Registered tools.
    pub tools: u64,
    /// Calls under way.
    pub calls: u64,
}

/// How much of a bound is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BoundUse {
    /// How much is used.
    pub used: u64,
    /// The most that may be used.
    pub most: u64,
}
