//! A terminal that a command runs in, and a test that types into it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::processes::Process;

/// Longer than anything takes that works.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A command in a terminal of its own.
pub(crate) struct Terminal {
    pub(crate) process: Process,
    keyboard: File,
    output: Receiver<Vec<u8>>,
    /// What the command has written and is not shown yet: the terminal waits for the rest of a sequence.
    unread: Vec<u8>,
    /// What is shown and nobody has looked at yet.
    unseen: Vec<u8>,
}

impl Terminal {
    pub(crate) fn run(mut command: Command) -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap();
        let device: OwnedFd = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        let size = Winsize { ws_row: 50, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&controller, size).unwrap();
        command.env("TERM", "xterm");
        let stdio = || Stdio::from(device.try_clone().unwrap());
        command.stdin(stdio()).stdout(stdio()).stderr(stdio());
        let process = Process(command.spawn().unwrap());
        // The command holds copies as well.
        drop(command);
        let keyboard = File::from(controller);
        let output = read(keyboard.try_clone().unwrap());
        Self { process, keyboard, output, unread: Vec::new(), unseen: Vec::new() }
    }

    pub(crate) fn type_in(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// All that is shown up to this text, and the text.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        loop {
            let place = self.unseen.windows(text.len()).position(|window| window == text.as_bytes());
            if let Some(place) = place {
                return String::from_utf8(self.unseen.drain(..place + text.len()).collect()).unwrap();
            }
            match self.output.recv_timeout(PATIENCE) {
                Ok(bytes) => self.take(&bytes),
                Err(error) => panic!("{error}: {text:?} is not in {}", String::from_utf8_lossy(&self.unseen)),
            }
        }
    }

    /// All that is shown until the command ends, and its exit code.
    pub(crate) fn wait_for_end(&mut self) -> (String, Option<i32>) {
        loop {
            match self.output.recv_timeout(PATIENCE) {
                Ok(bytes) => self.take(&bytes),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(error) => panic!("{error}: it goes on: {}", String::from_utf8_lossy(&self.unseen)),
            }
        }
        (String::from_utf8(std::mem::take(&mut self.unseen)).unwrap(), self.process.end().code())
    }

    /// Whether the terminal shows what is typed, and gives it out line by line.
    pub(crate) fn is_as_it_was(&self) -> bool {
        tcgetattr(&self.keyboard).unwrap().local_modes.contains(LocalModes::ECHO | LocalModes::ICANON)
    }

    /// Shows bytes as a terminal does, as far as the tests go: colours stay, a line that is wiped is gone, and all else that
    /// is not a character does nothing.
    fn take(&mut self, bytes: &[u8]) {
        self.unread.extend(bytes);
        let mut rest = self.unread.as_slice();
        while let Some((byte, after)) = rest.split_first() {
            rest = match (byte, after) {
                (b'\r', _) => after,
                (b'\x1b', []) => break,
                (b'\x1b', [b'[', parameters @ ..]) => {
                    let Some(end) = parameters.iter().position(|byte| (0x40..=0x7e).contains(byte)) else { break };
                    match parameters[end] {
                        b'm' => self.unseen.extend(&rest[..end + 3]),
                        b'K' => {
                            let line = self.unseen.iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
                            self.unseen.truncate(line);
                        }
                        _ => {}
                    }
                    &parameters[end + 1..]
                }
                _ => {
                    self.unseen.push(*byte);
                    after
                }
            };
        }
        self.unread = rest.to_vec();
    }
}

/// Reads until nobody holds the terminal any more.
fn read(mut screen: File) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(length) = screen.read(&mut buffer) {
            if length == 0 || sender.send(buffer[..length].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}
