use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;

/// Takes what is written, once it may.
struct Out {
    may: Receiver<io::Result<()>>,
    taken: Sender<String>,
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.may.recv().unwrap()?;
        self.taken.send(String::from_utf8(bytes.to_vec()).unwrap()).unwrap();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn out() -> (Out, Sender<io::Result<()>>, Receiver<String>) {
    let ((allow, may), (taken, took)) = (channel(), channel());
    (Out { may, taken }, allow, took)
}

fn put(mut lines: &Lines, line: &str) {
    lines.write_all(line.as_bytes()).unwrap();
}

#[test]
fn lines_that_come_during_a_write_are_written_together() {
    let (out, allow, took) = out();
    let lines = Lines::default();
    put(&lines, "one\n");
    let writer = lines.write_to(out).unwrap();
    allow.send(Ok(())).unwrap();
    assert_eq!(took.recv().unwrap(), "one\n");
    put(&lines, "two\n");
    put(&lines, "three\n");
    allow.send(Ok(())).unwrap();
    drop(writer);
    assert_eq!(took.try_iter().collect::<String>(), "two\nthree\n");
    assert_eq!(lines.dropped(), 0);
}

#[test]
fn a_line_stays_one_line() {
    let (out, allow, took) = out();
    let lines = Lines::default();
    put(&lines, "ERROR error=no\n2026-01-01T00:00:00Z INFO forged\u{1b}[2J\n");
    put(&lines, "größer\n");
    allow.send(Ok(())).unwrap();
    drop(lines.write_to(out).unwrap());
    let written = took.iter().collect::<String>();
    assert_eq!(written, "ERROR error=no\\n2026-01-01T00:00:00Z INFO forged\\x1b[2J\ngrößer\n");
}

#[test]
fn a_writer_that_stands_still_costs_lines_and_not_time() {
    let (out, allow, took) = out();
    let lines = Lines::default();
    let writer = lines.write_to(out).unwrap();
    let line = format!("{}\n", "x".repeat(MOST_WAITING / 4));
    // Up to three are with the thread, and three wait.
    for _ in 0..8 {
        put(&lines, &line);
    }
    let dropped = lines.dropped();
    assert!((2..=5).contains(&dropped), "{dropped}");
    // The end does not wait for it for ever.
    drop(writer);
    for _ in 0..6 {
        // The thread ends early if it has written several lines at once.
        _ = allow.send(Ok(()));
    }
    let written = took.iter().map(|text| text.matches('\n').count()).sum::<usize>();
    assert_eq!(written as u64, 8 - dropped);
}

#[test]
fn lines_that_cannot_be_written_are_counted() {
    let (out, allow, took) = out();
    let lines = Lines::default();
    put(&lines, "one\n");
    put(&lines, "two\n");
    allow.send(Err(io::ErrorKind::BrokenPipe.into())).unwrap();
    allow.send(Ok(())).unwrap();
    drop(lines.write_to(out).unwrap());
    assert_eq!(lines.dropped(), 2);
    put(&lines, "three\n");
    drop(lines);
    assert_eq!(took.iter().next(), None);
}
