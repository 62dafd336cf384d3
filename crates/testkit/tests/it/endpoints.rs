//! Every endpoint: what it answers when it works, and in each way that it can fail.

mod calls;
mod execute;
mod paths;
mod register;
mod request_ids;
mod results;
mod unregister;
