use super::super::tests::{Place, must_use_indices};
use super::*;

#[test]
fn every_statement_has_its_index() {
    let place = Place::new();
    let database = place.database();
    for sql in [KNOWN, SAVE, FIND, LIST, LIST_OF_CLIENT, LIST_OF_AGENT, LIST_OF_BOTH, LIST_OF_PARENT, DELETE] {
        must_use_indices(&database, sql);
    }
}
