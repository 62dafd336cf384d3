//! The store in PostgreSQL: what only it has to do.

mod batches;
mod connections;
mod keeping;
mod nodes;
mod opening;
mod outages;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use handback_core::store::{CallFilter, CallStore, Most, StoreError};
use handback_server::store::Postgres;
use handback_server::store::postgres::Bounds;
use handback_testkit::store_contract::samples::calls_of;

/// How soon something must have ended that can have an answer at once.
const SOON: Duration = Duration::from_secs(8);

async fn open(url: &str) -> Arc<Postgres> {
    bounded(url, Bounds::default()).await
}

async fn bounded(url: &str, bounds: Bounds) -> Arc<Postgres> {
    Arc::new(Postgres::open(url, bounds).await.unwrap())
}

/// Waits for something that must end soon.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, what).await.expect("it ends soon")
}

/// Checks that an operation fails soon, because the database is away.
async fn must_be_unavailable<T>(what: impl Future<Output = Result<T, StoreError>>) {
    match soon(what).await {
        Err(StoreError::Unavailable(_)) => {}
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("it succeeded"),
    }
}

/// The ids of the finished calls, the newest first.
async fn listed(store: &Postgres) -> Vec<String> {
    let calls = calls_of(store.list_finished(&CallFilter::default(), None, Most::items(usize::MAX)).await.unwrap());
    calls.iter().map(|call| call.head.request.to_string()).collect()
}
