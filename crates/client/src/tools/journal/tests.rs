use handback_wire::client_tools::Success;
use serde_json::json;
use tempfile::TempDir;

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

fn success(output: &str) -> Arc<ToolResult> {
    Arc::new(ToolResult::Success(Success { output: output.to_owned(), ..Success::default() }))
}

fn call(request_id: &str, effect: Effect) -> ToolRequest {
    let call = json!({"type": "client-tool-request", "requestID": request_id, "sessionID": "", "messageID": "",
                      "callID": "", "tool": "client_laptop_tool", "input": {}, "effect": effect});
    serde_json::from_str(&call.to_string()).unwrap()
}

fn write(request_id: &str) -> ToolRequest {
    call(request_id, Effect::Write)
}

/// One word for what the journal says, so that it can be compared whole.
async fn begin(journal: &Journal, request_id: &str) -> String {
    begin_call(journal, &write(request_id)).await
}

async fn begin_call(journal: &Journal, call: &ToolRequest) -> String {
    match journal.begin("laptop", call, MINUTE).await {
        Beginning::NotKept => "not kept".to_owned(),
        Beginning::First { has_forgotten: false } => "first".to_owned(),
        Beginning::First { has_forgotten: true } => "first, perhaps".to_owned(),
        Beginning::Begun => "begun".to_owned(),
        Beginning::Done(None) => "done".to_owned(),
        Beginning::Done(Some(result)) => match &*result {
            ToolResult::Success(success) => format!("done {}", success.output),
            ToolResult::Error { error } => format!("failed {error}"),
        },
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
    journal.record("laptop", &write("a"), &success("done")).await;
    assert_eq!(begin(&other, "a").await, "done done");
    // Another client's call of the same id is another call.
    assert!(matches!(other.begin("desktop", &write("a"), MINUTE).await, Beginning::First { .. }));
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
    journal.record("laptop", &write("a"), &success(&"x".repeat(MAX_RECORD_BYTES))).await;
    assert_eq!(begin(&journal, "a").await, "done");
}

/// Writes that a call was begun, and may be forgotten at that time.
fn began(directory: &Path, request_id: &str, expires: u64) {
    let note = format!(r#"{{"expires":{expires},"state":"started"}}"#);
    fs::write(directory.join(name("laptop", request_id)), note).unwrap();
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[tokio::test]
async fn what_has_expired_is_cleared_away_and_what_is_not_ours_stays() {
    let directory = TempDir::new().unwrap();
    let journal = Journal::directory(directory.path()).unwrap();
    assert_eq!(begin(&journal, "new").await, "first");
    began(directory.path(), "old", now_in_milliseconds() - 1);
    began(directory.path(), "soon", now_in_milliseconds() + 60_000);
    // What a process that was killed has left: nobody knows how long it was given.
    fs::write(directory.path().join(name("laptop", "cut")), "{").unwrap();
    fs::write(directory.path().join("notes.json"), "").unwrap();
    let journal = Journal::directory(directory.path()).unwrap();
    let mut expected = vec![directory.path().join("notes.json")];
    expected.extend(["new", "soon", "cut"].map(|id| directory.path().join(name("laptop", id))));
    expected.sort();
    assert_eq!(files(directory.path()), expected);
    for (id, said) in [("new", "begun"), ("cut", "begun"), ("old", "first")] {
        assert_eq!(begin(&journal, id).await, said, "{id}");
    }
    // The result is kept as long as the call would have been.
    let expires = |id| read(&directory.path().join(name("laptop", id))).unwrap().unwrap().expires;
    let before = expires("soon");
    journal.record("laptop", &write("soon"), &success("x")).await;
    assert_eq!((expires("soon"), begin(&journal, "soon").await.as_str()), (before, "done x"));
}

#[tokio::test]
async fn what_is_forgotten_for_want_of_room_is_not_taken_for_new() {
    let directory = TempDir::new().unwrap();
    let expires = now_in_milliseconds() + 60_000;
    for index in 0..=MAX_CALLS {
        began(directory.path(), &index.to_string(), expires + u64::try_from(index).unwrap());
    }
    let journal = Journal::directory(directory.path()).unwrap();
    assert_eq!(files(directory.path()).len(), MAX_CALLS + 1);
    assert_eq!(fs::read_to_string(directory.path().join(FORGOTTEN)).unwrap(), expires.to_string());
    assert_eq!((begin(&journal, "0").await.as_str(), begin(&journal, "1").await.as_str()), ("first, perhaps", "begun"));
    // What was forgotten before stays forgotten for as long.
    let later = expires + 1_000_000;
    fs::write(directory.path().join(FORGOTTEN), later.to_string()).unwrap();
    Journal::directory(directory.path()).unwrap();
    assert_eq!(fs::read_to_string(directory.path().join(FORGOTTEN)).unwrap(), later.to_string());
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

#[tokio::test]
async fn only_the_record_of_a_write_has_to_be_on_the_disk() {
    let directory = TempDir::new().unwrap();
    let journal = Journal::open(directory.path().to_owned(), |_| Err(io::Error::other("the disk is gone"))).unwrap();
    for (id, effect) in [("a", Effect::Read), ("b", Effect::Idempotent)] {
        let call = call(id, effect);
        assert_eq!(begin_call(&journal, &call).await, "first", "{effect:?}");
        journal.record("laptop", &call, &success("x")).await;
        assert_eq!(begin_call(&journal, &call).await, "done x", "{effect:?}");
    }
    assert_eq!(begin(&journal, "c").await, "other error");
}

/// A disk that syncs files, but not directories.
#[cfg(unix)]
fn sync_file(file: &File, of_directory: io::ErrorKind) -> io::Result<()> {
    if file.metadata()?.is_dir() { Err(of_directory.into()) } else { Ok(()) }
}

#[cfg(unix)]
#[tokio::test]
async fn a_directory_that_cannot_be_synced_is_no_reason_to_refuse_calls() {
    let disks: [(SyncFile, &str); 4] = [
        (|file| sync_file(file, io::ErrorKind::InvalidInput), "first"),
        (|file| sync_file(file, io::ErrorKind::Unsupported), "first"),
        (|file| sync_file(file, io::ErrorKind::PermissionDenied), "first"),
        (|file| sync_file(file, io::ErrorKind::StorageFull), "no storage space"),
    ];
    for (sync, said) in disks {
        let directory = TempDir::new().unwrap();
        let journal = Journal::open(directory.path().to_owned(), sync).unwrap();
        assert_eq!(begin(&journal, "a").await, said);
        assert_eq!(Journal::open(directory.path().join("new"), sync).is_ok(), said == "first");
    }
}
