//! Assembles the server: the only place that names concrete models. [`crate::store`] chooses the store.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::http::StatusCode;
use handback_core::Hub;
use handback_core::clock::Clock;
use handback_core::limits::Limits;
use handback_core::sessions::{Agents, Model, Models, Runs, Sessions, Setup};
use handback_core::store::{StoreError, ToolSpec};
use handback_core::tools::{Hook, ListTools, ServerTool};
use handback_wire::error::ErrorCode;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;
use utoipa_axum::router::OpenApiRouter;

use crate::api::{self, Protocol};
use crate::auth::{Auth, BadPublicKey};
use crate::config::{self, Config, DEMO_PROVIDER, ProviderKind};
use crate::console;
use crate::frontend_tools::{self, InvalidTool};
use crate::gate::Origins;
use crate::problem::{ErrorShapes, Problem};
use crate::provider::scripted::Scripted;
use crate::provider::{self, Anthropic, InvalidSettings, OpenAi};
use crate::store::{DatabaseError, ServerStore};

/// The shared state that every request handler can reach. Cloning it is cheap.
#[derive(Clone)]
pub struct App(Arc<Inner>);

struct Inner {
    hub: Hub,
    sessions: Sessions,
    runs: Runs,
    database: ServerStore,
    config: Config,
    auth: Auth,
    origins: Origins,
    tasks: TaskTracker,
    closing: CancellationToken,
    started: Instant,
    /// A permit for each socket that may be open.
    room: Arc<Semaphore>,
    /// The state of `closing` without a lock, because connections check it often.
    is_closing: AtomicBool,
    rejected: Family<StatusLabel, Counter>,
    metrics: Vec<Arc<dyn Collector>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusLabel {
    status: u16,
}

/// What an embedding program adds to the server: models, tools that run here, and hooks that look at calls.
///
/// ```
/// use std::sync::Arc;
///
/// use handback_server::app::Extensions;
/// use handback_server::config::Config;
/// use handback_server::core::schema::Schema;
/// use handback_server::core::store::Success;
/// use handback_server::core::tools::{
///     Before, BoxFuture, Hook, HookedCall, Invocation, ServerTool, ServerToolSpec,
/// };
/// use handback_server::Server;
///
/// /// A tool: the model may ask which session it is in.
/// struct WhereAmI(ServerToolSpec);
///
/// impl ServerTool for WhereAmI {
///     fn spec(&self) -> &ServerToolSpec {
///         &self.0
///     }
///
///     fn run<'a>(&'a self, call: Invocation<'a>) -> BoxFuture<'a, Result<Success, String>> {
///         let output = format!("This is session {}.", call.session.id);
///         Box::pin(async { Ok(Success { output, ..Success::default() }) })
///     }
/// }
///
/// /// A hook: nothing is deleted here, whoever asks.
/// struct KeepEverything;
///
/// impl Hook for KeepEverything {
///     fn before<'a>(&'a self, call: HookedCall<'a>) -> BoxFuture<'a, Before> {
///         let refused = call.tool.contains("delete");
///         Box::pin(async move { if refused { Before::Refuse("Nothing is deleted here.".into()) } else { Before::Go } })
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let spec = ServerToolSpec::new("where_am_i", "Tells the session", Arc::new(Schema::any_object()))?;
/// let extensions =
///     Extensions { tools: vec![Arc::new(WhereAmI(spec))], hooks: vec![Arc::new(KeepEverything)], ..Extensions::default() };
/// let config = Config { listen: "127.0.0.1:0".parse()?, ..Config::default() };
/// let server = Server::bind_with(config, extensions).await?;
/// println!("listening on http://{}", server.local_addr());
/// server.run(async { /* until this is over */ }).await;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct Extensions {
    /// Model providers by name. A provider here overrides a configured one of the same name.
    pub models: Vec<(String, Arc<dyn Model>)>,
    /// Tools that run on the server, offered in every session.
    pub tools: Vec<Arc<dyn ServerTool>>,
    /// Tools that frontends run, offered in chats. A tool here overrides a configured one of the same name.
    pub frontend_tools: Vec<ToolSpec>,
    /// Hooks that look at the calls of models, before and after each call.
    pub hooks: Vec<Arc<dyn Hook>>,
    /// More metrics for `GET /metrics`.
    pub metrics: Vec<Arc<dyn Collector>>,
}

/// The routes of the server, their OpenAPI document, and the shapes of their errors.
pub struct Routes {
    /// All routes.
    pub router: Router<App>,
    /// The OpenAPI document of the routes.
    pub document: utoipa::openapi::OpenApi,
    /// The error shape of each path.
    pub errors: ErrorShapes,
}

/// The part of the configuration that cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The public key that checks tokens.
    #[error(transparent)]
    PublicKey(#[from] BadPublicKey),
    /// The database.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// A provider.
    #[error(transparent)]
    Provider(#[from] InvalidSettings),
    /// A frontend tool.
    #[error(transparent)]
    FrontendTool(#[from] InvalidTool),
    /// The state of an earlier process could not be read or marked.
    #[error("sessions could not be taken up: {0}")]
    Recover(#[from] StoreError),
}

impl App {
    /// Builds the server for the address that it listens on, and recovers the state that an earlier process stored.
    pub async fn new(
        config: Config,
        address: SocketAddr,
        clock: Clock,
        mut extensions: Extensions,
    ) -> Result<Self, SetupError> {
        let metrics = std::mem::take(&mut extensions.metrics);
        let tasks = TaskTracker::new();
        let database = ServerStore::open(&config).await?;
        let store = database.store();
        let limits = Limits { clocks: config.client_tools.clone(), ..config.limits.clone() };
        let hub = Hub::new(limits, clock, store.clone(), tasks.clone());
        let sessions = Sessions::new(hub.clone(), store.clone(), sessions_setup(&hub, &config, extensions)?);
        let (calls, left) = (hub.recover().await?, sessions.recover().await?);
        let runs = Runs::new(hub.clone(), store);
        runs.recover(&sessions).await?;
        let turns = left.begin();
        if turns > 0 || calls > 0 {
            tracing::info!(turns, calls, "what an earlier process left open goes on");
        }
        Ok(Self(Arc::new(Inner {
            hub,
            sessions,
            runs,
            database,
            auth: Auth::new(&config.auth)?,
            origins: Origins::new(&config, address),
            tasks,
            closing: CancellationToken::new(),
            started: Instant::now(),
            room: Arc::new(Semaphore::new(config.limits.connections)),
            is_closing: AtomicBool::new(false),
            rejected: Family::default(),
            metrics,
            config,
        })))
    }

    /// All routes of all protocols.
    pub fn routes() -> Routes {
        let protocols = [
            Protocol::from(api::client_tools::routes()),
            api::session::routes(),
            api::opencode::routes(),
            api::frontend_tools::routes(),
            api::chat::routes().into(),
            api::agui::routes().into(),
            api::rooms::routes(),
            api::event::routes().into(),
            api::auth::routes().into(),
            api::operations::routes().into(),
            #[cfg(test)]
            api::tests::plain::routes().into(),
        ];
        let (mut routes, mut errors) = (OpenApiRouter::with_openapi(api::document::begun()), ErrorShapes::default());
        for mut protocol in protocols {
            errors.add(protocol.routes.get_openapi_mut().paths.paths.keys(), protocol.errors);
            routes = routes.merge(protocol.routes);
        }
        let (router, document) = routes.split_for_parts();
        let router = router
            .merge(console::routes())
            .fallback(async || Problem::not_found("there is nothing at this path; GET /doc lists what there is"))
            .method_not_allowed_fallback(async || {
                Problem::new(ErrorCode::MethodNotAllowed, "this path does not take this method; see GET /doc")
            });
        Routes { router, document: api::document::completed(document, &errors), errors }
    }

    /// The handle to clients, tools and calls.
    pub fn hub(&self) -> &Hub {
        &self.0.hub
    }

    /// Conversations with models.
    pub fn sessions(&self) -> &Sessions {
        &self.0.sessions
    }

    /// The runs of AG-UI threads.
    pub fn runs(&self) -> &Runs {
        &self.0.runs
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.0.config
    }

    /// The check of keys and tokens.
    pub fn auth(&self) -> &Auth {
        &self.0.auth
    }

    /// The hosts and origins that requests may come from.
    pub fn origins(&self) -> &Origins {
        &self.0.origins
    }

    /// Tasks that shutdown waits for.
    pub fn tasks(&self) -> &TaskTracker {
        &self.0.tasks
    }

    /// Runs work to its end on its own task, even if the receiver is dropped. The result is then discarded.
    pub(crate) fn begin_apart<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (done, is_done) = oneshot::channel();
        self.tasks().spawn(async move { _ = done.send(work.await) }.in_current_span());
        is_done
    }

    /// Closes the database after flushing everything that it accepted. Call this when all tasks are done.
    pub async fn close_database(&self) -> Result<(), StoreError> {
        self.0.database.close().await
    }

    /// Whether the store can write at the moment.
    pub async fn can_write(&self) -> bool {
        self.0.database.is_writable().await
    }

    /// How many bytes of sessions the database holds; `None` if the store is in memory.
    pub(crate) async fn stored_bytes(&self) -> Result<Option<u64>, StoreError> {
        self.0.database.stored_bytes().await
    }

    /// When the server was started.
    pub(crate) fn started(&self) -> Instant {
        self.0.started
    }

    /// A permit for each socket that may be open, besides those that are.
    pub(crate) fn room(&self) -> &Arc<Semaphore> {
        &self.0.room
    }

    /// Tells all connections to close.
    pub fn close(&self) {
        self.0.is_closing.store(true, Ordering::Release);
        self.0.closing.cancel();
    }

    /// Whether all connections must close.
    pub fn is_closing(&self) -> bool {
        self.0.is_closing.load(Ordering::Acquire)
    }

    /// A token that is cancelled when all connections must close.
    pub fn closing(&self) -> &CancellationToken {
        &self.0.closing
    }

    /// Counts a request that was answered with an error.
    pub fn rejected(&self, status: StatusCode) {
        self.0.rejected.get_or_create(&StatusLabel { status: status.as_u16() }).inc();
    }

    /// The metrics of an embedding program.
    pub(crate) fn metrics(&self) -> &[Arc<dyn Collector>] {
        &self.0.metrics
    }

    /// The counter of [`App::rejected`].
    pub(crate) fn rejected_requests(
        &self,
    ) -> Family<impl EncodeLabelSet + Clone + std::hash::Hash + Eq + std::fmt::Debug + Send + Sync + 'static, Counter>
    {
        self.0.rejected.clone()
    }
}

/// Combines the built-in, configured and added models, tools and hooks that sessions run with.
fn sessions_setup(hub: &Hub, config: &Config, extensions: Extensions) -> Result<Setup, SetupError> {
    let mut models = Models::default();
    models.insert(DEMO_PROVIDER, Arc::new(Scripted));
    for (name, provider) in &config.providers {
        models.insert(name, model(name, provider)?);
    }
    for (name, model) in extensions.models {
        models.insert(&name, model);
    }
    let built_in: Arc<dyn ServerTool> = Arc::new(ListTools::default());
    let tools: Vec<_> = [built_in].into_iter().chain(extensions.tools).collect();
    let frontend_tools = frontend_tools::all(hub, config, extensions.frontend_tools, &tools)?;
    Ok(Setup {
        models,
        default_model: config.model.clone(),
        agents: Agents::from(config),
        tools,
        frontend_tools,
        hooks: extensions.hooks,
    })
}

/// Builds a provider from its settings.
fn model(name: &str, provider: &config::Provider) -> Result<Arc<dyn Model>, InvalidSettings> {
    let settings = provider::Settings {
        name: name.to_owned(),
        base_url: provider.base_url.clone(),
        api_key: provider.api_key.clone(),
        images: provider.images,
        max_tokens: provider.max_tokens,
        bounds: provider::RequestBounds {
            // A provider may have to load its model before its first byte.
            first_byte: provider.stall_timeout * 5,
            stall: provider.stall_timeout,
            ..provider::RequestBounds::default()
        },
    };
    Ok(match provider.kind {
        ProviderKind::OpenAi => Arc::new(OpenAi::new(settings)?),
        ProviderKind::Anthropic => Arc::new(Anthropic::new(settings)?),
    })
}
