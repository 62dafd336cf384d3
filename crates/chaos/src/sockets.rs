//! WebSocket messages that come late or twice, in their order, in either direction.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::{SinkExt, StreamExt};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::weather::{Fault, Way, Weather};

/// The largest message; a larger one ends the connection.
const LARGEST: usize = 16 * 1024 * 1024;
/// How long the second end of a socket may take to close once the first has.
const GOODBYE: Duration = Duration::from_secs(2);

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Passes messages on until both ends have closed, or one is cut off, which cuts off the other.
pub(crate) async fn relay(weather: Arc<Weather>, client: Upgraded, server: Upgraded) {
    let (to_client, from_client) = open(client, Role::Server).await.split();
    let (to_server, from_server) = open(server, Role::Client).await.split();
    let up = pin!(pass(&weather, from_client, to_server, Way::Up));
    let down = pin!(pass(&weather, from_server, to_client, Way::Down));
    let (ended, other) = match select(up, down).await {
        Either::Left((ended, down)) => (ended, Either::Left(down)),
        Either::Right((ended, up)) => (ended, Either::Right(up)),
    };
    if ended.is_ok() {
        // Whether or not the other end answers the goodbye, this is over.
        _ = timeout(GOODBYE, other).await;
    }
}

async fn open(socket: Upgraded, role: Role) -> Socket {
    let config = WebSocketConfig::default().max_message_size(Some(LARGEST)).max_frame_size(Some(LARGEST));
    WebSocketStream::from_raw_socket(TokioIo::new(socket), role, Some(config)).await
}

async fn pass(
    weather: &Weather,
    mut from: impl StreamExt<Item = Result<Message, Error>> + Unpin,
    mut to: impl SinkExt<Message, Error = Error> + Unpin,
    way: Way,
) -> Result<(), Error> {
    let mut chance = weather.chance();
    let (delayed, repeated) = match way {
        Way::Up => (Fault::MessageDelayedUp, Fault::MessageRepeatedUp),
        Way::Down => (Fault::MessageDelayedDown, Fault::MessageRepeatedDown),
    };
    let plan = &weather.plan;
    while let Some(message) = from.next().await {
        let message = message?;
        let stormy = weather.is_stormy() && (message.is_text() || message.is_binary());
        if stormy && chance.happens(plan.message_delay) {
            weather.note(delayed);
            weather.pass_time(chance.time(plan.delay)).await;
        }
        if stormy && chance.happens(plan.message_repeat) {
            weather.note(repeated);
            to.send(message.clone()).await?;
        }
        to.send(message).await?;
    }
    Ok(())
}
