//! What the stream of events tells of calls: each `client-tool.completed` and `client-tool.failed`, by `callID`.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::Value;
use sse_stream::SseStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::Server;
use super::application::Application;

/// How long the last events may take.
const LAST: Duration = Duration::from_secs(10);
/// The time between two tries to connect, while the server is away.
const AGAIN: Duration = Duration::from_millis(20);

/// The ends of each call that were told: `None` is a success, a text is why it failed.
pub(super) type Ends = HashMap<String, Vec<Option<String>>>;

/// Listens until it is asked. Dropping it ends that.
pub(super) struct Witness {
    server: Server,
    ends: watch::Receiver<Ends>,
    listening: JoinHandle<()>,
}

impl Witness {
    /// Listens; from here on nothing is missed, unless the server restarts.
    pub(super) async fn begin(application: Application) -> Self {
        let server = application.server;
        let (tell, ends) = watch::channel(Ends::new());
        let (connected, mut connecting) = watch::channel(false);
        #[expect(clippy::disallowed_methods, reason = "the test's own task; it ends with the witness")]
        let listening = tokio::spawn(async move {
            loop {
                listen(&application, &tell, &connected).await;
                if server == Server::Stays {
                    return;
                }
                sleep(AGAIN).await;
            }
        });
        connecting.wait_for(|connected| *connected).await.expect("the server has a stream of events");
        Self { server, ends, listening }
    }

    /// What was told by now, or very soon: when it is known which calls there were. Others may have been made beside them.
    pub(super) async fn end(&mut self, calls: &[&str]) -> Ends {
        let are_told = |ends: &Ends| calls.iter().all(|call| ends.contains_key(*call));
        let all = timeout(LAST, self.ends.wait_for(are_told)).await.is_ok();
        assert!(all || self.server == Server::Restarts, "some events never came, or the stream was cut");
        self.ends.borrow().clone()
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// Takes note of what comes on one connection.
async fn listen(application: &Application, tell: &watch::Sender<Ends>, connected: &watch::Sender<bool>) {
    let Ok(response) = application.events().send().await else { return };
    let mut frames = SseStream::from_bytes_stream(Box::pin(response.bytes_stream()));
    while let Some(Ok(frame)) = frames.next().await {
        let Some(event) = frame.data.and_then(|data| serde_json::from_str::<Value>(&data).ok()) else { continue };
        let properties = &event["properties"];
        let end = match event["type"].as_str() {
            Some("client-tool.completed") => None,
            Some("client-tool.failed") => Some(properties["error"].as_str().unwrap_or_default().to_owned()),
            Some("server.connected") => {
                connected.send_replace(true);
                continue;
            }
            _ => continue,
        };
        let call = properties["callID"].as_str().unwrap_or_default().to_owned();
        tell.send_modify(|ends| ends.entry(call).or_default().push(end));
    }
}
