use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use futures_util::{StreamExt, stream};
use tokio::sync::Semaphore;

use super::super::super::run::tests::support::Recorder;
use super::super::super::{
    Conversation, Ending, HttpAgent, Lifecycle, Run, RunKey, RunOptions, RunRegistry, RunRequest, RunState,
    ToolRegistry,
};
use super::server::*;

const RUNS: usize = 1_000;

/// Both ends of every connection are in this process.
#[cfg(unix)]
fn allow_many_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(8_192, |maximum| maximum.min(8_192));
    if current.is_some_and(|current| current < wanted) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).unwrap();
    }
}

/// No run ends before all have begun, so they are at once or not at all.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_runs_at_once_share_one_agent() {
    allow_many_files();
    let (begun, all) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (count, gate) = (Arc::clone(&begun), Arc::clone(&all));
    let server = Server::start(move |_, asked| {
        let thread = asked.body["threadId"].as_str().unwrap().to_owned();
        count.add_permits(1);
        let (first, last, gate) = (started(&thread, "r"), finished(&thread, "r"), Arc::clone(&gate));
        let end = stream::once(async move {
            gate.acquire().await.unwrap().forget();
            last
        });
        sse(Body::from_stream(stream::iter([first]).chain(end).map(Ok::<_, std::io::Error>)))
    })
    .await;
    let agent = Arc::new(HttpAgent::new(&server.url).unwrap());
    let registry = RunRegistry::new();
    let mut recorders = Vec::new();
    for number in 0..RUNS {
        let conversation = Conversation::in_thread(number.to_string());
        let run = Run::new(agent.clone(), ToolRegistry::new(), conversation, RunOptions::default());
        recorders.push(Recorder::of(&run));
        registry
            .start(RunKey::new(&server.url, "room", number.to_string()), run, RunRequest::Say("Hi".to_owned()))
            .unwrap();
    }
    let completing = async {
        let _ = begun.acquire_many(u32::try_from(RUNS).unwrap()).await.unwrap();
        assert_eq!(registry.active().len(), RUNS);
        let mut events = registry.lifecycle();
        all.add_permits(RUNS);
        for _ in 0..RUNS {
            let Some(Lifecycle::Completed { ending, .. }) = events.next().await else { panic!("all of them complete") };
            assert_eq!(ending, Ending::Ended(RunState::Completed));
        }
    };
    tokio::time::timeout(Duration::from_secs(30), completing).await.expect("they are done in time");
    for recorder in recorders {
        recorder.assert_no_flash(1);
    }
}
