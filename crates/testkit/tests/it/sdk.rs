//! The Rust SDK against a real server, over connections that are lost.

mod agui;
mod calls;
mod clients;
mod proxy;
mod restarts;
mod tools;
mod turns;

use handback_client::{Client, ClientOptions, SessionHandle, StartSession};
use handback_testkit::{FakeModel, TestServer};

use self::proxy::Proxy;

/// A server whose model the test speaks for, and a session on it whose connections can be cut.
struct World {
    server: TestServer,
    model: FakeModel,
    proxy: Proxy,
    session: SessionHandle,
}

impl World {
    async fn start() -> Self {
        let model = FakeModel::default();
        let server = TestServer::with_model(&model, |_| {}).await;
        let proxy = Proxy::to(server.address).await;
        let client = Client::new(&proxy.url, ClientOptions::default()).unwrap();
        let start = StartSession::with(|session| session.without_tools = true);
        let session = client.start_session(start).await.unwrap();
        Self { server, model, proxy, session }
    }

    async fn history(&self) -> Vec<String> {
        self.server.history(&self.session.session().id).await
    }
}
