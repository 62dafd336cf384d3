use std::fs;
use std::os::unix::fs::symlink;

use handback_testkit::Scratch;
use handback_testkit::server::PATIENCE;
use serde_json::json;
use tokio::time::timeout;

use super::Example;

/// A folder, and a secret beside it that has its name as a prefix.
fn folder() -> Scratch {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.join("notes/ideas")).unwrap();
    fs::write(scratch.join("notes/todo.txt"), "water the plants\n").unwrap();
    fs::write(scratch.join("notes/ideas/garden.md"), "# Garden").unwrap();
    fs::create_dir(scratch.join("notes-secret")).unwrap();
    fs::write(scratch.join("secret.txt"), "the secret").unwrap();
    fs::write(scratch.join("notes-secret/key.txt"), "the secret").unwrap();
    scratch
}

#[tokio::test]
async fn files_of_the_folder_are_read() {
    let scratch = folder();
    symlink("ideas/garden.md", scratch.join("notes/link.md")).unwrap();
    let example = Example::start("files", "read_file", &[&scratch.join("notes")]).await;
    for (path, content) in [
        ("todo.txt", "water the plants\n"),
        ("ideas/garden.md", "# Garden"),
        ("./ideas/../todo.txt", "water the plants\n"),
        ("link.md", "# Garden"),
    ] {
        assert_eq!(example.output(&json!({ "path": path })).await, content);
    }
}

#[tokio::test]
async fn nothing_outside_of_the_folder_is_read() {
    let scratch = folder();
    let absolute = scratch.join("secret.txt");
    symlink(&absolute, scratch.join("notes/absolute-link")).unwrap();
    symlink("../secret.txt", scratch.join("notes/relative-link")).unwrap();
    symlink("..", scratch.join("notes/parent")).unwrap();
    symlink("loop", scratch.join("notes/loop")).unwrap();
    let example = Example::start("files", "read_file", &[&scratch.join("notes")]).await;
    for path in [
        "../secret.txt",
        "ideas/../../secret.txt",
        "../notes-secret/key.txt",
        "../notes/todo.txt",
        absolute.to_str().unwrap(),
        "/etc/hostname",
        "absolute-link",
        "relative-link",
        "parent/secret.txt",
        "ideas/../parent/secret.txt",
        "loop",
        "/proc/self/root/etc/hostname",
        "",
    ] {
        let error = example.error(&json!({ "path": path })).await;
        assert!(error.starts_with(&format!("{path}: ")) && !error.contains("the secret"), "{error}");
    }
}

#[tokio::test]
async fn what_is_no_text_of_a_fair_size_is_an_error() {
    let scratch = folder();
    fs::write(scratch.join("notes/largest.txt"), "x".repeat(256 * 1024)).unwrap();
    fs::write(scratch.join("notes/large.txt"), "x".repeat(256 * 1024 + 1)).unwrap();
    fs::write(scratch.join("notes/image.png"), b"\x89PNG\r\n").unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, scratch.join("notes/pipe"), rustix::fs::Mode::RUSR).unwrap();
    let example = Example::start("files", "read_file", &[&scratch.join("notes")]).await;
    for (path, error) in [
        ("large.txt", "large.txt: it is larger than 262144 bytes"),
        ("image.png", "image.png: it is not a text in UTF-8"),
        ("ideas", "ideas: it is not a file"),
        ("pipe", "pipe: it is not a file"),
        ("nowhere.txt", "nowhere.txt: No such file or directory (os error 2)"),
    ] {
        assert_eq!(example.error(&json!({ "path": path })).await, error);
    }
    // The whole output goes to the one who calls; what a model reads of it is cut by the server.
    let call = json!({ "toolID": "client_files_read_file", "input": { "path": "largest.txt" } });
    let answer = example.server.execute(call).await.unwrap();
    assert_eq!(answer.body["output"].as_str().unwrap().len(), 256 * 1024);
}

/// A path that is a file when it is looked at and a link out of the folder when it is opened.
#[tokio::test]
async fn a_link_that_is_put_there_meanwhile_does_not_lead_out() {
    let scratch = folder();
    let (file, link) = (scratch.join("notes/file"), scratch.join("notes/link"));
    fs::write(&file, "harmless").unwrap();
    symlink("../secret.txt", &link).unwrap();
    let example = Example::start("files", "read_file", &[&scratch.join("notes")]).await;
    let swapped = scratch.join("notes/swapped");
    fs::copy(&file, &swapped).unwrap();
    let (swapping, stop) = (tokio_util::task::TaskTracker::new(), tokio_util::sync::CancellationToken::new());
    let stopped = stop.clone();
    let swaps = swapping.spawn_blocking(move || {
        let mut swaps = 0_u32;
        while !stopped.is_cancelled() {
            fs::rename(&link, &swapped).unwrap();
            fs::copy(&file, file.with_extension("copy")).unwrap();
            fs::rename(file.with_extension("copy"), &swapped).unwrap();
            // Made now: so it is a file for about as long as it is a link.
            symlink("../secret.txt", &link).unwrap();
            swaps += 1;
        }
        swaps
    });
    let (mut harmless, mut refused) = (0, 0);
    let both_met_often = async {
        while harmless < 20 || refused < 20 {
            let call = json!({ "toolID": "client_files_read_file", "input": { "path": "swapped" } });
            let answer = example.server.execute(call).await.unwrap().body;
            match answer["output"].as_str() {
                Some(output) => assert_eq!(output, "harmless"),
                None => assert!(answer["error"].as_str().unwrap().starts_with("swapped: "), "{answer}"),
            }
            *if answer["status"] == "success" { &mut harmless } else { &mut refused } += 1;
        }
    };
    // Which one a call meets is chance, and the swaps take a core.
    timeout(PATIENCE * 3, both_met_often).await.expect("the file and the link are met");
    stop.cancel();
    assert!(swaps.await.unwrap() > 0);
}
