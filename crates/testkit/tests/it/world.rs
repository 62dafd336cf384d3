//! A server whose model the test speaks for.

use handback_server::config::Config;
use handback_testkit::{FakeModel, TestServer};

/// A server whose model the test speaks for.
pub(crate) struct World {
    pub(crate) server: TestServer,
    pub(crate) model: FakeModel,
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut Config)) -> Self {
        let model = FakeModel::default();
        let server = TestServer::with_model(&model, change).await;
        Self { server, model }
    }

    /// The messages of a session as the session API tells them, one line each.
    pub(crate) async fn history(&self, session: &str) -> Vec<String> {
        self.server.history(session).await
    }
}
