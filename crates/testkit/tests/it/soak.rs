//! An hour of calls and turns over connections that break, at a server that lives on and at one that is killed again and
//! again: what the first one needs does not grow, and at neither anything is left.
//!
//! `SOAK_SECONDS` says how long it takes.

use std::net::SocketAddr;
use std::time::Duration;

use fastrand::Rng;
use futures_util::future::join_all;
use handback_client::{Client, ClientOptions, Error, Journal, Options, StartSession, Transport};
use handback_testkit::Scratch;
use handback_testkit::faults::{self, Faults};
use handback_testkit::server::{PATIENCE, lasting_address, until_within};
use handback_testkit::storm::{Runs, Server, Storm, plan};
use rusqlite::{Connection, OpenFlags};
use tokio::time::{Instant, sleep, timeout};

use crate::restarts::{Killed, Restarts};

/// How long it takes, if nothing else is said.
const AN_HOUR: Duration = Duration::from_secs(3_600);
/// Clients at a time.
const CROWD: usize = 8;
/// Calls of a client, and turns.
const ROUND: (usize, usize) = (100, 10);
/// Between two rounds, so that others have something of the machine, too.
const PAUSE: Duration = Duration::from_millis(500);
/// How much more memory there may be in the end.
const MOST_GROWTH: f64 = 1.1;
/// Fewer rounds say nothing about memory.
const FEWEST_ROUNDS: usize = 10;
/// How long a turn may take, with all that happens meanwhile.
const TURN: Duration = Duration::from_secs(120);

/// A server, its data, and a network before it that misbehaves.
struct Stage {
    kind: Server,
    server: Killed,
    address: SocketAddr,
    data: Scratch,
    faults: Faults,
    seed: u64,
}

/// What the rounds at a server were.
#[derive(Debug, Default)]
struct Report {
    rounds: usize,
    kills: usize,
    /// The resident memory after each round, in kB.
    memory: Vec<u64>,
    /// Open files and sockets after each round.
    files: Vec<usize>,
}

impl Stage {
    async fn set(kind: Server, transport: Transport) -> Self {
        let (mut server, data, seed) = (Killed::default(), Scratch::new(), faults::seed());
        let address = server.start(lasting_address(), &data).await;
        let faults = Faults::with(address, plan(transport, seed)).await.unwrap();
        Self { kind, server, address, data, faults, seed }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Rounds until the time is over. A server that restarts is killed meanwhile.
    async fn soak(&mut self, transport: Transport, lasts: Duration) -> Report {
        let (end, mut report) = (Instant::now() + lasts, Report::default());
        let mut random = Rng::with_seed(self.seed);
        let (url, proxy, kind, seed) = (self.url(), self.faults.url.clone(), self.kind, self.seed);
        while Instant::now() < end {
            let round = join_all((0..CROWD).map(|client| {
                let number = report.rounds * CROWD + client;
                round(&url, &proxy, number, transport, kind, seed ^ number as u64)
            }));
            match kind {
                Server::Stays => _ = round.await,
                Server::Restarts => {
                    tokio::select! {
                        _ = round => {}
                        () = self.kill_again_and_again(&mut random, &mut report.kills) => unreachable!("it goes on"),
                    }
                }
            }
            report.rounds += 1;
            report.memory.push(self.server.memory());
            report.files.push(self.server.open_files());
            sleep(PAUSE).await;
        }
        report
    }

    async fn kill_again_and_again(&mut self, random: &mut Rng, kills: &mut usize) {
        loop {
            sleep(Duration::from_millis(random.u64(200..5_000))).await;
            self.server.stop().await;
            self.server.start(self.address, &self.data).await;
            *kills += 1;
        }
    }

    /// Checks that nothing is left in the server, and nothing but the record of calls in its database.
    async fn end(mut self, report: &Report) {
        Storm::until_nothing_is_left(&self.url()).await;
        let few = report.files.iter().min().copied().unwrap_or_default();
        until_within(PATIENCE, "sockets are closed", async || self.server.open_files() <= few).await;
        self.server.stop().await;
        let path = self.data.path().join("handback.db");
        let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        for rows in
            ["session", "message", "part", "run", "run_event", "client", "client_tool", "call WHERE ended IS NULL"]
        {
            let count: i64 = database.query_row(&format!("SELECT count(*) FROM {rows}"), [], |row| row.get(0)).unwrap();
            assert_eq!(count, 0, "rows that are left in {rows}");
        }
    }
}

/// A client comes, is called, talks, and goes.
async fn round(url: &str, proxy: &str, number: usize, transport: Transport, kind: Server, seed: u64) {
    let (runs, name, journal) = (Runs::default(), format!("soak-{number}"), Scratch::new());
    let options = ClientOptions::with(|options| {
        options.client_id = Some(name.clone());
        options.tools = Options::with(|options| {
            options.transport = transport;
            // In memory it could not tell what a socket has lost on the way from what it has run.
            options.journal = Journal::directory(journal.path()).unwrap();
            options.reconnect = (Duration::from_millis(5), Duration::from_millis(50));
            options.silence = Duration::from_millis(300);
        });
    });
    let client = Client::new(proxy, options).unwrap();
    for tool in runs.tools() {
        client.tools().register(tool).await.unwrap();
    }
    client.tools().connect(None).await.unwrap();
    let mut storm = Storm::begin(url, &name, seed, kind).await;
    tokio::join!(storm.rage(ROUND.0, |_| {}), talk(&client, number));
    storm.check(&runs).await;
    client.tools().disconnect().await;
}

/// Turns with two calls each, in one session, which is deleted afterwards.
async fn talk(client: &Client, number: usize) {
    let session = client.start_session(StartSession::default()).await.unwrap();
    for turn in 0..ROUND.1 {
        let word = format!("{number}.{turn}");
        let call = |tool: &str| format!("call {tool} {{\"act\":\"answer\",\"work\":{turn},\"word\":\"{word}\"}}");
        let prompt = format!("{}\n{}", call("read"), call("idempotent"));
        let answer = timeout(TURN, session.prompt(prompt)).await.expect("an answer in time").unwrap();
        let text = answer.text();
        assert_eq!(text.matches(&format!("was asked for {word}")).count(), 2, "{text}");
    }
    let id = session.session().id.clone();
    session.close().await;
    // The server may be away, and may have deleted it before its answer was lost.
    until_within(PATIENCE, "the session is deleted", async || match client.api().delete_session(&id).await {
        Ok(()) => true,
        Err(Error::Refused(refusal)) => refusal.status == 404,
        Err(_) => false,
    })
    .await;
}

fn median(samples: &[u64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2] as f64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it takes an hour; `make soak` runs it"]
async fn nothing_grows_and_nothing_is_left() {
    let seconds = std::env::var("SOAK_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    let lasts = seconds.map_or(AN_HOUR, Duration::from_secs);
    let mut lives = Stage::set(Server::Stays, Transport::Sse).await;
    let mut dies = Stage::set(Server::Restarts, Transport::WebSocket).await;
    let (living, dying) = tokio::join!(lives.soak(Transport::Sse, lasts), dies.soak(Transport::WebSocket, lasts));
    println!("killed {} times in {} rounds", dying.kills, dying.rounds);
    assert!(living.rounds >= FEWEST_ROUNDS, "{} rounds say nothing", living.rounds);
    // The page caches of the database and what is remembered of calls for ten minutes fill first.
    let memory = &living.memory[living.memory.len() / 3..];
    let third = memory.len() / 3;
    let (early, late) = (median(&memory[..third]), median(&memory[memory.len() - third..]));
    println!("{} rounds, memory {early} kB early and {late} kB late: {:.2}", living.rounds, late / early);
    dies.end(&dying).await;
    lives.end(&living).await;
    assert!(late <= early * MOST_GROWTH, "memory grows: {:?}", living.memory);
}
