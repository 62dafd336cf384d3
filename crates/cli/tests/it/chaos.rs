//! `handback chaos`: the proxy, its plan and its report.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use rustix::process::Signal;

use crate::chat::temporary;
use crate::processes::{Process, serve};
use crate::{Ran, command, handback};

/// A running proxy: its process, the plan that it printed, and where it listens.
fn chaos(target: &str, plan: &str) -> (Process, String, String) {
    let mut command = command(&["chaos", "--listen", "127.0.0.1:0", "--target", target, "--plan", plan]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut printed = String::new();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let last = lines.by_ref().find(|line| {
        printed.push_str(line);
        printed.push('\n');
        line.starts_with('#')
    });
    let words = last.unwrap();
    let url = words.split(' ').find(|word| word.starts_with("http://")).unwrap().to_owned();
    (Process(child), printed, url)
}

/// Stops it; gives what it did, and its exit code.
fn stop(mut process: Process) -> (String, Option<i32>) {
    process.signal(Signal::TERM);
    let mut report = String::new();
    process.0.stderr.take().unwrap().read_to_string(&mut report).unwrap();
    (report, process.end().code())
}

#[test]
fn the_plan_that_is_printed_can_be_given_back() {
    let (_server, url) = serve("127.0.0.1:0");
    let seed = u64::MAX.to_string();
    let (first, printed, _) = chaos(&url, &seed);
    assert!(printed.starts_with(&format!("seed = {seed}\n")), "{printed}");
    let file = temporary("plan");
    std::fs::write(&file, &printed).unwrap();
    let (second, again, _) = chaos(&url, file.to_str().unwrap());
    let plan = |text: &str| text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(plan(&again), plan(&printed));
    for process in [first, second] {
        let (report, code) = stop(process);
        assert_eq!((report.contains("answerLost 0\n"), code), (true, Some(0)), "{report}");
    }
    std::fs::remove_file(file).unwrap();
}

#[test]
fn what_the_plan_says_is_done_and_what_it_does_not_say_is_not() {
    let (_server, url) = serve("127.0.0.1:0");
    let never = "soon = [9000000000, 9000000000]\nlater = [9000000000, 9000000000]\nthrottleChance = 0\nrequestDelay = 0\n\
                 requestRepeat = 0\nmessageDelay = 0\nmessageRepeat = 0\n";
    let file = temporary("plan");
    for (loss, works) in [("0", true), ("1", false)] {
        std::fs::write(&file, format!("{never}answerLoss = {loss}\n")).unwrap();
        let (process, _, through) = chaos(&url, file.to_str().unwrap());
        let listed = handback(&["clients", "--url", &through]);
        assert_eq!(listed.code == Some(0), works, "{listed:?}");
        let (report, _) = stop(process);
        assert_eq!(report.contains("answerLost 0\n"), works, "{report}");
        assert!(report.contains("resetUp 0\n"), "{report}");
    }
    std::fs::remove_file(file).unwrap();
}

#[test]
fn a_plan_that_makes_no_sense_is_refused() {
    let file = temporary("plan");
    std::fs::write(&file, "answerLoss = 2\n").unwrap();
    let refused = handback(&["chaos", "--plan", file.to_str().unwrap()]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{refused:?}");
    assert!(refused.stderr.contains("answerLoss is a chance between 0 and 1"), "{refused:?}");
    std::fs::remove_file(&file).unwrap();
    let missing = handback(&["chaos", "--plan", file.to_str().unwrap()]);
    assert_eq!((missing.code, missing.stderr.contains("cannot be read")), (Some(1), true), "{missing:?}");
    for (argument, complaint) in [
        ("--plan=-1", "a seed is a number from 0 to 18446744073709551615, not -1"),
        ("--plan=18446744073709551616", "a seed is a number from 0 to"),
        ("--target=https://localhost", "only http"),
        ("--target=http://localhost/base", "only a host and a port (http://localhost:80)"),
        ("--target=http://localhost:1/?a=b", "only a host and a port"),
        ("--target=http://somebody@localhost:1", "only a host and a port"),
    ] {
        let Ran { code, stderr, .. } = handback(&["chaos", argument]);
        assert_eq!((code, stderr.contains(complaint)), (Some(2), true), "{argument}: {stderr}");
    }
}
