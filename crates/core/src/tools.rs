//! Tools: who offers which tool, which may be called and how often, and what a model is offered.
//!
//! | file | what it has |
//! | --- | --- |
//! | `registry` | who offers which tool, in which sessions |
//! | `policy` | which tools may be called: patterns over their ids; pure |
//! | `rate` | how many calls a client gets in a minute |
//! | `toolbox` | what a model is offered, server tools, hooks |

mod policy;
mod rate;
mod registry;
mod toolbox;

pub use self::policy::{Named, Permission, Policy, ToolPattern, switched};
pub use self::rate::Rate;
pub(crate) use self::registry::{Owners, Registered, Registry};
pub use self::registry::{Placement, RegisterError};
pub(crate) use self::toolbox::guarded;
pub use self::toolbox::{
    Before, BoxFuture, Hook, HookedCall, Invocation, ListTools, ModelTool, Offered, Place, ServerTool, ServerToolSpec,
    offer,
};
