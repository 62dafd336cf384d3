use super::super::tests::Place;
use super::*;

#[test]
fn the_thread_does_most_and_the_writer_the_rest() {
    let ((requests, requested), (make, made)) = (channel(), channel());
    let mut checkpoints = Checkpoints { requests, made, is_requested: false };
    assert!(!checkpoints.is_writers_turn(PAGES - 1));
    assert!(requested.try_recv().is_err());
    assert!(!checkpoints.is_writers_turn(PAGES));
    assert!(requested.try_recv().is_ok());
    // While the thread is at it the writer goes on.
    assert!(!checkpoints.is_writers_turn(PAGES + 1));
    make.send(()).unwrap();
    assert!(checkpoints.is_writers_turn(PAGES + 2));
    assert!(!checkpoints.is_writers_turn(1));
    assert!(requested.try_recv().is_err());
    // The log began anew before the writer was asked: then there is nothing left for it.
    assert!(!checkpoints.is_writers_turn(PAGES));
    make.send(()).unwrap();
    assert!(!checkpoints.is_writers_turn(1));
    assert!(!checkpoints.is_requested);
}

#[test]
fn the_log_begins_anew_while_much_is_written() {
    let place = Place::new();
    drop(place.database());
    let [mut writer, beside] = [(); 2].map(|()| Connection::open(&place.0).unwrap());
    let checkpointer = watch(&mut writer).unwrap();
    writer.execute_batch("CREATE TABLE filler (content)").unwrap();
    let size = || std::fs::metadata(&place.0).unwrap().len();
    for _ in 0..3 * PAGES / 100 {
        writer.execute("INSERT INTO filler VALUES (zeroblob(100 * 4096))", []).unwrap();
        while checkpointer.requests.try_recv().is_ok() {
            let before = size();
            checkpointer.make(&beside);
            assert!(size() > before, "the thread left everything to the writer");
        }
    }
    stop(&mut writer).unwrap();
    // The thread has nothing more to do.
    checkpointer.run(&beside);
    let pages = std::fs::metadata(place.0.with_extension("db-wal")).unwrap().len() / 4_096;
    assert!(pages < PAGES as u64 + 400, "{pages} pages are in the log");
}
