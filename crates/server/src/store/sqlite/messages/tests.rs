use std::collections::BTreeMap;

use handback_core::message::{ModelRef, PartBody, Span, UserMessage};

use super::super::sessions;
use super::super::tests::{Place, must_use_indices, session};
use super::*;

#[test]
fn every_statement_has_its_index() {
    let place = Place::new();
    let database = place.database();
    for sql in [SAVE, ANSWER, SAVE_PART, DELETE_PARTS_FROM, LIST, LIST_AFTER, NEWEST_BEFORE, NUMBER, UNANSWERED, PARTS]
    {
        must_use_indices(&database, sql);
    }
}

fn part(text: &str) -> Arc<Part> {
    let body = PartBody::Text { text: text.into(), span: Span { start: Time(0), end: None } };
    Arc::new(Part { id: PartId::parse("prt_1").unwrap(), body })
}

/// A file that counts nothing but what a test does: rows that triggers write would count as well.
fn without_triggers(place: &Place) -> Database {
    let database = place.database();
    let mut statement = database.connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'trigger'").unwrap();
    let names: Vec<String> = statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
    drop(statement);
    for name in names {
        database.connection.execute_batch(&format!("DROP TRIGGER {name}")).unwrap();
    }
    database
}

/// Saves a message with these parts, and says how many rows were written.
fn rows_written(database: &mut Database, parts: &[&Arc<Part>]) -> u64 {
    let role = Role::User(UserMessage {
        agent: "default".into(),
        model: ModelRef::new("demo", "scripted").unwrap(),
        system: None,
        tools: BTreeMap::new(),
        wants_reply: true,
        connection: None,
    });
    let message = Message {
        id: MessageId::parse("msg_1").unwrap(),
        session: SessionId::parse("ses_1").unwrap(),
        created: Time(0),
        role,
        parts: parts.iter().map(|part| Arc::clone(part)).collect(),
    };
    let before = database.connection.total_changes();
    save(database, &message).unwrap();
    database.connection.total_changes() - before
}

#[test]
fn only_the_parts_that_changed_are_written() {
    let place = Place::new();
    let mut database = without_triggers(&place);
    sessions::save(&mut database, &session("ses_1")).unwrap();
    let [a, b, c] = ["a", "b", "c"].map(part);
    let equal = part("b");
    // Beside the parts, always the message itself.
    assert_eq!(rows_written(&mut database, &[&a, &b, &c]), 1 + 3);
    assert_eq!(rows_written(&mut database, &[&a, &b, &c]), 1);
    assert_eq!(rows_written(&mut database, &[&a, &equal, &c]), 1);
    assert_eq!(rows_written(&mut database, &[&a, &c, &c]), 1 + 1);
    assert_eq!(rows_written(&mut database, &[&a]), 1 + 2);
    assert_eq!(rows_written(&mut database, &[&a, &b]), 1 + 1);
    // The same when nothing is remembered of what was saved.
    for (parts, written) in [(vec![&a, &b], 0), (vec![&a, &c], 1), (vec![&a], 1), (vec![&a, &b, &c], 2)] {
        database.saved.forget();
        assert_eq!(rows_written(&mut database, &parts), 1 + written, "{parts:?}");
    }
}

#[test]
fn a_part_that_is_remembered_is_not_even_compared() {
    let place = Place::new();
    let mut database = without_triggers(&place);
    sessions::save(&mut database, &session("ses_1")).unwrap();
    let (a, b) = (part("a"), part("b"));
    rows_written(&mut database, &[&a, &b]);
    // Behind its back: whoever looked would see it.
    database.connection.execute("UPDATE part SET body = 'other'", []).unwrap();
    assert_eq!(rows_written(&mut database, &[&a, &b]), 1);
    database.roll_back();
    assert_eq!(rows_written(&mut database, &[&a, &b]), 1 + 2);
}

#[test]
fn no_more_parts_are_remembered_than_allowed() {
    let mut saved = SavedParts::default();
    let parts: Vec<Arc<Part>> = vec![part("a"); REMEMBERED_PARTS / 2];
    for number in 0..3 {
        saved.remember(number, &parts);
    }
    assert_eq!((saved.parts, saved.messages.len()), (REMEMBERED_PARTS / 2, 1));
    for number in 0..=REMEMBERED_PARTS as i64 {
        saved.remember(number, &[]);
    }
    assert!(saved.messages.len() <= REMEMBERED_PARTS);
    assert_eq!(saved.take(0).map(|parts| parts.len()), None);
}
