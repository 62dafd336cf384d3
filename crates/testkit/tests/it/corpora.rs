//! What fuzzing found, and what is to be tried first: everything in `fuzz/corpus/` is read again.

use std::path::Path;
use std::sync::Mutex;

use handback_testkit::fuzzing::TARGETS;

/// The panics of the threads that these tests start: one in a task of its own, or on a thread of the server, reaches
/// nobody otherwise.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The names that these threads begin with.
const THREADS: [&str; 2] = ["corpus", "handback"];

fn note_panics() {
    let earlier = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        if THREADS.iter().any(|name| thread.starts_with(name)) {
            PANICS.lock().unwrap().push(panic.to_string());
        }
        earlier(panic);
    }));
}

#[test]
fn every_file_of_every_corpus_is_read_or_refused() {
    note_panics();
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (name, target) in TARGETS {
        let files: Vec<_> = std::fs::read_dir(corpora.join(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(files.len() > 3, "{name} has next to nothing");
        for file in files {
            let bytes = std::fs::read(&file).unwrap();
            let corpus = std::thread::Builder::new().name("corpus".to_owned()).spawn(move || target(&bytes)).unwrap();
            let ended = corpus.join();
            let panics = std::mem::take(&mut *PANICS.lock().unwrap());
            assert!(ended.is_ok() && panics.is_empty(), "{}: {panics:?}", file.display());
        }
    }
}

#[test]
fn every_target_has_a_corpus_and_a_program() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let names = |folder: &str| {
        let entries = std::fs::read_dir(fuzz.join(folder)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    let targets: Vec<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names("fuzz_targets"), targets);
    assert_eq!(names("corpus"), targets);
}
