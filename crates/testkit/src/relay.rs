//! A TCP proxy in front of a database, whose connections the test cuts and holds when it wants. What chance does to HTTP is in
//! [`faults`](crate::faults).

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

/// What is let through.
#[derive(Debug, Clone, Copy)]
struct Gate {
    /// Whether new connections are taken.
    takes: bool,
    /// Whether bytes pass to the database.
    passes_requests: bool,
    /// Whether bytes pass back.
    passes_answers: bool,
    /// How often all connections were cut.
    cuts: usize,
    /// Whether the database learns of the last cut.
    is_noticed: bool,
}

const OPEN: Gate = Gate { takes: true, passes_requests: true, passes_answers: true, cuts: 0, is_noticed: true };

/// A proxy in front of a database; dropping it ends all of its connections.
#[derive(Debug)]
pub struct Relay {
    url: String,
    gate: watch::Sender<Gate>,
    _stop: DropGuard,
}

impl Relay {
    /// A proxy in front of the database with this URL.
    ///
    /// # Panics
    /// The URL has no user, or names no address.
    pub async fn before(database: &str) -> Self {
        let (start, rest) = database.split_once('@').expect("the URL has a user");
        let (address, name) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let upstream: SocketAddr = address.parse().expect("the URL has an address");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("there is a free port");
        let url = format!("{start}@{}{name}", listener.local_addr().expect("it has an address"));
        let (gate, seen) = watch::channel(OPEN);
        let stop = CancellationToken::new();
        #[expect(clippy::disallowed_methods, reason = "it ends when the relay is dropped")]
        tokio::spawn(stop.clone().run_until_cancelled_owned(serve(listener, upstream, seen)));
        Self { url, gate, _stop: stop.drop_guard() }
    }

    /// Where the database is now.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Nothing passes in either direction. New connections are taken, and get no answer.
    pub fn hold(&self) {
        self.gate.send_modify(|gate| (gate.passes_requests, gate.passes_answers) = (false, false));
    }

    /// What is sent reaches the database, but its answers do not come back.
    pub fn hold_answers(&self) {
        self.gate.send_modify(|gate| gate.passes_answers = false);
    }

    /// Cuts all connections. New ones are taken.
    pub fn cut(&self) {
        self.gate.send_modify(|gate| (gate.cuts, gate.is_noticed) = (gate.cuts + 1, true));
    }

    /// Cuts all connections, and the database does not learn of it: for it they are open and silent.
    pub fn cut_unnoticed(&self) {
        self.gate.send_modify(|gate| (gate.cuts, gate.is_noticed) = (gate.cuts + 1, false));
    }

    /// Cuts all connections, and takes no new ones.
    pub fn close(&self) {
        self.gate.send_modify(|gate| gate.takes = false);
        self.cut();
    }

    /// What is held passes, and so does everything from now on.
    pub fn open(&self) {
        self.gate.send_modify(|gate| *gate = Gate { cuts: gate.cuts, is_noticed: gate.is_noticed, ..OPEN });
    }
}

async fn serve(listener: TcpListener, upstream: SocketAddr, gate: watch::Receiver<Gate>) {
    // Dropping them ends the connections.
    let mut connections = JoinSet::new();
    let left = Arc::new(Mutex::new(Vec::new()));
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        while connections.try_join_next().is_some() {}
        let seen = *gate.borrow();
        if seen.takes {
            connections.spawn(carry(client, upstream, gate.clone(), seen.cuts, left.clone()));
        } else {
            _ = client.set_zero_linger();
        }
    }
}

/// Carries one connection until it ends or is cut.
async fn carry(
    mut client: TcpStream,
    upstream: SocketAddr,
    gate: watch::Receiver<Gate>,
    cuts: usize,
    left: Arc<Mutex<Vec<TcpStream>>>,
) {
    let Ok(mut server) = TcpStream::connect(upstream).await else {
        _ = client.set_zero_linger();
        return;
    };
    let is_noticed = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let both = async {
            tokio::try_join!(
                pump(from_client, to_server, gate.clone(), |gate| gate.passes_requests),
                pump(from_server, to_client, gate.clone(), |gate| gate.passes_answers),
            )
        };
        let mut cutting = gate.clone();
        tokio::select! {
            // What is held when a connection is cut is lost, also if it may pass right after.
            biased;
            cut = cutting.wait_for(|gate| gate.cuts != cuts) => cut.is_ok_and(|gate| gate.is_noticed),
            _ = both => return,
        }
    };
    _ = client.set_zero_linger();
    if is_noticed {
        _ = server.set_zero_linger();
    } else {
        left.lock().unwrap_or_else(PoisonError::into_inner).push(server);
    }
}

/// Passes bytes on, while they may pass, until the stream ends.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut gate: watch::Receiver<Gate>,
    may_pass: fn(&Gate) -> bool,
) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = from.read(&mut buffer).await?;
        if gate.wait_for(may_pass).await.is_err() {
            return Ok(());
        }
        match read {
            0 => return to.shutdown().await,
            read => to.write_all(&buffer[..read]).await?,
        }
    }
}
