//! Checks that involve several keys.

use handback_core::store::ModelRef;

use super::error::did_you_mean;
use super::load::{Layers, key};
use super::providers::key_variable;
use super::spelling::nearest;
use super::{Config, ConfigError, DEMO_PROVIDER, ProviderKind, Source};

/// Refuses values that contradict each other. Returns warnings of what looks like a mistake.
pub(super) fn check(config: &Config, layers: &Layers) -> Result<Vec<String>, ConfigError> {
    check_names(config, layers)?;
    check_models(config, layers)?;
    let mut warnings = Vec::new();
    if config.auth.keys.is_empty() {
        if !config.listen.ip().to_canonical().is_loopback() {
            return Err(ConfigError::Unprotected(layers.source("listen"), config.listen));
        }
        if config.auth.token_secret.is_some() || config.auth.public_key.is_some() {
            warnings.push("auth.keys is empty, so nobody is asked for a token".to_owned());
        }
    }
    let (ephemeral, data) = (layers.source("ephemeral"), layers.source("data"));
    // An operator who sets the flag needs no warning.
    if config.ephemeral && !matches!(ephemeral, Source::Flag(_)) {
        let unused = [("data", config.data.is_some()), ("database", config.database.is_some())];
        let unused = unused.into_iter().filter(|(_, is_set)| *is_set).map(|(key, _)| key);
        warnings.extend(unused.map(|key| format!("nothing is kept in {key}, for ephemeral is set ({ephemeral})")));
    } else if config.database.is_some() && data != Source::Default {
        let database = layers.source("database");
        warnings.push(format!("nothing is kept in data ({data}), for database is set ({database})"));
    }
    for (name, provider) in &config.providers {
        if provider.lacks_key() {
            let (key, url) = (key(&["providers", name]), &provider.base_url);
            warnings.push(format!("{key} has neither apiKey nor apiKeyEnv, and {url} wants a key"));
        }
    }
    Ok(warnings)
}

fn check_names(config: &Config, layers: &Layers) -> Result<(), ConfigError> {
    let providers = config.providers.keys().map(|name| ("providers", name));
    let agents = config.agents.keys().map(|name| ("agents", name));
    for (table, name) in providers.chain(agents) {
        let key = key(&[table, name]);
        let problem = if (table, name.as_str()) == ("providers", DEMO_PROVIDER) {
            "this provider is built in; choose another name"
        } else if !is_name(name) {
            "the name must be 1 to 64 letters, digits, _ . and -"
        } else {
            continue;
        };
        return Err(ConfigError::Value { origin: layers.source(&key), key, problem: problem.to_owned() });
    }
    Ok(())
}

fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
}

/// Refuses models of providers that do not exist.
fn check_models(config: &Config, layers: &Layers) -> Result<(), ConfigError> {
    let of_agents = config.agents.iter().filter_map(|(name, agent)| {
        let model = agent.model.as_ref()?;
        Some((key(&["agents", name, "model"]), model))
    });
    for (key, model) in std::iter::once(("model".to_owned(), &config.model)).chain(of_agents) {
        if model.provider != DEMO_PROVIDER && !config.providers.contains_key(model.provider.as_str()) {
            let origin = layers.source(&key);
            return Err(ConfigError::Value { origin, key, problem: no_such_provider(config, model) });
        }
    }
    Ok(())
}

fn no_such_provider(config: &Config, model: &ModelRef) -> String {
    let known: Vec<String> = [DEMO_PROVIDER.to_owned()].into_iter().chain(config.providers.keys().cloned()).collect();
    let meant = did_you_mean(nearest(&model.provider, &known).map(String::as_str));
    let public = ProviderKind::ALL.into_iter().find(|kind| model.provider == kind.as_str());
    let remedy = public.map(|kind| format!(" or set {}", key_variable(kind))).unwrap_or_default();
    format!(
        "found {:?}, and there is no provider {:?}{meant}; those there are: {}; add it to providers{remedy}",
        model.to_string(),
        model.provider,
        known.join(", ")
    )
}
