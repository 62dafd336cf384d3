//! Which databases are opened, and what is said of those that are not.

use std::net::TcpListener;
use std::sync::Arc;

use handback_core::store::{IfFull, SessionStore};
use handback_server::store::Postgres;
use handback_server::store::postgres::{Bounds, Glance, OpenError};
use handback_testkit::store_contract::samples::session;
use handback_testkit::{TestDatabase, postgres::query};

use super::open;

/// Why a database is refused.
async fn refusal(url: &str) -> OpenError {
    Postgres::open(url, Bounds::default()).await.expect_err("the database must be refused")
}

/// The database's name in errors.
fn named(database: &TestDatabase) -> String {
    database.url().replace("postgres@", "")
}

/// The URL of another database on the same server.
fn beside(database: &TestDatabase, name: &str) -> String {
    database.url().replace(database.name(), name)
}

fn schemas(database: &TestDatabase) -> Vec<String> {
    let tables = "SELECT nspname || '.' || relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE nspname = 'handback' ORDER BY 1";
    query(&database.url(), tables).unwrap()
}

#[tokio::test]
async fn a_database_has_one_server_at_a_time() {
    let database = TestDatabase::create();
    let first = open(&database.url()).await;
    let expected = format!("{} is in use by another server; each needs a database of its own", named(&database));
    assert_eq!(refusal(&database.url()).await.to_string(), expected);
    // Those who were refused did not disturb the one who has it.
    first.save_session(&Arc::new(session("ses_1")), IfFull::Fails).await.unwrap();
    first.close().await.unwrap();
    let second = open(&database.url()).await;
    assert!(second.session(&session("ses_1").id).await.unwrap().is_some());
    assert_eq!(refusal(&database.url()).await.to_string(), expected);
}

#[tokio::test]
async fn a_newer_database_is_refused_and_left_as_it_is() {
    let database = TestDatabase::create();
    open(&database.url()).await.close().await.unwrap();
    let known = query(&database.url(), "SELECT version FROM handback.version").unwrap().remove(0);
    query(&database.url(), "UPDATE handback.version SET version = 99; DROP TABLE handback.usage").unwrap();
    let before = schemas(&database);
    let newer = format!("version 99, which is newer than version {known} that this server knows");
    let expected = format!("{} has {newer}", named(&database));
    assert_eq!(refusal(&database.url()).await.to_string(), expected);
    assert_eq!(Postgres::glance(&database.url()).await.unwrap_err().to_string(), expected);
    assert_eq!(schemas(&database), before);
}

#[tokio::test]
async fn another_program_s_schema_is_refused_and_left_as_it_is() {
    let database = TestDatabase::create();
    query(&database.url(), "CREATE SCHEMA handback; CREATE TABLE handback.session (id TEXT)").unwrap();
    let expected = format!("{} has a schema \"handback\" of another program; use another database", named(&database));
    assert_eq!(refusal(&database.url()).await.to_string(), expected);
    assert_eq!(Postgres::glance(&database.url()).await.unwrap_err().to_string(), expected);
    assert_eq!(schemas(&database), ["handback.session"]);
}

#[tokio::test]
async fn other_schemas_are_left_as_they_are() {
    let database = TestDatabase::create();
    query(&database.url(), "CREATE TABLE session (id TEXT); INSERT INTO session VALUES ('theirs')").unwrap();
    let store = open(&database.url()).await;
    store.save_session(&Arc::new(session("ses_1")), IfFull::Fails).await.unwrap();
    assert_eq!(query(&database.url(), "SELECT id FROM session").unwrap(), ["theirs"]);
}

#[tokio::test]
async fn a_look_changes_nothing() {
    let database = TestDatabase::create();
    let looked = |found: Glance| (found.database, found.is_prepared);
    assert_eq!(looked(Postgres::glance(&database.url()).await.unwrap()), (named(&database), false));
    assert_eq!(schemas(&database), [""; 0]);
    let _store = open(&database.url()).await;
    // It does not matter whether a server uses it.
    assert_eq!(looked(Postgres::glance(&database.url()).await.unwrap()), (named(&database), true));
}

#[tokio::test]
async fn a_database_that_is_not_there_is_named_without_the_password() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let name = format!("postgres://127.0.0.1:{port}/chat");
    let error = refusal(&format!("postgres://keeper:hunter2@127.0.0.1:{port}/chat")).await;
    assert!(matches!(error, OpenError::Unreachable { .. }), "{error:?}");
    let said = error.to_string();
    assert!(said.starts_with(&format!("{name} cannot be opened: ")) && said.contains("refused"), "{said}");
    assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");

    let database = TestDatabase::create();
    let error = refusal(&beside(&database, "nothing")).await.to_string();
    assert!(error.ends_with("/nothing cannot be opened: database \"nothing\" does not exist"), "{error}");
}

#[tokio::test]
async fn a_database_that_is_not_utf8_is_refused() {
    let database = TestDatabase::create();
    let name = format!("{}_ascii", database.name());
    let server = beside(&database, "postgres");
    query(&server, &format!("CREATE DATABASE {name} ENCODING 'SQL_ASCII' TEMPLATE template0")).unwrap();
    let error = refusal(&beside(&database, &name)).await.to_string();
    query(&server, &format!("DROP DATABASE {name} WITH (FORCE)")).unwrap();
    assert!(error.ends_with("_ascii cannot be used: its encoding is SQL_ASCII; UTF8 is needed"), "{error}");
}

#[tokio::test]
async fn a_server_without_tls_is_refused_where_tls_is_required() {
    let database = TestDatabase::create();
    for mode in ["require", "verify-full"] {
        let error = refusal(&format!("{}?sslmode={mode}", database.url())).await.to_string();
        assert!(error.ends_with(" cannot be opened: server does not support TLS"), "{error}");
    }
    // Where it is only preferred, it is done without.
    open(&format!("{}?sslmode=prefer", database.url())).await;
}

#[tokio::test]
async fn a_user_who_may_not_make_tables_is_told_so() {
    let database = TestDatabase::create();
    let role = format!("poor_{}", database.name());
    query(&database.url(), &format!("CREATE ROLE {role} LOGIN")).unwrap();
    let error = refusal(&database.url().replace("postgres@", &format!("{role}@"))).await.to_string();
    query(&database.url(), &format!("DROP ROLE {role}")).unwrap();
    let expected = format!("cannot be opened: permission denied for database {}", database.name());
    assert!(error.ends_with(&expected), "{error}");
    assert_eq!(schemas(&database), [""; 0]);
}
