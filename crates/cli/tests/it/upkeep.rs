//! `handback backup` and `handback check`, and a disk that is full.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::chat::{Gated, Stderr, chat_command, temporary, wait_for_line};
use crate::processes::{Process, serve_with, start};
use crate::{Ran, command, handback, run};

/// A directory that is removed with what is in it.
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new(name: &str) -> Self {
        Self(temporary(name))
    }

    pub(crate) fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    pub(crate) fn join(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

fn serve(data: &Directory) -> (Process, String) {
    serve_with(&["serve", "--listen", "127.0.0.1:0", "--log", "off", "--data", data.path()])
}

fn say(url: &str, text: &str) {
    let said = handback(&["chat", "--url", url, text]);
    assert_eq!(said.code, Some(0), "{said:?}");
}

fn check(data: &str) -> Ran {
    handback(&["check", "--data", data])
}

fn all_of(sessions: usize, messages: usize) -> Ran {
    let counts = format!("sessions {sessions}, messages {messages}, runs 0, calls 0, clients 0");
    Ran { code: Some(0), stdout: format!("can be read: {counts}\n"), stderr: String::new() }
}

#[test]
fn a_backup_is_made_while_the_server_runs_and_is_a_database_of_its_own() {
    let (data, copies) = (Directory::new("data"), Directory::new("copies"));
    let (mut server, url) = serve(&data);
    say(&url, "hello");
    fs::create_dir(&copies.0).unwrap();
    let copy = copies.join("handback.db");
    let backed_up = handback(&["backup", "--data", data.path(), &copy]);
    assert_eq!((backed_up.code, backed_up.stdout.as_str()), (Some(0), ""), "{backed_up:?}");
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    say(&url, "again");
    assert_eq!(check(copies.path()), all_of(1, 2));
    assert_eq!(check(data.path()), all_of(2, 4));

    // What is there is not touched.
    let before = fs::read(&copy).unwrap();
    let refused = handback(&["backup", "--data", data.path(), &copy]);
    assert_eq!((refused.code, refused.stderr.contains("File exists")), (Some(1), true), "{refused:?}");
    assert!(fs::read(&copy).unwrap() == before);

    // What a killed server wrote last is in its log, and is copied too.
    server.signal(Signal::KILL);
    server.end();
    let last = copies.join("last.db");
    assert_eq!(handback(&["backup", "--data", data.path(), &last]).code, Some(0));
    fs::rename(last, &copy).unwrap();
    let (_server, url) = serve(&copies);
    assert_eq!(handback(&["sessions", "--url", &url]).stdout.lines().count(), 3);
}

#[test]
fn a_backup_that_cannot_be_made_leaves_nothing() {
    let (data, copies) = (Directory::new("none"), Directory::new("copies"));
    fs::create_dir(&copies.0).unwrap();
    let copy = copies.join("copy.db");
    let refused = handback(&["backup", "--data", data.path(), &copy]);
    assert_eq!((refused.code, refused.stderr.contains("cannot be opened")), (Some(1), true), "{refused:?}");
    fs::create_dir(&data.0).unwrap();
    fs::write(data.join("handback.db"), "not a database, but long enough to be read as one".repeat(100)).unwrap();
    let refused = handback(&["backup", "--data", data.path(), &copy]);
    assert_eq!((refused.code, refused.stderr.contains("is not a database")), (Some(1), true), "{refused:?}");
    assert!(!Path::new(&copy).exists());
    assert!(!Path::new(&data.join("handback.db-wal")).exists());
}

#[test]
fn a_check_says_what_is_wrong() {
    let data = Directory::new("data");
    let missing = check(data.path());
    assert_eq!((missing.code, missing.stderr.contains("cannot be opened")), (Some(1), true), "{missing:?}");
    assert!(!data.0.exists());

    let (mut server, url) = serve(&data);
    say(&url, "hello");
    server.signal(Signal::TERM);
    server.end();
    let file = data.join("handback.db");
    let intact = fs::read(&file).unwrap();
    assert_eq!(check(data.path()).code, Some(0));

    // A page of rows, in place of which there is something else.
    let page = intact.windows(13).position(|bytes| bytes == b"\"wants_reply\"").unwrap() as u64 / 4_096;
    let mut opened = OpenOptions::new().write(true).open(&file).unwrap();
    opened.seek(SeekFrom::Start(page * 4_096)).unwrap();
    opened.write_all(&[0xee; 4_096]).unwrap();
    let damaged = check(data.path());
    assert_eq!((damaged.code, damaged.stderr.contains("is damaged")), (Some(1), true), "{damaged:?}");
    assert!(damaged.stdout.lines().count() > 1, "{damaged:?}");

    // A row that SQLite reads and nobody else.
    let text = intact.windows(13).position(|bytes| bytes == b"\"wants_reply\"").unwrap();
    let mut garbled = intact;
    garbled[text..text + 13].copy_from_slice(b"\"wants_roply\"");
    fs::write(&file, garbled).unwrap();
    let damaged = check(data.path());
    assert_eq!((damaged.code, damaged.stdout.contains("cannot be read")), (Some(1), true), "{damaged:?}");
}

/// A file system of three megabytes that only the server and its children see. `None` where that is not allowed.
struct SmallDisk {
    directory: Directory,
}

impl SmallDisk {
    fn new() -> Option<Self> {
        let directory = Directory::new("small");
        fs::create_dir(&directory.0).unwrap();
        let disk = Self { directory };
        let is_allowed = disk.within("true").status().is_ok_and(|status| status.success());
        is_allowed.then_some(disk)
    }

    /// A command on that disk, which is new for each.
    fn within(&self, script: &str) -> Command {
        let mut unshared = Command::new("unshare");
        let mount = format!("mount -t tmpfs -o size=3m none {} && {script}", self.directory.path());
        unshared.args(["--map-root-user", "--mount", "sh", "-c", &mount]);
        unshared
    }

    /// A server with its data there, when that script has run.
    fn serve_after(&self, script: &str) -> Command {
        let handback = command(&["serve", "--listen", "127.0.0.1:0", "--log", "warn", "--data", self.directory.path()]);
        let words: Vec<&str> = handback.get_args().map(|word| word.to_str().unwrap()).collect();
        let mut serving =
            self.within(&format!("{script} && exec {} {}", env!("CARGO_BIN_EXE_handback"), words.join(" ")));
        for (name, value) in handback.get_envs() {
            match value {
                Some(value) => serving.env(name, value),
                None => serving.env_remove(name),
            };
        }
        serving
    }
}

#[test]
fn on_a_disk_that_cannot_be_written_the_server_does_not_start_and_says_why() {
    let Some(disk) = SmallDisk::new() else {
        println!("no file system can be mounted here");
        return;
    };
    let data = Directory::new("data");
    let (mut server, url) = serve(&data);
    say(&url, "hello");
    server.signal(Signal::TERM);
    server.end();
    let (from, to) = (data.path(), disk.directory.path());
    let refused = run(disk.serve_after(&format!("cp {from}/handback.db {to} && mount -o remount,ro {to}")));
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""), "{refused:?}");
    assert!(refused.stderr.contains(to) && refused.stderr.to_lowercase().contains("read-only"), "{refused:?}");
}

/// Fills what is left of a disk, and frees it again.
struct Filler(PathBuf);

impl Filler {
    fn fill(&self, most: usize) {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.0).unwrap();
        for _ in 0..most / 4_096 {
            match file.write_all(&[1; 4_096]) {
                Err(error) if error.kind() == ErrorKind::StorageFull => return,
                written => written.unwrap(),
            }
        }
    }

    fn free(&self) {
        fs::remove_file(&self.0).unwrap();
    }
}

/// What a request is answered: the status and the body.
fn curl(url: &str, arguments: &[&str]) -> (u16, String) {
    let mut command = Command::new("curl");
    command.args(["-sS", "--max-time", "60", "-w", "\n%{http_code}", "-H", "content-type: application/json"]);
    let output = command.args(arguments).arg(url).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (body, status) = text.rsplit_once('\n').unwrap();
    (status.parse().unwrap(), body.to_owned())
}

/// Says something in a session that nobody is to answer. Returns whether it was kept.
fn note(url: &str, session: &str, id: &str, length: usize) -> bool {
    let body =
        format!(r#"{{"messageID":"{id}","noReply":true,"parts":[{{"type":"text","text":"{}"}}]}}"#, "x".repeat(length));
    match curl(&format!("{url}/session/{session}/message"), &["-d", &body]) {
        (200, _) => true,
        (503, _) => false,
        other => panic!("{other:?}"),
    }
}

#[test]
fn on_a_full_disk_what_is_new_is_refused_and_what_is_under_way_waits_for_room() {
    let Some(disk) = SmallDisk::new() else {
        println!("no file system can be mounted here");
        return;
    };
    let mut serving = disk.serve_after("true");
    serving.stderr(Stdio::piped());
    let (mut server, url) = start(serving);
    let mut log = Stderr::of(&mut server);
    let seen = PathBuf::from(format!("/proc/{}/root{}", server.0.id(), disk.directory.path()));

    // A turn under way, whose tool runs.
    let gated = Gated::new("full-disk", "wait", "printf waited");
    let mut turn = chat_command(&url, &["--attach", &gated.attached, "call wait {}"]);
    let mut turn = Process(turn.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    wait_for_line(&gated.runs);

    // Others write until there is no room.
    let (status, made) = curl(&format!("{url}/session"), &["-d", "{}"]);
    assert_eq!(status, 200, "{made}");
    let session = made.split('"').find(|word| word.starts_with("ses_")).unwrap();
    let filler = Filler(seen.join("filler"));
    filler.fill(1 << 20);
    let (mut kept, mut refused) = (Vec::new(), 0);
    for number in 0..600 {
        let (id, length) = (format!("msg_{number:04}"), if refused < 10 { 20_000 } else { 1 });
        match note(&url, session, &id, length) {
            true => kept.push(id),
            false => refused += 1,
        }
        if refused == 30 {
            break;
        }
    }
    assert!(refused == 30 && kept.len() > 10, "{} kept, {refused} refused", kept.len());
    // Not even a page is left.
    filler.fill(usize::MAX);
    assert_eq!(curl(&format!("{url}/session"), &["-d", "{}"]).0, 503);
    let listed = || curl(&format!("{url}/session/{session}/message"), &[]);
    let ids = |(status, body): (u16, String)| {
        assert_eq!(status, 200, "{body}");
        let listed: serde_json::Value = serde_json::from_str(&body).unwrap();
        let ids = listed.as_array().unwrap().iter().map(|message| message["info"]["id"].as_str().unwrap().to_owned());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(ids(listed()), kept, "what is kept is read, and nothing else");

    // The result of the tool cannot be stored, and its client keeps sending it; the turn waits.
    gated.let_go();
    log.wait_for("what is under way cannot be written, and waits");
    assert_eq!(curl(&format!("{url}/readyz"), &[]).0, 503);
    filler.free();
    let (mut answer, mut told) = (String::new(), String::new());
    turn.0.stdout.take().unwrap().read_to_string(&mut answer).unwrap();
    turn.0.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!((answer.as_str(), turn.end().code()), ("The tool `wait` answered: waited\n", Some(0)), "{told}");
    assert_eq!(curl(&format!("{url}/readyz"), &[]).0, 200);
    assert!(note(&url, session, "msg_after", 1));
    kept.push("msg_after".to_owned());
    assert_eq!(ids(listed()), kept);
    let mut checking = Command::new("nsenter");
    checking.args(["--target", &server.0.id().to_string(), "--user", "--mount", "--preserve-credentials"]);
    checking.args([env!("CARGO_BIN_EXE_handback"), "check", "--data", disk.directory.path()]);
    let checked = run(checking);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    server.signal(Signal::TERM);
    assert_eq!(server.end().code(), Some(0));
}
