//! A server that is started as a process, here one that only looks like it.

use std::path::{Path, PathBuf};
use std::process::Command;

use handback_client::{Error, Handback, LocalOptions};

use crate::stub::PATIENCE;

/// A pipe with a name: who reads it waits for who writes it.
struct Pipe(PathBuf);

impl Pipe {
    fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("local-{}-{test}", std::process::id()));
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        Self(path)
    }

    /// All that is written into it, until whoever did that is done.
    async fn read(&self) -> String {
        let path = self.0.clone();
        let reading = tokio::task::spawn_blocking(|| std::fs::read_to_string(path));
        tokio::time::timeout(PATIENCE, reading).await.expect("it is written in time").unwrap().unwrap()
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).ok();
    }
}

async fn start(behaviour: &str, pipe: Option<&Pipe>) -> Result<Handback, Error> {
    let binary = Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/local/server.sh"));
    let pipe = pipe.map(|pipe| pipe.0.clone().into());
    let arguments = [behaviour.into()].into_iter().chain(pipe).collect();
    Handback::start_with(LocalOptions::with(|options| {
        options.binary = binary;
        options.arguments = arguments;
    }))
    .await
}

#[tokio::test]
async fn a_server_that_does_not_start_is_an_error_that_says_why() {
    let Err(failed) = start("fail", None).await else { panic!("it does not start") };
    let failed = failed.to_string();
    let expected = "server.sh could not be started: it ended: error: there is no room\nmake some";
    assert!(failed.ends_with(expected), "{failed}");
    let binary = Some("/no/such/binary".into());
    let Err(missing) = Handback::start_with(LocalOptions::with(|options| options.binary = binary)).await else {
        panic!("there is none")
    };
    let missing = missing.to_string();
    assert!(missing.starts_with("/no/such/binary could not be started: No such file"), "{missing}");
}

#[tokio::test]
async fn a_server_that_says_much_is_listened_to() {
    let pipe = Pipe::new("flood");
    let handback = start("flood", Some(&pipe)).await.unwrap();
    assert_eq!((handback.url(), handback.client().api().url()), ("http://127.0.0.1:9", "http://127.0.0.1:9"));
    assert_eq!(pipe.read().await, "done\n");
}

#[tokio::test]
async fn a_server_is_killed_when_it_is_dropped() {
    let pipe = Pipe::new("stay");
    let (ended, ()) = tokio::join!(pipe.read(), async { drop(start("stay", Some(&pipe)).await.unwrap()) });
    assert_eq!(ended, "");
}

#[tokio::test]
async fn a_server_that_is_closed_may_finish() {
    let pipe = Pipe::new("leave");
    let handback = start("leave", Some(&pipe)).await.unwrap();
    let (said, ()) = tokio::join!(pipe.read(), handback.close());
    assert_eq!(said, "bye\n");
}
