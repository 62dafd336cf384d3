//! The store on disk. What a store promises, and the store in memory, are in [`handback_core::store`].

mod sqlite;

pub use sqlite::{Bounds, Figures, OpenError, Sqlite};
