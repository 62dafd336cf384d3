//! Routes for operators: health, readiness, status, metrics, the OpenAPI document.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use handback_wire::error::ErrorCode;
use handback_wire::status::{BoundUse, ProviderKey, ServerCounts, ServerStatus, StoreKind};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{Answered, Application};
use crate::app::App;
use crate::body::Json;
use crate::config::{Config, Provider};
use crate::problem::Problem;

/// The committed OpenAPI document; a test compares it with the routes.
pub const OPENAPI: &str = include_str!("../../openapi.json");

/// The routes for operators.
pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(healthz))
        .routes(routes!(readyz))
        .routes(routes!(status))
        .routes(routes!(metrics))
        .routes(routes!(document))
}

/// Is the process alive?
#[utoipa::path(get, path = "/healthz", tag = "operations", responses((status = 200, description = "It is")))]
async fn healthz() -> &'static str {
    "ok\n"
}

/// May new calls be sent here?
#[utoipa::path(get, path = "/readyz", tag = "operations",
    responses((status = 200, description = "They may"), (status = 503, description = "It is shutting down, or cannot write to its store")))]
async fn readyz(State(app): State<App>) -> Result<&'static str, Problem> {
    must_be_ready(&app).await?;
    Ok("ok\n")
}

async fn must_be_ready(app: &App) -> Result<(), Problem> {
    if !app.hub().is_serving() {
        return Err(Problem::new(ErrorCode::Unavailable, "the server is shutting down"));
    }
    match app.can_write().await {
        true => Ok(()),
        false => Err(Problem::new(ErrorCode::Unavailable, "the server cannot write to its store; see its log")),
    }
}

/// How is the server?
///
/// The version, what there is, and how near the bounds are; `handback doctor` shows it. Nothing in it is secret.
#[utoipa::path(get, path = "/status", tag = "operations", responses((status = 200, body = ServerStatus)))]
async fn status(State(app): State<App>, _: Application) -> Answered<ServerStatus> {
    let (config, counts) = (app.config(), app.hub().counts());
    let [clients, connections, tools, calls] =
        [counts.clients, counts.connections, counts.tools, counts.calls].map(number);
    let limits = &config.limits;
    let sockets = limits.connections.saturating_sub(app.room().available_permits());
    let mut bounds = BTreeMap::from([
        ("limits.clients".to_owned(), BoundUse { used: clients, most: number(limits.clients) }),
        ("limits.connections".to_owned(), BoundUse { used: number(sockets), most: number(limits.connections) }),
    ]);
    let stored = app.stored_bytes().await?;
    if let Some(used) = stored.filter(|_| limits.session_bytes > 0) {
        bounds.insert("limits.sessionBytes".to_owned(), BoundUse { used, most: limits.session_bytes });
    }
    Ok(Json(ServerStatus {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ready: must_be_ready(&app).await.is_ok(),
        time: app.hub().clock().time().0,
        uptime: u64::try_from(app.started().elapsed().as_millis()).unwrap_or(u64::MAX),
        store: if stored.is_some() { StoreKind::Database } else { StoreKind::Memory },
        model: config.model.to_string(),
        providers: providers(config),
        counts: ServerCounts { clients, connections, tools, calls },
        bounds,
        open_files: tokio::task::spawn_blocking(open_files).await.ok().flatten(),
    }))
}

/// Whether each configured provider of models has a key.
pub fn providers(config: &Config) -> BTreeMap<String, ProviderKey> {
    let key = |provider: &Provider| match provider.api_key {
        Some(_) => ProviderKey::Set,
        None if provider.lacks_key() => ProviderKey::Missing,
        None => ProviderKey::None,
    };
    config.providers.iter().map(|(name, provider)| (name.clone(), key(provider))).collect()
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Linux lists the open files of a process, and the bound on them.
fn open_files() -> Option<BoundUse> {
    let used = number(std::fs::read_dir("/proc/self/fd").ok()?.count());
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let soft = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?.split_whitespace().next()?;
    Some(BoundUse { used, most: soft.parse().ok()? })
}

/// Counters, in Prometheus' text format
#[utoipa::path(get, path = "/metrics", tag = "operations",
    responses((status = 200, description = "OpenMetrics text", content_type = "application/openmetrics-text")))]
async fn metrics(State(app): State<App>, _: Application) -> Result<Response, Problem> {
    let mut registry = Registry::default();
    let own = registry.sub_registry_with_prefix("handback");
    app.hub().metrics().register(own);
    app.sessions().metrics().clone().register(own);
    own.register("build", "The version that is running", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
    own.register("rejected_requests", "Requests that were answered with an error, by status", app.rejected_requests());
    for metrics in app.metrics() {
        own.register_collector(Box::new(Added(metrics.clone())));
    }
    own.register_collector(Box::new(Now(app)));
    registry.register_collector(Box::new(Process));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)
        .map_err(|_| Problem::new(ErrorCode::InternalError, "the metrics could not be written"))?;
    let kind = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

/// This description of the API
#[utoipa::path(get, path = "/doc", tag = "operations",
    responses((status = 200, description = "OpenAPI 3.1", content_type = "application/json")))]
async fn document(_: Application) -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], OPENAPI).into_response()
}

/// Metrics of an embedding program.
#[derive(Debug)]
struct Added(Arc<dyn Collector>);

impl Collector for Added {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        self.0.encode(encoder)
    }
}

/// Gauges that are read when metrics are asked for.
struct Now(App);

impl std::fmt::Debug for Now {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Now")
    }
}

impl Collector for Now {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let (counts, under_way) = (self.0.hub().counts(), self.0.hub().metrics().under_way());
        let rows = [
            ("clients", "Known clients", counts.clients),
            ("connections", "Open connections of clients", counts.connections),
            ("tools", "Registered tools", counts.tools),
            ("calls_under_way", "Calls under way, and those that wait for the journal", under_way),
        ];
        for (name, help, count) in rows {
            let gauge = ConstGauge::new(i64::try_from(count).unwrap_or(i64::MAX));
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        Ok(())
    }
}

/// CPU time and memory of the process, under the usual names of exporters. Without `/proc` there are none.
#[derive(Debug)]
struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        if let Some(seconds) = cpu_seconds() {
            let counter = ConstCounter::new(seconds);
            let help = "CPU time of the process";
            counter.encode(encoder.encode_descriptor(
                "process_cpu",
                help,
                Some(&Unit::Seconds),
                counter.metric_type(),
            )?)?;
        }
        if let Some(bytes) = resident_bytes() {
            let gauge = ConstGauge::new(bytes);
            let help = "Resident memory of the process";
            gauge.encode(encoder.encode_descriptor(
                "process_resident_memory",
                help,
                Some(&Unit::Bytes),
                gauge.metric_type(),
            )?)?;
        }
        Ok(())
    }
}

/// Linux reports CPU time in hundredths of a second.
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the program's name in brackets, and the name can contain anything.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(ticks as f64 / 100.0)
}

fn resident_bytes() -> Option<i64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<i64>().ok()? * 1024)
}
