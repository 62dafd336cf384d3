//! What the tests of the rooms share, and what is tested of the whole.

use tokio_postgres::SimpleQueryMessage;

use super::lane::Address;
use super::*;

/// A new database on the server of the run, which goes with that. nextest starts it for tests with `postgres` in their path.
pub(super) async fn new_database() -> Address {
    let server = std::env::var("HANDBACK_TEST_POSTGRES").expect("there is a server: see testkit/postgres.sh");
    let lane = connect(&address::read(&server).unwrap()).await;
    let number = lane.client().query_one("SELECT pg_current_xact_id()::TEXT", &[]).await.unwrap();
    let name = format!("unit_{}", number.get::<_, String>(0));
    lane.run(&format!("CREATE DATABASE {name} TEMPLATE template0")).await.unwrap();
    address::read(&format!("{server}/{name}")).unwrap()
}

pub(super) async fn connect(address: &Address) -> Lane {
    Lane::connect(address).await.unwrap()
}

/// A new database with our tables, and a connection to it with all statements.
async fn prepared() -> (Address, Lane) {
    let address = new_database().await;
    schema::prepare(connect(&address).await.client(), MIGRATIONS).await.unwrap();
    let lane = Lane::open(&address).await.unwrap();
    (address, lane)
}

async fn texts(lane: &Lane, sql: &str) -> Vec<String> {
    let rows = lane.client().simple_query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let text = |message| match message {
        SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default().to_owned()),
        _ => None,
    };
    rows.into_iter().filter_map(text).collect()
}

/// How a statement is executed, whatever its values are.
async fn plan(lane: &Lane, sql: &str) -> Vec<String> {
    lane.run(&format!("DEALLOCATE ALL; PREPARE statement AS {sql}")).await.unwrap();
    let count = "SELECT cardinality(parameter_types) FROM pg_prepared_statements WHERE name = 'statement'";
    let count: usize = texts(lane, count).await[0].parse().unwrap();
    let values = match count {
        0 => String::new(),
        count => format!("({})", vec!["NULL"; count].join(", ")),
    };
    texts(lane, &format!("EXPLAIN (COSTS off) EXECUTE statement{values}")).await
}

/// Whether a statement looks at no more rows than it needs, and sorts none that it lists. One without values reads all of an
/// index.
fn uses_indices(sql: &str, plan: &[String]) -> bool {
    // Tables with a few rows at most.
    let is_small =
        |step: &String| ["kept_calls", "node"].iter().any(|table| step.contains(&format!("Scan on {table}")));
    let is_scan = |step: &String| step.contains("Seq Scan") && !is_small(step);
    let is_search = |steps: &[String]| !steps[0].contains("Index") || steps[1].contains("Index Cond");
    let sorts = sql.contains("ORDER BY") && plan.iter().any(|step| step.contains("Sort"));
    let steps = [plan, &[String::new()]].concat();
    let mut scans = steps.windows(2).filter(|steps| steps[0].contains(" Scan "));
    !plan.iter().any(is_scan) && (!sql.contains("$1") || scans.all(is_search) && !sorts)
}

#[tokio::test]
async fn every_statement_has_its_index() {
    let (_, lane) = prepared().await;
    let settings = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET plan_cache_mode = force_generic_plan";
    lane.run(settings).await.unwrap();
    for sql in lane::all() {
        let plan = plan(&lane, sql).await;
        assert!(uses_indices(sql, &plan), "{sql}\n{}", plan.join("\n"));
    }
}

/// A machine that is gone must not keep the lock of the one server for hours.
#[tokio::test]
async fn the_database_looks_whether_the_server_is_still_there() {
    let (address, _) = prepared().await;
    let (lane, _) = Writer::connect(&address).await.unwrap();
    let patience = "SELECT current_setting('tcp_keepalives_idle')::INTEGER
        + current_setting('tcp_keepalives_interval')::INTEGER * current_setting('tcp_keepalives_count')::INTEGER";
    assert_eq!(texts(&lane, patience).await, ["15"]);
}
