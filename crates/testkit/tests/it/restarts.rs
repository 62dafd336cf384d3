//! Servers that end and are had again.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use handback_testkit::storm::configure;
use handback_testkit::{Scratch, TestServer};

/// A server that can be had again on the same port, with the same data.
pub(crate) trait Restarts {
    async fn start(&mut self, address: SocketAddr, data: &Scratch) -> SocketAddr;
    async fn stop(&mut self);
}

/// It is asked to stop, and calls under way hear of it.
#[derive(Default)]
pub(crate) struct Stopped(Option<TestServer>);

impl Restarts for Stopped {
    async fn start(&mut self, address: SocketAddr, data: &Scratch) -> SocketAddr {
        let server = TestServer::with(|config| {
            configure(config);
            config.listen = address;
            config.data = Some(data.path().to_owned());
            config.limits.drain_timeout = Duration::from_millis(50);
        });
        self.0.insert(server.await).address
    }

    async fn stop(&mut self) {
        self.0.take().unwrap().stop().await;
    }
}

/// It is killed, in the middle of whatever it does.
#[derive(Default)]
pub(crate) struct Killed(Option<Child>);

impl Restarts for Killed {
    async fn start(&mut self, address: SocketAddr, data: &Scratch) -> SocketAddr {
        let mut command = Command::new(env!("CARGO_BIN_EXE_storm_server"));
        command.arg(address.to_string()).arg(data.path()).stdout(Stdio::piped());
        let server = self.0.insert(command.spawn().unwrap());
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        line.trim().strip_prefix("listening on ").unwrap().parse().unwrap()
    }

    async fn stop(&mut self) {
        let mut server = self.0.take().unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
    }
}

impl Killed {
    /// Its resident memory, in kB.
    pub(crate) fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// How many files and sockets it has open.
    pub(crate) fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.id())).unwrap().count()
    }

    fn id(&self) -> u32 {
        self.0.as_ref().unwrap().id()
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        // A test that failed leaves it running; it may just as well have ended by itself.
        if let Some(server) = &mut self.0 {
            _ = server.kill();
            _ = server.wait();
        }
    }
}
