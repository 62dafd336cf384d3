//! Puts it together: the only place that names concrete stores.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::http::StatusCode;
use handback_core::agent::Agents;
use handback_core::clock::Clock;
use handback_core::limits::Limits;
use handback_core::message::ModelRef;
use handback_core::model::Models;
use handback_core::sessions::{Sessions, Setup};
use handback_core::store::{Bounds, MemoryStore};
use handback_core::toolbox::ListTools;
use handback_core::{Hub, store::Store};
use handback_wire::error::ErrorCode;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::api;
use crate::auth::{Auth, BadPublicKey};
use crate::config::Config;
use crate::gate::Origins;
use crate::problem::Problem;

/// What every request handler can reach. A cheap clone of one shared state.
#[derive(Clone)]
pub struct App(Arc<Inner>);

struct Inner {
    hub: Hub,
    sessions: Sessions,
    config: Config,
    auth: Auth,
    origins: Origins,
    tasks: TaskTracker,
    closing: CancellationToken,
    /// The same without a lock, for connections, which look often.
    is_closing: AtomicBool,
    rejected: Family<StatusLabel, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusLabel {
    status: u16,
}

impl App {
    /// An application as configured, for a server that listens on that address.
    pub fn new(config: Config, address: SocketAddr, clock: Clock) -> Result<Self, BadPublicKey> {
        let tasks = TaskTracker::new();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(memory_bounds(&config)));
        let hub = Hub::new(core_limits(&config), clock, store, tasks.clone());
        let setup = Setup {
            models: Models::default(),
            default_model: ModelRef::parse("demo/scripted").unwrap(),
            agents: Agents::default(),
            tools: vec![Arc::new(ListTools::new().unwrap())],
            hooks: Vec::new(),
        };
        Ok(Self(Arc::new(Inner {
            sessions: Sessions::new(hub.clone(), setup),
            hub,
            auth: Auth::new(&config.auth)?,
            origins: Origins::new(&config, address),
            tasks,
            closing: CancellationToken::new(),
            is_closing: AtomicBool::new(false),
            rejected: Family::default(),
            config,
        })))
    }

    /// All routes of all protocols, and their description.
    pub fn routes() -> (Router<Self>, utoipa::openapi::OpenApi) {
        let (router, document) = OpenApiRouter::with_openapi(Document::openapi())
            .merge(api::client_tools::routes())
            .merge(api::session::routes())
            .merge(api::event::routes())
            .merge(api::auth::routes())
            .merge(api::operations::routes())
            .split_for_parts();
        let router = router
            .fallback(async || Problem::not_found("there is nothing at this path; GET /doc lists what there is"))
            .method_not_allowed_fallback(async || {
                Problem::new(ErrorCode::MethodNotAllowed, "this path does not take this method; see GET /doc")
            });
        (router, document)
    }

    /// Clients, tools and calls.
    pub fn hub(&self) -> &Hub {
        &self.0.hub
    }

    /// Conversations with models.
    pub fn sessions(&self) -> &Sessions {
        &self.0.sessions
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.0.config
    }

    /// Keys and tokens.
    pub fn auth(&self) -> &Auth {
        &self.0.auth
    }

    /// Where requests may come from.
    pub fn origins(&self) -> &Origins {
        &self.0.origins
    }

    /// Tasks that shutting down waits for.
    pub fn tasks(&self) -> &TaskTracker {
        &self.0.tasks
    }

    /// All connections have to go.
    pub fn close(&self) {
        self.0.is_closing.store(true, Ordering::Release);
        self.0.closing.cancel();
    }

    /// Whether all connections have to go.
    pub fn is_closing(&self) -> bool {
        self.0.is_closing.load(Ordering::Acquire)
    }

    /// Cancelled when all connections have to go.
    pub fn closing(&self) -> &CancellationToken {
        &self.0.closing
    }

    /// Counts a request that was answered with an error.
    pub fn rejected(&self, status: StatusCode) {
        self.0.rejected.get_or_create(&StatusLabel { status: status.as_u16() }).inc();
    }

    /// The counter of [`App::rejected`].
    pub(crate) fn rejected_requests(
        &self,
    ) -> Family<impl EncodeLabelSet + Clone + std::hash::Hash + Eq + std::fmt::Debug + Send + Sync + 'static, Counter>
    {
        self.0.rejected.clone()
    }
}

#[derive(OpenApi)]
#[openapi(info(
    title = "Handback",
    description = "Tools that run on the client: register them, connect, run calls, send results back."
))]
struct Document;

/// What is kept in memory, from the settings.
fn memory_bounds(config: &Config) -> Bounds {
    Bounds { calls: config.limits.stored_calls, call_bytes: config.limits.stored_bytes, ..Bounds::default() }
}

/// The core's bounds, from the settings.
fn core_limits(config: &Config) -> Limits {
    let limits = &config.limits;
    Limits {
        default_timeout: config.client_tools.default_timeout,
        largest_timeout: limits.largest_timeout,
        largest_grace: limits.largest_grace,
        unconnected_tools: limits.unconnected_tools,
        model_calls_per_minute: limits.calls_per_minute,
        execute_calls_per_minute: limits.execute_per_minute,
        tools_per_client: limits.tools_per_client,
        schema_bytes: limits.schema_bytes,
        schema_depth: limits.schema_depth,
        input_depth: limits.input_depth,
        calls_per_client: limits.calls_per_client,
        clients: limits.clients,
        connections_per_client: limits.connections_per_client,
        remembered_calls: limits.remembered_calls,
        remembered_for: limits.remembered_for,
        replay: limits.replay,
        event_buffer: limits.event_buffer,
        ..Limits::default()
    }
}
