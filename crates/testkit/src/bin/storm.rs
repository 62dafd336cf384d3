//! A storm for a client in another language. It says where the client finds the server (`client at URL`) and waits until
//! that says `connected`; it makes the calls, says `calm`, and waits until the client says `gone`. Before each run of a
//! handler the client says `run REQUEST EFFECT`. It ends with 0 if all is as it must be.
//!
//! What the handlers do is what [`Runs::run`] does.
#![expect(clippy::expect_used, clippy::panic, reason = "test code: a failure is a failed test")]

use std::io::stdin;

use clap::{Parser, ValueEnum};
use handback_client::Transport;
use handback_testkit::storm::{Ride, Runs};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A storm of calls to the tools `read`, `idempotent` and `write` of the client `storm`.
#[derive(Parser)]
struct Arguments {
    /// What carries the calls.
    #[arg(long)]
    transport: Carrier,
    /// How many are made.
    #[arg(long, default_value_t = 1_000)]
    calls: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum Carrier {
    Sse,
    Websocket,
}

#[tokio::main]
async fn main() {
    let Arguments { transport, calls } = Arguments::parse();
    let transport = match transport {
        Carrier::Sse => Transport::Sse,
        Carrier::Websocket => Transport::WebSocket,
    };
    let runs = Runs::default();
    let mut said = listen(runs.clone());
    let ride = Ride::begin(transport).await;
    println!("client at {}", ride.url());
    expect(&mut said, "connected").await;
    let storm = ride.rage(calls).await;
    println!("calm");
    expect(&mut said, "gone").await;
    ride.end(storm, &runs).await;
}

/// Reads what the client says; the runs go into the record, in their order with the rest.
fn listen(runs: Runs) -> UnboundedReceiver<String> {
    let (sender, said) = unbounded_channel();
    std::thread::spawn(move || {
        for line in stdin().lines() {
            let line = line.expect("standard input can be read");
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["run", request, effect] => runs.record(request, effect),
                _ => drop(sender.send(line)),
            }
        }
    });
    said
}

async fn expect(said: &mut UnboundedReceiver<String>, word: &str) {
    match said.recv().await {
        Some(line) if line == word => {}
        other => panic!("the client was to say {word:?}, and said {other:?}"),
    }
}
