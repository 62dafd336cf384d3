use super::super::tests::Place;
use super::*;

#[test]
fn the_thread_does_most_and_the_writer_the_rest() {
    let (requests, requested) = channel();
    let checkpoints = Checkpoints { stage: Arc::default(), requests };
    let stage = || *lock(&checkpoints.stage);
    assert!(!checkpoints.is_writers_turn(PAGES - 1));
    assert_eq!((stage(), requested.try_recv().is_ok()), (Stage::Idle, false));
    assert!(!checkpoints.is_writers_turn(PAGES));
    assert_eq!((stage(), requested.try_recv().is_ok()), (Stage::Requested, true));
    // While the thread is at it the writer goes on.
    assert!(!checkpoints.is_writers_turn(PAGES + 1));
    *lock(&checkpoints.stage) = Stage::Made;
    assert!(checkpoints.is_writers_turn(PAGES + 2));
    assert!(!checkpoints.is_writers_turn(1));
    // The log began anew before the writer was asked: then there is nothing left for it.
    *lock(&checkpoints.stage) = Stage::Made;
    assert!(!checkpoints.is_writers_turn(1));
    assert_eq!((stage(), requested.try_recv().is_ok()), (Stage::Idle, false));
}

#[test]
fn the_log_begins_anew_while_much_is_written() {
    let place = Place::new();
    drop(place.database());
    let [mut writer, beside] = [(); 2].map(|()| Connection::open(&place.0).unwrap());
    let worker = Checkpoints::watch(&mut writer).unwrap();
    let stage = worker.stage.clone();
    let thread = std::thread::spawn(move || worker.run(&beside));
    writer.execute_batch("CREATE TABLE filler (content)").unwrap();
    for _ in 0..3 * PAGES / 100 {
        writer.execute("INSERT INTO filler VALUES (zeroblob(100 * 4096))", []).unwrap();
        while *lock(&stage) == Stage::Requested {
            std::thread::yield_now();
        }
    }
    stop(&mut writer).unwrap();
    thread.join().unwrap();
    let pages = std::fs::metadata(place.0.with_extension("db-wal")).unwrap().len() / 4_096;
    assert!(pages < PAGES as u64 + 400, "{pages} pages are in the log");
}
