//! What a process that dies leaves to the next one.

mod asks;
mod calls;
mod crash_loops;
mod every_write;
mod process;
mod runs;
mod simulation;
