//! A storm of calls: many at a time, of every kind, whatever happens to the client's connections meanwhile. Afterwards
//! everybody who has seen a call must tell the same of it.
//!
//! - `plan`: what is asked of the handler and what the application does; what may come of that
//! - `runs`: what handlers do, and the record of their runs
//! - `application`: makes the calls and takes their answers
//! - `events`: what the stream of events tells
//! - `ride`: a storm from its beginning to its end, for a client in whatever language
//!
//! The application speaks to the server directly; the client, which is the test's, does not have to.

mod application;
mod events;
mod plan;
mod ride;
mod runs;

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use futures_util::{StreamExt, stream};
use handback_server::config::Config;
use serde_json::json;
use tokio::time::{sleep, timeout};

use self::application::{Application, Made};
use self::events::Witness;
use self::plan::{Outcome, Plan};
pub use self::ride::{Ride, plan};
pub use self::runs::Runs;
use crate::server::PATIENCE;

/// Calls under way at a time.
const AT_A_TIME: usize = 32;
/// How long those that crashed are waited for.
const GRACE: Duration = Duration::from_secs(10);
/// The time between two looks at what is left.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// How many faults are told of.
const TOLD: usize = 20;

/// How the server of a storm is set up: what is lost is missed soon, and nothing is forgotten before it is looked at.
pub fn configure(config: &mut Config) {
    config.client_tools.keepalive_interval = Duration::from_millis(60);
    config.limits.largest_grace = GRACE;
    // A registration that arrives after the goodbye has no connection.
    config.limits.unconnected_tools = GRACE;
    config.limits.event_buffer = 1_000_000;
    config.limits.event_bytes = 1 << 30;
    config.limits.stored_calls = 100_000;
    config.limits.stored_bytes = 1 << 30;
}

/// What the server does during the storm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// It is there all the time.
    Stays,
    /// It is stopped or killed, and started again. Calls are made again whose answer was lost, and events may be missed or
    /// come again.
    Restarts,
}

/// Calls to the tools of one client, which are named after their effects: `read`, `idempotent` and `write`.
pub struct Storm {
    application: Application,
    client: String,
    seed: u64,
    witness: Witness,
    made: Vec<Made>,
}

impl Storm {
    /// Looks at the server's events from now on. `url` is the server's own, not that of a proxy.
    pub async fn begin(url: &str, client: &str, seed: u64, server: Server) -> Self {
        let application = Application::new(url, server);
        let witness = Witness::begin(application.clone()).await;
        Self { application, client: client.to_owned(), seed, witness, made: Vec::new() }
    }

    /// Makes so many calls and waits for their answers. `progress` is told how many are over, after each.
    pub async fn rage(&mut self, calls: usize, progress: impl Fn(usize)) {
        let mut random = Rng::with_seed(self.seed ^ self.made.len() as u64);
        let first = self.made.len();
        let plans = (first..first + calls).map(|number| Plan::new(number, &self.client, &mut random));
        let mut making =
            stream::iter(plans.collect::<Vec<_>>()).map(|plan| self.application.make(plan)).buffer_unordered(AT_A_TIME);
        let mut made = Vec::with_capacity(calls);
        while let Some(call) = making.next().await {
            made.push(call);
            progress(made.len());
        }
        drop(making);
        self.made.extend(made);
    }

    /// Compares what the callers, the server, its events and the handlers say; fails with all that does not agree.
    ///
    /// # Panics
    /// It does not agree, or too little happened to show anything.
    pub async fn check(mut self, runs: &Runs) {
        let looking = self.made.iter().map(|call| self.application.look(&call.plan.request));
        let on_record: Vec<_> = stream::iter(looking).buffered(AT_A_TIME).collect().await;
        let calls: Vec<&str> = self.made.iter().map(|call| call.plan.call.as_str()).collect();
        let events = self.witness.end(&calls).await;
        let mut wrong = Vec::new();
        let mut ends: BTreeMap<String, usize> = BTreeMap::new();
        for (call, on_record) in self.made.iter().zip(on_record) {
            let told = events.get(&call.plan.call).map(Vec::as_slice).unwrap_or_default();
            match self.agreed(call, on_record, told, runs) {
                Ok(end) => *ends.entry(format!("{:?} {end}", call.plan.effect)).or_default() += 1,
                Err(fault) => wrong.push(format!("{}: {fault}\n    {:?}", call.plan.request, call.plan)),
            }
        }
        let slowest = self.made.iter().map(|call| call.took).max();
        println!("{} calls, the slowest took {slowest:?}: {ends:?}", self.made.len());
        wrong.extend(runs.repeated_writes());
        let count = wrong.len();
        wrong.truncate(TOLD);
        assert!(wrong.is_empty(), "seed {}: {count} faults, such as\n{}", self.seed, wrong.join("\n"));
        // A client that declares every outcome unknown would be right each time. How many are unknown is for the weather
        // and the restarts to say.
        let writes: usize = ends.iter().filter(|(end, _)| end.starts_with("Write ")).map(|(_, count)| count).sum();
        let succeeded = ends.get("Write success").copied().unwrap_or_default();
        assert!(succeeded * 10 > writes, "seed {}: few writes succeeded: {ends:?}", self.seed);
    }

    /// What everybody says that a call ended as, or who says something else.
    fn agreed(
        &self,
        call: &Made,
        on_record: Result<Outcome, String>,
        told: &[Option<String>],
        runs: &Runs,
    ) -> Result<String, String> {
        let (outcome, on_record) = (call.outcome.clone()?, on_record?);
        if outcome != on_record {
            return Err(format!("the caller has {outcome:?}, the server {on_record:?}"));
        }
        let failure = (outcome.status != "success").then(|| outcome.text.clone());
        // A killed server may have told of an end that it did not come to store.
        let told_again = self.application.server == Server::Restarts && told.iter().all(|told| *told == failure);
        if told != [failure] && !told_again {
            return Err(format!("the caller has {outcome:?}, the events {told:?}"));
        }
        // A server that was killed before it could say that it took the cancel says, asked again, that the call is over.
        let taken_before = call.cancel == Some(410) && self.application.server == Server::Restarts;
        let cancelled = call.cancel == Some(200) || (taken_before && outcome.status == "cancelled");
        if cancelled != (outcome.status == "cancelled") {
            return Err(format!("the cancel was answered {:?}, and yet {outcome:?}", call.cancel));
        }
        if !call.plan.allows(&outcome) {
            return Err(format!("it must not end as {outcome:?}"));
        }
        let from_handler = outcome == call.plan.answer() || outcome == call.plan.failure();
        if from_handler && runs.of(&call.plan.request) == 0 {
            return Err(format!("no handler ran, and yet {outcome:?}"));
        }
        Ok(if outcome.is_unknown() { "unknown".to_owned() } else { outcome.status })
    }

    /// Waits until the server knows no client, no tool and no call under way.
    ///
    /// # Panics
    /// Something is left for too long.
    pub async fn until_nothing_is_left(url: &str) {
        let application = Application::new(url, Server::Stays);
        let mut left = Vec::new();
        let is_gone = async {
            loop {
                left = vec![application.get("/client-tools/clients").await];
                for state in ["awaiting_approval", "queued", "offered"] {
                    left.push(application.get(&format!("/client-tools/calls?state={state}")).await);
                }
                left.push(application.get("/client-tools/tools").await);
                left.retain(|left| *left != json!([]) && *left != json!({}));
                if left.is_empty() {
                    return;
                }
                sleep(LOOK_AGAIN).await;
            }
        };
        // What arrives after the goodbye, a registration or a handshake, leaves its client there for a while.
        if timeout(GRACE + PATIENCE, is_gone).await.is_err() {
            panic!("{url} has left: {}", json!(left));
        }
    }
}
