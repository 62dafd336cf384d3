//! The models that a session can talk to: one module a provider, each an implementation of
//! [`Model`](handback_core::model::Model).
//!
//! | module | provider |
//! | --- | --- |
//! | [`scripted`] | `demo/scripted`: needs no key, matches words with tools |

pub mod scripted;
