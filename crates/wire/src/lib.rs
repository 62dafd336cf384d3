#![doc = include_str!("../README.md")]

pub mod agui;
pub mod auth;
pub mod chat;
pub mod client_tools;
pub mod error;
pub mod event;
pub mod frontend_tools;
mod object;
pub mod session;
pub mod socket;
pub mod status;
pub mod threads;
