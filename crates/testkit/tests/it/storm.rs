//! The Rust SDK in a storm: its connections are cut and stalled at any byte, whole messages come late and twice, and the
//! server is restarted. Every call has exactly one outcome, no `write` is run twice, and nothing is left.
//!
//! `STORM_CALLS` says how many calls are made, `FAULTS_SEED` repeats what chance decided.

use std::time::Duration;

use handback_client::{Api, ClientTools, Journal, Options, Transport};
use handback_testkit::Scratch;
use handback_testkit::faults::{self, Faults};
use handback_testkit::server::lasting_address;
use handback_testkit::storm::{Ride, Runs, Server, Storm, plan};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::restarts::{Killed, Restarts, Stopped};

/// Calls of a storm, if nothing else is said.
const CALLS: usize = 1_000;
/// How much a client gets done before it crashes.
const RUNS_BETWEEN_CRASHES: usize = 60;
/// Calls after the storm, to see that all is as it was.
const AFTERWARDS: usize = 50;

fn calls() -> usize {
    std::env::var("STORM_CALLS").ok().and_then(|calls| calls.parse().ok()).unwrap_or(CALLS)
}

/// A client with the tools of a storm.
async fn connect(url: &str, transport: Transport, journal: Journal, runs: &Runs) -> ClientTools {
    let options = Options::with(|options| {
        options.transport = transport;
        options.journal = journal;
        options.reconnect = (Duration::from_millis(5), Duration::from_millis(50));
        options.silence = Duration::from_millis(300);
    });
    let tools = ClientTools::new(Api::new(url, None).unwrap(), "storm", options);
    for tool in runs.tools() {
        tools.register(tool).await.unwrap();
    }
    tools.connect(None).await.unwrap();
    tools
}

async fn ride_out(transport: Transport, journal: Journal) {
    let (ride, runs) = (Ride::begin(transport).await, Runs::default());
    let tools = connect(ride.url(), transport, journal, &runs).await;
    let storm = ride.rage(calls()).await;
    tools.disconnect().await;
    ride.end(storm, &runs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_by_sse_have_one_outcome_in_a_storm() {
    ride_out(Transport::Sse, Journal::memory()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_by_web_socket_have_one_outcome_in_a_storm() {
    let scratch = Scratch::new();
    ride_out(Transport::WebSocket, Journal::directory(scratch.path()).unwrap()).await;
}

/// The client is lost, with all that it had begun, and started anew; all it has is its journal.
async fn ride_out_crashes(transport: Transport) {
    let (ride, runs, scratch) = (Ride::begin(transport).await, Runs::default(), Scratch::new());
    let connect = || connect(ride.url(), transport, Journal::directory(scratch.path()).unwrap(), &runs);
    let mut tools = connect().await;
    let crashing = async {
        loop {
            let runs_before = runs.count();
            while runs.count() < runs_before + RUNS_BETWEEN_CRASHES {
                sleep(Duration::from_millis(10)).await;
            }
            // Without a goodbye.
            drop(std::mem::replace(&mut tools, connect().await));
        }
    };
    let storm = tokio::select! {
        storm = ride.rage(calls()) => storm,
        () = crashing => unreachable!("it goes on until the storm is over"),
    };
    tools.disconnect().await;
    ride.end(storm, &runs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_crashes_again_and_again_runs_no_write_twice_by_sse() {
    ride_out_crashes(Transport::Sse).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_crashes_again_and_again_runs_no_write_twice_by_web_socket() {
    ride_out_crashes(Transport::WebSocket).await;
}

async fn ride_out_restarts(mut server: impl Restarts, transport: Transport, journal: Journal) {
    let (seed, data) = (faults::seed(), Scratch::new());
    let address = server.start(lasting_address(), &data).await;
    let url = format!("http://{address}");
    let faults = Faults::with(address, plan(transport, seed)).await.unwrap();
    let runs = Runs::default();
    let tools = connect(&faults.url, transport, journal, &runs).await;
    let mut storm = Storm::begin(&url, "storm", seed, Server::Restarts).await;
    let (tell, mut progress) = watch::channel(0);
    let calls = calls() / 4;
    let restarting = async {
        for quarter in 1..4 {
            progress.wait_for(|over| *over >= calls * quarter / 4).await.unwrap();
            server.stop().await;
            server.start(address, &data).await;
        }
    };
    tokio::join!(storm.rage(calls, |over| _ = tell.send_replace(over)), restarting);
    // Nobody has done anything, and all is as it was.
    storm.rage(AFTERWARDS, |_| {}).await;
    faults.calm();
    storm.check(&runs).await;
    tools.disconnect().await;
    Storm::until_nothing_is_left(&url).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarts_of_the_server_are_survived_by_sse() {
    ride_out_restarts(Stopped::default(), Transport::Sse, Journal::memory()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_is_survived_by_web_socket() {
    let scratch = Scratch::new();
    ride_out_restarts(Killed::default(), Transport::WebSocket, Journal::directory(scratch.path()).unwrap()).await;
}
