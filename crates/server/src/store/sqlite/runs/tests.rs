use super::super::tests::{Place, must_use_indices};
use super::*;

#[test]
fn every_statement_has_its_index() {
    let place = Place::new();
    let database = place.database();
    for sql in [SIZE, SAVE, FIND, LIST, UNFINISHED, NUMBER, LAST_EVENT, SAVE_EVENT, EVENTS] {
        must_use_indices(&database, sql);
    }
}
