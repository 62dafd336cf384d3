//! Routes besides sessions and events that opencode's terminal and command line need to start. What the server does not
//! have is answered as empty. No answer reveals keys, instructions, addresses or paths of the server.

use std::collections::BTreeMap;

use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use handback_core::store::{DEFAULT_AGENT, ModelRef};
use serde_json::{Map, Value, json};
use utoipa::openapi::path::{HttpMethod, OperationBuilder, PathItem};
use utoipa::openapi::{ContentBuilder, ResponseBuilder};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::session::encode::ERRORS;
use super::{Access, Protocol, event};
use crate::app::App;
use crate::auth::Principal;
use crate::body::Json;

const TAG: &str = "opencode";

/// Answers that never change: path, description, body.
const CONSTANT: [(&str, &str, &str); 20] = [
    ("/path", "Directories: there are none", r#"{"home":"","state":"","config":"","worktree":"","directory":""}"#),
    (
        "/project/current",
        "The one project",
        r#"{"id":"global","worktree":"","time":{"created":0,"updated":0},"sandboxes":[]}"#,
    ),
    ("/project/global/directories", "Directories of the project: there are none", "[]"),
    ("/provider/auth", "Ways to sign in to providers: there are none", "{}"),
    ("/command", "Commands: there are none", "[]"),
    ("/mcp", "MCP servers: there are none", "{}"),
    ("/lsp", "Language servers: there are none", "[]"),
    ("/formatter", "Formatters: there are none", "[]"),
    ("/vcs", "Version control: there is none", "{}"),
    ("/question", "Questions of tools: there are none", "[]"),
    ("/experimental/capabilities", "What the server can do besides", r#"{"backgroundSubagents":false}"#),
    (
        "/experimental/console",
        "Organisations: there are none",
        r#"{"consoleManagedProviders":[],"switchableOrgCount":0}"#,
    ),
    ("/experimental/resource", "Resources: there are none", "{}"),
    ("/experimental/workspace", "Workspaces: there are none", "[]"),
    ("/experimental/workspace/status", "Workspaces and what they do: there are none", "[]"),
    ("/api/location", "Where sessions work", r#"{"directory":"","project":{"id":"global","directory":""}}"#),
    ("/api/integration", "Integrations: there are none", NONE),
    ("/api/reference", "References: there are none", NONE),
    ("/api/command", "Commands: there are none", NONE),
    ("/api/skill", "Skills: there are none", NONE),
];
/// An empty list in the form of opencode's newer API.
const NONE: &str = r#"{"location":{"directory":"","project":{"id":"global","directory":""}},"data":[]}"#;

/// The routes for clients of opencode.
pub fn routes() -> Protocol {
    let mut router = OpenApiRouter::new()
        .routes(routes!(config))
        .routes(routes!(config_providers))
        .routes(routes!(providers))
        .routes(routes!(agents))
        .routes(routes!(agents_v2))
        .routes(routes!(models_v2))
        .routes(routes!(providers_v2))
        .routes(routes!(event::global_events));
    for (path, about, answer) in CONSTANT {
        router = router.route(path, get(async move |_: Principal| ([(CONTENT_TYPE, "application/json")], answer)));
        let content = ContentBuilder::new().build();
        let response = ResponseBuilder::new().description(about).content("application/json", content).build();
        let name = path.trim_start_matches('/').replace('/', "_");
        let operation = OperationBuilder::new().tag(TAG).summary(Some(about)).operation_id(Some(name));
        let operation = operation.response("200", response).build();
        router.get_openapi_mut().paths.paths.insert(path.to_owned(), PathItem::new(HttpMethod::Get, operation));
    }
    Protocol { routes: router, errors: ERRORS }
}

/// The settings that a client has to know
#[utoipa::path(get, path = "/config", tag = TAG, responses((status = 200, body = Object)))]
async fn config(Access(app, principal): Access) -> Json<Value> {
    let model = allowed(&app, &principal).into_iter().map(|(_, model)| model.to_string()).next();
    Json(json!({ "model": model, "share": "disabled", "autoupdate": false }))
}

/// The providers and models that can be named
#[utoipa::path(get, path = "/config/providers", tag = TAG, responses((status = 200, body = Object)))]
async fn config_providers(Access(app, principal): Access) -> Json<Value> {
    let models = models(&app, &principal);
    Json(json!({ "providers": described(&app, &models), "default": defaults(&models) }))
}

/// The providers and models that can be named, and which are connected: all are
#[utoipa::path(get, path = "/provider", tag = TAG, responses((status = 200, body = Object)))]
async fn providers(Access(app, principal): Access) -> Json<Value> {
    let models = models(&app, &principal);
    let connected: Vec<&str> = models.keys().map(String::as_str).collect();
    Json(json!({ "all": described(&app, &models), "default": defaults(&models), "connected": connected }))
}

/// The agents that can be named, the default one first
#[utoipa::path(get, path = "/agent", tag = TAG, responses((status = 200, body = Vec<Object>)))]
async fn agents(Access(app, principal): Access) -> Json<Value> {
    let agent = |(name, model): (&str, &ModelRef)| {
        let model = json!({ "providerID": model.provider, "modelID": model.model });
        json!({ "name": name, "mode": "primary", "permission": [], "options": {}, "model": model })
    };
    Json(allowed(&app, &principal).into_iter().map(agent).collect())
}

/// The agents that can be named, for newer clients
#[utoipa::path(get, path = "/api/agent", tag = TAG, responses((status = 200, body = Object)))]
async fn agents_v2(Access(app, principal): Access) -> Json<Value> {
    let agent = |(name, model): (&str, &ModelRef)| {
        let model = json!({ "providerID": model.provider, "id": model.model });
        let request = json!({ "headers": {}, "body": {} });
        json!({ "id": name, "model": model, "request": request, "mode": "primary", "hidden": false, "permissions": [] })
    };
    located(allowed(&app, &principal).into_iter().map(agent).collect())
}

/// The models that can be named, for newer clients
#[utoipa::path(get, path = "/api/model", tag = TAG, responses((status = 200, body = Object)))]
async fn models_v2(Access(app, principal): Access) -> Json<Value> {
    let models = models(&app, &principal);
    let model = |(provider, name): (&String, &String)| {
        let input: &[&str] = if takes_images(&app, provider) { &["text", "image"] } else { &["text"] };
        json!({
            "id": name, "providerID": provider, "name": name, "api": { "id": name, "type": "native", "settings": {} },
            "capabilities": { "tools": true, "input": input, "output": ["text"] },
            "request": { "headers": {}, "body": {} }, "variants": [], "time": { "released": 0 }, "cost": [],
            "status": "active", "enabled": true, "limit": { "context": 0, "output": 0 },
        })
    };
    let all = models.iter().flat_map(|(provider, names)| names.iter().map(move |name| (provider, name)));
    located(all.map(model).collect())
}

/// The providers that can be named, for newer clients
#[utoipa::path(get, path = "/api/provider", tag = TAG, responses((status = 200, body = Object)))]
async fn providers_v2(Access(app, principal): Access) -> Json<Value> {
    let provider = |name: &String| {
        let request = json!({ "headers": {}, "body": {} });
        json!({ "id": name, "name": name, "api": { "type": "native", "settings": {} }, "request": request })
    };
    located(models(&app, &principal).keys().map(provider).collect())
}

/// Wraps a list in the form of opencode's newer API.
fn located(data: Value) -> Json<Value> {
    Json(json!({ "location": { "directory": "", "project": { "id": "global", "directory": "" } }, "data": data }))
}

/// The agents that the caller may name, each with its model. The default agent comes first.
fn allowed<'a>(app: &'a App, principal: &Principal) -> Vec<(&'a str, &'a ModelRef)> {
    let setup = app.sessions().setup();
    let names = [DEFAULT_AGENT].into_iter().chain(setup.agents.names().filter(|name| *name != DEFAULT_AGENT));
    let names = names.filter(|name| principal.must_be_allowed(&setup.agents, Some(name), None).is_ok());
    let agent = |name| {
        let agent = setup.agents.find(name)?;
        Some((name, agent.model.as_ref().unwrap_or(&setup.default_model)))
    };
    names.filter_map(agent).collect()
}

/// The models of the allowed agents, by provider; the server's default model comes first.
fn models(app: &App, principal: &Principal) -> BTreeMap<String, Vec<String>> {
    let mut models = BTreeMap::<String, Vec<String>>::new();
    for (_, model) in allowed(app, principal) {
        let names = models.entry(model.provider.to_string()).or_default();
        if !names.contains(&model.model.to_string()) {
            names.push(model.model.to_string());
        }
    }
    models
}

fn defaults(models: &BTreeMap<String, Vec<String>>) -> BTreeMap<&str, &str> {
    models.iter().filter_map(|(provider, names)| Some((provider.as_str(), names.first()?.as_str()))).collect()
}

fn described(app: &App, models: &BTreeMap<String, Vec<String>>) -> Vec<Value> {
    let provider = |(provider, names): (&String, &Vec<String>)| {
        let images = takes_images(app, provider);
        let models: Map<String, Value> =
            names.iter().map(|name| (name.clone(), model(provider, name, images))).collect();
        json!({ "id": provider, "name": provider, "source": "config", "env": [], "options": {}, "models": models })
    };
    models.iter().map(provider).collect()
}

fn takes_images(app: &App, provider: &str) -> bool {
    app.config().providers.get(provider).is_some_and(|provider| provider.images)
}

/// Describes a model. Its limits and costs are unknown here, which 0 stands for.
fn model(provider: &str, name: &str, images: bool) -> Value {
    let medium = |image: bool| json!({ "text": true, "audio": false, "image": image, "video": false, "pdf": false });
    json!({
        "id": name, "providerID": provider, "name": name, "api": { "id": name, "url": "", "npm": "" },
        "capabilities": {
            "temperature": false, "reasoning": false, "attachment": images, "toolcall": true, "interleaved": false,
            "input": medium(images), "output": medium(false),
        },
        "cost": { "input": 0, "output": 0, "cache": { "read": 0, "write": 0 } },
        "limit": { "context": 0, "output": 0 },
        "status": "active", "options": {}, "headers": {}, "release_date": "",
    })
}
