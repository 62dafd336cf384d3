//! The proxy of the tests as a program, for tests in other languages. It says where it listens and then does what it
//! reads, a line each: `calm`, `storm`, or `report`, which is answered with the counters as one line of JSON. It ends when
//! there is nothing more to read.
#![expect(clippy::expect_used, reason = "test code: a failure is a failed test")]

use std::io::stdin;
use std::net::SocketAddr;

use clap::Parser;
use handback_testkit::faults::{self, Faults};
use tokio::runtime::Runtime;

/// A proxy that cuts, stalls, delays and repeats what passes through it. It begins with a storm.
#[derive(Parser)]
struct Arguments {
    /// The server.
    #[arg(long)]
    upstream: SocketAddr,
    /// What chance follows from; `FAULTS_SEED` or a new one if it is not given.
    #[arg(long)]
    seed: Option<u64>,
}

fn main() {
    let Arguments { upstream, seed } = Arguments::parse();
    let runtime = Runtime::new().expect("a runtime");
    let starting = Faults::start(upstream, seed.unwrap_or_else(faults::seed));
    let faults = runtime.block_on(starting).expect("a free port");
    eprintln!("FAULTS_SEED={}", faults.seed());
    println!("listening on {}", faults.url);
    for line in stdin().lines() {
        match line.expect("standard input can be read").trim() {
            "calm" => faults.calm(),
            "storm" => faults.storm(),
            "report" => println!("{}", serde_json::json!(faults.report())),
            other => eprintln!("not a command: {other:?}"),
        }
    }
}
