//! Finds the file, merges the layers and remembers where each value came from.
//!
//! Each layer is a tree of JSON values. The layers are merged leaf by leaf (a list is one leaf), and the result is read
//! into [`Config`] as a whole, so that no key needs code of its own here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use serde::Serialize;
use serde_json::{Map, Value};
use serde_path_to_error::Segment;

use super::error::did_you_mean;
use super::spelling::{nearest, plain};
use super::{Agent, Config, ConfigError, FrontendTool, Provider, ProviderKind, Source, check, providers};

/// The variables of the client commands, which do not configure the server.
const CLIENT_VARIABLES: [&str; 2] = ["url", "token"];

/// Stands in the defaults for every name that an operator gives to a provider, agent or tool.
const ANY_NAME: &str = "*";

/// The inputs of a configuration. They are not `Debug`, because the environment holds secrets.
#[derive(Clone, Default)]
pub struct Inputs {
    /// The file of `--config`. Without it the usual places are searched.
    pub file: Option<PathBuf>,
    /// The environment. An empty variable counts as not set.
    pub environment: BTreeMap<String, String>,
    /// The flags. Of two for the same key the later one wins.
    pub flags: Vec<Flag>,
    /// The first place to look for a file, and what `file` is relative to.
    pub working_directory: PathBuf,
    /// The user's directory for configuration. Its `handback` folder is the second place to look.
    pub user_directory: Option<PathBuf>,
    /// The user's directory for data. By default the database is in its `handback` folder.
    pub data_directory: Option<PathBuf>,
}

/// A flag that sets a key.
#[derive(Debug, Clone)]
pub struct Flag {
    /// The key's full path: `limits.bodyBytes`.
    pub key: &'static str,
    /// The value as text; lists are comma separated.
    pub value: String,
    /// How the user wrote it: `--listen`.
    pub name: &'static str,
}

impl Inputs {
    /// Gathers the environment and the directories of this process.
    pub fn from_process(file: Option<PathBuf>, flags: Vec<Flag>) -> Self {
        // `vars` would panic on values that are not Unicode.
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())))
            .collect();
        let user = etcetera::choose_base_strategy().ok();
        let user_directory = user.as_ref().map(BaseStrategy::config_dir);
        let data_directory = user.as_ref().map(BaseStrategy::data_dir);
        let working_directory = std::env::current_dir().unwrap_or_default();
        Self { file, environment, flags, working_directory, user_directory, data_directory }
    }

    fn find_file(&self) -> Result<Option<PathBuf>, ConfigError> {
        if let Some(file) = &self.file {
            return Ok(Some(self.working_directory.join(file)));
        }
        let user = self.user_directory.as_ref().map(|directory| directory.join("handback"));
        for directory in std::iter::once(&self.working_directory).chain(&user) {
            let [toml, json] = ["handback.toml", "handback.json"].map(|name| directory.join(name));
            match (toml.is_file(), json.is_file()) {
                (true, true) => return Err(ConfigError::Both(toml.display().to_string(), json.display().to_string())),
                (true, false) => return Ok(Some(toml)),
                (false, true) => return Ok(Some(json)),
                (false, false) => {}
            }
        }
        Ok(None)
    }
}

/// A configuration and where it came from.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The effective values.
    pub config: Config,
    /// The source of each key that is not a default, by full path.
    pub sources: BTreeMap<String, Source>,
    /// What looks like a mistake but is not an error.
    pub warnings: Vec<String>,
    /// The file, if there is one.
    pub file: Option<PathBuf>,
}

/// One effective value, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The key's full path.
    pub key: String,
    /// The value. Secrets are redacted, and unset values are empty.
    pub value: String,
    /// Where it came from.
    pub source: String,
}

impl Loaded {
    /// Every key with its effective value and its source, in the order of the keys.
    pub fn rows(&self) -> Vec<Row> {
        let values = leaves(tree(&self.config)).into_iter().filter(|(_, value)| !value.is_object());
        let mut rows: Vec<Row> = values
            .map(|(path, value)| {
                let key = key(&path);
                let source = self.sources.get(&key).unwrap_or(&Source::Default).to_string();
                Row { key, value: shown(&value), source }
            })
            .collect();
        rows.sort_by(|a, b| a.key.cmp(&b.key));
        rows
    }
}

/// Merges the layers and checks the result.
pub fn load(inputs: &Inputs) -> Result<Loaded, ConfigError> {
    let mut layers = Layers { defaults: defaults(), merged: Value::Object(Map::new()), sources: BTreeMap::new() };
    let file = inputs.find_file()?;
    if let Some(file) = &file {
        for (path, value) in leaves(read(file)?) {
            layers.set(&path, value, Source::File(file.clone()))?;
        }
    }
    let mut warnings = layers.set_environment(&inputs.environment)?;
    for flag in &inputs.flags {
        layers.set_text(flag.key, &flag.value, Source::Flag(flag.name.to_owned()))?;
    }
    providers::set(&mut layers, &inputs.environment)?;
    let config = serde_path_to_error::deserialize(&layers.merged).map_err(|error| layers.refused(&error))?;
    let config = filled_in(config, inputs, &layers);
    warnings.extend(check::check(&config, &layers)?);
    Ok(Loaded { config, sources: layers.sources, warnings, file })
}

/// Adds the defaults that depend on other values.
fn filled_in(mut config: Config, inputs: &Inputs, layers: &Layers) -> Config {
    for provider in config.providers.values_mut().filter(|provider| provider.base_url.is_empty()) {
        provider.base_url = provider.kind.public_url().to_owned();
    }
    let source = layers.source("data");
    let base = match &source {
        Source::File(file) => file.parent().unwrap_or(file),
        Source::Default | Source::Environment(_) | Source::Flag(_) => &inputs.working_directory,
    };
    let is_elsewhere = config.ephemeral || config.database.is_some();
    let users = || inputs.data_directory.as_ref().filter(|_| !is_elsewhere).map(|data| data.join("handback"));
    config.data = config.data.as_ref().map(|data| base.join(data)).or_else(users);
    config
}

/// The layers merged so far.
pub(super) struct Layers {
    /// The defaults, which give the keys and their types.
    defaults: Value,
    merged: Value,
    /// The source of each leaf of `merged`, by full path.
    sources: BTreeMap<String, Source>,
}

impl Layers {
    /// The value of a key or table that is not a default.
    pub(super) fn get(&self, path: &[&str]) -> Option<&Value> {
        path.iter().try_fold(&self.merged, |value, name| value.get(name)).filter(|value| !value.is_null())
    }

    pub(super) fn set(&mut self, path: &[String], value: Value, source: Source) -> Result<(), ConfigError> {
        // serde would also accept a list of the struct's fields in their order.
        if at(&self.defaults, path).is_some_and(Value::is_object) && !value.is_object() {
            let found = if value.is_array() { "a list" } else { "a single value" };
            let problem = format!("found {found}, expected a table of keys");
            return Err(ConfigError::Value { origin: source, key: key(path), problem });
        }
        let mut place = &mut self.merged;
        for name in path {
            if !place.is_object() {
                *place = Value::Object(Map::new());
            }
            place = &mut place[name.as_str()];
        }
        *place = value;
        let key = key(path);
        self.sources.retain(|other, _| !within(other, &key) && !within(&key, other));
        self.sources.insert(key, source);
        Ok(())
    }

    /// Sets a key from text, which is read as the type that the key's default has.
    fn set_text(&mut self, key: &str, text: &str, source: Source) -> Result<(), ConfigError> {
        let path: Vec<String> = key.split('.').map(str::to_owned).collect();
        let value = match at(&self.defaults, &path) {
            Some(Value::Number(_)) => text.trim().parse::<u64>().ok().map(Value::from),
            Some(Value::Bool(_)) => text.trim().parse::<bool>().ok().map(Value::from),
            Some(Value::Array(_)) => Some(text.split(',').map(str::trim).filter(|item| !item.is_empty()).collect()),
            _ => None,
        };
        self.set(&path, value.unwrap_or_else(|| text.into()), source)
    }

    /// Sets keys from variables. Returns warnings of variables that match no key.
    fn set_environment(&mut self, environment: &BTreeMap<String, String>) -> Result<Vec<String>, ConfigError> {
        let keys = leaves(self.defaults.clone()).into_iter().map(|(path, _)| path);
        let keys: Vec<String> =
            keys.filter(|path| !path.iter().any(|name| name == ANY_NAME)).map(|path| key(&path)).collect();
        let mut warnings = Vec::new();
        for (variable, text) in environment {
            let Some(name) = variable.to_ascii_uppercase().strip_prefix("HANDBACK_").map(plain) else { continue };
            if text.is_empty() || CLIENT_VARIABLES.contains(&name.as_str()) {
                continue;
            }
            let source = Source::Environment(variable.clone());
            let Some(key) = keys.iter().find(|key| plain(key) == name) else {
                let nearest = nearest(&name, &keys).map(|key| variable_of(key));
                let table = ["providers", "agents", "tools"].into_iter().find(|table| name.starts_with(table));
                let only = table.map(|table| format!(": {table} are set in a file")).unwrap_or_default();
                warnings.push(format!("{source} sets no key{only}{}", did_you_mean(nearest.as_deref())));
                continue;
            };
            if let Some(Source::Environment(other)) = self.sources.get(key) {
                return Err(ConfigError::Both(other.clone(), variable.clone()));
            }
            self.set_text(key, text, source)?;
        }
        Ok(warnings)
    }

    /// The source of a leaf, the lowest source inside a table, or the source of the leaf that contains an element.
    pub(super) fn source(&self, key: &str) -> Source {
        let inside = self.sources.iter().filter(|(leaf, _)| within(leaf, key)).map(|(_, source)| source).min();
        let found =
            inside.or_else(|| self.sources.iter().find(|(leaf, _)| within(key, leaf)).map(|(_, source)| source));
        found.cloned().unwrap_or(Source::Default)
    }

    fn refused(&self, error: &serde_path_to_error::Error<serde_json::Error>) -> ConfigError {
        let mut key = String::new();
        for segment in error.path() {
            match segment {
                Segment::Map { key: name } => push(&mut key, name),
                Segment::Seq { index } => key.push_str(&format!("[{index}]")),
                Segment::Enum { .. } | Segment::Unknown => {}
            }
        }
        let origin = self.source(&key);
        let problem = error.inner().to_string();
        // serde names the allowed keys only in its text: unknown field `x`, expected one of `a`, `b`.
        let unknown = problem.strip_prefix("unknown field `").and_then(|text| text.rsplit_once("`, expected "));
        let Some((name, allowed)) = unknown else {
            return ConfigError::Value { origin, key, problem };
        };
        let allowed: Vec<String> = allowed.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        ConfigError::UnknownKey { origin, key, nearest: nearest(name, &allowed).cloned(), allowed }
    }
}

fn read(file: &Path) -> Result<Value, ConfigError> {
    let text = std::fs::read_to_string(file).map_err(|error| ConfigError::Read(file.to_owned(), error))?;
    let text = text.trim_start_matches('\u{feff}');
    let read = match file.extension().and_then(|extension| extension.to_str()) {
        Some("json") => serde_json::from_str(text).map_err(|error| error.to_string()),
        Some("toml") => toml::from_str(text).map_err(|error| {
            // The error's own text would show the line, which may hold a secret.
            let before = text.get(..error.span().unwrap_or_default().start).unwrap_or_default();
            let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
            format!("{} at line {} column {column}", error.message(), before.matches('\n').count() + 1)
        }),
        _ => return Err(ConfigError::Format(file.to_owned())),
    };
    read.map_err(|problem| ConfigError::Syntax(file.to_owned(), problem))
}

/// The values as a tree. Serializing them cannot fail.
fn tree(config: &Config) -> Value {
    serde_json::to_value(config).unwrap_or_default()
}

/// The default of every key.
fn defaults() -> Value {
    let mut config = Config::default();
    config.providers.insert(ANY_NAME.to_owned(), Provider::new(ProviderKind::OpenAi));
    config.agents.insert(ANY_NAME.to_owned(), Agent::default());
    config.tools.insert(ANY_NAME.to_owned(), FrontendTool::default());
    tree(&config)
}

/// All values that are not tables with keys, with their paths.
fn leaves(tree: Value) -> Vec<(Vec<String>, Value)> {
    let mut found = Vec::new();
    let mut open = vec![(Vec::new(), tree)];
    while let Some((path, value)) = open.pop() {
        match value {
            Value::Object(table) if !table.is_empty() || path.is_empty() => {
                open.extend(table.into_iter().map(|(name, value)| ([path.as_slice(), &[name]].concat(), value)));
            }
            leaf => found.push((path, leaf)),
        }
    }
    found
}

/// The default of a key.
fn at<'a>(defaults: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(defaults, |value, name| value.get(name).or_else(|| value.get(ANY_NAME)))
}

/// The full path as TOML writes it.
pub(super) fn key(path: &[impl AsRef<str>]) -> String {
    let mut key = String::new();
    path.iter().for_each(|name| push(&mut key, name.as_ref()));
    if key.is_empty() { "the whole".to_owned() } else { key }
}

fn push(key: &mut String, name: &str) {
    if !key.is_empty() {
        key.push('.');
    }
    let bare = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    key.push_str(&if bare { name.to_owned() } else { format!("{name:?}") });
}

/// Whether a key is the same as another, or within it.
fn within(inner: &str, outer: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        // A key in PEM has several lines, and a row has one.
        Value::String(text) => text.replace('\n', " "),
        Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// `clientTools.defaultTimeout` is `HANDBACK_CLIENT_TOOLS_DEFAULT_TIMEOUT`.
fn variable_of(key: &str) -> String {
    let words = key.chars().map(|c| match c {
        '.' => "_".to_owned(),
        c if c.is_ascii_uppercase() => format!("_{c}"),
        c => c.to_ascii_uppercase().to_string(),
    });
    format!("HANDBACK_{}", words.collect::<String>())
}
