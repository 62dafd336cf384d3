//! The database goes away, and comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use handback_core::store::{CallStore, IfFull, RunStore, SessionStore, StoreError};
use handback_server::config::Secret;
use handback_server::store::Postgres;
use handback_testkit::server::until;
use handback_testkit::store_contract::samples::{
    begun, events, finished, head, request_id, run, run_id, session, session_id, texts,
};
use handback_testkit::{OwnPostgres, Relay, TestDatabase, TestServer, postgres::query};
use reqwest::Method;
use serde_json::json;
use tokio::task::JoinSet;

use super::{must_be_unavailable, open, soon};

/// Makes calls until it is told to end. Returns those whose end was acknowledged.
async fn call(store: Arc<Postgres>, name: String, is_over: Arc<AtomicBool>) -> Vec<String> {
    let mut acknowledged = Vec::new();
    for number in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let call = finished(head(&format!("{name}.{number}"), "desk", &name));
        match store.begin(&begun(&call.head), IfFull::Fails).await {
            Ok(_) => {
                store.finish(&call, IfFull::Waits).await.unwrap();
                acknowledged.push(call.head.request.to_string());
            }
            Err(error) => assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}"),
        }
    }
    acknowledged
}

/// Tells events of a run until it is told to end. Returns how many there are.
async fn tell(store: Arc<Postgres>, name: String, is_over: Arc<AtomicBool>) -> usize {
    store.save_session(&Arc::new(session(&name)), IfFull::Waits).await.unwrap();
    store.save_run(&Arc::new(run(&name, "run")), IfFull::Waits).await.unwrap();
    let mut number = 0;
    while !is_over.load(Ordering::Relaxed) {
        let event = [Arc::from(number.to_string())];
        store.append_run_events(&session_id(&name), &run_id("run"), number, event.into()).await.unwrap();
        number += 1;
    }
    number
}

async fn an_outage_loses_nothing(end: fn(&mut OwnPostgres)) {
    let mut database = OwnPostgres::start();
    let store = open(database.url()).await;
    store.save_session(&Arc::new(session("ses_1")), IfFull::Fails).await.unwrap();
    store.save_run(&Arc::new(run("ses_1", "run_1")), IfFull::Fails).await.unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let (mut callers, mut tellers) = (JoinSet::new(), JoinSet::new());
    for name in ["a", "b", "c", "d"] {
        callers.spawn(call(store.clone(), name.to_owned(), is_over.clone()));
    }
    for name in ["e", "f"] {
        let (store, is_over) = (store.clone(), is_over.clone());
        tellers.spawn(async move { (name, tell(store, name.to_owned(), is_over).await) });
    }
    let commits = async |count: u64| {
        let wanted = store.commits() + count;
        until("it is written", async || store.commits() > wanted).await;
    };
    commits(50).await;
    end(&mut database);

    // What can be told to somebody fails, and what was accepted before waits.
    must_be_unavailable(store.begin(&begun(&Arc::new(head("r1", "desk", "ses_1"))), IfFull::Fails)).await;
    must_be_unavailable(store.session(&session_id("ses_1"))).await;
    assert!(!store.is_writable().await);
    let told = |number: usize| events(&[["zero", "one", "two"][number]]);
    let append = |number| store.append_run_events(&session_id("ses_1"), &run_id("run_1"), number, told(number));
    let mut waiting: JoinSet<_> = (0..3).map(append).collect();
    must_be_unavailable(store.session(&session_id("ses_1"))).await;
    must_be_unavailable(store.usage(None)).await;
    // A later write to the same session does not overtake them.
    must_be_unavailable(store.save_session(&Arc::new(session("ses_1")), IfFull::Fails)).await;
    assert!(waiting.try_join_next().is_none(), "it did not wait");

    database.start_again();
    while let Some(written) = waiting.join_next().await {
        written.unwrap().unwrap();
    }
    let kept = store.run_events(&session_id("ses_1"), &run_id("run_1"), 0).await.unwrap();
    assert_eq!(texts(&kept), ["zero", "one", "two"]);
    until("it can be written", async || store.is_writable().await).await;
    store.begin(&begun(&Arc::new(head("r2", "desk", "ses_1"))), IfFull::Fails).await.unwrap();
    commits(50).await;

    is_over.store(true, Ordering::Relaxed);
    for id in callers.join_all().await.concat() {
        assert!(store.finished(&request_id(&id)).await.unwrap().is_some(), "{id}");
    }
    for (name, count) in tellers.join_all().await {
        let told = store.run_events(&session_id(name), &run_id("run"), 0).await.unwrap();
        assert_eq!(texts(&told), (0..count).map(|number| number.to_string()).collect::<Vec<_>>());
    }
    let open = store.open_calls().await.unwrap();
    assert_eq!(open.iter().map(|call| call.head.request.as_str()).collect::<Vec<_>>(), ["r2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_the_database_is_stopped_and_started_again() {
    an_outage_loses_nothing(OwnPostgres::stop).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_the_database_is_killed_and_started_again() {
    an_outage_loses_nothing(OwnPostgres::kill).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_says_that_its_database_is_away_and_goes_on_when_it_is_back() {
    let database = TestDatabase::create();
    let relay = Relay::before(&database.url()).await;
    let url = relay.url().to_owned();
    let server = TestServer::with(|config| config.database = Some(Secret::new(url))).await;
    let kept = server.session(json!({})).await;
    relay.close();
    for (method, path) in [(Method::POST, "/session"), (Method::GET, "/session"), (Method::GET, "/readyz")] {
        let refused = soon(server.request(method, path).json(&json!({})).send()).await.unwrap();
        assert_eq!(
            (refused.status().as_u16(), refused.headers()["retry-after"].as_bytes()),
            (503, &b"1"[..]),
            "{path}"
        );
    }
    assert_eq!(server.get("/healthz").await.status, 200);
    relay.open();
    until("it is ready", async || server.get("/readyz").await.status == 200).await;
    assert_eq!(server.get(&format!("/session/{kept}")).await.status, 200);
    server.session(json!({})).await;
    server.stop().await;
}

/// The database through which the server can be told what to do with another one.
struct OtherDatabase(String);

impl OtherDatabase {
    fn of(database: &TestDatabase) -> Self {
        Self(database.url().replace(database.name(), "postgres"))
    }

    fn run(&self, sql: &str) {
        query(&self.0, sql).unwrap();
    }
}

/// As while it is restored from a backup: whatever the database answers to who connects, it may pass.
#[tokio::test]
async fn what_waits_is_written_after_the_database_was_refused_by_name() {
    let database = TestDatabase::create();
    let server = OtherDatabase::of(&database);
    let store = open(&database.url()).await;
    store.save_session(&Arc::new(session("ses_1")), IfFull::Fails).await.unwrap();
    store.save_run(&Arc::new(run("ses_1", "run_1")), IfFull::Fails).await.unwrap();
    let (name, away) = (database.name(), format!("{}_away", database.name()));
    server.run(&format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false"));
    server.run(&format!("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{name}'"));
    server.run(&format!("ALTER DATABASE {name} RENAME TO {away}"));

    must_be_unavailable(store.save_session(&Arc::new(session("ses_2")), IfFull::Fails)).await;
    must_be_unavailable(store.session(&session_id("ses_1"))).await;
    let waiting = store.append_run_events(&session_id("ses_1"), &run_id("run_1"), 0, events(&["a"]));
    must_be_unavailable(store.save_session(&Arc::new(session("ses_2")), IfFull::Fails)).await;

    server.run(&format!("ALTER DATABASE {away} RENAME TO {name}"));
    server.run(&format!("ALTER DATABASE {name} ALLOW_CONNECTIONS true"));
    waiting.await.unwrap();
    let kept = store.run_events(&session_id("ses_1"), &run_id("run_1"), 0).await.unwrap();
    assert_eq!(texts(&kept), ["a"]);
    store.save_session(&Arc::new(session("ses_2")), IfFull::Fails).await.unwrap();
}
