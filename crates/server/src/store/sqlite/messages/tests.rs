use handback_core::store::{AssistantMessage, ModelRef, PartBody, Span};

use super::super::sessions;
use super::super::tests::{Place, must_use_indices, session};
use super::*;

#[test]
fn every_statement_has_its_index() {
    let place = Place::new();
    let database = place.database();
    for sql in [
        INSERT,
        UPDATE,
        KNOWN,
        KNOWN_PARTS,
        SAVE_PART,
        DELETE_PARTS,
        LIST,
        PARTS,
        LIST_AFTER,
        PARTS_BETWEEN,
        NEWEST_BEFORE,
        NUMBER,
        BYTES_FROM,
        DELETE_FROM,
        OPEN,
        PARTS_OPEN,
    ] {
        must_use_indices(&database, sql);
    }
}

pub(in super::super) fn part(text: &str) -> Arc<Part> {
    let body = PartBody::Text { text: text.into(), span: Span { start: Time(0), end: None } };
    Arc::new(Part { id: PartId::parse("prt_1").unwrap(), body })
}

/// An answer that is not complete, with these parts.
pub(in super::super) fn answer(id: &str, parts: &[&Arc<Part>]) -> Message {
    let role = Role::Assistant(AssistantMessage {
        parent: MessageId::parse("msg_0").unwrap(),
        agent: "default".into(),
        model: ModelRef::new("demo", "scripted").unwrap(),
        completed: None,
        finish: None,
        usage: Default::default(),
        error: None,
        kept: None,
    });
    Message {
        id: MessageId::parse(id).unwrap(),
        session: SessionId::parse("ses_1").unwrap(),
        created: Time(0),
        role,
        parts: parts.iter().map(|part| Arc::clone(part)).collect(),
    }
}

/// Saves an answer with these parts, and says how many rows were written.
fn rows_written(database: &mut Database, parts: &[&Arc<Part>]) -> u64 {
    let before = database.connection.total_changes();
    save(database, &answer("msg_1", parts)).unwrap();
    database.connection.total_changes() - before
}

#[test]
fn only_what_changed_is_written() {
    let place = Place::new();
    let mut database = place.database();
    sessions::save(&mut database, &session("ses_1")).unwrap();
    let [a, b, c] = ["a", "b", "c"].map(part);
    let equal = part("b");
    assert_eq!(rows_written(&mut database, &[&a, &b, &c]), 1 + 3, "the message itself, too");
    assert_eq!(rows_written(&mut database, &[&a, &b, &c]), 0);
    assert_eq!(rows_written(&mut database, &[&a, &equal, &c]), 0);
    assert_eq!(rows_written(&mut database, &[&a, &c, &c]), 1);
    assert_eq!(rows_written(&mut database, &[&a]), 2);
    assert_eq!(rows_written(&mut database, &[&a, &b]), 1);
    // The same when nothing is remembered of what was saved, but for the message itself.
    for (parts, written) in [(vec![&a, &b], 0), (vec![&a, &c], 1), (vec![&a], 1), (vec![&a, &b, &c], 2)] {
        database.saved.forget();
        assert_eq!(rows_written(&mut database, &parts), 1 + written, "{parts:?}");
    }
}

#[test]
fn a_part_that_is_remembered_is_not_even_compared() {
    let place = Place::new();
    let mut database = place.database();
    sessions::save(&mut database, &session("ses_1")).unwrap();
    let (a, b) = (part("a"), part("b"));
    rows_written(&mut database, &[&a, &b]);
    // Behind its back: whoever looked would see it.
    database.connection.execute("UPDATE part SET body = 'other'", []).unwrap();
    assert_eq!(rows_written(&mut database, &[&a, &b]), 0);
    database.roll_back();
    assert_eq!(rows_written(&mut database, &[&a, &b]), 1 + 2);
}

#[test]
fn no_more_is_remembered_than_allowed() {
    let mut saved = SavedMessages::default();
    let known = |parts: usize| {
        let part = || SavedPart { part: Weak::new(), bytes: 0 };
        SavedMessage { number: 0, role_bytes: 0, hash: None, parts: std::iter::repeat_with(part).take(parts).collect() }
    };
    for number in 0..3 {
        saved.remember(&answer(&format!("msg_{number}"), &[]), known(REMEMBERED_PARTS / 2));
    }
    assert_eq!(saved.count, REMEMBERED_PARTS / 2 + 1);
    for number in 0..=REMEMBERED_PARTS {
        saved.remember(&answer(&format!("msg_{number}"), &[]), known(0));
    }
    assert!(saved.count <= REMEMBERED_PARTS);
    assert!(saved.take(&answer("msg_0", &[])).is_none());
    saved.forget_session(&SessionId::parse("ses_1").unwrap());
    assert_eq!((saved.count, saved.messages.len()), (0, 0));
}
