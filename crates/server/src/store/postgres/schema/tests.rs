use futures_util::future::try_join_all;

use super::super::tests::{connect, new_database};
use super::*;

const ONE: &str = "CREATE TABLE handback.one ()";
const TWO: &str = "CREATE TABLE handback.two ()";

#[tokio::test]
async fn each_step_to_a_newer_version_is_done_once() {
    let database = new_database().await;
    for (migrations, version) in [(&[ONE][..], 1), (&[ONE], 1), (&[ONE, TWO], 2), (&[ONE, TWO], 2)] {
        let lane = connect(&database).await;
        assert_eq!(prepare(lane.client(), migrations).await.unwrap(), Found::Version(version));
    }
    let older = connect(&database).await;
    assert_eq!(prepare(older.client(), &[ONE]).await.unwrap(), Found::Newer(2));
}

#[tokio::test]
async fn a_step_that_fails_changes_nothing() {
    let database = new_database().await;
    let failing = format!("{TWO}; SELECT 1 / 0");
    let fault = prepare(connect(&database).await.client(), &[ONE, &failing]).await.unwrap_err();
    assert_eq!(fault.to_string(), "division by zero");
    let lane = connect(&database).await;
    assert_eq!(look(lane.client(), 2).await.unwrap().0, Some(Found::Version(1)));
    // The lock is free, and the table is not there.
    assert_eq!(prepare(lane.client(), &[ONE, TWO]).await.unwrap(), Found::Version(2));
}

#[tokio::test]
async fn servers_that_start_together_migrate_one_after_the_other() {
    let database = new_database().await;
    let starting = (0..5).map(async |_| {
        let lane = connect(&database).await;
        prepare(lane.client(), MIGRATIONS).await
    });
    let newest = i32::try_from(MIGRATIONS.len()).unwrap();
    for found in try_join_all(starting).await.unwrap() {
        assert_eq!(found, Found::Version(newest));
    }
}
