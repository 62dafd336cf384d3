//! What Handback's own tests are made of: a server on a free port, and clients that do what the test says.
//!
//! | module | responsibility |
//! | --- | --- |
//! | [`server`] | a real server on a free port, and requests to it |
//! | [`session`] | sessions on it: prompts, messages, asks |
//! | [`chat`] | a page that shows a chat: its posts, streams, acks and claims |
//! | [`agui`] | a page that speaks AG-UI: its runs, what it makes of them, and the rules that they keep |
//! | [`model`] | a model that says what the test tells it, when the test tells it |
//! | [`client`] | a client that answers calls in the background |
//! | [`tidy`] | JSON without what is new each time |
//! | [`stream`] | a reader of server-sent events over a real socket |
//! | [`socket`] | a WebSocket client |
//! | [`raw`] | a connection whose bytes the test writes and reads itself |
//! | [`faults`] | the chaos proxy, for a test's server |
//! | [`fuzzing`] | what must hold for whatever is read from outside, for fuzz targets and their corpora |
//! | [`storm`] | many calls of every kind, and whether all who saw them agree |
//! | [`mod@bus_contract`] | what every bus must do, as tests |
//! | [`mod@store_contract`] | what every store must do, as tests |
//! | [`upstream`] | a provider whose answers the test writes |
//! | [`mortal`] | a store that outlives its process, and a process that dies between two writes |
//! | [`postgres`] | PostgreSQL databases that go with their tests |
//! | [`relay`] | a proxy in front of a database, which the test cuts and holds |
//! | [`scratch`] | a directory that goes with its test |
//! | [`keys`] | application keys and client tokens, good ones and forged ones |

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code: a failure is a failed test")]

pub mod agui;
pub mod bus_contract;
pub mod chat;
pub mod client;
pub mod faults;
mod frames;
pub mod fuzzing;
pub mod keys;
pub mod model;
pub mod mortal;
pub mod postgres;
pub mod raw;
pub mod relay;
pub mod scratch;
pub mod server;
pub mod session;
pub mod socket;
pub mod store_contract;
pub mod storm;
pub mod stream;
pub mod tidy;
pub mod upstream;

pub use agui::AguiStream;
pub use chat::ChatStream;
pub use client::ScriptedClient;
pub use faults::Faults;
pub use model::FakeModel;
pub use postgres::{OwnPostgres, TestDatabase};
pub use raw::RawSocket;
pub use relay::Relay;
pub use scratch::Scratch;
pub use server::{Answer, TestServer};
pub use socket::TestSocket;
pub use storm::Storm;
pub use stream::{Frame, TestStream};
pub use upstream::Upstream;
