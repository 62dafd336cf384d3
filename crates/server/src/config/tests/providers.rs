//! Providers, the model, and to whom a key may be sent.

use super::*;

const OPENAI: &str = "https://api.openai.com/v1";
const ANTHROPIC: &str = "https://api.anthropic.com";

/// The key that would be sent to a provider, and where.
fn sent(place: &Place, provider: &str) -> (String, Option<String>) {
    let provider = place.load().config.providers[provider].clone();
    (provider.base_url, provider.api_key.map(|key| key.expose().clone()))
}

fn with_key(url: &str, key: &str) -> (String, Option<String>) {
    (url.to_owned(), Some(key.to_owned()))
}

#[test]
fn a_provider_with_everything() {
    let toml = "model = \"local/qwen3\"\n[providers.local]\nkind = \"openai\"\n\
                baseURL = \"HTTP://LocalHost:11434/V1/\"\napiKey = \"geheim\"\nimages = false\n\
                maxTokens = 1000\nstallTimeout = 5000\n";
    let json = r#"{"model": "local/qwen3", "providers": {"local": {"kind": "openai", "apiKey": "geheim",
        "maxTokens": 1000, "baseURL": "HTTP://LocalHost:11434/V1/", "images": false, "stallTimeout": 5000}}}"#;
    let local = Provider {
        kind: ProviderKind::OpenAi,
        base_url: "http://localhost:11434/V1".to_owned(),
        api_key: Some(Secret::new("geheim".to_owned())),
        api_key_env: None,
        images: false,
        max_tokens: Some(1000),
        stall_timeout: Duration::from_secs(5),
    };
    let expected = Config {
        model: ModelRef::parse("local/qwen3").unwrap(),
        providers: [("local".to_owned(), local)].into(),
        ..Config::default()
    };
    for (place, source) in
        [(Place::new().toml(toml), "file work/handback.toml"), (Place::new().json(json), "file work/handback.json")]
    {
        assert_eq!(place.load().config, expected);
        assert_eq!(place.load().warnings, Vec::<String>::new());
        let rows = [
            ["model", "local/qwen3", source],
            ["providers.local.apiKey", "[redacted]", source],
            ["providers.local.baseURL", "http://localhost:11434/V1", source],
            ["providers.local.images", "false", source],
            ["providers.local.kind", "openai", source],
            ["providers.local.maxTokens", "1000", source],
            ["providers.local.stallTimeout", "5000", source],
        ];
        assert_eq!(place.given(), rows);
        assert!(!format!("{:?}", place.load()).contains("geheim"));
    }
}

#[test]
fn a_provider_with_no_more_than_it_needs() {
    let place = Place::new().toml("[providers.\"a.b\"]\nkind = \"anthropic\"\napiKey = \"k\"");
    let key = Some(Secret::new("k".to_owned()));
    let provider = Provider { api_key: key, ..Provider::new(ProviderKind::Anthropic) };
    let loaded = place.load();
    assert_eq!(loaded.config.providers, [("a.b".to_owned(), provider)].into());
    let rows = loaded.rows().into_iter().filter(|row| row.key.starts_with("providers"));
    let rows: Vec<String> = rows.map(|row| format!("{} = {} ({})", row.key, row.value, row.source)).collect();
    let file = format!("(file {})", place.root.join("work/handback.toml").display());
    let expected = [
        format!("providers.\"a.b\".apiKey = [redacted] {file}"),
        "providers.\"a.b\".apiKeyEnv =  (default)".to_owned(),
        "providers.\"a.b\".baseURL = https://api.anthropic.com (default)".to_owned(),
        "providers.\"a.b\".images = true (default)".to_owned(),
        format!("providers.\"a.b\".kind = anthropic {file}"),
        "providers.\"a.b\".maxTokens =  (default)".to_owned(),
        "providers.\"a.b\".stallTimeout = 60000 (default)".to_owned(),
    ];
    assert_eq!(rows, expected);
}

#[test]
fn null_is_the_same_as_not_given() {
    let place = Place::new().json(
        r#"{"data": null, "agents": {"a": {"system": null, "model": null}},
            "providers": {"a": {"kind": "openai", "baseURL": "http://a", "apiKey": null, "apiKeyEnv": null,
                "maxTokens": null}}}"#,
    );
    let provider = Provider { base_url: "http://a".to_owned(), ..Provider::new(ProviderKind::OpenAi) };
    let expected = Config {
        providers: [("a".to_owned(), provider)].into(),
        agents: [("a".to_owned(), Agent::default())].into(),
        ..Config::default()
    };
    assert_eq!(place.load().config, expected);
}

#[test]
fn a_key_is_read_from_the_variable_that_is_named() {
    let place = Place::new()
        .toml("[providers.work]\nkind = \"openai\"\napiKeyEnv = \"WORK_KEY\"")
        .variable("WORK_KEY", " geheim\n");
    assert_eq!(sent(&place, "work"), with_key(OPENAI, "geheim"));
    let expected = [
        ["providers.work.apiKey", "[redacted]", "environment WORK_KEY"],
        ["providers.work.apiKeyEnv", "WORK_KEY", "file work/handback.toml"],
        ["providers.work.kind", "openai", "file work/handback.toml"],
    ];
    assert_eq!(place.given(), expected);
}

#[test]
fn the_usual_variables_are_enough() {
    let place = Place::new()
        .variable("OPENAI_API_KEY", "one")
        .variable("ANTHROPIC_API_KEY", "two")
        .variable("HANDBACK_MODEL", "anthropic/claude");
    let expected = [
        ["model", "anthropic/claude", "environment HANDBACK_MODEL"],
        ["providers.anthropic.apiKey", "[redacted]", "environment ANTHROPIC_API_KEY"],
        ["providers.anthropic.kind", "anthropic", "environment ANTHROPIC_API_KEY"],
        ["providers.openai.apiKey", "[redacted]", "environment OPENAI_API_KEY"],
        ["providers.openai.kind", "openai", "environment OPENAI_API_KEY"],
    ];
    assert_eq!(place.given(), expected);
    assert_eq!(place.load().warnings, Vec::<String>::new());
    assert_eq!(sent(&place, "openai"), with_key(OPENAI, "one"));
    assert_eq!(sent(&place, "anthropic"), with_key(ANTHROPIC, "two"));
}

#[test]
fn an_address_from_the_environment_needs_no_key() {
    let mut place = Place::new().variable("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1/");
    let expected = [
        ["providers.openai.baseURL", "http://127.0.0.1:8000/v1", "environment OPENAI_BASE_URL"],
        ["providers.openai.kind", "openai", "environment OPENAI_BASE_URL"],
    ];
    assert_eq!(place.given(), expected);
    place = place.variable("OPENAI_API_KEY", "k");
    assert_eq!(sent(&place, "openai"), with_key("http://127.0.0.1:8000/v1", "k"));
}

#[test]
fn variables_that_are_empty_set_nothing_up() {
    let place =
        Place::new().variable("OPENAI_API_KEY", "").variable("OPENAI_BASE_URL", " ").variable("ANTHROPIC_API_KEY", "");
    assert_eq!(place.load().config, Config::default());
}

#[test]
fn a_key_from_the_environment_goes_to_no_other_host() {
    let place = |table: &str| {
        let place = Place::new().toml(&format!("[providers.openai]\n{table}"));
        place.variable("OPENAI_API_KEY", "k").variable("ANTHROPIC_API_KEY", "k")
    };
    let to_public = |table: &str| sent(&place(table), "openai");
    let to_other = |table: &str| sent(&place(table).variable("OPENAI_BASE_URL", "http://other/v1"), "openai");
    let nothing = |url: &str| (url.to_owned(), None);

    let table = "kind = \"openai\"";
    assert_eq!(to_public(table), with_key(OPENAI, "k"));
    assert_eq!(to_other(table), with_key("http://other/v1", "k"));
    let table = "kind = \"openai\"\nbaseURL = \"https://API.openai.com/v1/\"";
    assert_eq!(to_public(table), with_key(OPENAI, "k"));
    assert_eq!(to_other(table), nothing(OPENAI));
    let table = "kind = \"openai\"\nbaseURL = \"http://other/v1\"";
    assert_eq!(to_public(table), nothing("http://other/v1"));
    assert_eq!(to_other(table), with_key("http://other/v1", "k"));
    // A key of the file's own goes to where the file says, or to the public API.
    let table = "kind = \"openai\"\napiKey = \"mine\"";
    assert_eq!(to_public(table), with_key(OPENAI, "mine"));
    assert_eq!(to_other(table), with_key(OPENAI, "mine"));
    // That a provider has this name does not make it OpenAI.
    let table = "kind = \"anthropic\"";
    assert_eq!(to_public(table), nothing(ANTHROPIC));
    assert_eq!(to_other(table), nothing(ANTHROPIC));
}

#[test]
fn a_provider_of_another_name_gets_no_key_by_itself() {
    let place = Place::new().toml("[providers.work]\nkind = \"openai\"").variable("OPENAI_API_KEY", "k");
    assert_eq!(sent(&place, "work"), (OPENAI.to_owned(), None));
    let expected = ["providers.work has neither apiKey nor apiKeyEnv, and https://api.openai.com/v1 wants a key"];
    assert_eq!(place.load().warnings, expected);
}

#[test]
fn providers_that_are_refused() {
    let url = "expected an http:// or https:// URL without user, query and fragment, such as http://127.0.0.1:11434/v1";
    let cases = [
        ("[providers.a]", "providers.a: found no kind, expected kind = \"openai\" or \"anthropic\""),
        (
            "[providers.a]\napiKeyEnv = \"SOME\"",
            "providers.a: found no kind, expected kind = \"openai\" or \"anthropic\"",
        ),
        (
            "[providers.a]\nkind = \"ollama\"",
            "providers.a.kind: found \"ollama\", expected kind = \"openai\" or \"anthropic\"",
        ),
        (
            "[providers.a]\nkinds = \"openai\"",
            "unknown key providers.a.kinds (did you mean kind?); allowed here: kind, baseURL, apiKey, apiKeyEnv, \
             images, maxTokens, stallTimeout",
        ),
        (
            "[providers.\"a.b\"]\nkind = \"openai\"\nbase_url = \"http://a\"",
            "unknown key providers.\"a.b\".base_url (did you mean baseURL?); allowed here: kind, baseURL, apiKey, \
             apiKeyEnv, images, maxTokens, stallTimeout",
        ),
        ("providers = []", "providers: found a list, expected a table of keys"),
        ("[providers]\na = \"openai\"", "providers.a: found a single value, expected a table of keys"),
        ("[providers]\na = [\"openai\"]", "providers.a: found a list, expected a table of keys"),
        ("[providers.demo]\nkind = \"openai\"", "providers.demo: this provider is built in; choose another name"),
        (
            "[providers.\"a/b\"]\nkind = \"openai\"",
            "providers.\"a/b\": the name must be 1 to 64 letters, digits, _ . and -",
        ),
        ("[providers.\"\"]\nkind = \"openai\"", "providers.\"\": the name must be 1 to 64 letters, digits, _ . and -"),
        (
            "[providers.a]\nkind = \"openai\"\napiKey = \"mein geheimnis\"",
            "providers.a.apiKey: found something else, expected 1 to 4096 letters, digits and signs without spaces",
        ),
        (
            "[providers.a]\nkind = \"openai\"\napiKey = 12345",
            "providers.a.apiKey: found something else, expected 1 to 4096 letters, digits and signs without spaces",
        ),
        (
            "[providers.a]\nkind = \"openai\"\napiKeyEnv = \"sk-geheim\"",
            "providers.a.apiKeyEnv: found something else, expected the name of an environment variable, such as \
             OPENAI_API_KEY",
        ),
        (
            "[providers.a]\nkind = \"openai\"\napiKeyEnv = \"ABSENT\"",
            "providers.a.apiKeyEnv: the environment variable ABSENT is not set",
        ),
        (
            "[providers.a]\nkind = \"openai\"\napiKeyEnv = \"EMPTY\"",
            "providers.a.apiKeyEnv: the environment variable EMPTY is not set",
        ),
        (
            "[providers.a]\nkind = \"openai\"\napiKey = \"k\"\napiKeyEnv = \"ABSENT\"",
            "providers.a.apiKeyEnv: apiKey is given too; keep one of them",
        ),
        (
            "[providers.a]\nkind = \"openai\"\nmaxTokens = 0",
            "providers.a.maxTokens: found 0, expected a whole number from 1 to 1000000000",
        ),
        (
            "[providers.a]\nkind = \"openai\"\nstallTimeout = \"1s\"",
            "providers.a.stallTimeout: found \"1s\", expected a whole number from 1 to 3600000",
        ),
        (
            "[providers.a]\nkind = \"openai\"\nbaseURL = \"http://me:geheim@host\"",
            &format!("providers.a.baseURL: found something else, {url}"),
        ),
        (
            "[providers.a]\nkind = \"openai\"\nbaseURL = \"http://host/?key=geheim\"",
            &format!("providers.a.baseURL: found something else, {url}"),
        ),
    ];
    for (text, expected) in cases {
        let place = Place::new().toml(text).variable("EMPTY", "").variable("SOME", "key");
        assert_eq!(place.error(), format!("file work/handback.toml: {expected}"));
    }
    let refused =
        ["", "host", "localhost:80", "ftp://a", "//a", "http://", "http:///v1", "http://a:x", "http://a:99999"];
    for text in refused.into_iter().chain(["http://a/#b", "http://a b"]) {
        let place = Place::new().toml(&format!("[providers.a]\nkind = \"openai\"\nbaseURL = \"{text}\""));
        assert_eq!(place.error(), format!("file work/handback.toml: providers.a.baseURL: found {text:?}, {url}"));
    }
    for text in ["http://a", "https://a.b:8443/x/v1", "http://[::1]:80", "http://127.0.0.1:1/V1"] {
        let place = Place::new().toml(&format!("[providers.a]\nkind = \"openai\"\nbaseURL = \"{text}\""));
        assert_eq!(sent(&place, "a"), (text.to_owned(), None));
    }
}

#[test]
fn what_the_usual_variables_hold_is_checked_too() {
    let place = Place::new().variable("OPENAI_BASE_URL", "localhost");
    let expected = "environment OPENAI_BASE_URL: providers.openai.baseURL: found \"localhost\", expected an http:// or \
                    https:// URL without user, query and fragment, such as http://127.0.0.1:11434/v1";
    assert_eq!(place.error(), expected);
    let place = Place::new().variable("ANTHROPIC_API_KEY", "mein geheimnis");
    let expected = "environment ANTHROPIC_API_KEY: providers.anthropic.apiKey: found something else, expected 1 to \
                    4096 letters, digits and signs without spaces";
    assert_eq!(place.error(), expected);
}

#[test]
fn models_that_are_refused() {
    let cases = [
        (
            Place::new().toml("model = \"gpt\""),
            "file work/handback.toml: model: found \"gpt\", expected providerID/modelID, such as demo/scripted",
        ),
        (
            Place::new().toml("model = \"opnai/gpt\"").variable("OPENAI_API_KEY", "k"),
            "file work/handback.toml: model: found \"opnai/gpt\", and there is no provider \"opnai\" (did you mean \
             openai?); those there are: demo, openai; add it to providers",
        ),
        (
            Place::new().variable("HANDBACK_MODEL", "anthropic/claude"),
            "environment HANDBACK_MODEL: model: found \"anthropic/claude\", and there is no provider \"anthropic\"; \
             those there are: demo; add it to providers or set ANTHROPIC_API_KEY",
        ),
        (
            Place::new().toml("[agents.\"a.b\"]\nmodel = \"local/x\""),
            "file work/handback.toml: agents.\"a.b\".model: found \"local/x\", and there is no provider \"local\"; \
             those there are: demo; add it to providers",
        ),
    ];
    for (place, expected) in cases {
        assert_eq!(place.error(), expected);
    }
}
