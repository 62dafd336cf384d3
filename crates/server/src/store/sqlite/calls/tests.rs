use super::super::tests::{Place, must_use_indices};
use super::*;

#[test]
fn every_statement_has_its_index() {
    let place = Place::new();
    let database = place.database();
    for sql in [
        BEGIN,
        FINISH,
        KEEP_LATE,
        FINISHED,
        LIST,
        LIST_OF_CLIENT,
        LIST_OF_SESSION,
        LIST_OF_BOTH,
        OLDEST,
        DELETE_UP_TO,
        DELETE_OF_SESSION,
        LAST,
        OPEN,
        FORGET_UP_TO,
        FREE_IDS,
    ] {
        must_use_indices(&database, sql);
    }
}
