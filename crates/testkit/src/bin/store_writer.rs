//! Writes to a store as fast as it can until it is killed, and says on standard output what the store has acknowledged:
//! the process that the tests of what survives kill.
#![expect(clippy::unwrap_used, reason = "test code: a failure is a failed test")]

use std::io::{Write, stdout};
use std::path::PathBuf;
use std::sync::Arc;

use handback_core::store::{CallStore, IfFull, Message, RunStore, SessionStore};
use handback_server::store::{Bounds, Sqlite};
use handback_testkit::store_contract::samples::{begun, events, finished, head, run, session, text_part, user};
use tokio::task::JoinSet;

const WRITERS: usize = 16;

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let (path, round) = (PathBuf::from(arguments.next().unwrap()), arguments.next().unwrap());
    let store = match Sqlite::open(&path, Bounds { calls: 1_000_000, ..Bounds::default() }) {
        Ok(store) => Arc::new(store),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    };
    say("open");
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        writers.spawn(write(store.clone(), format!("{round}.{writer}")));
    }
    while let Some(writer) = writers.join_next().await {
        writer.unwrap();
    }
}

/// A session whose one message and one run grow, and calls, without end.
async fn write(store: Arc<Sqlite>, name: String) {
    store.save_session(&Arc::new(session(&name)), IfFull::Fails).await.unwrap();
    let mut message = user(&name, "message");
    let run = Arc::new(run(&name, "run"));
    store.save_run(&run, IfFull::Fails).await.unwrap();
    // An event for each part: the message has one already.
    store.append_run_events(&run.session, &run.id, 0, events(&["told"])).await.unwrap();
    for number in 0.. {
        let call = finished(head(&format!("{name}.{number}"), "desk", &name));
        store.begin(&begun(&call.head), IfFull::Fails).await.unwrap();
        say(&format!("begun {name}.{number}"));
        store.finish(&call, IfFull::Fails).await.unwrap();
        say(&format!("finished {name}.{number}"));
        message.parts.push(text_part(&format!("part {number}"), "text"));
        store.save_message(&Arc::new(Message::clone(&message))).await.unwrap();
        store.append_run_events(&run.session, &run.id, number + 1, events(&["told"])).await.unwrap();
        say(&format!("saved {name} {}", message.parts.len()));
    }
}

/// One line at once: what has been read of it by the end is all of it or nothing.
fn say(line: &str) {
    let mut out = stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}
