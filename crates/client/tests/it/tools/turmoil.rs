//! Everything at once: whatever is asked of a client ends, and no call is run twice.

use std::collections::HashMap;
use std::sync::Mutex;

use super::*;
use crate::stub::{Connection, PATIENCE, request_frame};

const TASKS: u64 = 6;
const STEPS: usize = 50;

/// Counts how often each call is run.
fn counting(name: &str, runs: &Arc<Mutex<HashMap<String, usize>>>) -> Tool {
    let runs = Arc::clone(runs);
    Tool::new(name, "", move |call| {
        *runs.lock().unwrap().entry(call.request.request_id).or_default() += 1;
        async { Ok("done") }
    })
}

/// Asks this and that of a client.
async fn disturb(tools: ClientTools, seed: u64, runs: Arc<Mutex<HashMap<String, usize>>>) {
    let mut chance = fastrand::Rng::with_seed(seed);
    for _ in 0..STEPS {
        let name = ["tool", "other"][chance.usize(..2)];
        let session = ["ses_1", "ses_2"][chance.usize(..2)];
        // What comes of it depends on the others; that it comes to an end does not.
        let _ = match chance.u8(..16) {
            0..=2 => tools.connect(None).await,
            3 => tools.connect(Some(session)).await,
            4..=6 => tools.register(counting(name, &runs)).await,
            7 => tools.unregister(name).await,
            8 => {
                tools.disconnect().await;
                Ok(())
            }
            _ => {
                tokio::task::yield_now().await;
                Ok(())
            }
        };
    }
}

/// A server that gives calls to every connection, some of them several times, and cuts some of the connections then.
async fn serve(mut connections: UnboundedReceiver<Connection>, seed: u64) {
    let mut chance = fastrand::Rng::with_seed(seed);
    let (mut calls, mut kept) = (0, Vec::new());
    while let Some(connection) = connections.recv().await {
        for _ in 0..chance.usize(1..20) {
            let id = if chance.bool() { calls } else { chance.usize(..=calls) };
            calls += 1;
            // It may be gone already.
            connection.try_send(request_frame(&format!("e-{calls}"), &request(&id.to_string(), "write", 1)));
        }
        if chance.bool() {
            connection.try_cut();
        } else {
            kept.push(connection);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_asked_of_a_client_ends_and_no_call_runs_twice() {
    let mut calls = 0;
    for seed in 0..3 {
        let mut stub = Stub::start().await;
        for endpoint in ["pending", "register", "unregister", "result"] {
            stub.refuse(endpoint, &[503, 503, 429, 500]);
        }
        let (_none, connections) = unbounded_channel();
        let serving = TaskTracker::new().spawn(serve(std::mem::replace(&mut stub.connections, connections), seed));
        let options = Options::with(|options| options.reconnect = (Duration::from_millis(1), Duration::from_millis(4)));
        let tools = ClientTools::new(Api::new(&stub.url, None).unwrap(), "laptop", options);
        let runs = Arc::default();
        let disturbing = TaskTracker::new();
        for task in 0..TASKS {
            disturbing.spawn(disturb(tools.clone(), seed * TASKS + task, Arc::clone(&runs)));
        }
        disturbing.close();
        tokio::time::timeout(PATIENCE, disturbing.wait()).await.expect("everything ends");
        tools.disconnect().await;
        assert!(matches!(&*tools.state().borrow(), State::Closed(None)));
        let runs = runs.lock().unwrap();
        calls += runs.len();
        assert!(runs.values().all(|times| *times == 1), "{runs:?}");
        serving.abort();
    }
    assert_ne!(calls, 0);
}
