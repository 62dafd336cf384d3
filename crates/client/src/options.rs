//! How options are built. They may get more fields later, so programs start from the defaults and change some.

use crate::agui::RunOptions;
use crate::api::CallFilter;
use crate::client::{ClientOptions, StartSession};
use crate::events::EventFilter;
use crate::execution::ExecuteOptions;
use crate::local::LocalOptions;
use crate::tools::Options;

macro_rules! with {
    ($($type:ident),*) => {$(
        impl $type {
            /// The defaults with the changes that `change` makes.
            pub fn with(change: impl FnOnce(&mut Self)) -> Self {
                let mut options = Self::default();
                change(&mut options);
                options
            }
        }
    )*};
}

with!(CallFilter, ClientOptions, EventFilter, ExecuteOptions, LocalOptions, Options, RunOptions, StartSession);
