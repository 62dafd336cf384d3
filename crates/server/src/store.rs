//! The store on disk. The traits that it implements, and the store in memory, are in [`handback_core::store`].

mod sqlite;

use std::path::{Path, PathBuf};

pub use sqlite::{Bounds, Checked, Figures, Glance, OpenError, Sqlite, back_up, check, glance};

/// The database in its directory.
pub fn database_in(data: &Path) -> PathBuf {
    data.join("handback.db")
}
