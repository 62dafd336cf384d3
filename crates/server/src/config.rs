//! Configuration: defaults, a file, `HANDBACK_*` variables and flags. For each key the later one wins.
//!
//! - this file: every key, what it means, its default and its range. A new key is only a field here; the bounds and
//!   clocks are in the core's `limits`.
//! - `load`: finds the file, merges the layers and remembers where each value came from
//! - `providers`: providers and keys from the environment
//! - `check`: checks that involve several keys
//! - `value`: reads values that need a check or must not be shown
//! - `spelling`: finds the name that was meant
//! - `error`: [`ConfigError`] and [`Source`]

mod check;
mod error;
mod load;
mod providers;
mod spelling;
#[cfg(test)]
mod tests;
mod value;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use handback_core::limits::{Clocks, Limits, Millis};
use handback_core::sessions;
use handback_core::store::{DEFAULT_AGENT, ModelRef};
use handback_core::tools::{Permission, Policy, ToolPattern};
use serde::{Deserialize, Serialize};

pub use error::{ConfigError, Source};
pub use load::{Flag, Inputs, Loaded, Row, load};
pub use value::Secret;

const HOUR: u64 = 3_600_000;

/// The built-in provider, which needs no key. No other provider may have its name.
pub const DEMO_PROVIDER: &str = "demo";

/// All settings of the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// The address to listen on; port 0 takes a free one. Beyond loopback it needs `auth.keys`.
    #[serde(deserialize_with = "value::address")]
    pub listen: SocketAddr,
    /// The directory of the database, relative to the file that sets it or to the working directory. [`load`] fills in the
    /// user's data directory. `None` keeps nothing.
    #[serde(deserialize_with = "value::directory", serialize_with = "value::optional_path")]
    pub data: Option<PathBuf>,
    /// The URL of a PostgreSQL database, `postgres://user:password@host:5432/name`: everything is kept there, and nothing in
    /// `data`.
    #[serde(deserialize_with = "value::database")]
    pub database: Option<Secret<String>>,
    /// Whether everything is kept in memory, whatever `data` and `database` say.
    pub ephemeral: bool,
    /// What an acknowledged write survives. It is for `data`: a PostgreSQL database has settings of its own.
    pub durability: Durability,
    /// The model if no message, session or agent names one, as `providerID/modelID`.
    #[serde(deserialize_with = "value::model", serialize_with = "value::as_text")]
    pub model: ModelRef,
    /// The providers of models, by the name before the slash.
    pub providers: BTreeMap<String, Provider>,
    /// The instructions and permissions of models, by name. Sessions that name none use `default`.
    pub agents: BTreeMap<String, Agent>,
    /// Tools that frontends run, by name.
    pub tools: BTreeMap<String, FrontendTool>,
    /// The clocks of client tools.
    pub client_tools: Clocks,
    /// The runs of AG-UI.
    pub agui: AgUi,
    /// Who may use the server.
    pub auth: Auth,
    /// Which web pages may use the server.
    pub cors: Cors,
    /// Host names that are accepted in `Host`, besides loopback.
    #[serde(deserialize_with = "value::host_names")]
    pub allowed_hosts: Vec<String>,
    /// What to log: a level, or levels by module, such as `info` or `handback_server=debug,warn`.
    pub log: String,
    /// The format of log lines.
    pub log_format: LogFormat,
    /// All bounds.
    pub limits: Limits,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 4096)),
            data: None,
            database: None,
            ephemeral: false,
            durability: Durability::default(),
            model: ModelRef { provider: DEMO_PROVIDER.into(), model: "scripted".into() },
            providers: BTreeMap::new(),
            agents: BTreeMap::new(),
            tools: BTreeMap::new(),
            client_tools: Clocks::default(),
            agui: AgUi::default(),
            auth: Auth::default(),
            cors: Cors::default(),
            allowed_hosts: Vec::new(),
            log: "info".to_owned(),
            log_format: LogFormat::default(),
            limits: Limits::default(),
        }
    }
}

/// Where everything is kept.
#[derive(Debug, Clone, Copy)]
pub enum Storage<'a> {
    /// In memory: nothing outlives the server.
    Memory,
    /// In a database in this directory.
    Directory(&'a Path),
    /// In the PostgreSQL database with this URL.
    Postgres(&'a Secret<String>),
}

impl Config {
    /// Where everything is kept.
    pub fn storage(&self) -> Storage<'_> {
        match (&self.database, &self.data) {
            _ if self.ephemeral => Storage::Memory,
            (Some(url), _) => Storage::Postgres(url),
            (None, Some(directory)) => Storage::Directory(directory),
            (None, None) => Storage::Memory,
        }
    }
}

/// `providers.<name>`: a provider of models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Provider {
    /// Which API it speaks.
    pub kind: ProviderKind,
    /// The URL before the paths of the API, without a slash at its end. The default is the public API.
    #[serde(rename = "baseURL", default, deserialize_with = "value::base_url")]
    pub base_url: String,
    /// The key, if the provider needs one.
    #[serde(default, deserialize_with = "value::api_key")]
    pub api_key: Option<Secret<String>>,
    /// The environment variable that the key is read from, in place of a key in the file.
    #[serde(default, deserialize_with = "value::variable_name")]
    pub api_key_env: Option<String>,
    /// Whether its models can be shown images.
    #[serde(default = "yes")]
    pub images: bool,
    /// The most tokens of an answer; `None` is the provider's own bound.
    #[serde(default, deserialize_with = "value::token_count")]
    pub max_tokens: Option<u32>,
    /// How long it may be silent before the turn ends with an error. Before its first byte it is five times as long.
    #[serde(default = "a_minute", with = "Millis::<1, HOUR>")]
    pub stall_timeout: Duration,
}

impl Provider {
    /// Whether its address wants a key and it has none.
    pub(crate) fn lacks_key(&self) -> bool {
        self.api_key.is_none() && self.base_url == self.kind.public_url()
    }
}

fn yes() -> bool {
    true
}

fn a_minute() -> Duration {
    Duration::from_mins(1)
}

impl Provider {
    /// The public API of this kind, without a key.
    pub fn new(kind: ProviderKind) -> Self {
        Self {
            kind,
            base_url: kind.public_url().to_owned(),
            api_key: None,
            api_key_env: None,
            images: yes(),
            max_tokens: None,
            stall_timeout: a_minute(),
        }
    }
}

/// Which API a provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProviderKind {
    /// OpenAI's chat completions, which most servers of open models speak too.
    OpenAi,
    /// Anthropic's messages.
    Anthropic,
}

impl ProviderKind {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::OpenAi, Self::Anthropic];

    /// Its name, which is also the name of the provider that the environment sets up.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
        }
    }

    /// The URL of the public API.
    pub fn public_url(self) -> &'static str {
        match self {
            Self::OpenAi => "https://api.openai.com/v1",
            Self::Anthropic => "https://api.anthropic.com",
        }
    }
}

/// `agents.<name>`: the instructions and permissions of a model.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Agent {
    /// Instructions for the model.
    pub system: Option<String>,
    /// The model if neither the message nor the session names one.
    #[serde(deserialize_with = "value::optional_model", serialize_with = "value::optional_text")]
    pub model: Option<ModelRef>,
    /// Which tools the model may call.
    pub permission: AgentPermission,
    /// Whether any client may name it. The default is true for `default` and false for others. Without `auth.keys` all
    /// agents are open. A token may name agents that are not open.
    pub open: Option<bool>,
}

/// `agents.<name>.permission`: which tools a model may call.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AgentPermission {
    /// The permission for all tools of clients.
    pub client_tools: Permission,
    /// The permissions for tools whose full id matches a pattern. The most specific pattern counts.
    pub tools: BTreeMap<ToolPattern, Permission>,
}

impl From<&Config> for sessions::Agents {
    fn from(config: &Config) -> Self {
        let agents = config.agents.iter().map(|(name, agent)| {
            let AgentPermission { client_tools, tools } = agent.permission.clone();
            let agent = sessions::Agent {
                system: agent.system.clone(),
                model: agent.model.clone(),
                policy: Policy { client_tools, tools: tools.into_iter().collect() },
                is_open: agent.open.unwrap_or(name == DEFAULT_AGENT),
            };
            (name.into(), agent)
        });
        agents.collect()
    }
}

/// `tools.<name>`: a tool that the server does not run itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FrontendTool {
    /// Who runs it.
    pub execution_mode: ExecutionMode,
    /// What it does, for the model.
    #[serde(default)]
    pub description: String,
    /// The JSON Schema of its input. The default allows any object.
    #[serde(default)]
    pub parameters: Option<serde_json::Value>,
    /// How many seconds it may take. Below 1 it is 60, and above a day it is a day.
    #[serde(default = "sixty", deserialize_with = "value::seconds")]
    pub timeout_sec: f64,
}

impl Default for FrontendTool {
    fn default() -> Self {
        Self {
            execution_mode: ExecutionMode::Frontend,
            description: String::new(),
            parameters: None,
            timeout_sec: sixty(),
        }
    }
}

fn sixty() -> f64 {
    60.0
}

/// Who runs a tool of `tools`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExecutionMode {
    /// The page that shows the session.
    Frontend,
}

/// `auth`: who may use the server. Without keys everybody on the machine is trusted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Auth {
    /// The SHA-256 hashes of the application keys, each in 64 hex digits.
    #[serde(deserialize_with = "value::key_hashes")]
    pub keys: Vec<Secret<[u8; 32]>>,
    /// The secret that client tokens are signed with (HS256), at least 32 bytes.
    #[serde(deserialize_with = "value::token_secret")]
    pub token_secret: Option<Secret<String>>,
    /// The Ed25519 public key that client tokens are checked with (EdDSA), in PEM.
    #[serde(deserialize_with = "value::public_key")]
    pub public_key: Option<String>,
}

/// `cors`: which web pages may use the server, besides those on loopback.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Cors {
    /// Their origins as browsers send them, such as `https://app.example.com`.
    #[serde(deserialize_with = "value::origins")]
    pub origins: Vec<String>,
}

/// What an acknowledged write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// The end of the process, however sudden. A power cut or a crash of the system may undo the last moments.
    #[default]
    Process,
    /// A power cut, too: each write waits for the disk.
    Power,
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One readable line for each event.
    #[default]
    Text,
    /// One JSON object for each event.
    Json,
}

/// `agui`: runs of AG-UI.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgUi {
    /// What happens to a run of `POST /agui` whose reader leaves. Runs of threads continue.
    pub on_disconnect: OnDisconnect,
}

/// What happens to a run whose reader leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnDisconnect {
    /// The run is stopped, and its open calls are cancelled.
    #[default]
    Cancel,
    /// The run continues, and the thread keeps what it says.
    Continue,
}
