//! How the processes of one server tell each other where to look. What a bus promises, and the one in memory, are in
//! [`handback_core::bus`].

mod postgres;

pub use self::postgres::PostgresBus;
