//! Connections that are cut or stalled at any byte, in either direction.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::Tasks;
use crate::weather::{Chance, Fault, Way, Weather};

/// Bytes that are read at once.
const BUFFER: usize = 16 * 1024;

/// Why a connection is over before its ends have closed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// With a reset: what was not read yet is lost.
    Reset,
    /// With an orderly end of the stream, in the middle of whatever was under way.
    Close,
}

/// Carries connections to `upstream`.
pub(crate) async fn serve(listener: TcpListener, upstream: Arc<str>, weather: Arc<Weather>, tasks: Tasks) {
    loop {
        let (client, place) = tasks.accept(&listener).await;
        let (weather, upstream) = (Arc::clone(&weather), upstream.clone());
        tasks.spawn(async move {
            // A client whose server is away is turned away, as it would be without us.
            if let Ok(server) = TcpStream::connect(&*upstream).await {
                carry(&weather, client, server).await;
            }
            drop(place);
        });
    }
}

async fn carry(weather: &Weather, mut client: TcpStream, mut server: TcpStream) {
    let ended = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        tokio::try_join!(
            pump(weather, from_client, to_server, Way::Up),
            pump(weather, from_server, to_client, Way::Down),
        )
    };
    if ended == Err(Cut::Reset) {
        for socket in [&client, &server] {
            // One that is gone already cannot be reset, and need not be.
            _ = socket.set_zero_linger();
        }
    }
}

/// Passes bytes on until the stream ends or is cut.
async fn pump(
    weather: &Weather,
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    way: Way,
) -> Result<(), Cut> {
    let mut chance = weather.chance();
    let mut left = chance.distance(&weather.plan);
    let mut buffer = vec![0; BUFFER];
    let mut is_throttled = false;
    let throttle = chance.happens(weather.plan.throttle_chance).then(|| chance.number(weather.plan.throttle));
    loop {
        if left == 0 {
            if weather.is_stormy() {
                strike(weather, &mut chance, way).await?;
            }
            left = chance.distance(&weather.plan);
            continue;
        }
        let most = usize::try_from(left).unwrap_or(BUFFER).min(BUFFER);
        // A peer that breaks off is passed on as just that.
        let read = from.read(&mut buffer[..most]).await.map_err(|_| Cut::Reset)?;
        if read == 0 {
            return to.shutdown().await.map_err(|_| Cut::Reset);
        }
        if let Some(rate) = throttle.filter(|_| weather.is_stormy()) {
            if !is_throttled {
                is_throttled = true;
                weather.note(if way == Way::Up { Fault::ThrottledUp } else { Fault::ThrottledDown });
            }
            weather.pass_time(Duration::from_secs_f64(read as f64 / rate.max(1) as f64)).await;
        }
        to.write_all(&buffer[..read]).await.map_err(|_| Cut::Reset)?;
        left -= read as u64;
    }
}

async fn strike(weather: &Weather, chance: &mut Chance, way: Way) -> Result<(), Cut> {
    let plan = &weather.plan;
    if chance.happens(plan.stall_chance) {
        weather.note(if way == Way::Up { Fault::StallUp } else { Fault::StallDown });
        weather.pass_time(chance.time(plan.stall)).await;
        if !chance.happens(plan.stall_ends_in_cut) || !weather.is_stormy() {
            return Ok(());
        }
    }
    let (cut, fault) = match (chance.even(), way) {
        (true, Way::Up) => (Cut::Reset, Fault::ResetUp),
        (true, Way::Down) => (Cut::Reset, Fault::ResetDown),
        (false, Way::Up) => (Cut::Close, Fault::CloseUp),
        (false, Way::Down) => (Cut::Close, Fault::CloseDown),
    };
    weather.note(fault);
    Err(cut)
}
