//! Sockets: accepts connections within the limits, serves HTTP/1 on each, and shuts down completely.

mod newcomers;
mod patient;
mod watch;

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use futures_util::future::Abortable;
use handback_core::clock::Clock;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use self::newcomers::{Newcomer, Newcomers};
use self::patient::{Patient, Stall};
use self::watch::{Verdict, Watch};
use crate::app::{App, Extensions, Routes, SetupError};
use crate::config::Config;
use crate::gate;
use crate::problem::ErrorShapes;

/// How long connections get to close when everything else is done.
const GOODBYE: Duration = Duration::from_secs(5);
/// How long one connection may take to write its last bytes.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How many connections beyond the limit get an error. More are dropped.
const REFUSED: usize = 64;
/// How many unsent bytes may wait in the kernel.
#[cfg(target_os = "linux")]
const UNSENT: u32 = 128 * 1024;
/// How many bytes the head of a request may have, and how many bytes of a response may wait in memory. While more wait, no
/// more of the body is produced. One piece of a body, such as one event, may exceed it.
const HEAD_AND_UNSENT: usize = 64 * 1024;
/// How many bytes besides one message of the largest size are read from a peer that does not read.
const READ_MEANWHILE: usize = 64 * 1024;
/// How long to wait when no file descriptor is free.
const OUT_OF_FILES: Duration = Duration::from_millis(100);

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Something cannot be set up as configured.
    #[error(transparent)]
    Setup(#[from] SetupError),
}

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    app: App,
}

impl Server {
    /// Listens as configured; port 0 takes a free port.
    pub async fn bind(config: Config) -> Result<Self, StartError> {
        Self::bind_with(config, Extensions::default()).await
    }

    /// Listens as configured, with the additions of an embedding program.
    pub async fn bind_with(config: Config, extensions: Extensions) -> Result<Self, StartError> {
        let wanted = config.listen;
        let failed = |source| StartError::Listen { address: wanted, source };
        let listener = TcpListener::bind(wanted).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let app = App::new(config, address, Clock::system(), extensions).await?;
        Ok(Self { listener, address, app })
    }

    /// The address that it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The application that it serves.
    pub fn app(&self) -> &App {
        &self.app
    }

    /// Serves until `shutdown` completes, then lets open calls finish and ends everything else.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let Routes { router, errors, .. } = App::routes();
        let (router, errors) = (router.with_state(self.app.clone()), Arc::new(errors));
        let (hub, sessions) = (self.app.hub().clone(), self.app.sessions().clone());
        let patience = self.app.config().limits.drain_timeout;
        let drained = async {
            shutdown.await;
            tracing::info!("shutting down");
            let deadline = Instant::now() + patience;
            sessions.close(patience).await;
            hub.close(deadline.saturating_duration_since(Instant::now())).await;
        };
        // Results and reconnects are still taken while calls finish.
        tokio::select! {
            () = accept(&self.listener, &self.app, &router, &errors) => {}
            () = drained => {}
        }
        drop(self.listener);
        self.app.close();
        self.app.tasks().close();
        if tokio::time::timeout(GOODBYE, self.app.tasks().wait()).await.is_err() {
            tracing::warn!("some connections did not close in time");
        }
        if let Err(error) = self.app.close_database().await {
            tracing::error!(%error, "the database could not be closed properly");
        }
    }
}

async fn accept(listener: &TcpListener, app: &App, router: &Router, errors: &Arc<ErrorShapes>) {
    let limits = &app.config().limits;
    let overflow = Arc::new(Semaphore::new(REFUSED));
    let newcomers = Arc::new(Newcomers::new(limits.new_connections_per_peer));
    loop {
        let (socket, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // A connection that closed before it was accepted is no error of ours. A lack of file descriptors is.
                if !matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset) {
                    tracing::error!(%error, "cannot accept connections");
                    tokio::time::sleep(OUT_OF_FILES).await;
                }
                continue;
            }
        };
        if let Err(error) = prepare(&socket, limits.user_timeout) {
            tracing::debug!(%error, "a connection was gone at once");
            continue;
        }
        if let Ok(place) = app.room().clone().try_acquire_owned() {
            let socket = Patient {
                socket,
                patience: limits.stall_timeout,
                most_read: limits.body_bytes.saturating_add(READ_MEANWHILE),
                _place: place,
                activity: Arc::default(),
                stall: Stall::default(),
            };
            let (newcomer, leave) = newcomers.enter(peer.ip());
            let serving = Abortable::new(serve(socket, newcomer, app.clone(), router.clone(), errors.clone()), leave);
            app.tasks().spawn(async { _ = serving.await });
        } else if let Ok(place) = overflow.clone().try_acquire_owned() {
            let refusing = refuse(socket, app.clone(), errors.clone());
            app.tasks().spawn(async move {
                refusing.await;
                drop(place);
            });
        }
    }
}

/// Makes a socket send small frames at once, and notice a peer that has silently gone.
fn prepare(socket: &TcpStream, user_timeout: Duration) -> io::Result<()> {
    socket.set_nodelay(true)?;
    #[cfg(target_os = "linux")]
    {
        let socket = SockRef::from(socket);
        socket.set_tcp_user_timeout(Some(user_timeout))?;
        // Otherwise the kernel takes megabytes for a slow reader, which then seems to take nothing for a long time.
        socket.set_tcp_notsent_lowat(UNSENT)?;
    }
    Ok(())
}

async fn serve(socket: Patient, newcomer: Newcomer, app: App, router: Router, errors: Arc<ErrorShapes>) {
    let activity = &socket.activity.clone();
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let has_to_go = activity.begin() && !newcomer.has_spoken();
        let (app, router, errors) = (&app, router.clone(), &errors);
        async move {
            if has_to_go {
                // The connection was aborted before its request came, and is about to close.
                std::future::pending::<()>().await;
            }
            let response = gate::handle(app, router, errors, request.map(Body::new)).await;
            Ok::<_, Infallible>(activity.end(response))
        }
    });
    let io = TokioIo::new(socket);
    let connection = http1::Builder::new().max_buf_size(HEAD_AND_UNSENT).serve_connection(io, service).with_upgrades();
    tokio::pin!(connection);
    let watch = Watch::new(&app, activity, app.config().limits.header_timeout);
    tokio::pin!(watch);
    // The connection comes first, because the watch seldom has something to say.
    let verdict = poll_fn(|context| match connection.as_mut().poll(context) {
        Poll::Ready(served) => Poll::Ready(Err(served)),
        Poll::Pending => watch.as_mut().poll(context).map(Ok),
    })
    .await;
    let served = match verdict {
        Err(served) => served,
        Ok(Verdict::Idle) => return,
        Ok(Verdict::Closing) => {
            connection.as_mut().graceful_shutdown();
            // All calls have ended by now. The rest of a response is written, and the rest of a request is not awaited.
            match tokio::time::timeout(LAST_WORDS, connection).await {
                Ok(served) => served,
                Err(_) => return,
            }
        }
    };
    if let Err(error) = served {
        // Peers leave at any time and send anything, which is no error of ours.
        tracing::debug!(%error, "a connection ended");
    }
}

/// Tells a connection beyond the limit that there is no room.
async fn refuse(socket: TcpStream, app: App, errors: Arc<ErrorShapes>) {
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let response = gate::refuse(&app, &errors, &request);
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(app.config().limits.header_timeout)
        .keep_alive(false)
        .serve_connection(TokioIo::new(socket), service);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a refused connection ended");
    }
}
