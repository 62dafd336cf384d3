use super::super::tests::Place;
use super::*;

#[test]
fn the_thread_does_most_and_the_writer_the_rest() {
    let checkpoints = Checkpoints::default();
    assert!(!checkpoints.is_writers_turn(PAGES - 1));
    assert_eq!(*checkpoints.lock(), Stage::Idle);
    assert!(!checkpoints.is_writers_turn(PAGES));
    assert_eq!(*checkpoints.lock(), Stage::Wanted);
    // While the thread is at it the writer goes on.
    assert!(!checkpoints.is_writers_turn(PAGES + 1));
    *checkpoints.lock() = Stage::Done;
    assert!(checkpoints.is_writers_turn(PAGES + 2));
    assert!(!checkpoints.is_writers_turn(1));
    // The log began anew before the writer was asked: then there is nothing left for it.
    *checkpoints.lock() = Stage::Done;
    assert!(!checkpoints.is_writers_turn(1));
    assert_eq!(*checkpoints.lock(), Stage::Idle);
}

#[test]
fn the_log_begins_anew_while_much_is_written() {
    let place = Place::new();
    drop(place.database());
    let checkpoints = Arc::new(Checkpoints::default());
    let [mut writer, beside] = [(); 2].map(|()| Connection::open(&place.0).unwrap());
    checkpoints.watch(&mut writer).unwrap();
    let thread = std::thread::spawn({
        let checkpoints = checkpoints.clone();
        move || checkpoints.run(&beside)
    });
    writer.execute_batch("CREATE TABLE filler (content)").unwrap();
    for _ in 0..3 * PAGES / 100 {
        writer.execute("INSERT INTO filler VALUES (zeroblob(100 * 4096))", []).unwrap();
        let is_under_way = |stage: &mut Stage| *stage == Stage::Wanted;
        drop(checkpoints.changed.wait_while(checkpoints.lock(), is_under_way).unwrap());
    }
    checkpoints.end();
    thread.join().unwrap();
    let pages = std::fs::metadata(place.0.with_extension("db-wal")).unwrap().len() / 4_096;
    assert!(pages < PAGES as u64 + 400, "{pages} pages are in the log");
}
