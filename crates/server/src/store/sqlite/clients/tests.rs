use super::super::tests::{Place, must_use_indices};
use super::*;

#[test]
fn every_statement_has_its_index() {
    let place = Place::new();
    let database = place.database();
    for sql in [SAVE, SAVE_TOOL, DELETE_TOOL, DELETE_WITHOUT_TOOLS] {
        must_use_indices(&database, sql);
    }
}
