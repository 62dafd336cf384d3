//! What must hold for whatever is read from outside. Each function takes any bytes, and panics if it finds a fault.
//!
//! The fuzz targets in `fuzz/` call these functions with what libFuzzer thinks of; a test calls them with all that is in
//! `fuzz/corpus/`. Inputs are texts that can be read and written by hand. Where a target takes several, a line `###` is
//! between them.

mod configuration;
mod models;
mod requests;
mod rows;
mod schemas;
mod sdk;
mod sockets;
mod tokens;

use std::sync::OnceLock;

use bytes::Bytes;
use handback_core::clock::Clock;
use handback_server::App;
use handback_server::app::{Extensions, Routes};
use handback_server::config::Config;

pub use configuration::configuration;
pub use models::model_streams;
pub use requests::requests;
pub use rows::stored_rows;
pub use schemas::schemas;
pub use sdk::{agui_runs, sdk_messages, sdk_streams};
pub use sockets::socket_messages;
pub use tokens::tokens;

/// Reads any bytes, and panics if it finds a fault.
pub type Target = fn(&[u8]);

/// All targets by their names.
pub const TARGETS: [(&str, Target); 10] = [
    ("agui_runs", agui_runs),
    ("configuration", configuration),
    ("model_streams", model_streams),
    ("requests", requests),
    ("schemas", schemas),
    ("sdk_messages", sdk_messages),
    ("sdk_streams", sdk_streams),
    ("socket_messages", socket_messages),
    ("stored_rows", stored_rows),
    ("tokens", tokens),
];

/// The line between two inputs.
const BETWEEN: &[u8] = b"\n###\n";

/// The inputs between the separating lines.
fn sections(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    while let Some(place) = bytes.windows(BETWEEN.len()).position(|window| window == BETWEEN) {
        found.push(&bytes[..place]);
        bytes = &bytes[place + BETWEEN.len()..];
    }
    found.push(bytes);
    found
}

/// The first line, and the rest.
fn first_line(bytes: &[u8]) -> (&[u8], &[u8]) {
    match bytes.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&bytes[..end], &bytes[end + 1..]),
        None => (bytes, &[]),
    }
}

/// Checks that the meaning of bytes does not depend on the pieces in which they come, and returns it.
fn in_any_pieces<T: PartialEq + std::fmt::Debug, F: Future<Output = T>>(
    bytes: &[u8],
    read: impl Fn(Vec<Bytes>) -> F,
) -> T {
    let whole = Bytes::copy_from_slice(bytes);
    let each = (0..whole.len()).map(|place| whole.slice(place..=place)).collect();
    // The pieces are random, and the same each time.
    let seed = bytes.iter().fold(bytes.len() as u64, |seed, byte| seed.wrapping_mul(31).wrapping_add((*byte).into()));
    let (mut random, mut rest, mut some) = (fastrand::Rng::with_seed(seed), whole.clone(), Vec::new());
    while !rest.is_empty() {
        some.push(rest.split_to(random.usize(1..=rest.len().min(64))));
    }
    in_time(async {
        let meaning = read(vec![whole]).await;
        assert_eq!(read(some).await, meaning, "in some pieces");
        assert_eq!(read(each).await, meaning, "byte by byte");
        meaning
    })
}

/// Runs to the end what waits for nothing but timers: the clock jumps to the next one.
fn in_time<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(true).build().unwrap().block_on(work)
}

/// Runs to the end what waits for threads, too.
fn in_real_time<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// A server without a socket, in which wall time stands still and new ids count up.
async fn app(config: Config) -> Result<App, String> {
    let address = config.listen;
    App::new(config, address, Clock::counting(), Extensions::default()).await.map_err(|error| error.to_string())
}

fn routes() -> &'static Routes {
    static ROUTES: OnceLock<Routes> = OnceLock::new();
    ROUTES.get_or_init(App::routes)
}
