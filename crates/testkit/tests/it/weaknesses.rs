//! The weaknesses of the servers that this API comes from, by their numbers; each test shows that it is not ours.
//!
//! Missing numbers: 27 (one process only, no persistence) is a question of deployment, not of this API.

mod delivery;
mod endings;
mod names;
mod protection;
