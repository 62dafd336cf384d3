use handback_wire::client_tools::Success;
use tempfile::TempDir;

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

fn success(output: &str) -> Arc<ToolResult> {
    Arc::new(ToolResult::Success(Success { output: output.to_owned(), ..Success::default() }))
}

/// One word for what the journal says, so that it can be compared whole.
async fn begin(journal: &Journal, request_id: &str) -> String {
    match journal.begin("laptop", request_id, MINUTE).await {
        Beginning::NotKept => "not kept".to_owned(),
        Beginning::First => "first".to_owned(),
        Beginning::Begun => "begun".to_owned(),
        Beginning::Done(Some(ToolResult::Success(success))) => format!("done {}", success.output),
        Beginning::Done(Some(ToolResult::Error { error })) => format!("failed {error}"),
        Beginning::Done(None) => "done".to_owned(),
        Beginning::Failed(error) => format!("{}", error.kind()),
    }
}

#[tokio::test]
async fn a_call_is_begun_once_and_its_result_is_found_by_another_process() {
    let directory = TempDir::new().unwrap();
    let journal = Journal::directory(directory.path().join("new")).unwrap();
    assert_eq!(begin(&journal, "a").await, "first");
    let other = Journal::directory(directory.path().join("new")).unwrap();
    assert_eq!(begin(&other, "a").await, "begun");
    journal.finish("laptop", "a", &success("done")).await;
    assert_eq!(begin(&other, "a").await, "done done");
    // Another client's call of the same id is another call.
    assert!(matches!(other.begin("desktop", "a", MINUTE).await, Beginning::First));
}

#[tokio::test]
async fn of_many_at_once_one_begins() {
    let directory = TempDir::new().unwrap();
    let journals: Vec<Journal> = (0..8).map(|_| Journal::directory(directory.path()).unwrap()).collect();
    let mut said = futures_util::future::join_all(journals.iter().map(|journal| begin(journal, "a"))).await;
    said.sort();
    assert_eq!(said, ["begun", "begun", "begun", "begun", "begun", "begun", "begun", "first"]);
}

#[tokio::test]
async fn of_a_large_result_only_that_it_was_there_is_kept() {
    let directory = TempDir::new().unwrap();
    let journal = Journal::directory(directory.path()).unwrap();
    begin(&journal, "a").await;
    journal.finish("laptop", "a", &success(&"x".repeat(MAX_RESULT_BYTES))).await;
    assert_eq!(begin(&journal, "a").await, "done");
}

#[tokio::test]
async fn what_has_expired_is_cleared_away_and_what_is_not_ours_stays() {
    let directory = TempDir::new().unwrap();
    let journal = Journal::directory(directory.path()).unwrap();
    for id in ["old", "done", "new"] {
        begin(&journal, id).await;
    }
    journal.finish("laptop", "done", &success("x")).await;
    // The result keeps the call's own time.
    for id in ["old", "done"] {
        let file = File::options().write(true).open(directory.path().join(name("laptop", id))).unwrap();
        assert!(file.metadata().unwrap().modified().unwrap() > now() + KEPT);
        file.set_modified(now()).unwrap();
    }
    let foreign = directory.path().join("notes.json");
    fs::write(&foreign, "").unwrap();
    File::options().write(true).open(&foreign).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    let journal = Journal::directory(directory.path()).unwrap();
    let mut left: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    left.sort();
    let mut expected = vec![directory.path().join(name("laptop", "new")), foreign];
    expected.sort();
    assert_eq!(left, expected);
    assert_eq!(begin(&journal, "new").await, "begun");
}

#[tokio::test]
async fn a_journal_that_cannot_be_written_says_so() {
    let directory = TempDir::new().unwrap();
    let journal = Journal::directory(directory.path().join("gone")).unwrap();
    fs::remove_dir(directory.path().join("gone")).unwrap();
    assert_eq!(begin(&journal, "a").await, "entity not found");
    assert_eq!(begin(&Journal::memory(), "a").await, "not kept");
    fs::write(directory.path().join("file"), "").unwrap();
    assert!(Journal::directory(directory.path().join("file")).is_err());
}
