//! Providers and keys from the environment.
//!
//! - `apiKeyEnv` names the variable with a provider's key.
//! - The usual variables of the public APIs set up the providers `openai` and `anthropic`, or complete them if the file
//!   gives no key. A key from the environment goes only to the address from the environment and not to another host that
//!   the file names. A key from the file does not go to a host that the environment names.

use std::collections::BTreeMap;

use super::load::{Layers, key};
use super::value::{is_variable_name, normal_url};
use super::{ConfigError, ProviderKind, Source};

/// The variable that usually has a key of the public API.
pub(super) fn key_variable(kind: ProviderKind) -> &'static str {
    match kind {
        ProviderKind::OpenAi => "OPENAI_API_KEY",
        ProviderKind::Anthropic => "ANTHROPIC_API_KEY",
    }
}

/// The variable that usually has another address for that key.
fn url_variable(kind: ProviderKind) -> Option<&'static str> {
    match kind {
        ProviderKind::OpenAi => Some("OPENAI_BASE_URL"),
        ProviderKind::Anthropic => None,
    }
}

/// Adds providers and keys from the environment to the layers.
pub(super) fn set(layers: &mut Layers, environment: &Environment) -> Result<(), ConfigError> {
    let providers = layers.get(&["providers"]).and_then(|providers| providers.as_object());
    let names: Vec<String> = providers.into_iter().flat_map(|providers| providers.keys().cloned()).collect();
    for name in names {
        set_named_key(layers, &name, environment)?;
    }
    ProviderKind::ALL.into_iter().try_for_each(|kind| set_public(layers, kind, environment))
}

type Environment = BTreeMap<String, String>;

/// The value of a variable, unless it is blank.
fn get<'a>(environment: &'a Environment, variable: &str) -> Option<&'a str> {
    environment.get(variable).map(|text| text.trim()).filter(|text| !text.is_empty())
}

/// Sets a provider's key from the variable that `apiKeyEnv` names.
fn set_named_key(layers: &mut Layers, name: &str, environment: &Environment) -> Result<(), ConfigError> {
    let variable = layers.get(&["providers", name, "apiKeyEnv"]).and_then(|value| value.as_str());
    // A value that is not a name is refused later, without being shown.
    let Some(variable) = variable.filter(|text| is_variable_name(text)).map(str::to_owned) else { return Ok(()) };
    let problem = match get(environment, &variable) {
        _ if layers.get(&["providers", name, "apiKey"]).is_some() => "apiKey is given too; keep one of them".to_owned(),
        Some(key) => return set_text(layers, ["providers", name, "apiKey"], key, &variable),
        None => format!("the environment variable {variable} is not set"),
    };
    let key = key(&["providers", name, "apiKeyEnv"]);
    Err(ConfigError::Value { origin: layers.source(&key), key, problem })
}

/// Sets up or completes the provider of a public API from its usual variables.
fn set_public(layers: &mut Layers, kind: ProviderKind, environment: &Environment) -> Result<(), ConfigError> {
    let name = kind.as_str();
    let given = |layers: &Layers, field| layers.get(&["providers", name, field]).is_some();
    let in_file = layers.get(&["providers", name]).is_some();
    let is_public = layers.get(&["providers", name, "kind"]).is_some_and(|kind| kind == name);
    if in_file && (!is_public || given(layers, "apiKey")) {
        return Ok(());
    }
    let url = url_variable(kind).and_then(|variable| Some((variable, get(environment, variable)?)));
    let key = get(environment, key_variable(kind)).map(|key| (key_variable(kind), key));
    let Some((variable, _)) = key.or(url) else { return Ok(()) };
    if !in_file {
        set_text(layers, ["providers", name, "kind"], name, variable)?;
    }
    if let Some((variable, url)) = url
        && !given(layers, "baseURL")
    {
        set_text(layers, ["providers", name, "baseURL"], url, variable)?;
    }
    let used = layers.get(&["providers", name, "baseURL"]).map_or(Some(kind.public_url()), |url| url.as_str());
    let meant = url.map_or(kind.public_url(), |(_, url)| url);
    if let Some((variable, key)) = key
        && used.and_then(normal_url) == normal_url(meant)
    {
        set_text(layers, ["providers", name, "apiKey"], key, variable)?;
    }
    Ok(())
}

fn set_text(layers: &mut Layers, path: [&str; 3], text: &str, variable: &str) -> Result<(), ConfigError> {
    layers.set(&path.map(str::to_owned), text.into(), Source::Environment(variable.to_owned()))
}
