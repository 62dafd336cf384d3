//! How long a server takes to start after it was killed, with much in its database and some turns under way.

use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::json;
use tokio::time::Instant;

use crate::histories::make_session;
use crate::http::{self, Line};
use crate::process::Binaries;
use crate::scenario::{Peer, Store};

/// How many sessions the database has.
pub(crate) const SESSIONS: usize = 10_000;
/// In how many of them a turn waits for a client.
pub(crate) const TURNS: usize = 100;
/// How often each is measured; the medians count.
pub(crate) const ROUNDS: usize = 5;
/// How many messages each session has.
pub(crate) const MESSAGES: [usize; 2] = [2, 20];
/// How long a start may take.
pub(crate) const GOAL: Duration = Duration::from_secs(2);
/// Between two looks whether the server is ready.
const PULSE: Duration = Duration::from_millis(2);

/// What came out for so many messages in a session.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) messages: usize,
    /// From the start of the process until `/readyz` says yes, in each round.
    pub(crate) starts: Vec<Duration>,
}

/// Fills a database, kills its server and starts it again, several times.
pub(crate) fn measure(binaries: &Binaries, messages: usize) -> anyhow::Result<Outcome> {
    let mut server = binaries.start(Peer::Handback(Store::Sqlite))?;
    fill(server.address(), messages)?;
    let mut starts = Vec::new();
    for _ in 0..ROUNDS {
        let data = server.kill().context("a server without data")?;
        let began = Instant::now();
        server = binaries.start_again(data)?;
        while http::ask(server.address(), "GET /readyz", "")? != 200 {
            std::thread::sleep(PULSE);
        }
        starts.push(began.elapsed());
        let open = calls(&mut Line::open(server.address())?)?;
        ensure!(open == TURNS, "{open} calls of {TURNS} are open again");
    }
    Ok(Outcome { messages, starts })
}

/// Makes the sessions, and lets some wait for a client that does not answer.
fn fill(address: &str, messages: usize) -> anyhow::Result<()> {
    let mut line = Line::open(address)?;
    let tools = json!({ "clientID": "away", "tools": [{ "id": "go", "parameters": { "type": "object" } }] });
    let _connected = Line::open(address)?.into_events("/client-tools/pending/away")?;
    line.ask("POST /client-tools/register", &tools.to_string())?;
    let part = |text: &str| json!([{ "type": "text", "text": text }]);
    let note = json!({ "noReply": true, "parts": part(&"x".repeat(500)) }).to_string();
    let prompt = json!({ "parts": part("call go {}"), "clientID": "away" }).to_string();
    let mut busy = Vec::new();
    for number in 0..SESSIONS {
        let session = make_session(&mut line)?;
        for _ in 0..messages {
            line.ask(&format!("POST /session/{session}/message"), &note)?;
        }
        if number % (SESSIONS / TURNS) == 0 {
            busy.push(session);
        }
    }
    // Last, so that none of their calls is out of time.
    for session in busy {
        line.ask(&format!("POST /session/{session}/prompt_async"), &prompt)?;
    }
    // A turn is taken before its call is made.
    while calls(&mut line)? < TURNS {
        std::thread::sleep(PULSE);
    }
    Ok(())
}

/// How many calls the server knows. None of them ends here.
fn calls(line: &mut Line) -> anyhow::Result<usize> {
    let calls = line.ask("GET /client-tools/calls?limit=1000", "")?;
    Ok(serde_json::from_slice::<Vec<serde_json::Value>>(&calls)?.len())
}
