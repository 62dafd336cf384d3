//! Stands between a client and its server, and can cut what goes through it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// When a request is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// The server does not get it.
    Before,
    /// The server gets it, and its answer is lost.
    After,
}

pub(super) struct Proxy {
    pub(super) url: String,
    shared: Arc<Shared>,
    _stop: DropGuard,
}

struct Shared {
    server: SocketAddr,
    is_open: watch::Sender<bool>,
    /// The next answer that begins with this cuts its connection instead.
    swallows: Mutex<Option<&'static str>>,
    /// The next request with this in its first line closes the proxy.
    loses: Mutex<Option<(&'static str, Moment, oneshot::Sender<()>)>>,
    tasks: TaskTracker,
}

impl Proxy {
    pub(super) async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (is_open, swallows, loses) = (watch::Sender::new(true), Mutex::default(), Mutex::default());
        let shared = Arc::new(Shared { server, is_open, swallows, loses, tasks: TaskTracker::new() });
        let stop = CancellationToken::new();
        let accepting = stop.clone().run_until_cancelled_owned(accept(listener, Arc::clone(&shared)));
        shared.tasks.spawn(accepting);
        Self { url, shared, _stop: stop.drop_guard() }
    }

    /// Cuts all connections, and takes no others until it is opened.
    pub(super) fn close(&self) {
        self.shared.is_open.send_replace(false);
    }

    pub(super) fn open(&self) {
        self.shared.is_open.send_replace(true);
    }

    /// Loses the next request that has this in its first line, and closes then; says when it has.
    pub(super) fn lose(&self, request: &'static str, moment: Moment) -> oneshot::Receiver<()> {
        let (closed, lost) = oneshot::channel();
        *self.shared.loses.lock().unwrap() = Some((request, moment, closed));
        lost
    }

    /// Cuts the connection on which an answer comes that begins like this, without the answer.
    pub(super) fn swallow(&self, start: &'static str) {
        *self.shared.swallows.lock().unwrap() = Some(start);
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let (client, _) = listener.accept().await.unwrap();
        if *shared.is_open.borrow() {
            shared.tasks.spawn(pass(client, Arc::clone(&shared)));
        }
    }
}

/// Passes on what both say, until one of them is done or the connection is cut.
async fn pass(mut client: TcpStream, shared: Arc<Shared>) {
    let Ok(mut server) = TcpStream::connect(shared.server).await else { return };
    let (mut asked, mut answered) = ([0; 4096], [0; 4096]);
    let mut is_open = shared.is_open.subscribe();
    let mut losing = None;
    loop {
        tokio::select! {
            read = client.read(&mut asked) => match read {
                Ok(length @ 1..) => {
                    losing = losing.or_else(|| shared.loses(&asked[..length]));
                    if let Some((Moment::Before, lost)) = losing {
                        return shared.close(lost);
                    }
                    if server.write_all(&asked[..length]).await.is_err() {
                        return;
                    }
                }
                _ => return,
            },
            read = server.read(&mut answered) => match read {
                Ok(length @ 1..) => {
                    if let Some((_, lost)) = losing {
                        return shared.close(lost);
                    }
                    let swallowed = shared.swallows.lock().unwrap().take_if(|start| answered.starts_with(start.as_bytes()));
                    if swallowed.is_some() || client.write_all(&answered[..length]).await.is_err() {
                        return;
                    }
                }
                _ => return,
            },
            () = async { _ = is_open.wait_for(|is_open| !is_open).await } => return,
        }
    }
}

impl Shared {
    /// Whether the request that begins here is to be lost.
    fn loses(&self, request: &[u8]) -> Option<(Moment, oneshot::Sender<()>)> {
        let first_line = String::from_utf8_lossy(request).lines().next()?.to_owned();
        let meant = self.loses.lock().unwrap().take_if(|(request, ..)| first_line.contains(*request));
        meant.map(|(_, moment, lost)| (moment, lost))
    }

    fn close(&self, lost: oneshot::Sender<()>) {
        self.is_open.send_replace(false);
        lost.send(()).unwrap();
    }
}
