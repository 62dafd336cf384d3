//! Threads and runs, as Soliplex serves them: a room is an agent, a thread is a session of it, and a run of AG-UI is made
//! first and executed later, once. It goes on when its reader leaves, and whoever comes back gets what it missed.

mod encode;
mod routes;

pub use routes::routes;
