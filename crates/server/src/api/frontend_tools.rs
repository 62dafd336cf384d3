//! Tools that a frontend runs: `POST /api/tools/ack` and `POST /api/tools/claim`.

mod decode;
mod encode;
mod routes;

pub use routes::routes;
