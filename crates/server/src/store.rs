//! The store on disk. The traits that it implements, and the store in memory, are in [`handback_core::store`].

mod sqlite;

pub use sqlite::{Bounds, Figures, OpenError, Sqlite};
